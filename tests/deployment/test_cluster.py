"""The cluster behind `master`: placement of variables and clones, connection to its servers."""

import contextlib
import time

import pytest
import tensorflow as tf

from deeplab.core import checkpoints, layers, sessions
from deeplab.deployment import cluster, model_deploy
from deeplab.errors import MachineError
from deeplab.options import CloneOptions
from deeplab.training import training_step
from tests.helpers import servers

CLUSTER = model_deploy.DeploymentConfig(2, False, '/job:worker/task:1', 2)


def several(task=0, ps=1, replicas=2, master='grpc://here:1', **more):
    return CloneOptions(task=task, num_replicas=replicas, num_ps_tasks=ps, master=master, **more)


class TestPlacement:
    def test_devices(self):
        assert CLUSTER.host_device == '/job:worker/task:1/device:CPU:0'
        assert CLUSTER.clone_device(1) == '/job:worker/task:1/device:CPU:1'
        assert [CLUSTER.variable_device(i) for i in range(3)] == [
            '/job:ps/task:0/device:CPU:0',
            '/job:ps/task:1/device:CPU:0',
            '/job:ps/task:0/device:CPU:0',
        ]
        assert model_deploy.DeploymentConfig(worker='/job:worker/task:0').variable_device(5) == (
            '/job:worker/task:0/device:CPU:0'
        )

    def test_variables_on_parameter_servers_in_turn_and_all_else_on_the_worker(self):
        with tf.Graph().as_default() as graph:
            with CLUSTER.host_scope():
                step = tf.compat.v1.train.get_or_create_global_step()

            def build():
                with layers.mode_scope(is_training=True, fine_tune_batch_norm=True, weight_decay=0.1):
                    return layers.conv2d(tf.ones([1, 3, 3, 2]), 2, 1, scope='conv')

            clones = model_deploy.create_clones(CLUSTER, build)
            with CLUSTER.host_scope():
                losses = [tf.reduce_sum(clone.outputs) for clone in clones]
                variables = tf.compat.v1.trainable_variables()
                total, gradients = model_deploy.optimize_clones(clones, losses, [], variables)
                optimizer = tf.compat.v1.train.MomentumOptimizer(0.1, 0.9)
                applied, norm = training_step.gated_update(total, gradients, optimizer, step)
                checkpoints.CheckpointWriter('nowhere')
        places = {v.op.name: v.device for v in graph.get_collection(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES)}
        first, second = '/job:ps/task:0/device:CPU:0', '/job:ps/task:1/device:CPU:0'
        model = [name for name in places if 'Momentum' not in name]
        assert [places[name] for name in model] == [first, second] * 3
        for name, place in places.items():
            assert place == places[name.removesuffix('/Momentum')], name
        assert clones[1].outputs.device == '/job:worker/task:1/device:CPU:1'
        assert {total.device, norm.device, applied.device} == {'/job:worker/task:1/device:CPU:0'}
        savers = [op.device for op in graph.get_operations() if op.type == 'SaveV2']
        assert savers == ['/job:worker/task:1/device:CPU:0']

    def test_without_servers_nothing_has_a_job(self):
        with tf.Graph().as_default() as graph:
            with model_deploy.DeploymentConfig().host_scope():
                tf.compat.v1.get_variable('w', initializer=1.0)
            assert {op.device for op in graph.get_operations()} <= {'/device:CPU:0', ''}


class TestConnect:
    def test_a_cluster(self):
        masters = servers.start(workers=2, parameter_servers=1)
        config = cluster.connect(several(1, master=masters[1]))
        assert config == model_deploy.DeploymentConfig(1, False, '/job:worker/task:1', 1)
        with pytest.raises(MachineError, match='has no /job:ps/task:1, .* task=0 and num_ps_tasks=2; it'):
            cluster.connect(several(ps=2, master=masters[0]))
        with pytest.raises(MachineError, match='has parameter servers. Set num_ps_tasks to their number'):
            cluster.connect(CloneOptions(master=masters[0]))

    def test_nobody_there(self, monkeypatch):
        address = 'localhost:1'
        monkeypatch.setattr(cluster, 'PATIENCE_SECS', 0.1)
        with pytest.raises(MachineError, match=f"master='grpc://{address}': no connection .*deeplab server"):
            cluster.connect(CloneOptions(master=f'grpc://{address}'))

    @pytest.mark.parametrize(
        'failure', [RuntimeError('no more threads'), tf.errors.InternalError(None, None, 'broken')]
    )
    def test_whatever_fails_while_it_connects(self, failure, monkeypatch):
        def fail(*arguments, **more):
            raise failure

        monkeypatch.setattr(cluster, '_knock', lambda master: None)
        monkeypatch.setattr(sessions, 'open_session', fail)
        with pytest.raises(MachineError, match=r"master='grpc://here:1': .* \((no more threads|broken)\)"):
            cluster.connect(CloneOptions(master='grpc://here:1'))

    def test_python_runs_on_while_it_waits(self, monkeypatch):
        """So that it can log that it waits, and Ctrl-C ends it: `list_devices` keeps the interpreter's lock."""
        calls = []

        class Session:
            def run(self, fetches):
                calls.append('run')

            def list_devices(self):
                calls.append('list_devices')
                return []

        monkeypatch.setattr(cluster, '_knock', lambda master: None)
        monkeypatch.setattr(sessions, 'open_session', lambda *_, **__: contextlib.nullcontext(Session()))
        assert cluster._devices_of('grpc://here:1', ()) == []
        assert calls == ['run', 'list_devices']

    def test_it_says_so_while_it_waits_for_the_rest_of_the_cluster(self, monkeypatch, caplog):
        monkeypatch.setattr(cluster, 'PATIENCE_SECS', 0.1)
        monkeypatch.setenv('http_proxy', 'http://localhost:1')
        (master,) = servers.start(parameter_servers=0)
        open_session = sessions.open_session

        def slowly(*arguments, **more):
            end = time.monotonic() + 60
            while 'Waiting for' not in caplog.text and time.monotonic() < end:
                time.sleep(0.01)
            return open_session(*arguments, **more)

        monkeypatch.setattr(sessions, 'open_session', slowly)
        with caplog.at_level('INFO'):
            assert cluster.connect(CloneOptions(master=master)).worker == ''
        assert f'Waiting for {master}, or for other servers of its cluster.' in caplog.text
        assert 'through the proxy in http_proxy, unless no_proxy' in caplog.text
