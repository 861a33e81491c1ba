"""--trainable_scopes and --checkpoint_rename_map in trainings on tiny data."""

import dataclasses

import pytest
import tensorflow as tf

from deeplab import train
from deeplab.errors import CheckpointError, OptionError
from deeplab.options import RestoreOptions
from deeplab.training import initial_checkpoint
from tests.helpers import training_setup
from tests.helpers.checkpoint_files import values_of

pytestmark = pytest.mark.usefixtures('tiny_network')


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
    def test_all_else_stays_to_the_byte_and_does_not_decay(self, data, tmp_path):
        """Batch norm statistics too, although batch norms are fine-tuned."""
        run = options(data, tmp_path / 'log', 1, scopes=('logits', 'aspp'), save_summaries_secs=0)
        path = train.run(run).checkpoint
        before = values_of(tmp_path / 'log' / 'model.ckpt-0')
        names = changed(tmp_path / 'log' / 'model.ckpt-0', path)
        assert {name.partition('/')[0] for name in names} == {'logits', 'aspp0'}
        assert {'logits/semantic/weights', 'aspp0/BatchNorm/gamma', 'aspp0/BatchNorm/moving_mean'} <= names
        slots = {name for name in before if name.endswith('/Momentum')}
        assert {name.partition('/')[0] for name in slots} == {'logits', 'aspp0'}
        tags = training_setup.summaries(tmp_path / 'log')
        decay = sum(0.01 * (before[f'{name}/weights'] ** 2).sum() / 2 for name in ('logits/semantic', 'aspp0'))
        expected = tags['losses/semantic_merged_logits/value'] + decay
        assert tags['total_loss'] == pytest.approx(expected, rel=1e-5)

    def test_a_scope_that_matches_nothing(self, data, tmp_path):
        message = (
            "trainable_scopes: no variable of this network begins with 'decoder'. Existing scopes: aspp0, "
            'concat_projection, image_pooling, logits, tiny'
        )
        with pytest.raises(OptionError, match=f'^{message}$'):
            train.run(options(data, tmp_path / 'log', scopes=('logits', 'decoder')))
        assert not list((tmp_path / 'log').glob('model.ckpt*'))

    def test_random_frozen_weights_are_worth_a_warning(self, data, tmp_path, caplog):
        initial_checkpoint.check(options(data, tmp_path / 'a', 1, scopes=('logits',)))
        assert "trainable_scopes=('logits',) without initial_checkpoint: all other variables keep" in caplog.text
        caplog.clear()
        first = trained(data, tmp_path / 'first', 1).checkpoint
        initial_checkpoint.check(options(data, tmp_path / 'b', 1, scopes=('logits',), initial_checkpoint=first))
        assert 'without initial_checkpoint' not in caplog.text


class TestInitialCheckpoint:
    @pytest.fixture
    def first(self, data, tmp_path):
        return trained(data, tmp_path / 'first', 1).checkpoint

    def test_other_names_and_excluded_scopes_which_start_anew(self, data, tmp_path, first):
        path = str(tmp_path / 'renamed.ckpt')
        values = {f'teacher/{name}': value for name, value in values_of(first).items()}
        tf.raw_ops.SaveV2(
            prefix=path,
            tensor_names=list(values),
            shape_and_slices=[''] * len(values),
            tensors=[tf.constant(value) for value in values.values()],
        )
        restore = {'rename_map': 'teacher/=', 'exclude_scopes': ('logits',)}
        train.run(options(data, tmp_path / 'log', 1, initial_checkpoint=path, restore=restore))
        start = tmp_path / 'log' / 'model.ckpt-0'
        assert changed(first, start) == {
            f'logits/semantic/{name}' for name in ('weights', 'biases', 'weights/Momentum', 'biases/Momentum')
        }
        assert changed(tmp_path / 'first' / 'model.ckpt-0', start) & {'logits/semantic/weights'} == set()

    @pytest.mark.parametrize(
        ('restore', 'message'),
        [
            (
                {'rename_map': 'tiny/conv1=tiny/conv9'},
                r'does not have every variable.* It lacks 5 of 27 variables \(tiny: 5 of 10\): tiny/conv1/w',
            ),
            ({'rename_map': 'nothing/=tiny/'}, "'nothing/=tiny/' matches nothing"),
            ({'rename_map': 'nowhere.json'}, "rename_map: the file 'nowhere.json' does not"),
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

    def test_a_run_that_resumes_needs_it_no_more(self, data, tmp_path):
        """Neither its initial checkpoint nor the rename map."""
        trained(data, tmp_path / 'log', 1)
        gone = {
            'initial_checkpoint': str(tmp_path / 'gone.ckpt'),
            'restore': {'rename_map': str(tmp_path / 'gone.json')},
        }
        assert train.run(options(data, tmp_path / 'log', 2, **gone)).step == 2

    @pytest.mark.parametrize('restore', [{'exclude_scopes': ('logits',)}, {'rename_map': 'a=b'}])
    def test_without_a_checkpoint_nothing_can_be_said_of_it(self, data, tmp_path, restore):
        with pytest.raises(OptionError, match='it applies to the initial checkpoint; also set initial_checkpoint'):
            options(data, tmp_path / 'log', restore=restore)
