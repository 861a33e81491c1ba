"""Warnings during training: each once with its fix, and none for a good training."""

import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from deeplab import common, train
from deeplab.core import checkpoints, sessions
from deeplab.datasets import label_checks
from deeplab.deployment import model_deploy
from deeplab.errors import NonFiniteError
from deeplab.options import LearningRateOptions, OptimizerOptions
from deeplab.training import metrics_file, network_clone, train_loop, watch_hooks
from deeplab.training.train_hooks import ProgressHook
from deeplab.training.train_loop import StepResult
from tests.helpers import training_setup
from tests.helpers.toy_training import Toy


def look_at(logits, labels, ignore_label=255, step=0, every=1):
    with tf.Graph().as_default(), sessions.open_session() as running:
        counter = tf.compat.v1.get_variable('step', initializer=np.int64(step), use_resource=True)
        is_due = watch_hooks.due(counter, every)
        outputs = network_clone.CloneOutputs(
            {'loss': tf.constant(0.5)},
            {common.LABEL: tf.constant(np.array(labels, np.int32))},
            outputs={common.OUTPUT_TYPE: tf.constant(np.array(logits, np.float32))},
        )
        clone = model_deploy.Clone(outputs, '', '/device:CPU:0')
        looked = watch_hooks.statistics(clone, is_due, np.array(logits).shape[-1], ignore_label)
        running.run(counter.initializer)
        return watch_hooks.BatchStatistics(*running.run(looked))


LOGITS = np.array([[[[3.0, 1, 0], [0, 2, 0]], [[5, 0, 0], [1, 0, 0]]]])  # classes 0, 1, 0, 0
LABELS = np.array([[0, 0, 1], [255, 255, 2]]).reshape(1, 2, 3, 1)


class TestLook:
    def test_by_hand(self):
        assert look_at(LOGITS, LABELS) == watch_hooks.BatchStatistics(4, 3, 0.75, 0, 0.5)
        assert look_at(LOGITS, LABELS, ignore_label=0) == watch_hooks.BatchStatistics(
            4, 3, 0.75, 0, 0.5
        )  # 255 is no label here
        assert look_at(LOGITS[:, 1:], np.full((1, 2, 2, 1), 255)) == watch_hooks.BatchStatistics(0, 0, 1.0, 0, 0.5)

    @pytest.mark.parametrize(('step', 'sees'), [(0, False), (8, False), (9, True), (10, False), (19, True)])
    def test_only_where_it_is_due(self, step, sees):
        found = look_at(LOGITS, LABELS, step=step, every=10)
        assert (found != watch_hooks.BatchStatistics(0, 0, 0, 0, 0)) == sees


GOOD = watch_hooks.BatchStatistics(1000, 3, 0.5, 1, 0.7)


NAMES = ('sky', 'road', 'tree')


def run_hook(
    steps, caplog, look=lambda step: GOOD, loss=lambda step: 1 / step, waiting=0.0, every=10, first=0, names=NAMES
):
    """Runs a hook for some steps; returns its warnings."""
    hook = watch_hooks.WatchHook(None, every, list(names), ProgressHook(steps, 1))
    hook.begin(None, first)
    caplog.clear()
    for step in range(first + 1, first + steps + 1):
        share = waiting(step) if callable(waiting) else waiting
        hook.after_step(StepResult(step, loss(step), 0.1, 2.0, 1.0, 2.0 * share), {'statistics': np.array(look(step))})
    hook.end(steps)
    return [record.getMessage() for record in caplog.records]


class TestCollapse:
    def test_one_class_for_long(self, caplog):
        (line,) = run_hook(2000, caplog, lambda step: GOOD._replace(predicted_share=1.0, predicted_class=1))
        assert line.startswith("Every prediction checked since step 10 is of a single class, now 'road' (id 1), ")
        assert 'Lower the learning rate' in line

    def test_the_beginning_and_single_looks_do_not_count(self, caplog):
        def look(step):
            return GOOD._replace(predicted_share=1.0 if step < 200 or step % 100 else 0.99)

        assert run_hook(2000, caplog, look) == []

    def test_images_of_one_class(self, caplog):
        assert run_hook(1000, caplog, lambda step: GOOD._replace(predicted_share=1.0, label_classes=1)) == []

    def test_few_looks_far_apart(self, caplog):
        """Enough steps, but too few checks."""
        look = lambda step: GOOD._replace(predicted_share=1.0)  # noqa: E731
        assert run_hook(800, caplog, look, every=200) == []
        assert len(run_hook(1000, caplog, look, every=200)) == 1


class TestDeadLoss:
    def test_constant_to_the_bit(self, caplog):
        (line,) = run_hook(500, caplog, loss=lambda step: 0.25 if step > 50 else 1 / step)
        assert line.startswith('The loss has been exactly 0.25 since step 51: nothing is learned.')
        assert 'learning rate (0.1)' in line
        assert run_hook(99, caplog, loss=lambda step: 0.25) == []

    def test_pixels_that_are_all_ignored(self, caplog):
        (line,) = run_hook(500, caplog, lambda step: GOOD._replace(labeled_pixels=0, label_classes=0, loss=0))
        assert 'Every pixel of the batches checked since step 10 has the ignore label' in line
        assert 'ignore_label' in line

    def test_a_loss_of_nothing(self, caplog):
        (line,) = run_hook(500, caplog, lambda step: GOOD._replace(loss=0.0))
        assert 'has been exactly 0 since step 10, although there are labels' in line
        assert 'label_weights' in line

    def test_a_data_set_of_one_class(self, caplog):
        """Neither the learning rate nor the label weights are the cause."""
        look = GOOD._replace(label_classes=1, predicted_share=1.0, predicted_class=0, loss=0.0)
        (line,) = run_hook(500, caplog, lambda step: look, loss=lambda step: 0.25, names=['object'])
        assert line.endswith(f'although there are labels: nothing is learned. {label_checks.ONE_CLASS}')


class TestInput:
    def test_an_input_that_is_too_slow(self, caplog):
        (line,) = run_hook(500, caplog, waiting=0.45, first=1000)
        assert line.startswith('Training waits for its input 45% of the time (steps 1021 to 1070); ')
        assert 'faster disk' in line

    def test_the_first_steps_and_a_short_wait_do_not_count(self, caplog):
        assert run_hook(500, caplog, waiting=0.25) == []
        assert run_hook(500, caplog, waiting=lambda step: 1.0 if step <= 20 else 0.0) == []

    def test_waiting_is_measured(self):
        with tf.Graph().as_default(), sessions.open_session() as running:
            source = tf.queue.FIFOQueue(4, [tf.float32], [[]], names=['x'])
            queue = model_deploy.dequeued(source, 2, [tf.constant(1)])
            batches = [queue.dequeue() for _ in range(2)]
            waiting = queue.waiting_seconds()
            asked, has_asked = waiting.op.inputs[1], threading.Event()
            tell = tf.numpy_function(lambda _: has_asked.set(), [asked], [])
            value = tf.compat.v1.placeholder(tf.float32, [])
            fill = source.enqueue({'x': value})
            for x in (1.0, 2.0, 3.0):
                running.run(fill, {value: x})
            found, seconds = running.run([batches, waiting])
            assert [batch['x'] for batch in found] == [1.0, 2.0]
            assert 0 <= seconds < 60

            def late():
                assert has_asked.wait(60)
                time.sleep(0.3)
                running.run(fill, {value: 4.0})

            thread = threading.Thread(target=late)
            thread.start()
            assert running.run([batches, waiting, tell])[1] >= 0.25
            thread.join()


@pytest.fixture
def data(tmp_path, tiny_network):
    return training_setup.write_data(tmp_path / 'records')


class TestInTraining:
    # That layers are named where a gradient is not finite, test_train.py shows.
    def test_what_is_looked_at_is_of_the_step(self, data, tmp_path, monkeypatch):
        seen = []

        def after_step(self, result, fetched):
            seen.append((result.step, watch_hooks.BatchStatistics(*fetched['statistics']), result))

        monkeypatch.setattr(watch_hooks.WatchHook, 'after_step', after_step)
        train.run(training_setup.options(data, tmp_path / 'log', 6, log_steps=2))
        assert [step for step, look, _ in seen if look.labeled_pixels > 0] == [2, 4, 6]
        for step, look, result in seen:
            assert 0 <= result.waiting_seconds < 5
            if step % 2 == 0:
                assert 0 < look.labeled_pixels <= 2 * 17 * 33
                assert 1 <= look.label_classes <= 3
                assert 1 / 3 <= look.predicted_share <= 1
                assert 0 < look.loss <= result.loss
            else:
                assert look == watch_hooks.BatchStatistics(0, 0, 0, 0, 0)


class TestSkip:
    def toy(self, values, tmp_path, most_skips):
        """Trains the toy a step for each value; returns the result and the weight."""
        with tf.Graph().as_default():
            toy = Toy(values, counts_skipped=most_skips > 0)
            writer = checkpoints.CheckpointWriter(str(tmp_path))
            options = train_loop.LoopOptions(most_skips=most_skips)
            result = train_loop.train(toy.train_step, len(values), writer, toy.initialize, options=options)
        reader = checkpoints.open_reader(result.checkpoint)
        assert reader.get_tensor('global_step') == result.step == len(values)
        return result, reader.get_tensor('w')

    def test_a_batch_is_left_out_and_counts_as_a_step(self, tmp_path, caplog):
        _, bad = self.toy([1.0, np.nan, np.inf, 2.0, np.nan, 3.0], tmp_path / 'a', 2)
        lines = [record.getMessage() for record in caplog.records]
        assert [line.partition(':')[0] for line in lines] == ['Step 2', 'Step 3', 'Step 5']
        assert lines[0].startswith('Step 2: the loss is nan and the gradient norm nan, at learning rate 0.5, ')
        assert lines[0].endswith("Its batch is skipped (on_nan='skip'): 1 so far, 1 in a row.")
        assert lines[1].endswith(': 2 so far, 2 in a row.')
        assert lines[2].endswith(': 3 so far, 1 in a row.')
        _, good = self.toy([1.0, 2.0, 3.0], tmp_path / 'b', 0)
        assert bad == good

    def test_too_many_in_a_row_end_it(self, tmp_path):
        with pytest.raises(NonFiniteError, match=r'Step 4: .* number 3 in a row. Lower .* The last checkpoint is kept'):
            self.toy([1.0, *[np.nan] * 5], tmp_path, 2)

    def test_the_flag(self, data, tmp_path, caplog):
        rate = OptimizerOptions(learning_rate=LearningRateOptions(base=1e30))
        with pytest.raises(NonFiniteError, match='number 10 in a row'):
            train.run(training_setup.options(data, tmp_path / 'log', 50, optimizer=rate, on_nan='skip'))
        assert caplog.text.count("Its batch is skipped (on_nan='skip')") >= 9
        lines = metrics_file.read(str(tmp_path / 'log' / 'metrics.jsonl'))
        assert lines[-1]['loss'] is None


class TestNormsByLayer:
    def test_those_nearest_to_the_loss_and_the_largest(self):
        names = ['a/weights', 'a/gamma', 'b/weights', 'c/d/weights', 'c/d/biases', 'e']
        text = train_loop._norms_by_layer(names, [3.0, 4.0, 1.0, np.nan, 1.0, np.inf])
        assert (
            text
            == ' Gradients by layer: not finite in 2 of 4, nearest to the loss e, c/d; largest of the others a 5, b 1.'
        )
        assert train_loop._norms_by_layer(names, [1, 0, 2, 3, 0, 4]) == ' Gradients by layer: largest e 4, c/d 3, b 2.'
        assert train_loop._norms_by_layer((), ()) == ''
