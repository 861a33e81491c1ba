"""Warnings about an initial checkpoint that does not fit; tests/utils/test_train_utils.py has its restore."""

import dataclasses
import types

import pytest

from deeplab.checks import checkpoint_network
from deeplab.core import checkpoints
from deeplab.options import ModelOptions, OptimizerOptions, RestoreOptions
from deeplab.training import initial_checkpoint
from tests.helpers import checkpoint_files, training_setup


@pytest.fixture
def plain(tmp_path):
    data = training_setup.DatasetOptions('train', str(tmp_path), 'camvid')
    return dataclasses.replace(training_setup.options(data, tmp_path), optimizer=OptimizerOptions())


class TestBackbone:
    OURS = ('resnet_v1_18/conv1/weights', 'resnet_v1_18/block1/weights', 'aspp0/weights', 'logits/semantic/weights')

    def found(self, plain, *held, **restore):
        model = dataclasses.replace(plain.model, model_variant='resnet_v1_18')
        restore = {'initial_checkpoint': 'a/model.ckpt', 'restore': RestoreOptions(**restore)}
        return initial_checkpoint.backbone(dataclasses.replace(plain, model=model, **restore), self.OURS, held)

    def test_a_forgotten_model_variant(self, plain):
        (line,) = self.found(plain, 'MobilenetV2/Conv/weights', 'aspp0/weights')
        assert 'no variables of the backbone resnet_v1_18' in line
        assert "The checkpoint has MobilenetV2: set model_variant='mobilenet_v2'." in line
        assert 'add resnet_v1_18 to exclude_scopes' in line

    def test_a_scope_that_several_have_and_one_that_none_has(self, plain):
        (several,) = self.found(plain, 'resnet_v1_50/conv1/weights', 'aspp0/weights', 'beta1_power')
        assert "has resnet_v1_50: set model_variant='resnet_v1_50' or model_variant='resnet_v1_50_beta'." in several
        (none,) = self.found(plain, 'model/conv1/weights', 'aspp0/weights')
        assert 'Set model_variant to the backbone of the checkpoint (`deeplab checkpoint FILE`' in none

    def test_nothing_to_say(self, plain):
        assert self.found(plain, 'resnet_v1_18/conv1/weights') == []
        assert self.found(plain, 'aspp0/weights', exclude_scopes=('logits', 'resnet')) == []
        assert self.found(plain, 'MobilenetV2/Conv/weights') == []  # nothing in common is an error

    def test_a_forgotten_width(self, plain, monkeypatch):
        narrow = ModelOptions({'semantic': 2}, model_variant='mobilenet_v2', depth_multiplier=0.5)
        deduced = types.SimpleNamespace(options=narrow)
        monkeypatch.setattr(checkpoint_network, 'find_backbone', lambda shapes: deduced)
        model = dataclasses.replace(plain.model, model_variant='mobilenet_v2')
        chosen = dataclasses.replace(plain, model=model, initial_checkpoint='a/model.ckpt')
        ours = {f'MobilenetV2/Conv_{i}/weights': (1, 1, 8, 8) for i in range(4)} | {'aspp0/weights': (1, 1, 8, 8)}
        held = {name: checkpoints.Entry((1, 1, 4, 4), None) for name in ours}
        (line,) = initial_checkpoint.backbone_shapes(chosen, ours, held)
        assert line.startswith('4 of 4 variables of the backbone have other shapes in the initial checkpoint')
        assert "backbone model_variant='mobilenet_v2' depth_multiplier=0.5" in line
        assert 'add MobilenetV2 to exclude_scopes' in line
        monkeypatch.setattr(checkpoint_network, 'find_backbone', lambda shapes: None)
        (line,) = initial_checkpoint.backbone_shapes(chosen, ours, held)
        assert '`deeplab checkpoint a/model.ckpt`' in line
        first_only = held | {name: checkpoints.Entry((1, 1, 8, 8), None) for name in list(held)[1:]}
        assert initial_checkpoint.backbone_shapes(chosen, ours, first_only) == []
        excluded = dataclasses.replace(chosen, restore=RestoreOptions(exclude_scopes=('MobilenetV2',)))
        assert initial_checkpoint.backbone_shapes(excluded, ours, held) == []

    @pytest.mark.parametrize('initialize_last_layer', [False, True])
    def test_it_is_said_of_a_checkpoint(self, plain, tiny_network, tmp_path, caplog, initialize_last_layer):
        path = checkpoint_files.write(tmp_path / 'a' / 'model.ckpt', {'MobilenetV2/w': [1.0], 'tiny': [1.0]})
        initial_checkpoint.warn(
            dataclasses.replace(plain, initial_checkpoint=path, initialize_last_layer=initialize_last_layer),
            {'tiny/conv1/weights': (3,), 'tiny': (1,)},
        )
        assert 'no variables of the backbone tiny' in caplog.text

    def test_nothing_is_said_without_a_checkpoint_or_of_one_with_a_map_of_names(
        self, plain, tiny_network, tmp_path, caplog
    ):
        path = checkpoint_files.write(tmp_path / 'a' / 'model.ckpt', {'MobilenetV2/w': [1.0], 'tiny': [1.0]})
        renamed = RestoreOptions(rename_map='MobilenetV2/=tiny/')
        for options in (plain, dataclasses.replace(plain, initial_checkpoint=path, restore=renamed)):
            initial_checkpoint.warn(options, {'tiny/conv1/weights': (3,), 'tiny': (1,)})
        assert not caplog.text

    def test_other_scopes_that_start_anew_change_nothing(self, plain):
        assert len(self.found(plain, 'MobilenetV2/Conv/weights', 'aspp0/weights', exclude_scopes=('logits',))) == 1


class TestLastLayers:
    OURS = ('tiny/conv1/weights', 'aspp0/weights', 'decoder/conv/weights', 'logits/semantic/weights')

    def found(self, plain, **shapes):
        held = {name.replace('__', '/'): checkpoints.Entry(shape, None) for name, shape in shapes.items()}
        return initial_checkpoint.last_layers(plain, self.OURS, held)

    def test_the_same_network_and_a_backbone(self, plain):
        same = {'tiny__conv1__weights': (3,), 'aspp0__weights': (8,), 'decoder__conv__weights': (8,)}
        assert self.found(plain, **same, logits__semantic__weights=(1, 1, 8, 3)) == []
        assert self.found(plain, tiny__conv1__weights=(3,)) == []

    def test_ranges_that_8_bit_training_measures_are_not_missed(self, plain, tiny_network, tmp_path, caplog):
        path = checkpoint_files.write(tmp_path / 'model.ckpt', {name: [1.0, 2.0, 3.0] for name in self.OURS})
        ranges = [f'{name}_quant/min' for name in self.OURS]
        shapes = dict.fromkeys([*self.OURS, *ranges], (3,))
        initial_checkpoint.warn(dataclasses.replace(plain, initial_checkpoint=path), shapes)
        assert not caplog.text

    def test_other_classes_and_another_head(self, plain):
        classes, head = self.found(plain, aspp0__weights=(8,), logits__semantic__weights=(1, 1, 8, 21))
        assert 'the initial checkpoint has 21 classes, the data set 3' in classes
        assert 'initialize_last_layer=False' in classes
        assert '1 of 3 variables after the backbone' in head
        assert '(decoder/conv/weights)' in head
        assert 'output_strides' in head

    @pytest.mark.parametrize(
        ('task', 'missing', 'held'),
        [
            ('panoptic', 3, ('aspp0/weights', 'logits/semantic/weights')),
            ('semantic', 2, ('semantic_branch/aspp0/weights', 'logits/semantic/weights')),
            ('semantic', 1, ('aspp0/weights', 'decoder/conv/weights', 'logits/depth/weights')),
            ('semantic+depth', 1, ('aspp0/weights', 'decoder/conv/weights', 'logits/semantic/weights')),
        ],
    )
    def test_another_task(self, plain, task, missing, held):
        ours = {
            'semantic': self.OURS,
            'semantic+depth': (*self.OURS, 'logits/depth/weights'),
            'panoptic': (
                *(f'{name}_branch/aspp0/weights' for name in ('semantic', 'instance')),
                'logits/center/weights',
            ),
        }[task]
        plain = dataclasses.replace(plain, model=dataclasses.replace(plain.model, task=task))
        entries = {name: checkpoints.Entry((1, 1, 8, 3), None) for name in held}
        (finding,) = initial_checkpoint.last_layers(plain, ours, entries)
        assert f"another task than task='{task}': {missing} of" in finding
