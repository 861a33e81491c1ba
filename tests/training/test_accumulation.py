"""Gradient accumulation on a toy of one weight: sums, means, gated update, loop."""

import os
import signal

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import checkpoints, dropout, moving_updates, sessions
from deeplab.errors import NonFiniteError
from deeplab.training import accumulation, train_loop, training_step

RATE = 0.5


class Toy:
    """Weight w, loss w * x + 0.5, moving statistic m (decay 0.75) of x, where x comes from a queue."""

    def __init__(self, values, count):
        self.step = tf.compat.v1.train.get_or_create_global_step()
        self.batches = accumulation.MicroBatches(count)
        self.w = tf.compat.v1.get_variable('w', initializer=1.0)
        self.m = tf.compat.v1.get_variable('m', initializer=0.0, trainable=False)
        queue = tf.queue.FIFOQueue(len(values), [tf.float32], [[]])
        self.fill = [queue.enqueue_many([np.float32(values)]), queue.close()]
        self.x = self.taken(queue.dequeue())
        loss = self.w * self.x + 0.5
        gradients = [(tf.gradients(loss, self.w)[0], self.w)]
        update = moving_updates.MovingUpdate(self.m, self.x, decay=0.75)
        mean_loss, mean_gradients, updates = self.batches.mean(loss, gradients, [update])
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(RATE)
        applied, norm = training_step.gated_update(
            mean_loss,
            mean_gradients,
            optimizer,
            self.step,
            training_step.MoreUpdates(lambda: moving_updates.apply(updates)),
        )
        names = tf.reshape(tf.strings.as_string(self.x, precision=0), [1])
        self.train_step = training_step.TrainStep(
            applied,
            mean_loss,
            norm,
            tf.constant(RATE),
            self.step,
            names,
            waiting_seconds=self.x,
            micro_batches=self.batches,
        )
        self.start = tf.compat.v1.global_variables_initializer()

    def taken(self, x):
        return x

    def initialize(self, running):
        running.run([self.start])
        for operation in self.fill:
            running.run(operation)

    def do_step(self, running):
        """Whether the update happened, and the loss."""
        for operation in self.batches.runs:
            running.run(operation)
        return running.run([self.train_step.is_applied, self.train_step.loss])


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def train(toy, directory, steps, hooks=(), **options):
    writer = checkpoints.CheckpointWriter(str(directory))
    return train_loop.train(toy.train_step, steps, writer, toy.initialize, hooks, train_loop.LoopOptions(**options))


@pytest.mark.parametrize('values', [[2.0, 4.0], [1.0, 3.0, 8.0], [1.0, 2.0, 3.0, 6.0]])
def test_a_step_is_that_of_the_mean(graph, values):
    toy = Toy(values, len(values))
    assert len(toy.batches.runs) == len(values) - 1
    with sessions.open_session() as running:
        toy.initialize(running)
        mean = np.mean(values)
        assert toy.do_step(running) == [True, pytest.approx(mean + 0.5)]
        assert running.run([toy.w, toy.m, toy.step]) == [pytest.approx(1 - RATE * mean), pytest.approx(mean / 4), 1]


def test_nothing_of_a_step_is_left_in_the_next(graph):
    toy = Toy([2.0, 4.0, 5.0, 6.0, 1.0, 1.0], 3)
    with sessions.open_session() as running:
        toy.initialize(running)
        toy.do_step(running)
        w = running.run(toy.w)
        assert toy.do_step(running)[1] == pytest.approx(w * 8 / 3 + 0.5)


@pytest.mark.parametrize('bad', [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize('place', range(3))
def test_one_bad_micro_batch_spoils_its_step_and_no_other(graph, bad, place):
    values = [2.0, 4.0, 6.0]
    values[place] = bad
    toy = Toy([*values, 1.0, 2.0, 3.0], 3)
    with sessions.open_session() as running:
        toy.initialize(running)
        assert not toy.do_step(running)[0]
        assert running.run([toy.w, toy.m, toy.step]) == [1.0, 0.0, 0]
        assert toy.do_step(running) == [True, pytest.approx(2.5)]
        assert running.run([toy.w, toy.m, toy.step]) == [0.0, 0.5, 1]


def test_what_an_interrupted_step_left_counts_nowhere(graph):
    toy = Toy([100.0, 200.0, 1.0, 2.0, 3.0], 3)
    with sessions.open_session() as running:
        toy.initialize(running)
        for operation in toy.batches.runs:
            running.run(operation)
        assert toy.do_step(running) == [True, pytest.approx(2.5)]


class Recorder(train_loop.Hook):
    """Records the calls of the loop, and fetches a tensor in each step."""

    def __init__(self, tensor):
        self.tensor = tensor
        self.events = []

    def fetches(self, step):
        return {'extra': self.tensor}

    def after_step(self, result, fetched):
        self.events.append((result.step, result.loss, result.waiting_seconds, *fetched['extra']))


class TestLoop:
    def test_hooks_see_steps_and_the_last_micro_batch(self, graph, tmp_path):
        toy = Toy([2.0, 4.0, 1.0, 3.0], 2)
        recorder = Recorder([toy.x, toy.batches.number])
        result = train(toy, tmp_path, 2, hooks=[recorder])
        assert recorder.events == [(1, 3.5, 6.0, 4.0, 1), (2, pytest.approx(-0.5), 4.0, 3.0, 1)]
        assert result.step == 2

    def test_a_step_that_may_be_left_out_takes_all_its_micro_batches_along(self, graph, tmp_path):
        result = train(Toy([np.nan, 9.0, 2.0, 4.0], 2), tmp_path, 2, most_skips=1)
        assert result.loss == 3.5
        assert checkpoints.open_reader(result.checkpoint).get_tensor('w') == -0.5

    def test_no_checkpoint_holds_the_sums(self, graph, tmp_path):
        result = train(Toy([2.0, 4.0], 2), tmp_path, 1)
        names = checkpoints.open_reader(result.checkpoint).get_variable_to_shape_map()
        assert set(names) == {'w', 'm', 'global_step'}

    def test_the_images_of_the_whole_step_are_named(self, graph, tmp_path):
        toy = Toy([1.0, 1.0, 1.0, np.nan, 5.0, 6.0], 3)
        with pytest.raises(NonFiniteError) as error:
            train(toy, tmp_path, 5, save_interval_secs=0)
        message = str(error.value)
        assert message.startswith('Step 2: the loss is nan and the gradient norm nan')
        assert 'for the images nan, 5, 6. The update was not applied.' in message
        reader = checkpoints.open_reader(str(tmp_path / 'model.ckpt-1'))
        assert reader.get_tensor('w') == 0.5
        assert not (tmp_path / 'model.ckpt-2.index').exists()

    def test_a_signal_between_micro_batches_lets_the_step_end(self, graph, tmp_path):
        calls = []

        def note(x):
            calls.append(x)
            if len(calls) == 4:  # the first micro-batch of the second step
                os.kill(os.getpid(), signal.SIGTERM)
            return x

        class Signalled(Toy):
            def taken(self, x):
                noted = tf.numpy_function(note, [x], tf.float32)
                noted.set_shape([])
                return noted

        steps = 3000  # the thread that reads signals may need a moment
        result = train(Signalled([1.0] * 3 * steps, 3), tmp_path, steps)
        assert result.signal == signal.SIGTERM
        assert 2 <= result.step < steps
        assert len(calls) == 3 * result.step
        reader = checkpoints.open_reader(result.checkpoint)
        assert reader.get_tensor('w') == 1 - RATE * result.step
        assert reader.get_tensor('global_step') == result.step


def test_random_draws_differ_between_micro_batches_and_repeat(graph):
    step = tf.compat.v1.train.get_or_create_global_step()
    batches = accumulation.MicroBatches(2)
    mask = dropout.dropout(tf.ones([1000]), 0.9, is_training=True, scope='drop')
    with sessions.open_session() as running:
        running.run(tf.compat.v1.global_variables_initializer())
        first, second = (running.run(mask, {batches.number: number}) for number in range(2))
        np.testing.assert_array_equal(first, running.run(mask, {batches.number: 0}))
        running.run(step.assign_add(1))
        third, fourth = (running.run(mask, {batches.number: number}) for number in range(2))
    masks = [first, second, third, fourth]
    for i, one in enumerate(masks):
        assert all((one != other).sum() > 100 for other in masks[:i])


def test_without_micro_batches_a_draw_is_numbered_by_its_step(graph):
    step = tf.constant(7, tf.int64)
    assert dropout.draw_number(step) is step
