"""Clones: devices, names, shared variables, summed gradients; two clones compared with one."""

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import collectives, layers, moving_updates, sessions
from deeplab.deployment import model_deploy
from deeplab.deployment.model_deploy import DeploymentConfig


def build_on(queue):
    """A clone: one convolution with weight decay and batch norm on what the queue gives."""

    def build():
        images = queue.dequeue()['images']
        with layers.mode_scope(is_training=True, fine_tune_batch_norm=True, weight_decay=0.1):
            return layers.conv2d(images, 2, 1, scope='conv')

    return build


def filled_queue(batches, clones):
    queue = tf.queue.FIFOQueue(len(batches), [tf.float32], [batches[0].shape], names=['images'])
    fill = [queue.enqueue({'images': tf.constant(batch)}) for batch in batches]
    return model_deploy.dequeued(queue, clones), fill


def random_batches(number, size=4):
    rng = np.random.default_rng(0)
    return [rng.normal(size=(size, 3, 3, 2)).astype(np.float32) for _ in range(number)]


class TestConfig:
    def test_cpu(self):
        config = model_deploy.deployment_config(3, clone_on_cpu=True)
        assert config == DeploymentConfig(3, use_gpus=False)
        assert config.cpu_devices == 3
        assert [config.clone_device(i) for i in range(3)] == [f'/device:CPU:{i}' for i in range(3)]
        assert [config.clone_scope(i) for i in range(3)] == ['clone_0', 'clone_1', 'clone_2']

    def test_one_clone_has_no_scope(self):
        assert DeploymentConfig().clone_scope(0) == ''

    def test_gpus(self, monkeypatch, caplog):
        monkeypatch.setattr(tf.config, 'list_physical_devices', lambda kind: ['one'])
        with caplog.at_level('WARNING'):
            config = model_deploy.deployment_config(2, clone_on_cpu=False)
        assert config.clone_device(1) == '/device:GPU:1'
        assert config.cpu_devices == 1
        assert 'num_clones=2, but this machine has 1 GPU:' in caplog.text
        caplog.clear()
        assert model_deploy.deployment_config(1, clone_on_cpu=False).use_gpus
        assert not model_deploy.deployment_config(1, clone_on_cpu=True, gpus=2).use_gpus  # as of a server
        assert not caplog.messages


@pytest.mark.parametrize('number', [1, 2])
def test_names_and_devices(number):
    with tf.Graph().as_default() as graph:
        queue, _ = filled_queue(random_batches(1), number)
        clones = model_deploy.create_clones(DeploymentConfig(number), build_on(queue))
        variables = {v.op.name: v.device for v in tf.compat.v1.global_variables()}
        batch_norm = ('gamma', 'beta', 'moving_mean', 'moving_variance')
        assert set(variables) == {'conv/weights', *(f'conv/BatchNorm/{name}' for name in batch_norm)}
        assert set(variables.values()) == {'/device:CPU:0'}
        assert [clone.scope for clone in clones] == ([''] if number == 1 else ['clone_0', 'clone_1'])
        for index, clone in enumerate(clones):
            assert clone.outputs.op.name.startswith(f'{clone.scope}/conv' if clone.scope else 'conv')
            assert clone.outputs.device == f'/device:CPU:{index}'
        assert len(tf.compat.v1.losses.get_regularization_losses()) == 1
        assert len(moving_updates.registered(clones[0].scope)) == 2
        assert any(op.name.startswith('clone_1/') for op in graph.get_operations()) == (number == 2)


def test_clones_take_batches_in_order():
    with tf.Graph().as_default():
        batches = [np.full((1, 1, 1, 1), value, np.float32) for value in range(40)]
        queue, fill = filled_queue(batches, 4)
        clones = model_deploy.create_clones(DeploymentConfig(4), lambda: tf.identity(queue.dequeue()['images']))
        with sessions.open_session(cpu_devices=4) as running:
            for operation in fill:
                running.run(operation)
            for step in range(10):
                taken = [float(value[0, 0, 0, 0]) for value in running.run([clone.outputs for clone in clones])]
                assert taken == [4 * step, 4 * step + 1, 4 * step + 2, 4 * step + 3]


def test_batches_on_devices_go_to_their_clones():
    def read(clone, before):
        with tf.control_dependencies([before]):
            return {'clone': tf.identity(clone)}

    with tf.Graph().as_default():
        batches = model_deploy.on_devices(2, read)
        clones = model_deploy.create_clones(DeploymentConfig(2), lambda: batches.dequeue()['clone'])
        waiting = batches.waiting_seconds()
        with sessions.open_session(cpu_devices=2) as running:
            taken, seconds = running.run([[clone.outputs for clone in clones], waiting])
    assert taken == [0, 1]
    assert 0 <= seconds < 10


def gradients_of(number, batches):
    """Total loss and gradients by name of `number` clones without batch norm in training mode."""
    with tf.Graph().as_default():
        queue, fill = filled_queue(batches, number)

        def build():
            with layers.mode_scope(is_training=True, fine_tune_batch_norm=False, weight_decay=0.1):
                return layers.conv2d(queue.dequeue()['images'], 2, 1, scope='conv')

        clones = model_deploy.create_clones(DeploymentConfig(number), build)
        losses = [tf.reduce_mean(tf.square(clone.outputs)) for clone in clones]
        decay = tf.compat.v1.losses.get_regularization_losses()
        variables = tf.compat.v1.trainable_variables()
        total, gradients = model_deploy.optimize_clones(clones, losses, decay, variables)
        with sessions.open_session(cpu_devices=number) as running:
            running.run(tf.compat.v1.global_variables_initializer())
            for operation in fill:
                running.run(operation)
            return running.run([total, {v.op.name: gradient for gradient, v in gradients}])


def test_two_clones_make_the_step_of_one_with_both_batches():
    first, second = random_batches(2)
    loss, gradients = gradients_of(1, [np.concatenate([first, second])])
    clone_loss, clone_gradients = gradients_of(2, [first, second])
    assert clone_loss == pytest.approx(loss, rel=1e-6)
    assert clone_gradients.keys() == gradients.keys() == {'conv/weights', 'conv/BatchNorm/gamma', 'conv/BatchNorm/beta'}
    for name, gradient in gradients.items():
        np.testing.assert_allclose(clone_gradients[name], gradient, rtol=1e-5, atol=1e-7, err_msg=name)


def normalized_clones(number, batches, kernel, synchronized):
    """Loss, gradients and moving updates by name of clones whose batch norms use the statistics of the batch."""
    with tf.Graph().as_default():
        queue, fill = filled_queue(batches, number)

        def build():
            group = collectives.Participant(collectives.CLONES, number) if synchronized else None
            with (
                layers.training_scope((), group),
                layers.mode_scope(is_training=True, fine_tune_batch_norm=True, weight_decay=0.0),
            ):
                hidden = layers.conv2d(queue.dequeue()['images'] + 20.0, 6, kernel, scope='first')
                return layers.conv2d(hidden, 2, 1, scope='second')

        clones = model_deploy.create_clones(DeploymentConfig(number), build)
        losses = [tf.reduce_mean(tf.square(clone.outputs - 0.3)) for clone in clones]
        variables = tf.compat.v1.trainable_variables()
        total, gradients = model_deploy.optimize_clones(clones, losses, [], variables)
        updates = {each.variable.op.name: each.batch_value for each in moving_updates.registered(clones[0].scope)}
        with sessions.open_session(cpu_devices=number, keeps_sums=True) as running:
            running.run(tf.compat.v1.global_variables_initializer())
            for operation in fill:
                running.run(operation)
            return running.run([total, {v.op.name: gradient for gradient, v in gradients}, updates])


@pytest.mark.parametrize('kernel', [1, 3])  # statistics from the input of the convolution, and from its output
def test_synchronized_batch_norms_make_the_step_of_one_clone(kernel):
    first, second = random_batches(2)
    second = second * 3.0 + 1.0  # another distribution
    wanted = normalized_clones(1, [np.concatenate([first, second])], kernel, synchronized=False)
    apart = normalized_clones(2, [first, second], kernel, synchronized=False)
    together = normalized_clones(2, [first, second], kernel, synchronized=True)
    assert together[0] == pytest.approx(wanted[0], rel=1e-5)
    assert abs(apart[0] - wanted[0]) > 1e-4
    for part in (1, 2):
        assert together[part].keys() == wanted[part].keys()
        for name, value in wanted[part].items():
            np.testing.assert_allclose(together[part][name], value, rtol=2e-4, atol=2e-5, err_msg=name)


@pytest.mark.parametrize('loss_scale', [None, 8.0])
def test_regularization_counts_once(loss_scale):
    with tf.Graph().as_default(), sessions.open_session() as running:
        w = tf.compat.v1.get_variable('w', initializer=3.0)
        clones = [model_deploy.Clone(None, f'clone_{i}', '/cpu:0') for i in range(2)]
        scale = None if loss_scale is None else tf.constant(loss_scale)
        total, gradients = model_deploy.optimize_clones(clones, [w * 2, w * 4], [w * w], [w], scale)
        running.run(w.initializer)
        assert running.run([total, gradients[0][0]]) == [3.0 * 3 + 9.0, 3.0 + 6.0]


def test_variables_without_a_gradient_are_left_out():
    with tf.Graph().as_default():
        a, b = (tf.compat.v1.get_variable(name, initializer=1.0) for name in 'ab')
        clone = model_deploy.Clone(None, '', '/cpu:0')
        _, gradients = model_deploy.optimize_clones([clone], [a * 2], [], [a, b])
    assert [variable.op.name for _, variable in gradients] == ['a']
