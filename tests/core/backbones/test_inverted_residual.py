"""Inverted residual blocks of the MobileNets."""

import types

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import layers
from deeplab.core.backbones import mobilenets
from deeplab.core.backbones.mobilenets import Block


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        graph.seed = 3
        yield graph


def build(blocks, output_stride, images=None, **others):
    network = mobilenets.Network('Net', 8, tuple(blocks), activation=tf.nn.relu, **{'last_filters': None} | others)
    images = tf.zeros([1, 33, 33, 3]) if images is None else images
    reuse = tf.compat.v1.variable_scope(tf.compat.v1.get_variable_scope(), reuse=tf.compat.v1.AUTO_REUSE)
    with layers.mode_scope(is_training=False, fine_tune_batch_norm=False), reuse:
        options = types.SimpleNamespace(output_stride=output_stride)  # of any stride
        return mobilenets.build(images, options, network=network, scaled=lambda channels, _: channels)


def weights():
    return {v.op.name: v.shape.as_list() for v in tf.compat.v1.trainable_variables() if v.op.name.endswith('weights')}


def adds(graph):
    return [op.name for op in graph.get_operations() if op.name.endswith('/add') and 'hard' not in op.name]


def test_weights_of_a_plain_block(graph):
    build([Block(3, 16, 2, 5)], 4, last_filters=40)
    assert weights() == {
        'Net/Conv/weights': [3, 3, 3, 8],
        'Net/expanded_conv/expand/weights': [1, 1, 8, 24],
        'Net/expanded_conv/depthwise/depthwise_weights': [5, 5, 24, 1],
        'Net/expanded_conv/project/weights': [1, 1, 24, 16],
        'Net/Conv_1/weights': [1, 1, 16, 40],
    }


def test_a_fused_block_has_no_depthwise_convolution(graph):
    _, end_points = build([Block(1, 8, fused=True), Block(4, 16, 2, fused=True)], 4)
    assert weights() == {
        'Net/Conv/weights': [3, 3, 3, 8],
        'Net/expanded_conv/project/weights': [1, 1, 8, 8],
        'Net/expanded_conv_1/expand/weights': [3, 3, 8, 32],
        'Net/expanded_conv_1/project/weights': [1, 1, 32, 16],
    }
    assert list(end_points) == ['layer_1', 'layer_2', 'layer_3']
    assert end_points['layer_3'].shape.as_list() == [1, 9, 9, 16]


def test_squeezed_channels_are_a_quarter_in_eights(graph):
    build([Block(9, 16, squeeze_excite=True)], 2)
    found = {name: shape for name, shape in weights().items() if 'squeeze' in name}
    assert found == {
        'Net/expanded_conv/squeeze_excite/Conv/weights': [1, 1, 72, 24],
        'Net/expanded_conv/squeeze_excite/Conv_1/weights': [1, 1, 24, 72],
    }
    biases = [v.op.name for v in tf.compat.v1.trainable_variables() if v.op.name.endswith('biases')]
    assert biases == [f'Net/expanded_conv/squeeze_excite/{scope}/biases' for scope in ('Conv', 'Conv_1')]


def test_squeeze_excite_gates_channels_by_their_means(graph):
    values = np.random.RandomState(0).normal(size=(2, 3, 4, 8)).astype(np.float32)
    gated = mobilenets._squeeze_excite(tf.constant(values))
    by_name = {v.op.name: v for v in tf.compat.v1.trainable_variables()}
    names = [f'squeeze_excite/{scope}/{part}' for scope in ('Conv', 'Conv_1') for part in ('weights', 'biases')]
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        got, (w0, b0, w1, b1) = session.run([gated, [by_name[name] for name in names]])
    squeezed = np.maximum(values.mean(axis=(1, 2)) @ w0[0, 0] + b0, 0)
    gate = np.clip(squeezed @ w1[0, 0] + b1 + 3, 0, 6) * 0.16667
    np.testing.assert_allclose(got, values * gate[:, None, None], rtol=1e-5, atol=1e-6)


def test_shortcuts_are_where_shapes_agree(graph):
    build([Block(2, 8), Block(2, 16), Block(2, 16), Block(2, 16, residual=False), Block(2, 16, 2)], 4)
    assert adds(graph) == ['Net/expanded_conv/add', 'Net/expanded_conv_2/add']


def test_a_block_that_loses_its_stride_gains_a_shortcut(graph):
    out, _ = build([Block(2, 8, 2)], 2)
    assert adds(graph) == ['Net/expanded_conv/add']
    assert out.shape.as_list() == [1, 17, 17, 8]


@pytest.mark.parametrize('fused', [False, True])
def test_a_dense_network_gives_the_strided_one_in_between(graph, fused):
    images = tf.random.stateless_uniform([1, 33, 65, 3], [1, 2], -1.0, 1.0)
    # 8 to 16 channels, so that no shortcut appears with the lost stride.
    blocks = [Block(2, 16, 2, 5, fused=fused), Block(2, 16, 1, 3, fused=fused)]
    dense, strided = (build(blocks, stride, images)[0] for stride in (2, 4))
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        got, expected = session.run([dense, strided])
    assert got.shape == (1, 17, 33, 16)
    np.testing.assert_allclose(got[:, ::2, ::2], expected, rtol=0, atol=1e-5 * expected.std())
