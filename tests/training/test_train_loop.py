"""The training loop, on a toy of one weight."""

import os
import signal
import time

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import checkpoints, sessions
from deeplab.errors import NonFiniteError
from deeplab.training import train_loop, training_step
from tests.helpers.checkpoint_files import values_of
from tests.helpers.toy_training import Toy


def train(toy, directory, steps, hooks=(), **options):
    writer = checkpoints.CheckpointWriter(str(directory))
    return train_loop.train(toy.train_step, steps, writer, toy.initialize, hooks, train_loop.LoopOptions(**options))


class Recorder(train_loop.Hook):
    """Records the calls of the loop."""

    def __init__(self, tensor=None):
        self.tensor = tensor
        self.events = []

    def begin(self, running, step):
        self.events.append(('begin', step))

    def fetches(self, step):
        return {'extra': self.tensor} if self.tensor is not None and step % 2 == 0 else {}

    def after_step(self, result, fetched):
        self.events.append((result.step, result.loss, fetched.get('extra')))

    def end(self, step):
        self.events.append(('end', step))


class TestLoop:
    def test_steps_hooks_and_checkpoints(self, tmp_path):
        with tf.Graph().as_default():
            toy = Toy([1.0, 1.0, 1.0])
            recorder = Recorder(tf.constant(7))
            result = train(toy, tmp_path, 3, hooks=[recorder])
        assert recorder.events[0] == ('begin', 0)
        assert recorder.events[1:4] == [(1, 1.0, None), (2, 0.5, 7), (3, pytest.approx(-0.45), None)]
        assert recorder.events[4] == ('end', 3)
        assert (result.step, result.status, result.checkpoint) == (3, 0, str(tmp_path / 'model.ckpt-3'))
        assert sorted(path.name for path in tmp_path.glob('*.index')) == ['model.ckpt-0.index', 'model.ckpt-3.index']
        assert values_of(result.checkpoint)['global_step'] == 3

    def test_no_step_adds_to_the_graph(self, tmp_path):
        """It would grow without end."""
        is_final = []

        class Looking(train_loop.Hook):
            def after_step(self, result, fetched):
                is_final.append(tf.compat.v1.get_default_graph().finalized)

        with tf.Graph().as_default():
            train(Toy([1.0, 1.0]), tmp_path, 2, hooks=[Looking()])
        assert is_final == [True, True]

    def test_saves_in_between(self, tmp_path):
        with tf.Graph().as_default():
            train(Toy([1.0] * 3), tmp_path, 3, save_interval_secs=0)
        assert len(list(tmp_path.glob('*.index'))) == 4

    def test_graph_is_finalised(self, tmp_path):
        with tf.Graph().as_default() as graph:
            train(Toy([1.0]), tmp_path, 1)
            assert graph.finalized

    def test_nothing_to_do(self, tmp_path):
        with tf.Graph().as_default():
            result = train(Toy([1.0]), tmp_path, 0)
        assert (result.step, result.loss) == (0, None)

    def test_not_finite(self, tmp_path):
        with tf.Graph().as_default():
            recorder = Recorder()
            with pytest.raises(NonFiniteError) as error:
                train(Toy([2.0, np.nan]), tmp_path, 5, hooks=[recorder], save_interval_secs=0)
        message = str(error.value)
        assert message.startswith('Step 2: the loss is nan and the gradient norm nan, at learning rate 0.5, for ')
        assert 'for the images nan. The update was not applied.' in message
        assert message.endswith(f'The last good checkpoint is kept: {tmp_path}/model.ckpt-1')
        assert recorder.events[-1] == ('end', 1)
        assert all(np.isfinite(value).all() for value in values_of(str(tmp_path / 'model.ckpt-1')).values())
        assert not (tmp_path / 'model.ckpt-2.index').exists()

    def test_not_finite_where_another_process_writes_checkpoints(self):
        with tf.Graph().as_default(), pytest.raises(NonFiniteError, match='Step 1.*labels[.]$'):
            toy = Toy([np.nan])
            train_loop.train(toy.train_step, 5, checkpoints.NoCheckpoints(), toy.initialize)

    @pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
    def test_signal_saves_and_says_how_to_go_on(self, tmp_path, number, caplog):
        class Sender(train_loop.Hook):
            def after_step(self, result, fetched):
                if result.step == 2:
                    os.kill(os.getpid(), number)

        with tf.Graph().as_default(), caplog.at_level('WARNING'):
            # The thread that reads signals may need a moment; there are steps enough.
            result = train(Toy([1.0] * 20000), tmp_path, 20000, hooks=[Sender()])
        assert result.status == 128 + number
        assert 2 <= result.step < 20000
        assert values_of(result.checkpoint)['global_step'] == result.step
        name = signal.Signals(number).name
        saved = f'saved {result.checkpoint}. The same command resumes from there.'
        assert f'Stopped by {name} at step {result.step}, {saved}' in caplog.text

    def test_a_signal_in_the_last_validation_is_the_end_of_the_run(self, tmp_path):
        class Validation(train_loop.Hook):
            def needs_checkpoint(self, step):
                return step == 1

            def after_checkpoint(self, path, step, interrupts):
                os.kill(os.getpid(), signal.SIGTERM)
                while interrupts.received is None:
                    time.sleep(0.01)

        with tf.Graph().as_default():
            assert train(Toy([1.0]), tmp_path, 1, hooks=[Validation()]).status == 128 + signal.SIGTERM

    def test_where_the_input_ends_the_steps_so_far_are_saved(self, tmp_path):
        with tf.Graph().as_default(), pytest.raises(tf.errors.OutOfRangeError):
            train(Toy([1.0, 1.0]), tmp_path, 5)
        assert values_of(str(tmp_path / 'model.ckpt-2'))['m'] == 1.0

    def test_where_what_is_fed_fails_the_steps_so_far_are_saved(self, tmp_path):
        class Feeder(train_loop.Hook):
            def feeds(self, step):
                if step == 2:
                    raise tf.errors.InvalidArgumentError(None, None, 'the input is bad')
                return {}

        with tf.Graph().as_default(), pytest.raises(tf.errors.InvalidArgumentError, match='the input is bad'):
            train(Toy([1.0, 1.0]), tmp_path, 5, hooks=[Feeder()])
        assert values_of(str(tmp_path / 'model.ckpt-1'))['global_step'] == 1

    def test_where_a_pipeline_fails_the_steps_so_far_are_saved(self, tmp_path):
        with tf.Graph().as_default():
            numbers = tf.data.Dataset.from_tensor_slices([1.0, 1.0, np.nan])
            good = numbers.map(lambda x: tf.debugging.check_numerics(x, 'the input is bad'))
            iterator = tf.compat.v1.data.make_initializable_iterator(good)
            loss = iterator.get_next(sessions.NEXT_BATCH)
            counter = tf.compat.v1.train.get_or_create_global_step()
            applied, norm = training_step.gated_update(
                loss, [(loss, tf.compat.v1.get_variable('w', initializer=1.0))],
                tf.compat.v1.train.GradientDescentOptimizer(1.0), counter,
            )  # fmt: skip
            step = training_step.TrainStep(applied, loss, norm, norm, counter)
            writer = checkpoints.CheckpointWriter(str(tmp_path))
            start = [tf.compat.v1.global_variables_initializer(), iterator.initializer]
            with pytest.raises(tf.errors.InvalidArgumentError, match='the input is bad'):
                train_loop.train(step, 5, writer, lambda running: running.run(start))
        assert values_of(str(tmp_path / 'model.ckpt-2'))['global_step'] == 2

    def test_error_of_the_input_thread_comes_out(self, tmp_path):
        with tf.Graph().as_default():
            queue = tf.queue.FIFOQueue(2, [tf.float32], [[]])
            value = tf.debugging.check_numerics(tf.constant(np.nan), 'the input is bad')
            runner = tf.compat.v1.train.QueueRunner(queue, [queue.enqueue(value)])
            tf.compat.v1.train.add_queue_runner(runner)
            step = tf.compat.v1.train.get_or_create_global_step()
            loss = queue.dequeue()
            applied = tf.math.is_finite(loss)
            train_step = training_step.TrainStep(applied, loss, loss, loss, step)
            writer = checkpoints.CheckpointWriter(str(tmp_path))
            start = tf.compat.v1.global_variables_initializer()
            with pytest.raises(tf.errors.InvalidArgumentError, match='the input is bad'):
                train_loop.train(train_step, 2, writer, lambda running: running.run(start))
