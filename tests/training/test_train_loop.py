"""The gated update and the training loop, on a toy of one weight."""

import os
import signal

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import checkpoints, sessions
from deeplab.errors import NonFiniteError
from deeplab.training import train_loop, training_step


class Toy:
    """Weight w, loss w * x, moving average m of x, where x comes from a queue."""

    def __init__(self, values, rate=0.5, counts_skipped=False):
        self.step = tf.compat.v1.train.get_or_create_global_step()
        self.w = tf.compat.v1.get_variable('w', initializer=1.0)
        self.m = tf.compat.v1.get_variable('m', initializer=0.0, trainable=False)
        queue = tf.queue.FIFOQueue(len(values), [tf.float32], [[]])
        self.fill = [queue.enqueue_many([np.float32(values)]), queue.close()]
        x = queue.dequeue()
        loss = self.w * x
        optimizer = tf.compat.v1.train.MomentumOptimizer(rate, 0.9)
        gradients = [(tf.gradients(loss, self.w)[0], self.w)]
        applied, norm = training_step.gated_update(
            loss, gradients, optimizer, self.step, training_step.MoreUpdates(
            lambda: [self.m.assign(x, read_value=False)],
            (lambda: [self.step.assign_add(1, read_value=False)]) if counts_skipped else tuple),
        )  # fmt: skip
        names = tf.reshape(tf.strings.as_string(x), [1])
        self.train_step = training_step.TrainStep(applied, loss, norm, tf.constant(rate), self.step, names)
        self.start = tf.compat.v1.global_variables_initializer()

    def initialise(self, running):
        running.run(self.start)
        for operation in self.fill:
            running.run(operation)

    def variables(self):
        return tf.compat.v1.global_variables()


def train(toy, directory, steps, hooks=(), **options):
    writer = checkpoints.CheckpointWriter(str(directory))
    return train_loop.train(toy.train_step, steps, writer, toy.initialise, hooks, train_loop.LoopOptions(**options))


def values_of(path):
    reader = checkpoints.open_reader(path)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


class TestGatedUpdate:
    def test_everything_moves_together(self):
        with tf.Graph().as_default(), sessions.open_session() as running:
            toy = Toy([2.0, 3.0])
            assert {v.op.name for v in toy.variables()} == {'w', 'm', 'global_step', 'w/Momentum'}
            toy.initialise(running)
            assert running.run([toy.train_step.is_applied, toy.train_step.loss, toy.train_step.gradient_norm]) == [
                True,
                2.0,
                2.0,
            ]
            assert running.run([toy.w, toy.m, toy.step]) == [0.0, 2.0, 1]

    @pytest.mark.parametrize('bad', [np.nan, np.inf, -np.inf])
    def test_nothing_moves_where_something_is_not_finite(self, bad):
        with tf.Graph().as_default(), sessions.open_session() as running:
            toy = Toy([2.0, bad])
            toy.initialise(running)
            running.run(toy.train_step.is_applied)
            before = running.run(toy.variables())
            assert not running.run(toy.train_step.is_applied)
            assert running.run(toy.variables()) == before

    def test_finite_loss_with_infinite_gradient(self):
        with tf.Graph().as_default(), sessions.open_session() as running:
            step = tf.compat.v1.train.get_or_create_global_step()
            w = tf.compat.v1.get_variable('w', initializer=0.0)
            optimizer = tf.compat.v1.train.GradientDescentOptimizer(1.0)
            loss = tf.sqrt(w)
            gradients = [(tf.gradients(loss, w)[0], w)]
            applied, norm = training_step.gated_update(loss, gradients, optimizer, step)
            running.run(tf.compat.v1.global_variables_initializer())
            assert running.run([applied, loss, norm]) == [False, 0.0, np.inf]
            assert running.run([w, step]) == [0.0, 0]

    @pytest.mark.parametrize(('clip_norm', 'share'), [(None, 1.0), (10.0, 1.0), (2.5, 0.5), (0.5, 0.1)])
    def test_clips_all_gradients_by_one_factor_and_reports_the_norm_before(self, clip_norm, share):
        with tf.Graph().as_default(), sessions.open_session() as running:
            step = tf.compat.v1.train.get_or_create_global_step()
            a = tf.compat.v1.get_variable('a', initializer=[0.0, 0.0])
            b = tf.compat.v1.get_variable('b', initializer=0.0)
            gradients = [(tf.constant([3.0, 0.0]), a), (tf.constant(-4.0), b)]
            optimizer = tf.compat.v1.train.GradientDescentOptimizer(1.0)
            applied, norm = training_step.gated_update(
                tf.constant(0.0), gradients, optimizer, step, clip_norm=clip_norm
            )
            running.run(tf.compat.v1.global_variables_initializer())
            assert running.run([applied, norm]) == [True, 5.0]
            np.testing.assert_allclose(running.run(a), [-3.0 * share, 0.0], rtol=1e-6)
            np.testing.assert_allclose(running.run(b), 4.0 * share, rtol=1e-6)

    @pytest.mark.parametrize('bad', [np.nan, np.inf])
    def test_clipping_hides_nothing_that_is_not_finite(self, bad):
        with tf.Graph().as_default(), sessions.open_session() as running:
            step = tf.compat.v1.train.get_or_create_global_step()
            w = tf.compat.v1.get_variable('w', initializer=1.0)
            optimizer = tf.compat.v1.train.GradientDescentOptimizer(1.0)
            gradients = [(tf.constant(bad, tf.float32), w)]
            applied, _ = training_step.gated_update(tf.constant(0.0), gradients, optimizer, step, clip_norm=1.0)
            running.run(tf.compat.v1.global_variables_initializer())
            assert running.run([applied, w, step])[0] is np.False_
            assert running.run([w, step]) == [1.0, 0]

    def test_adam_keeps_the_names_of_its_slots(self):
        with tf.Graph().as_default():
            step = tf.compat.v1.train.get_or_create_global_step()
            with tf.compat.v1.variable_scope('net'):
                w = tf.compat.v1.get_variable('weights', initializer=1.0)
            optimizer = tf.compat.v1.train.AdamOptimizer(0.1)
            training_step.gated_update(w * w, [(tf.gradients(w * w, w)[0], w)], optimizer, step)
            names = {v.op.name for v in tf.compat.v1.global_variables()}
        slots = {'net/weights/Adam', 'net/weights/Adam_1', 'beta1_power', 'beta2_power'}
        assert names == {'global_step', 'net/weights', *slots}


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
        assert message.startswith(
            'Step 2: the loss is nan and the norm of the gradients nan, at learning rate 0.5, on '
        )
        assert 'on the images nan. The update was not applied.' in message
        assert message.endswith(f'The last good checkpoint stays: {tmp_path}/model.ckpt-1')
        assert recorder.events[-1] == ('end', 1)
        assert all(np.isfinite(value).all() for value in values_of(str(tmp_path / 'model.ckpt-1')).values())
        assert not (tmp_path / 'model.ckpt-2.index').exists()

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
        saved = f'saved {result.checkpoint}. The same command goes on from there.'
        assert f'Stopped by {name} at step {result.step}, {saved}' in caplog.text

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


def test_several_cpu_devices():
    with tf.Graph().as_default(), sessions.open_session(cpu_devices=3) as running:
        names = [device.name[-5:] for device in running.list_devices() if device.device_type == 'CPU']
    assert names == ['CPU:0', 'CPU:1', 'CPU:2']


def test_write_graph(tmp_path):
    with tf.Graph().as_default() as graph:
        tf.constant(1.0, name='here')
        sessions.write_graph(graph, str(tmp_path / 'graph.pbtxt'))
    assert 'name: "here"' in (tmp_path / 'graph.pbtxt').read_text()
    assert [path.name for path in tmp_path.iterdir()] == ['graph.pbtxt']
