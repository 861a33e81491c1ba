"""--trainable_scopes and --checkpoint_rename_map in trainings on tiny data."""

import dataclasses
import pathlib
import shutil

import pytest
import tensorflow as tf

from deeplab import train
from deeplab.core import checkpoints
from deeplab.core.backbones import registry
from deeplab.errors import CheckpointError, OptionError
from deeplab.options import RestoreOptions
from deeplab.training import train_run
from tests import training_setup


@pytest.fixture(autouse=True)
def tiny_network(monkeypatch):
    registry.names()  # every family is known before the table is copied
    monkeypatch.setattr(registry, '_backbones', dict(registry._backbones))
    registry.register(training_setup.TINY)


@pytest.fixture
def data(tmp_path):
    return training_setup.write_data(tmp_path / 'records')


def values_of(path):
    reader = checkpoints.open_reader(str(path))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def options(data, logdir, steps=2, scopes=(), restore=None, **changes):
    """Options of a short training with weight decay."""
    optimizer = dataclasses.replace(training_setup.RATE, trainable_scopes=scopes, weight_decay=0.01)
    changes |= {} if restore is None else {'restore': RestoreOptions(**restore)}
    return training_setup.options(data, logdir, steps, optimizer=optimizer, **changes)


def trained(data, logdir, steps=2, scopes=()):
    """A training that tests share (`training_setup.trained`)."""
    optimizer = dataclasses.replace(training_setup.RATE, trainable_scopes=scopes, weight_decay=0.01)
    return training_setup.trained(data, logdir, steps, optimizer=optimizer)


def changed(first, second):
    """Names of the variables that differ, except the step."""
    first, second = values_of(first), values_of(second)
    assert first.keys() == second.keys()
    return {name for name in first if first[name].tobytes() != second[name].tobytes()} - {'global_step'}


class TestTrainableScopes:
    def test_all_else_stays_to_the_byte(self, data, tmp_path):
        """Batch norm statistics too, although batch norms are fine-tuned."""
        path = train.run(options(data, tmp_path / 'log', scopes=('logits', 'aspp'))).checkpoint
        names = changed(tmp_path / 'log' / 'model.ckpt-0', path)
        assert {name.partition('/')[0] for name in names} == {'logits', 'aspp0'}
        assert {'logits/semantic/weights', 'aspp0/BatchNorm/gamma', 'aspp0/BatchNorm/moving_mean'} <= names
        slots = {name for name in values_of(path) if name.endswith('/Momentum')}
        assert {name.partition('/')[0] for name in slots} == {'logits', 'aspp0'}

    def test_naming_every_scope_is_naming_none(self, data, tmp_path):
        scopes = ('tiny', 'image_pooling', 'aspp0', 'concat_projection', 'logits')
        plain = trained(data, tmp_path / 'plain')
        named = train.run(options(data, tmp_path / 'named', scopes=scopes))
        assert changed(plain.checkpoint, named.checkpoint) == set()
        assert named.loss == plain.loss

    def test_frozen_parts_have_no_weight_decay(self, data, tmp_path):
        """A total loss that holds the decay of frozen weights would be larger."""
        little, much = (
            dataclasses.replace(training_setup.RATE, trainable_scopes=('logits/semantic/biases',), weight_decay=decay)
            for decay in (0.0, 1.0)
        )
        losses = [
            train.run(training_setup.options(data, tmp_path / name, 1, optimizer=optimizer)).loss
            for name, optimizer in (('little', little), ('much', much))
        ]
        assert losses[0] == losses[1]

    def test_a_scope_that_matches_nothing(self, data, tmp_path):
        message = (
            "trainable_scopes: no variable of this network begins with 'decoder'. Existing scopes: aspp0, "
            'concat_projection, image_pooling, logits, tiny'
        )
        with pytest.raises(OptionError, match=f'^{message}$'):
            train.run(options(data, tmp_path / 'log', scopes=('logits', 'decoder')))
        assert not list((tmp_path / 'log').glob('model.ckpt*'))

    def test_random_frozen_weights_are_worth_a_warning(self, data, tmp_path, caplog):
        train_run._check_initial_checkpoint(options(data, tmp_path / 'a', 1, scopes=('logits',)))
        assert "trainable_scopes=('logits',) without initial_checkpoint: all other variables keep" in caplog.text
        caplog.clear()
        first = trained(data, tmp_path / 'first', 1).checkpoint
        train_run._check_initial_checkpoint(
            options(data, tmp_path / 'b', 1, scopes=('logits',), initial_checkpoint=first)
        )
        assert 'without initial_checkpoint' not in caplog.text


class TestInitialCheckpoint:
    @pytest.fixture
    def first(self, data, tmp_path):
        return trained(data, tmp_path / 'first', 1).checkpoint

    def test_excluded_scopes_start_anew(self, data, tmp_path, first):
        restore = {'exclude_scopes': ('logits',)}
        train.run(options(data, tmp_path / 'log', 1, initial_checkpoint=first, restore=restore))
        start = tmp_path / 'log' / 'model.ckpt-0'
        assert changed(first, start) == {
            f'logits/semantic/{name}' for name in ('weights', 'biases', 'weights/Momentum', 'biases/Momentum')
        }
        assert changed(tmp_path / 'first' / 'model.ckpt-0', start) & {'logits/semantic/weights'} == set()

    def test_other_names(self, data, tmp_path, first):
        """A run from a renamed checkpoint is the run from the checkpoint itself."""
        path = str(tmp_path / 'renamed.ckpt')
        values = {f'teacher/{name}': value for name, value in values_of(first).items()}
        tf.raw_ops.SaveV2(
            prefix=path,
            tensor_names=list(values),
            shape_and_slices=[''] * len(values),
            tensors=[tf.constant(value) for value in values.values()],
        )
        plain = train.run(options(data, tmp_path / 'plain', initial_checkpoint=first))
        restore = {'rename_map': 'teacher/='}
        renamed = train.run(options(data, tmp_path / 'log', initial_checkpoint=path, restore=restore))
        assert changed(plain.checkpoint, renamed.checkpoint) == set()

    @pytest.mark.parametrize(
        ('restore', 'message'),
        [
            (
                {'rename_map': 'tiny/conv1=tiny/conv9'},
                r'does not have every variable.* It lacks 5 of 27 variables \(tiny: 5 of 10\): tiny/conv1/w',
            ),
            ({'rename_map': 'nothing/=tiny/'}, "'nothing/=tiny/' matches nothing"),
            ({'rename_map': 'tiny/conv1=tiny/conv2'}, "would both become 'tiny/conv2/BatchNorm/beta"),
            ({'rename_map': 'nowhere.json'}, "rename_map: the file 'nowhere.json' does not"),
            ({'exclude_scopes': ('decoder',)}, "no variable of this network begins with 'decoder'"),
        ],
    )
    def test_refused_before_the_first_step(self, data, tmp_path, first, restore, message):
        with pytest.raises((CheckpointError, OptionError), match=message):
            train.run(options(data, tmp_path / 'log', initial_checkpoint=first, restore=restore))
        assert not list((tmp_path / 'log').glob('model.ckpt*'))

    def test_missing_variables_can_be_let_go_with_a_map_too(self, data, tmp_path, first, caplog):
        restore = {'rename_map': 'tiny/conv1=tiny/conv9', 'ignore_missing_vars': True}
        train.run(options(data, tmp_path / 'log', 1, initial_checkpoint=first, restore=restore))
        assert 'not in the checkpoint keep their initial values: 5 (tiny/conv1/weights, ' in caplog.text

    def test_a_run_that_resumes_needs_it_no_more(self, data, tmp_path, first):
        """Neither its initial checkpoint nor the rename map."""
        (tmp_path / 'map.json').write_text('{"tiny": "tiny"}')
        same = {'initial_checkpoint': first, 'restore': {'rename_map': str(tmp_path / 'map.json')}}
        wanted = options(data, tmp_path / 'log', 1, **same)
        train.run(wanted)
        shutil.rmtree(pathlib.Path(first).parent)
        (tmp_path / 'map.json').unlink()
        assert train.run(options(data, tmp_path / 'log', 2, **same)).step == 2

    @pytest.mark.parametrize('restore', [{'exclude_scopes': ('logits',)}, {'rename_map': 'a=b'}])
    def test_without_a_checkpoint_nothing_can_be_said_of_it(self, data, tmp_path, restore):
        with pytest.raises(OptionError, match='it applies to the initial checkpoint; also set initial_checkpoint'):
            options(data, tmp_path / 'log', restore=restore)
