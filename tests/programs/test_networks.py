"""The table of `deeplab networks`."""

import json

import pytest

from deeplab import cli, options
from deeplab.core.cost import Cost
from deeplab.programs import networks
from deeplab.registry import BACKBONES

SMALL = ['--crop_size=65,65']


def test_one_network(capsys):
    assert cli.main(['networks', '--model_variant=mobilenet_v2']) == 0
    head, row, empty, unit = capsys.readouterr().out.splitlines()
    assert head.split() == ['variant', 'parameters', 'stride', '16', 'stride', '8', 'scope', 'input']
    assert row.split() == ['mobilenet_v2', '2,113,557', '2.74', '8.83', 'MobilenetV2', *'x * 2 / 255 - 1'.split()]
    assert not empty
    assert unit == 'Multiply-adds in billions for one image of 513x513 and 21 classes, by output stride.'


def test_json_with_other_flags(capsys):
    words = ['--preset=mobilenetv3_small_cityscapes_trainfine', '--crop_size=769,769', '--json']
    assert cli.main(['networks', *words]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found['variant'] == 'mobilenet_v3_small_seg'
    assert found['scope'] == 'MobilenetV3'
    assert found['parameters'] == found['costs']['32']['parameters'] == 468830
    assert found['input']['mean_pixel'] == [127.5, 127.5, 127.5]
    assert (found['crop_size'], found['num_classes']) == ([769, 769], 19)


def test_all_registered_variants_have_a_row(monkeypatch):
    """With fake costs: rows, strides and normalization are tested here."""
    asked = []

    def cost_of(network, prediction):
        BACKBONES.chosen(network)
        asked.append((network.model_variant, network.output_stride))
        return Cost(1000 * network.output_stride, 2, 3_000_000_000)

    monkeypatch.setattr(networks, 'cost_of', cost_of)
    result = networks.run(cli.options_of('networks', []))
    assert [entry.variant for entry in result.entries] == list(BACKBONES.names())
    assert asked == [
        (name, stride)
        for name in BACKBONES.names()
        for stride in (16, 8)
        if stride in BACKBONES.get(name).output_strides
    ]
    rows = {line.split()[0]: line for line in result.report.splitlines() if line}
    assert rows['nas_hnasnet'].split()[:4] == ['nas_hnasnet', '8,000', '-', '3.00']
    assert rows['mobilenet_v2'].split()[:6] == ['mobilenet_v2', '16,000', '/', '8,000', '3.00', '3.00']
    assert rows['resnet_v1_50'].endswith('x - (123.15, 115.9, 103.06)')
    assert rows['nas_hnasnet:'].startswith('nas_hnasnet: output_stride=16 is not supported')


@pytest.mark.parametrize('words', [['--output_stride=16'], ['--output_stride=32']])
def test_an_impossible_network(capsys, words):
    assert cli.main(['networks', '--model_variant=nas_hnasnet', *words]) == 1
    assert f'{words[0]} is not supported by nas_hnasnet. Supported: 8.' in capsys.readouterr().err


def test_unknown_variant(capsys):
    assert cli.main(['networks', '--model_variant=mobilenet_v9']) == 1
    message = '--model_variant=mobilenet_v9 is not known. Did you mean mobilenet_v2? Known: cifarnet, lenet,'
    assert message in capsys.readouterr().err


def test_classes():
    assert cli.options_of('networks', []).model.num_classes == 21
    assert cli.options_of('networks', ['--dataset=ade20k']).model.num_classes == 151
    assert cli.options_of('networks', ['--dataset=ade20k', '--num_classes=3']).model.num_classes == 3
    assert cli.options_of('networks', ['--eval_scales=0.5']).prediction == options.PredictionOptions((0.5,))
