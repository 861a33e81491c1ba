"""Presets of published checkpoints: their facts, the flags that programs get, the list and its command lines.

Covers zoo/catalog.py.
"""

import dataclasses
import json
import pathlib

import pytest

from deeplab import cli, options
from deeplab.errors import OptionError
from deeplab.programs import presets

ROOT = pathlib.Path(__file__).parents[2]
ZOO = ROOT / 'tests/goldens/contract/zoo.json'
LINES = {
    'train': ['--train_logdir=logs', '--dataset_dir=records'],
    'eval': ['--checkpoint_dir=logs', '--eval_logdir=eval', '--dataset_dir=records'],
    'vis': ['--checkpoint_dir=logs', '--vis_logdir=vis', '--dataset_dir=records'],
    'export_model': ['--checkpoint_path=logs', '--export_path=graph.pb'],
}
NETWORKS = [preset.name for preset in presets.all_presets().values() if not preset.is_backbone]
RATES_16 = ['--atrous_rates=6', '--atrous_rates=12', '--atrous_rates=18']


def _options(program, *words):
    return cli.options_of(program, [*LINES[program], *words])


# --- The facts -------------------------------------------------------------------------------------------------------


def test_facts_are_the_published_ones():
    zoo = json.loads(ZOO.read_text())
    assert list(presets.all_presets()) == [entry['name'] for entry in zoo['segmentation'] + zoo['backbones']]
    for entry in zoo['segmentation']:
        preset = presets.get(entry['name'])
        assert (preset.archive, preset.megabytes) == (entry['archive'], entry.get('size_mb'))
        assert (preset.dataset, preset.num_classes) == (entry['dataset'], entry['num_classes'])
        assert preset.crop_size == entry['eval_crop_size']
        assert [
            presets.Published(
                row['output_stride'],
                tuple(row['eval_scales']),
                row['add_flipped_images'],
                row['split'],
                row['miou_percent'],
                row.get('pixel_accuracy_percent'),
                row.get('multiply_adds_billion'),
            )
            for row in entry['evaluations']
        ] == list(preset.published)


@pytest.mark.parametrize('name', NETWORKS)
@pytest.mark.parametrize('program', ['train', 'eval', 'vis', 'export_model'])
def test_a_preset_is_its_published_flags(name, program):
    entry = next(entry for entry in json.loads(ZOO.read_text())['segmentation'] if entry['name'] == name)
    crop = {'eval': 'eval_crop_size', 'vis': 'vis_crop_size', 'export_model': 'crop_size'}.get(program)
    for row in entry['evaluations']:
        stride = row['output_stride']
        common = [f'--output_stride={stride}', *([f'--{crop}={entry["eval_crop_size"]}'] if crop else [])]
        common.append(f'--dataset={entry["dataset"]}')
        common += [f'--num_classes={entry["num_classes"]}'] if program == 'export_model' else []
        by_hand = [*entry['flags'], *entry.get('flags_by_output_stride', {}).get(str(stride), []), *common]
        assert _options(program, f'--preset={name}', *common) == _options(program, *by_hand)
        assert _options(program, f'--preset={name}', f'--output_stride={stride}') == _options(program, *by_hand)


# --- What stands beside it on the line -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    'words',
    [
        ['--decoder_use_sum_merge=false'],
        ['--nodecoder_use_sum_merge'],
        ['-nodecoder_use_sum_merge'],
        ['--decoder_use_sum_merge=0'],
    ],
)
@pytest.mark.parametrize('preset_first', [True, False])
def test_a_flag_beside_a_preset_wins_in_any_spelling(words, preset_first):
    preset = ['--preset=mobilenetv3_small_cityscapes_trainfine']
    made = _options('eval', *(preset + words if preset_first else words + preset))
    assert made.model.decoder == options.DecoderOptions((8,), filters=19, output_is_logits=True)


@pytest.mark.parametrize('words', [['--eval_crop_size=769', '--eval_crop_size=1537'], ['--eval_crop_size', '769,1537']])
def test_both_dialects_of_a_size_win(words):
    made = _options('eval', '--preset=xception65_cityscapes_trainfine', *words)
    assert made.model.crop_size == (769, 1537)


def test_a_repeated_flag_is_replaced_as_a_whole():
    made = _options('eval', '--preset=xception65_coco_voc_trainaug', '--atrous_rates=5')
    assert made.model.aspp.rates == (5,)


def test_a_flag_with_its_default_wins_too():
    made = _options('eval', '--preset=mobilenetv3_large_cityscapes_trainfine', '--image_pooling_stride=1,1')
    assert made.model.image_pooling_stride == (1, 1)
    made = _options('train', '--preset=mobilenetv2_coco_cityscapes_trainfine', '--dataset=pascal_voc_seg')
    assert made.model.num_classes == 21


def test_rates_follow_the_output_stride():
    name = '--preset=xception65_coco_voc_trainaug'
    assert _options('eval', name).model.aspp.rates == (6, 12, 18)
    assert _options('eval', name, '--output_stride=8').model.aspp.rates == (12, 24, 36)
    made = _options('eval', '--preset=xception65_ade20k_train', '--output_stride=8')
    assert made.resize == options.ResizeOptions(513, 513, 8)


def test_an_output_stride_that_nothing_is_known_for():
    with pytest.raises(OptionError) as error:
        _options('eval', '--preset=xception65_ade20k_train', '--output_stride=32')
    message = str(error.value)
    assert message.startswith('--preset=xception65_ade20k_train is for output strides 8, 16.')
    assert '--output_stride=32, set --atrous_rates and --resize_factor' in message
    made = _options(
        'eval', '--preset=xception65_coco_voc_trainaug', '--output_stride=32', '--atrous_rates=3', '--atrous_rates=6'
    )
    assert made.model.aspp.rates == (3, 6)


def test_what_a_preset_leaves_alone():
    plain, made = _options('train'), _options('train', '--preset=mobilenetv2_coco_voc_trainaug')
    assert made == plain
    made = _options('train', '--preset=xception65_cityscapes_trainfine')
    assert made.model.crop_size == plain.model.crop_size
    assert made.optimizer == plain.optimizer


def test_a_backbone_trains_and_does_nothing_else():
    made = _options('train', '--preset=xception_71_imagenet')
    assert made == _options('train', '--model_variant=xception_71')
    with pytest.raises(OptionError, match='xception_71_imagenet is a backbone without head and logits'):
        _options('vis', '--preset=xception_71_imagenet')


@pytest.mark.parametrize(
    ('name', 'meant'),
    [
        ('mobilenetv2_voc_trainaug', 'mobilenetv2_coco_voc_trainaug'),
        ('xception71', 'xception71_dpc_cityscapes_trainfine'),
        ('edgetpu-deeplab_2020_03_09.tar.gz', 'edgetpu_deeplab?'),
    ],
)
def test_unknown_name(name, meant):
    with pytest.raises(OptionError) as error:
        _options('eval', f'--preset={name}')
    assert str(error.value).startswith(f"There is no published checkpoint '{name}'. Did you mean ")
    assert meant in str(error.value)
    assert str(error.value).endswith('lists all 22.')


# --- The list --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize('name', presets.all_presets())
def test_command_lines_are_understood(name):
    preset = presets.get(name)
    for line in presets.command_lines(preset):
        _, program, *words = line.split()
        made = cli.options_of(program, words)
        if program == 'eval':
            assert made.model.num_classes == preset.num_classes
    lines = [line for line in presets.command_lines(preset) if ' eval ' in line]
    made = [cli.options_of('eval', line.split()[2:]) for line in lines]
    assert ['--eval_scales' in line for line in lines] == [row.scales != (1.0,) for row in preset.published]
    assert [each.model.output_stride for each in made] == [row.output_stride for row in preset.published]
    assert [each.prediction.scales for each in made] == [row.scales for row in preset.published]
    assert [each.prediction.add_flipped_images for each in made] == [row.flips for row in preset.published]


def test_what_a_preset_stands_for_says_the_same():
    report = presets.run(options.PresetsOptions('mobilenetv3_large_cityscapes_trainfine')).report
    (spelled,) = [line.split() for line in report.splitlines() if line.startswith('  --')]
    assert _options('eval', *spelled) == _options('eval', '--preset=mobilenetv3_large_cityscapes_trainfine')
    assert 'mIoU 72.41 % on val at output stride 32' in report and 'order of the evaluations above' in report
    backbone = presets.run(options.PresetsOptions('xception_41_imagenet')).report
    assert 'evaluations' not in backbone and 'deeplab train --preset=xception_41_imagenet' in backbone


def test_the_list_names_all(capsys):
    assert cli.main(['presets']) == 0
    printed = capsys.readouterr().out
    for preset in presets.all_presets().values():
        row = next(line for line in printed.splitlines() if line.startswith(f'{preset.name} '))
        assert preset.archive in row
        assert not preset.published or f'{preset.published[0].miou:.2f}' in row


def test_json(capsys):
    assert cli.main(['presets', 'xception_41_imagenet', '--json']) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found['flags'] == {'model_variant': ['xception_41']}
    assert found['dataset'] is None
    assert set(found) == {field.name for field in dataclasses.fields(presets.Preset)} | {'command_lines'}


def test_a_name_stands_alone_or_behind_its_flag(capsys):
    assert cli.main(['presets', '--name=edgetpu_deeplab']) == 0
    with_flag = capsys.readouterr().out
    assert cli.main(['presets', 'edgetpu_deeplab']) == 0
    assert capsys.readouterr().out == with_flag
    assert cli.main(['presets', 'edgetpu_deeplab', 'more']) == 2
    assert "Unexpected argument 'more'" in capsys.readouterr().err
