"""Folded batch norms: the same values, from a graph without batch norms.

Covers core/freezing.py.
"""

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import freezing

IMAGES = np.random.default_rng(0).normal(size=(1, 9, 9, 4)).astype(np.float32)


def batch_norm(values, seed=1):
    """A batch norm with drawn constants."""
    drawn = np.random.default_rng(seed)
    channels = int(values.shape[-1])
    gamma, beta, mean = drawn.normal(size=(3, channels)).astype(np.float32)
    variance = drawn.uniform(0.1, 3, channels).astype(np.float32)
    return tf.compat.v1.nn.fused_batch_norm(values, gamma, beta, mean, variance, 1e-3, is_training=False)[0]


def kernel(*shape):
    return tf.constant(np.random.default_rng(2).normal(size=shape), tf.float32)


def dense(images):
    return batch_norm(tf.nn.conv2d(images, kernel(3, 3, 4, 6), 2, 'SAME'))


def depthwise(images):
    return batch_norm(tf.nn.depthwise_conv2d(images, kernel(3, 3, 4, 1), [1, 1, 1, 1], 'SAME'))


def several_results_of_each_channel(images):
    return batch_norm(tf.nn.depthwise_conv2d(images, kernel(3, 3, 4, 2), [1, 1, 1, 1], 'SAME'))


def atrous(images):
    return batch_norm(tf.nn.depthwise_conv2d(images, kernel(3, 3, 4, 1), [1, 1, 1, 1], 'SAME', dilations=[2, 2]))


def one_kernel_twice(images):
    weights = kernel(1, 1, 4, 3)
    first = batch_norm(tf.nn.conv2d(images, weights, 1, 'SAME'))
    return first + batch_norm(tf.nn.conv2d(tf.nn.relu(images), weights, 1, 'SAME'), seed=3)


def result_read_elsewhere(images):
    made = tf.nn.conv2d(images, kernel(1, 1, 4, 3), 1, 'SAME')
    return batch_norm(made) + made


def no_convolution(images):
    return batch_norm(images)


def run(graph_def):
    with tf.Graph().as_default() as graph:
        values = tf.graph_util.import_graph_def(graph_def, return_elements=['values:0'], name='')[0]
        with tf.compat.v1.Session(graph=graph) as session:
            return session.run(values, {'images:0': IMAGES})


def with_placeholders(graph_def):
    """The graph, its output, and the values of its constants of float32, which become placeholders."""
    values = {}
    for node in graph_def.node:
        if node.op == 'Const' and node.attr['dtype'].type == tf.float32.as_datatype_enum:
            values[node.name] = tf.make_ndarray(node.attr['value'].tensor)
            node.op = 'Placeholder'
            del node.attr['value']
    return graph_def, ['values'], values


@pytest.mark.parametrize(
    ('build', 'remaining'),
    [
        (dense, 0),
        (depthwise, 0),
        (several_results_of_each_channel, 0),
        (atrous, 0),
        (one_kernel_twice, 0),
        (result_read_elsewhere, 1),
        (no_convolution, 1),
    ],
)
def test_folding_keeps_the_values(build, remaining):
    with tf.Graph().as_default() as graph:
        tf.identity(build(tf.compat.v1.placeholder(tf.float32, IMAGES.shape, name='images')), name='values')
    expected = run(graph.as_graph_def())
    folded = freezing.frozen(*with_placeholders(graph.as_graph_def()))
    assert not [node for node in folded.node if node.op == 'Placeholder' and node.name != 'images']
    assert sum(node.op == 'FusedBatchNormV3' for node in folded.node) == remaining
    np.testing.assert_allclose(run(folded), expected, atol=1e-5)


def test_large_constants_become_placeholders_again(monkeypatch):
    monkeypatch.setattr(freezing, '_LARGE', 3 * 3 * 4 * 6 * 4)  # the kernel, not the offset
    with tf.Graph().as_default() as graph:
        tf.identity(dense(tf.compat.v1.placeholder(tf.float32, IMAGES.shape, name='images')), name='values')
    frozen = freezing.frozen(*with_placeholders(graph.as_graph_def()))
    expected = run(frozen)
    values = freezing.thawed(frozen)
    assert [value.shape for value in values.values()] == [(3, 3, 4, 6)]
    kinds = {node.name: node.op for node in frozen.node}
    assert [kinds[name] for name in values] == ['Placeholder']
    frozen.node.extend(freezing.constant(f'{name}_', value) for name, value in values.items())
    for node in frozen.node:
        node.input[:] = [f'{name}_' if name in values else name for name in node.input]
    np.testing.assert_array_equal(run(frozen), expected)
