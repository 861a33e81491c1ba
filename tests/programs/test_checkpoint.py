"""`deeplab checkpoint`: the report on a checkpoint, alone and compared with a network.

Covers checkpoint.py.
"""

import dataclasses
import json
import os

import numpy as np
import pytest
import tensorflow as tf

from deeplab import cli
from deeplab.checks import checkpoint_network
from deeplab.options import CheckpointOptions, ModelOptions
from deeplab.programs import checkpoint
from tests.helpers import checkpoint_files

NETWORK = ModelOptions({'semantic': 7}, depth_multiplier=0.25)


@pytest.fixture(scope='module')
def archive(tmp_path_factory):
    """A checkpoint with optimizer slots in a folder without a `checkpoint` file, as in published archives."""
    folder = tmp_path_factory.mktemp('deeplabv3_mnv2')
    values = {name: tf.zeros(shape) for name, shape in checkpoint_network.network_shapes(NETWORK).items()}
    values |= {f'{name}/Momentum': value for name, value in values.items() if name.startswith('logits/')}
    values['global_step'] = tf.constant(30000, tf.int64)
    prefix = str(folder / 'model.ckpt')
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=list(values),
        shape_and_slices=[''] * len(values),
        tensors=list(values.values()),
    )
    (folder / 'frozen_inference_graph.pb').write_bytes(b'graph')
    assert sorted(os.listdir(folder)) == [
        'frozen_inference_graph.pb',
        'model.ckpt.data-00000-of-00001',
        'model.ckpt.index',
    ]
    return folder


@pytest.fixture(scope='module')
def known():
    return {}


@pytest.fixture(autouse=True)
def deduced_once(monkeypatch, known):
    """Deduces the network of a checkpoint once for all tests."""
    checkpoint_files.remember_networks(monkeypatch)
    deduce = checkpoint_network.deduce

    def deduce_once(held):
        key = frozenset(held.items())
        if key not in known:
            known[key] = deduce(held)
        return known[key]

    monkeypatch.setattr(checkpoint_network, 'deduce', deduce_once)


def _found(capsys, *words):
    assert cli.main(['checkpoint', *(str(word) for word in words), '--json']) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize('name', ['', 'model.ckpt', 'model.ckpt.index', 'model.ckpt.data-00000-of-00001'])
def test_all_ways_to_name_it(capsys, archive, name):
    found = _found(capsys, archive / name)
    assert (found['checkpoint'], found['global_step']) == (str(archive / 'model.ckpt'), 30000)
    assert found['network']['model_variant'] == 'mobilenet_v2'
    assert found['network']['depth_multiplier'] == 0.25
    assert found['network']['num_classes'] == 7
    assert found['network']['fits']
    assert found['against'] is None


def test_report(capsys, archive):
    assert cli.main(['checkpoint', str(archive)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f'{archive}/model.ckpt, step 30000'
    assert '  semantic/weights  1x1x256x7' in lines[lines.index('logits:') :]
    assert lines.index('classes: 7 (semantic)') < 20 < lines.index('logits:')  # the summary first
    (row,) = [line.split() for line in lines if line.startswith('logits ')]
    assert row == ['logits', '2', f'{256 * 7 + 7:,}']
    assert 'and of the optimizer: Momentum of 2 variables' in lines
    assert 'head: ASPP of 256 channels, no atrous branches, with image pooling, projected' in lines
    assert 'classes: 7 (semantic)' in lines
    assert 'flags: --model_variant=mobilenet_v2 --depth_multiplier=0.25' in lines
    assert 'It has all 272 variables of that network, in its shapes.' in lines


def test_moving_averages_are_no_part_of_the_network(capsys, tmp_path):
    values = {name: tf.zeros(shape) for name, shape in checkpoint_network.network_shapes(NETWORK).items()}
    values |= {f'{name}/ExponentialMovingAverage': value for name, value in values.items()}
    path = checkpoint_files.write(tmp_path / 'model.ckpt', values)
    assert cli.main(['checkpoint', path]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith('and moving averages of 272 variables') for line in lines)
    assert not [line for line in lines if 'optimizer' in line]
    assert 'It has all 272 variables of that network, in its shapes.' in lines
    assert not any(line.startswith('not in that network') for line in lines)


def test_the_loss_scale_is_no_part_of_the_network(capsys, tmp_path):
    """The loss scale of a float16 training."""
    values = {name: tf.zeros(shape) for name, shape in checkpoint_network.network_shapes(NETWORK).items()}
    values |= {'loss_scale/factor': np.float32(1024), 'loss_scale/good_steps': np.int32(3)}
    path = checkpoint_files.write(tmp_path / 'model.ckpt', values)
    assert cli.main(['checkpoint', path, '--novariables']) == 0
    printed = capsys.readouterr().out
    assert 'and the loss scale of a training run in float16' in printed
    assert 'It has all 272 variables of that network, in its shapes.' in printed
    assert 'loss_scale/' not in printed
    assert 'optimizer' not in printed


def test_damaged_data(capsys, tmp_path):
    """Checksums are compared; the names of what cannot be read come with 'damaged'."""
    values = {name: tf.zeros(shape) for name, shape in checkpoint_network.network_shapes(NETWORK).items()}
    path = checkpoint_files.write(tmp_path / 'model.ckpt', {**values, 'global_step': np.int64(7)})
    data = tmp_path / 'model.ckpt.data-00000-of-00001'
    content = bytearray(data.read_bytes())
    content[-1] ^= 0xFF  # of the last name in the order of names
    data.write_bytes(content)
    assert cli.main(['checkpoint', path, '--novariables']) == 1
    printed = capsys.readouterr().out
    assert 'It is damaged: 1 of 273 values cannot be read' in printed
    assert '  logits/semantic/weights' in printed
    assert 'It has all' not in printed
    os.truncate(data, 100)
    assert cli.main(['checkpoint', path, '--json']) == 1
    found = json.loads(capsys.readouterr().out)
    assert {'global_step', 'logits/semantic/weights'} <= set(found['damaged'])
    assert not found['network']['fits']


def test_without_the_list(capsys, archive):
    assert cli.main(['checkpoint', '--novariables', str(archive)]) == 0
    printed = capsys.readouterr().out
    assert 'semantic/weights' not in printed
    assert 'step 30000' in printed


# --- Against a network -----------------------------------------------------------------------------------------------


def test_against_its_own_network(capsys, archive):
    for words in (['--against', '--depth_multiplier=0.25'], ['--against=--depth_multiplier=0.25 --output_stride=8']):
        against = _found(capsys, archive, *words)['against']
        assert against['fits']
        assert (against['num_classes'], len(against['restored'])) == (7, 272)
        assert against['skipped'] == against['missing'] == against['unused'] == []


def test_a_quote_that_is_not_closed(capsys):
    assert cli.main(['checkpoint', 'model.ckpt', "--against=--dataset='a b.json"]) == cli.USAGE_STATUS
    assert "--against=--dataset='a b.json cannot be split into flags (no closing quotation)" in capsys.readouterr().err


def test_against_another_number_of_classes(capsys, archive):
    words = ['--depth_multiplier=0.25', '--num_classes=21', '--decoder_output_stride=4']
    assert cli.main(['checkpoint', str(archive), *words]) == 0
    printed = capsys.readouterr().out
    assert 'The checkpoint has 7 classes, the network 21.' in printed
    assert '  logits/semantic/biases: [21] in the network, [7] in the checkpoint' in printed
    assert 'missing in the checkpoint (25):' in printed
    assert 'restored; eval, vis and export_model would reject it.\n' in printed


def test_what_training_leaves_out(capsys, archive):
    words = ['--depth_multiplier=0.25', '--noinitialize_last_layer']
    against = _found(capsys, archive, *words)['against']
    assert set(against['restored']) | set(against['left_out']) == set(_found(capsys, archive)['variables'])
    assert {name.partition('/')[0] for name in against['restored']} == {'MobilenetV2'}
    against = _found(capsys, archive, *words, '--last_layers_contain_logits_only')['against']
    assert against['left_out'] == ['logits/semantic/weights', 'logits/semantic/biases']


def test_scopes_that_training_leaves_out(capsys, archive):
    words = ['--depth_multiplier=0.25', '--checkpoint_exclude_scopes=logits,MobilenetV2/Conv/']
    against = _found(capsys, archive, *words)['against']
    assert {name.rpartition('/')[0] for name in against['left_out']} == {
        'logits/semantic', 'MobilenetV2/Conv', 'MobilenetV2/Conv/BatchNorm',
    }  # fmt: skip
    assert len(against['restored']) + len(against['left_out']) == 272
    assert cli.main(['checkpoint', str(archive), '--checkpoint_exclude_scopes=head']) == 1
    error = capsys.readouterr().err
    assert "no variable of this network begins with 'head'. Existing scopes: MobilenetV2, aspp0" in error


def test_names_that_are_mapped(capsys, archive):
    found = _found(capsys, archive, '--against', '--checkpoint_rename_map=concat_projection=projection')
    assert found['against']['unused'][0].startswith('projection/')
    assert 'concat_projection/weights' in found['variables']
    assert not found['network']['fits']
    assert cli.main(['checkpoint', str(archive), '--checkpoint_rename_map=Mobilenet=net,resnet=net']) == 1
    assert "'resnet=net' matches nothing" in capsys.readouterr().err


def test_a_network_for_other_channels(capsys, archive):
    words = ['--depth_multiplier=0.25', '--image_channels=1']
    against = _found(capsys, archive, *words)['against']
    assert against['inflated'] == ['MobilenetV2/Conv/weights']
    assert len(against['restored']) == 272
    assert not against['fits']
    assert cli.main(['checkpoint', str(archive), *words]) == 0
    printed = capsys.readouterr().out
    assert "from 3 channels over the network's (1):\n  MobilenetV2/Conv/weights\n" in printed
    assert 'restored; eval, vis and export_model would reject it.\n' in printed


def test_channels_are_told_from_the_checkpoint(capsys, tmp_path):
    shapes = checkpoint_network.network_shapes(dataclasses.replace(NETWORK, input_channels=5))
    checkpoint_files.write(tmp_path / 'model.ckpt', {name: np.zeros(shape, 'f') for name, shape in shapes.items()})
    network = _found(capsys, tmp_path)['network']
    assert network['fits']
    assert network['flags'] == ['--model_variant=mobilenet_v2', '--depth_multiplier=0.25', '--image_channels=5']


def test_against_a_preset(capsys, archive):
    by_name = _found(capsys, archive, '--against=mobilenetv2_dm05_coco_voc_trainaug')
    assert by_name == _found(capsys, archive, '--preset=mobilenetv2_dm05_coco_voc_trainaug')
    assert by_name['against']['num_classes'] == 21
    assert not by_name['against']['fits']


def test_presets_with_its_variables(capsys, tmp_path):
    network = cli.options_of('networks', ['--preset=mobilenetv3_small_cityscapes_trainfine']).model
    shapes = checkpoint_network.network_shapes(network)
    prefix = str(tmp_path / 'model.ckpt')
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=list(shapes),
        shape_and_slices=[''] * len(shapes),
        tensors=[tf.zeros(shape) for shape in shapes.values()],
    )
    found = _found(capsys, tmp_path, '--against=mobilenetv3_small_cityscapes_trainfine')
    assert found['presets'] == ['mobilenetv3_small_cityscapes_trainfine']
    assert found['against']['fits']
    assert found['network']['head'] == (
        'ASPP of 128 channels, no atrous branches, gates (squeeze-and-excite), without projection'
    )
    assert found['network']['decoder_output_strides'] == [8]


# --- Bad input -------------------------------------------------------------------------------------------------------


def test_an_exported_graph(capsys, archive):
    assert cli.main(['checkpoint', str(archive / 'frozen_inference_graph.pb')]) == 1
    error = capsys.readouterr().err
    assert 'is an exported graph, not a checkpoint: pass the checkpoint next to it, ' in error
    assert error.endswith('model.ckpt.\n')


def test_nothing_there(capsys, tmp_path):
    assert cli.main(['checkpoint', str(tmp_path)]) == 1
    assert f"There is no checkpoint in the folder '{tmp_path}'" in capsys.readouterr().err
    assert cli.main(['checkpoint', str(tmp_path / 'model.ckpt')]) == 1
    assert 'There is no checkpoint' in capsys.readouterr().err


def test_no_file(capsys):
    assert cli.main(['checkpoint']) == 2
    assert 'checkpoint requires --file' in capsys.readouterr().err


def test_an_impossible_network(capsys, archive):
    assert cli.main(['checkpoint', str(archive), '--against', '--decoder_output_stride=5']) == 1
    assert '--decoder_output_stride=5 is not supported by mobilenet_v2' in capsys.readouterr().err


def test_the_task_and_its_outputs_are_named():
    network = ModelOptions({'semantic': 7}, task='panoptic', depth_multiplier=0.35)
    held = checkpoint_network.network_shapes(network)
    deduced = checkpoint_network.deduce(held)
    report = checkpoint.CheckpointReport('model.ckpt-1', 1, held, {}, deduced, (), None)
    lines = list(checkpoint._network_lines(report))
    assert 'task: panoptic' in lines
    assert 'outputs, with channels: semantic (7), center (1), offset (2)' in lines
    assert 'instance_branch: a head and a decoder of its own, stride 8, 4, 128 channels' in lines
    assert not any(line.startswith(('classes', 'decoder')) for line in lines)
    facts = checkpoint.as_json(report)['network']
    assert (facts['task'], facts['num_classes'], facts['outputs']['center']) == ('panoptic', 7, 1)
    against = CheckpointOptions('model.ckpt-1', against=network, takes_classes=True)
    assert checkpoint.compare(held, deduced, against).is_complete
