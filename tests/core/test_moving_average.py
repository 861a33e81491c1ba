"""Exponential moving averages of the weights: names, recurrence, saving and restoring."""

import numpy as np
import pytest
import tensorflow as tf

from deeplab import wording
from deeplab.core import checkpoints, moving_average, sessions
from deeplab.errors import CheckpointError
from deeplab.training import training_step
from tests.helpers import checkpoint_files


class Toy:
    """Weights w [2], whose gradient is fed, with their average."""

    def __init__(self, decay=0.5):
        self.step = tf.compat.v1.train.get_or_create_global_step()
        with tf.compat.v1.variable_scope('net'):
            self.w = tf.compat.v1.get_variable('w', initializer=[1.0, -1.0])
        self.gradient = tf.compat.v1.placeholder(tf.float32, [2])
        self.averages = moving_average.MovingAverages([self.w], decay, self.step)
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(1.0)
        more = training_step.MoreUpdates(afterwards=self.averages.update)
        self.applied, _ = training_step.gated_update(
            tf.constant(0.0), [(self.gradient, self.w)], optimizer, self.step, more
        )
        self.shadow = next(v for v in tf.compat.v1.global_variables() if moving_average.is_average(v.op.name))

    def initialize(self, running):
        running.run(tf.compat.v1.global_variables_initializer())
        running.run(self.averages.start)


@pytest.fixture
def running():
    with tf.Graph().as_default(), sessions.open_session() as opened:
        yield opened


def test_ramp():
    found = [float(moving_average.ramped_decay(step, 0.99)) for step in (0, 1, 8, 889, 891)]
    assert found == pytest.approx([0.1, 2 / 11, 0.5, 890 / 899, 0.99])


@pytest.mark.parametrize('decay', [0.3, 0.99])
def test_follows_the_weights_as_numpy_does(running, decay):
    toy = Toy(decay)
    toy.initialize(running)
    rng = np.random.default_rng(0)
    weight = average = np.array([1.0, -1.0])
    for step in range(12):
        gradient = rng.normal(size=2)
        assert running.run(toy.applied, {toy.gradient: gradient})
        weight = weight - gradient
        kept = min(decay, (1 + step) / (10 + step))
        average = kept * average + (1 - kept) * weight
        np.testing.assert_allclose(running.run(toy.shadow), average, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(running.run(toy.w), weight, rtol=1e-5)


def test_does_not_move_where_the_update_is_not_applied(running):
    toy = Toy()
    toy.initialize(running)
    running.run(toy.applied, {toy.gradient: [1.0, 1.0]})
    before = running.run(toy.shadow)
    assert not running.run(toy.applied, {toy.gradient: [1.0, np.nan]})
    np.testing.assert_array_equal(running.run(toy.shadow), before)


def test_names_and_collections(running):
    toy = Toy()
    assert toy.shadow.op.name == 'net/w/ExponentialMovingAverage'
    assert [v.op.name for v in tf.compat.v1.trainable_variables()] == ['net/w']
    assert toy.shadow not in tf.compat.v1.model_variables()
    assert [v.op.name for v in moving_average.without_averages(tf.compat.v1.global_variables())] == [
        'global_step',
        'net/w',
    ]


VALUES = {'global_step': np.int64(7), 'net/w': np.float32([3, 4])}
SHADOW = {'net/w/ExponentialMovingAverage': np.float32([5, 6])}


class TestResume:
    def test_goes_on_with_the_averages(self, running, tmp_path):
        toy = Toy()
        path = checkpoint_files.write(tmp_path / 'model.ckpt-7', VALUES | SHADOW)
        moving_average.resume(running, path, tf.compat.v1.global_variables(), toy.averages)
        assert running.run([toy.w, toy.shadow])[1].tolist() == [5, 6]

    def test_starts_them_where_the_checkpoint_has_none_and_says_so(self, running, tmp_path, caplog):
        toy = Toy()
        path = checkpoint_files.write(tmp_path / 'model.ckpt-7', VALUES)
        with caplog.at_level('INFO'):
            moving_average.resume(running, path, tf.compat.v1.global_variables(), toy.averages)
        assert running.run(toy.shadow).tolist() == [3, 4]
        assert f'{path} contains no moving averages (EMA) of the weights: they start from its weights.' in caplog.text

    def test_says_where_they_end(self, running, tmp_path, caplog):
        weights = tf.compat.v1.get_variable('net/w', [2])
        path = checkpoint_files.write(tmp_path / 'model.ckpt-7', VALUES | SHADOW)
        moving_average.resume(running, path, tf.compat.v1.global_variables(), None)
        assert running.run(weights).tolist() == [3, 4]
        assert 'but moving_average_decay is not set: they are discarded' in caplog.text

    def test_says_nothing_where_there_are_none(self, running, tmp_path, caplog):
        tf.compat.v1.get_variable('net/w', [2])
        path = checkpoint_files.write(tmp_path / 'model.ckpt-7', VALUES)
        moving_average.resume(running, path, tf.compat.v1.global_variables(), None)
        assert not caplog.text


class TestPrediction:
    def test_takes_weights_or_averages(self, running, tmp_path):
        weights = tf.compat.v1.get_variable('net/w', [2])
        path = checkpoint_files.write(tmp_path / 'model.ckpt', VALUES | SHADOW)
        for use, expected in ((False, [3, 4]), (True, [5, 6])):
            names = moving_average.names_of_weights(path, [weights], use)
            values = checkpoints.read_all(path, [weights], names)
            assert values['net/w'].tolist() == expected

    def test_ranges_of_8_bits_are_averages_already(self, running, tmp_path):
        names = ('net/w', 'net/act_quant/min', 'net/weights_quant/max')
        weights = [tf.compat.v1.get_variable(name, [2]) for name in names]
        path = checkpoint_files.write(tmp_path / 'model.ckpt', VALUES | SHADOW)
        expected = dict(zip(names, ('net/w/ExponentialMovingAverage', *names[1:]), strict=True))
        assert moving_average.names_of_weights(path, weights, True) == expected

    def test_a_checkpoint_without_any(self, running, tmp_path):
        weights = tf.compat.v1.get_variable('net/w', [2])
        path = checkpoint_files.write(tmp_path / 'model.ckpt', VALUES)
        wanted = 'contains no moving averages .* Omit use_moving_average, .* with moving_average_decay$'
        with pytest.raises(CheckpointError, match=wanted):
            moving_average.names_of_weights(path, [weights], True)
        flags = {'ExportOptions.use_moving_average': 'use_moving_average'}
        with wording.flag_names(flags), pytest.raises(CheckpointError, match='Omit --use_moving_average, '):
            moving_average.names_of_weights(path, [weights], True)

    def test_an_average_that_is_missing_or_of_another_shape(self, running, tmp_path):
        variables = [tf.compat.v1.get_variable('net/w', [3]), tf.compat.v1.get_variable('net/b', [1])]
        path = checkpoint_files.write(tmp_path / 'model.ckpt', VALUES | SHADOW | {'net/b': np.float32([0])})
        with pytest.raises(CheckpointError) as error:
            checkpoints.read_all(path, variables, moving_average.names_of_weights(path, variables, True))
        assert '(net/w/ExponentialMovingAverage: [3] here, [2] in the checkpoint)' in str(error.value)
        assert 'it lacks 1 of 2 variables (net/b/ExponentialMovingAverage)' in str(error.value)
