"""Synchronous workers: sums of a step, equal first values, updates that stopped halfway; with two servers here."""

import concurrent.futures
import contextlib
import types

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import collectives, sessions
from deeplab.core.moving_updates import MovingUpdate
from deeplab.deployment import worker_group
from deeplab.deployment.model_deploy import DeploymentConfig
from deeplab.errors import LostWorkerError, MachineError
from deeplab.training import workers
from tests.helpers import servers

_running = []  # a server ends with its process


@pytest.fixture
def targets():
    """Addresses of the servers of two workers; new ones, because a server keeps the types of its sums."""
    hosts = servers.free_addresses(2)
    for task in range(2):
        config = sessions.config(collective_leader=collectives.LEADER)
        config.device_filters.append(f'/job:worker/task:{task}')
        server = tf.distribute.Server({'worker': hosts}, job_name='worker', task_index=task, config=config)
        _running.append(server)
    return [server.target for server in _running[-2:]]


class Worker:
    """One of two workers with a graph of its own: two weights, one statistic, and the step counter."""

    def __init__(self, task, target, sends_16_bits=False):
        self.task = task
        with tf.Graph().as_default() as graph:
            self.step = tf.compat.v1.train.get_or_create_global_step()
            values = [np.array([-0.0, 1.5, np.nan], np.float32), np.array(4.0, np.float32)]
            self.weights = [
                tf.compat.v1.get_variable(f'w{i}', initializer=value + task) for i, value in enumerate(values)
            ]
            config = DeploymentConfig(first_clone=task, all_clones=2)
            sums = workers.WorkerSums(config, self.step, sends_16_bits)
            gradients = [(tf.fill(w.shape, 2.0**-12 + task + i), w) for i, w in enumerate(self.weights)]
            statistic = tf.compat.v1.get_variable('moving_mean', initializer=0.0)
            update = MovingUpdate(statistic, tf.constant(7.0 + task), 0.9)
            self.sums = sums
            self.step_sums = sums.of_step(tf.constant(0.25 + task), gradients, [update])
            self.equal_values = sums.equal_values(tf.compat.v1.global_variables())
            self.begin = sums.begin_update()
            self.count = self.step.assign_add(1)
            self.first = [tf.compat.v1.global_variables_initializer(), *sums.initializers]
        self.open = contextlib.ExitStack()
        server = sessions.Server(target, [f'/job:worker/task:{task}'], collectives.LEADER)
        self.session = self.open.enter_context(sessions.open_session(graph, 1, server, keeps_sums=True))
        self.session.run(self.first)


def of_both(both, function):
    """Runs a function of a worker for both at the same time; returns the results in order."""
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        return list(threads.map(function, both))


def close(pair):
    for worker in reversed(pair):  # each session is the default one within the one before
        worker.open.close()


@pytest.fixture
def both(targets):
    pair = [Worker(task, target) for task, target in enumerate(targets)]
    yield pair
    close(pair)


def test_sums_of_a_step(both):
    def run(worker):
        fetched = worker.session.run(
            [worker.step_sums.loss, [g for g, _ in worker.step_sums.gradients], worker.step_sums.votes,
             [update.batch_value for update in worker.step_sums.updates]],
            {worker.sums.ballot: float(worker.task)},
        )  # fmt: skip
        return fetched

    for loss, gradients, votes, statistics in of_both(both, run):
        assert loss == 1.5
        np.testing.assert_array_equal(gradients[0], [1.0 + 2.0**-11] * 3)
        assert gradients[1] == 3.0 + 2.0**-11
        assert votes == 1.0  # of worker 1
        assert statistics == [7.0]  # of worker 0


def test_gradients_in_16_bits(targets):
    pair = [Worker(task, target, sends_16_bits=True) for task, target in enumerate(targets)]
    try:
        results = of_both(pair, lambda one: one.session.run([one.step_sums.loss, one.step_sums.gradients[0][0]]))
    finally:
        close(pair)
    for loss, gradient in results:
        assert loss == 1.5
        np.testing.assert_array_equal(gradient, [1.0] * 3)  # bfloat16 has 8 bits: 2 ** -11 is lost


def test_equal_values_are_equal_to_the_bit(both):
    before = [worker.session.run(worker.weights) for worker in both]
    assert before[0][1] != before[1][1]
    of_both(both, lambda worker: worker.session.run(worker.equal_values))
    for after in (worker.session.run(worker.weights) for worker in both):
        assert [value.tobytes() for value in after] == [value.tobytes() for value in before[0]]  # -0.0 and NaN, too


@pytest.mark.parametrize('kind', [LostWorkerError, MachineError])
@pytest.mark.parametrize(
    ('step', 'last_path', 'saves'), [(7, 'log/model.ckpt-5', True), (None, 'log/model.ckpt-5', False), (0, None, False)]
)
def test_a_checkpoint_is_saved_whatever_has_ended_the_group(kind, step, last_path, saves):
    saved = []
    writer = types.SimpleNamespace(save=lambda session, step: saved.append(step), last_path=last_path)
    sums = types.SimpleNamespace(whole_step=lambda session: step)
    own = workers.Workers(None, sums)
    with pytest.raises(MachineError) as told, own.saved(writer, contextlib.nullcontext()):
        raise kind('Worker 1 has ended')
    assert type(told.value) is kind and saved == [step] * saves
    assert str(told.value).endswith('The last checkpoint is log/model.ckpt-5' if last_path else 'Worker 1 has ended')


def test_an_error_between_gpus_says_what_they_need(monkeypatch):
    """TensorFlow's own text says only where to find more."""
    group = worker_group.WorkerGroup(['here:1'], 0, 0.1)
    monkeypatch.setattr(group, '_from_chief', lambda call: None)  # no server has been started
    monkeypatch.setattr(worker_group, 'CALL_SECS', 0.0)
    text = 'NCCL: unhandled system error. Set NCCL_DEBUG=WARN for detail.'
    with pytest.raises(MachineError, match=r'failed \(NCCL: unhandled system .* all TCP ports .* NCCL_SOCKET_IFNAME'):
        with workers.Workers(group, None).explained():
            raise tf.errors.InternalError(None, None, text)


def test_an_update_that_stopped_halfway(both):
    worker = both[0]
    assert worker.sums.whole_step(worker.session) == 0
    worker.session.run(worker.begin)
    assert worker.sums.whole_step(worker.session) is None
    worker.session.run(worker.count)
    assert worker.sums.whole_step(worker.session) == 1
