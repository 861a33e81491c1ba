"""Convolutions and batch norms against NumPy and TensorFlow.

Covers core/batch_statistics.py, core/dropout.py, core/convolutions.py, core/initializers.py, core/tf_compat.py and
core/weight_decays.py.
"""

import contextlib

import numpy as np
import pytest
import tensorflow as tf
import tf_slim as slim

from deeplab.core import batch_statistics, dropout, initializers, layers, moving_updates, weight_decays


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def _run(*tensors, feed=None):
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        return session.run(list(tensors), feed)


def _names():
    return [(v.op.name, v.shape.as_list()) for v in tf.compat.v1.model_variables()]


def _random(*shape):
    return np.random.RandomState(0).normal(size=shape).astype(np.float32)


def test_names_of_a_separable_convolution(graph):
    layers.separable_conv2d(tf.zeros([1, 5, 5, 4]), 6, 3, scope='a')
    norm = ['gamma', 'beta', 'moving_mean', 'moving_variance']
    assert _names() == [
        ('a_depthwise/depthwise_weights', [3, 3, 4, 1]),
        *((f'a_depthwise/BatchNorm/{name}', [4]) for name in norm),
        ('a_pointwise/weights', [1, 1, 4, 6]),
        *((f'a_pointwise/BatchNorm/{name}', [6]) for name in norm),
    ]
    trainable = {v.op.name.split('/')[-1] for v in tf.compat.v1.trainable_variables()}
    assert trainable == {'depthwise_weights', 'weights', 'gamma', 'beta'}


def test_without_batch_norm_there_are_biases(graph):
    layers.conv2d(tf.zeros([1, 5, 5, 4]), 6, 1, normalize=False, scope='a')
    assert _names() == [('a/weights', [1, 1, 4, 6]), ('a/biases', [6])]


def test_batch_norm_in_training_against_numpy(graph):
    inputs = _random(2, 3, 4, 5) * 3 + 1
    decay = 0.9
    outputs = layers.batch_norm(tf.constant(inputs), is_training=True, decay=decay, epsilon=1e-3)
    updates = moving_updates.registered()
    assert [u.variable.op.name for u in updates] == ['BatchNorm/moving_mean', 'BatchNorm/moving_variance']
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        result = session.run(outputs)
        mean, variance = inputs.mean((0, 1, 2)), inputs.var((0, 1, 2))
        np.testing.assert_allclose(result, (inputs - mean) / np.sqrt(variance + 1e-3), rtol=0, atol=1e-5)
        # The run changed nothing; the updates do.
        np.testing.assert_array_equal(session.run(updates[0].variable), np.zeros(5))
        session.run(moving_updates.apply(updates))
        moved = session.run([update.variable for update in updates])
    unbiased = variance * 24 / 23
    np.testing.assert_allclose(moved[0], mean * (1 - decay), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(moved[1], decay + unbiased * (1 - decay), rtol=1e-5)


def test_two_updates_of_one_statistic_follow_in_order(graph):
    variable = tf.compat.v1.get_variable('moving', [], initializer=tf.zeros_initializer(), trainable=False)
    values = [tf.constant(value) for value in (16.0, 32.0, 64.0)]
    with tf.compat.v1.Session() as session:
        moved = moving_updates.apply([moving_updates.MovingUpdate(variable, value, 0.5) for value in values])
        for _ in range(20):
            session.run(tf.compat.v1.global_variables_initializer())
            session.run(moved)
            assert session.run(variable) == 42.0  # ((16 / 2 + 32) / 2 + 64) / 2; other orders give other values


def test_statistics_move_by_what_float32_leaves_of_the_decay(graph):
    variable = tf.compat.v1.get_variable('moving', [], initializer=tf.zeros_initializer(), trainable=False)
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(moving_updates.apply([moving_updates.MovingUpdate(variable, tf.constant(1000.0), 0.997)]))
        moved = session.run(variable)
    assert moved == np.float32(1000) * (np.float32(1) - np.float32(0.997))
    assert moved != np.float32(1000 * (1 - 0.997))


def test_frozen_batch_norm_uses_moving_statistics_and_still_trains(graph):
    inputs = tf.constant(_random(1, 2, 2, 3))
    outputs = layers.batch_norm(inputs, is_training=False, epsilon=0.25)
    gradients = tf.gradients(tf.reduce_sum(outputs), tf.compat.v1.trainable_variables())
    result, source, *gradients = _run(outputs, inputs, *gradients)
    np.testing.assert_allclose(result, source / np.sqrt(1.25), rtol=1e-5)
    np.testing.assert_allclose(gradients[0], (source / np.sqrt(1.25)).sum((0, 1, 2)), rtol=1e-4)
    np.testing.assert_allclose(gradients[1], [4, 4, 4])
    assert moving_updates.registered() == []


def test_one_decay_rules_all_batch_norms(graph):
    with layers.mode_scope(is_training=True, fine_tune_batch_norm=True, batch_norm_decay=0.5):
        with layers.family_scope(batch_norm_decay=0.9, batch_norm_epsilon=1e-3, activation=None):
            layers.conv2d(tf.zeros([1, 2, 2, 3]), 4, 1, scope='a')
    assert {update.decay for update in moving_updates.registered()} == {0.5}


def test_updates_of_one_clone(graph):
    for clone in ('clone_0', 'clone_1'):
        with tf.name_scope(clone), tf.compat.v1.variable_scope('', reuse=tf.compat.v1.AUTO_REUSE):
            layers.batch_norm(tf.zeros([1, 2, 2, 3]), is_training=True)
    assert len(moving_updates.registered()) == 4
    first = moving_updates.registered('clone_0')
    assert len(first) == 2
    assert all(update.batch_value.op.name.startswith('clone_0/') for update in first)
    assert len(tf.compat.v1.model_variables()) == 4


@pytest.mark.parametrize('rate', [1, 2, 3])
def test_depthwise_convolution_against_numpy(graph, rate):
    inputs, weights = _random(1, 7, 6, 2), _random(3, 3, 2, 1)
    outputs = layers.depthwise_conv2d(
        tf.constant(inputs),
        3,
        rate=rate,
        normalize=False,
        activation=None,
        scope='a',
        initializer=lambda s, seed: weights,
    )
    padded = np.pad(inputs, [(0, 0), (rate, rate), (rate, rate), (0, 0)])
    expected = sum(
        padded[:, i * rate : i * rate + 7, j * rate : j * rate + 6] * weights[i, j, :, 0]
        for i in range(3)
        for j in range(3)
    )
    np.testing.assert_allclose(_run(outputs)[0], expected, rtol=0, atol=1e-5)


def test_dilated_kernel_equals_space_to_batch(graph):
    inputs = tf.constant(_random(2, 9, 11, 4))
    with tf.compat.v1.variable_scope('', reuse=tf.compat.v1.AUTO_REUSE):
        forms = [
            layers.depthwise_conv2d(inputs, 3, rate=2, native_dilation=native, scope='a') for native in (False, True)
        ]
    plain, native = _run(*forms)
    np.testing.assert_allclose(native, plain, rtol=0, atol=1e-5)


def test_an_export_gets_no_dilated_kernel(graph, monkeypatch):
    monkeypatch.setattr(layers.tf_compat, 'has_one_dnn', lambda: True)
    for native, dilations in ((False, [1, 1, 1, 1]), (None, [1, 2, 2, 1])):
        with tf.Graph().as_default() as inner:
            with layers.mode_scope(is_training=False, fine_tune_batch_norm=False, native_dilation=native):
                layers.depthwise_conv2d(tf.zeros([1, 9, 9, 2]), 3, rate=2, scope='a')
            (op,) = [op for op in inner.get_operations() if op.type == 'DepthwiseConv2dNative']
            assert op.get_attr('dilations') == dilations


def test_training_never_uses_the_kernel_whose_gradient_forgets_dilations(graph, monkeypatch):
    monkeypatch.setattr(layers.tf_compat, 'has_one_dnn', lambda: True)
    with layers.mode_scope(is_training=True, fine_tune_batch_norm=True):
        layers.depthwise_conv2d(tf.zeros([1, 9, 9, 2]), 3, rate=2, scope='a')
    (op,) = [op for op in graph.get_operations() if op.type == 'DepthwiseConv2dNative']
    assert op.get_attr('dilations') == [1, 1, 1, 1]


def test_fixed_padding_pads_both_sides(graph):
    inputs = tf.reshape(tf.range(16.0), [1, 4, 4, 1])
    outputs = layers.conv2d(
        inputs, 1, 3, stride=2, fixed_padding=True, normalize=False, activation=None, scope='a',
        initializer=initializers.ones,
    )  # fmt: skip
    # Windows begin one row and one column before the image, where SAME would begin inside it.
    np.testing.assert_allclose(_run(outputs)[0][0, :, :, 0], [[0 + 1 + 4 + 5, 1 + 2 + 3 + 5 + 6 + 7], [51, 90]])


def test_weight_decay_counts_each_weight_once(graph):
    with layers.mode_scope(is_training=True, fine_tune_batch_norm=True, weight_decay=0.1):
        for _ in range(2):
            with tf.compat.v1.variable_scope('', reuse=tf.compat.v1.AUTO_REUSE):
                layers.separable_conv2d(tf.zeros([1, 5, 5, 4]), 6, 3, scope='a')
    (loss,) = tf.compat.v1.losses.get_regularization_losses()
    weights = next(v for v in tf.compat.v1.model_variables() if v.op.name == 'a_pointwise/weights')
    value, array = _run(loss, weights)
    assert value == pytest.approx(0.1 * (array**2).sum() / 2, rel=1e-5)
    assert weight_decays.factors() == {'a_pointwise/weights': 0.1}


def _initial_values(scopes, seed=0):
    with tf.Graph().as_default() as graph:
        graph.seed = seed
        for scope in scopes:
            layers.conv2d(tf.zeros([1, 2, 2, 3]), 4, 1, scope=scope)
        variables = tf.compat.v1.model_variables()
        return {v.op.name: value for v, value in zip(variables, _run(*variables), strict=True)}


def test_initial_values_follow_names_and_seed_not_order():
    first, second = _initial_values('ab'), _initial_values('xba')
    np.testing.assert_array_equal(first['a/weights'], second['a/weights'])
    assert np.abs(first['a/weights'] - first['b/weights']).max() > 0.1
    assert np.abs(first['a/weights'] - _initial_values('ab', seed=1)['a/weights']).max() > 0.1


@pytest.mark.parametrize(
    ('initializer', 'deviation', 'bound'),
    [
        (initializers.truncated_normal(0.09), 0.09 * 0.8796, 0.18),
        (initializers.xavier_uniform, (2 / (9 * 96)) ** 0.5, (6 / (9 * 96)) ** 0.5),
        (initializers.he_normal, (2 / (9 * 32)) ** 0.5, 2 * (2 / (9 * 32)) ** 0.5 / 0.8796),
    ],
)
def test_initializers(graph, initializer, deviation, bound):
    (values,) = _run(initializer([3, 3, 32, 64], (1, 2)))
    assert values.std() == pytest.approx(deviation, rel=0.03)
    assert np.abs(values).max() <= bound * 1.0001
    assert abs(values.mean()) < deviation / 30


def test_dropout_follows_seed_step_and_clone(graph):
    step = tf.compat.v1.train.get_or_create_global_step()
    ones = tf.ones([1000])
    scopes = ['', 'clone_0/', 'clone_1/']
    masks = []
    for scope in scopes:
        with tf.name_scope(scope) if scope else contextlib.nullcontext():
            masks.append(dropout.dropout(ones, 0.9, is_training=True, scope='drop'))
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        first = session.run(masks)
        again = session.run(masks)
        session.run(step.assign_add(1))
        later = session.run(masks)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first[0], first[1])
    assert (first[0] != first[2]).sum() > 100
    assert (first[0] != later[0]).sum() > 100
    assert (first[0] == 0).mean() == pytest.approx(0.1, abs=0.03)
    assert np.unique(first[0][first[0] != 0]) == pytest.approx([1 / 0.9])


def test_dropout_is_the_identity_outside_training(graph):
    values = tf.ones([3])
    assert dropout.dropout(values, 0.9, scope='drop') is values


@pytest.mark.parametrize(
    ('trained', 'drops'),
    [((), True), (('net/head',), True), (('net/head/',), True), (('other', 'net'), True), (('net/head/b',), False)],
)
def test_what_does_not_train_drops_nothing(graph, trained, drops):
    values = tf.ones([1, 2, 2, 1])
    with layers.mode_scope(is_training=True, fine_tune_batch_norm=True), layers.training_scope(trained):
        with tf.compat.v1.variable_scope('net'):
            assert (dropout.dropout(values, 0.9, scope='head_dropout') is not values) == drops
            with tf.compat.v1.variable_scope('head'):
                assert (dropout.drop_path(values, 0.9, scope='path') is not values) == drops


def test_frozen_batch_norms_drop_no_paths_but_channels(graph):
    values = tf.ones([1, 2, 2, 1])
    with layers.mode_scope(is_training=True, fine_tune_batch_norm=False):
        assert dropout.drop_path(values, 0.9, scope='path') is values
        assert dropout.dropout(values, 0.9, scope='dropout') is not values


def test_arg_scope_reaches_layers(graph):
    with slim.arg_scope([layers.conv2d], activation=None, initializer=initializers.ones):
        outputs = layers.conv2d(-tf.ones([1, 1, 1, 2]), 1, 1, normalize=False, scope='a')
    assert _run(outputs)[0].item() == -2


@pytest.mark.parametrize(('precision', 'tolerance'), [('float32', 1e-5), ('bfloat16', 2e-2)])
def test_gradients_of_1x1_convolutions_are_products(graph, precision, tolerance):
    inputs = tf.constant(_random(2, 3, 4, 5))
    wanted = tf.constant(_random(2, 3, 4, 6))
    outputs = layers.conv2d(tf.cast(inputs, precision), 6, 1, normalize=False, activation=None, scope='a')
    weights = tf.compat.v1.trainable_variables()[0]
    plain = tf.nn.conv2d(inputs, weights, 1, 'SAME')
    found, expected = (
        tf.gradients(tf.reduce_sum(tf.cast(y, tf.float32) * wanted), [inputs, weights]) for y in (outputs, plain)
    )
    types = [op.type for op in graph.get_operations()]
    assert types.count('MatMul') == 2 and types.count('Conv2DBackpropInput') == 1  # the latter is the plain one's
    for first, second in zip(_run(*found), _run(*expected), strict=True):
        np.testing.assert_allclose(first, second, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize('fixed_padding', [False, True])
def test_gradients_of_strided_depthwise_convolutions_avoid_a_slow_kernel(graph, fixed_padding):
    """TensorFlow's gradient of their inputs in bfloat16 takes up to a hundred times as long as in float32."""
    inputs = tf.constant(_random(2, 7, 9, 5))
    wanted = tf.constant(_random(2, 4, 5, 5))
    gradients = []
    for precision in (tf.bfloat16, tf.float32):
        with tf.compat.v1.variable_scope('', reuse=tf.compat.v1.AUTO_REUSE):
            outputs = layers.depthwise_conv2d(
                tf.cast(inputs, precision),
                3,
                stride=2,
                fixed_padding=fixed_padding,
                normalize=False,
                bias=False,
                activation=None,
                scope='a',
            )
        weights = tf.compat.v1.trainable_variables()[0]
        gradients.append(tf.gradients(tf.reduce_sum(tf.cast(outputs, tf.float32) * wanted), [inputs, weights]))
    kernels = [op for op in graph.get_operations() if op.type == 'DepthwiseConv2dNativeBackpropInput']
    assert [op.outputs[0].dtype for op in kernels] == [tf.float32] * 2
    for short, long in zip(*_run(*gradients), strict=True):
        np.testing.assert_allclose(short, long, rtol=0, atol=2e-2 * np.abs(long).max())


@pytest.mark.parametrize('padding', ['SAME', 'fixed', 'atrous'])
@pytest.mark.parametrize('size', [(9, 11), (8, 12), (2, 1)])
@pytest.mark.parametrize(('kernel_size', 'stride'), [(5, 1), (7, 2)])
def test_gradients_of_wide_depthwise_filters_come_in_parts(graph, monkeypatch, kernel_size, stride, size, padding):
    """oneDNN takes twice as long for the gradient of a whole filter of 5x5."""
    inputs = tf.constant(_random(2, *size, 3))
    gradients = []
    for has_one_dnn in (True, False):
        monkeypatch.setattr(layers.tf_compat, 'has_one_dnn', lambda has_one_dnn=has_one_dnn: has_one_dnn)
        with tf.compat.v1.variable_scope('', reuse=tf.compat.v1.AUTO_REUSE):
            outputs = layers.depthwise_conv2d(
                inputs,
                kernel_size,
                stride=1 if padding == 'atrous' else stride,
                rate=2 if padding == 'atrous' else 1,
                fixed_padding=padding == 'fixed',
                normalize=False,
                bias=False,
                activation=None,
                scope='a',
            )
        weights = tf.compat.v1.trainable_variables()[0]
        wanted = tf.constant(_random(*outputs.shape))
        gradients.append(tf.gradients(tf.reduce_sum(outputs * wanted), [inputs, weights]))
    kernels = [op for op in graph.get_operations() if op.type == 'DepthwiseConv2dNativeBackpropFilter']
    is_padded = padding == 'atrous' or (padding == 'fixed' and stride > 1)
    parts = 1 if size == (2, 1) and not is_padded else -(-kernel_size // 3)
    assert len(kernels) == parts + 1
    for found, expected in zip(*_run(*gradients), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_statistics_of_an_expansion_come_from_its_input(graph, monkeypatch):
    """A batch norm after an expanding 1x1 convolution gives the same result and gradients in both forms."""
    inputs = _random(2, 5, 6, 4) * [1, 3, 0.5, 10] + [0, 50, -3, 1]
    seen = tf.constant(inputs.astype(np.float32))
    results = []
    for pays in (False, True):
        monkeypatch.setattr(layers.batch_statistics, 'is_cheaper_from_input', lambda *arguments, pays=pays: pays)
        with layers.mode_scope(is_training=True, fine_tune_batch_norm=True):
            with tf.compat.v1.variable_scope('', reuse=tf.compat.v1.AUTO_REUSE):
                outputs = layers.conv2d(seen, 12, 1, activation=None, scope='a')
        weighted = tf.reduce_sum(outputs * tf.constant(_random(2, 5, 6, 12)))
        statistics = [update.batch_value for update in moving_updates.registered()[-2:]]
        results.append([outputs, *statistics, *tf.gradients(weighted, [seen, *tf.compat.v1.trainable_variables()])])
    plain, folded = _run(*results)
    for first, second in zip(plain, folded, strict=True):
        np.testing.assert_allclose(second, first, rtol=0, atol=2e-5 * np.abs(first).max())


@pytest.mark.parametrize('batch', [2, None])
def test_gradients_of_these_statistics_are_those_of_tensorflow(graph, monkeypatch, batch):
    """The same to the last bit, in fewer operations."""
    inputs = tf.compat.v1.placeholder_with_default(_random(2, 5, 6, 4), [batch, 5, 6, 4])
    weights, gamma, beta, wanted = map(tf.constant, (_random(1, 1, 4, 12), _random(12), -_random(12), _random(2, 12)))
    gradients, sizes = [], [len(graph.get_operations())]
    for overrides in (batch_statistics._GRADIENTS, {}):
        monkeypatch.setattr(batch_statistics, '_GRADIENTS', overrides)
        moments = batch_statistics.moments_of(batch_statistics.Expansion(inputs, weights))
        factor, shift = batch_statistics.fold(moments, gamma, beta, 1e-3)
        loss = tf.reduce_sum(wanted * tf.stack([factor, shift]))
        gradients.append(tf.gradients(loss, [inputs, weights, gamma, beta]))
        sizes.append(len(graph.get_operations()))
    for ours, plain in zip(*_run(*gradients), strict=True):
        np.testing.assert_array_equal(ours, plain)
    assert sizes[1] - sizes[0] < sizes[2] - sizes[1] - 10
