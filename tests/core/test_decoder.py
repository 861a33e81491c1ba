"""The decoder's two ways to merge features and skips."""

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import decoder, layers
from deeplab.options import DecoderOptions, ModelOptions
from deeplab.registry import Branch
from tests.helpers import numpy_layers

RANDOM = np.random.RandomState(2)
FEATURES = RANDOM.normal(size=(1, 3, 4, 5)).astype(np.float32)  # a crop of 33 by 49 at stride 16
SKIPS = {  # of mobilenet_v3_small_seg, by stride
    'layer_4/depthwise_output': RANDOM.normal(size=(1, 5, 7, 6)).astype(np.float32),
    'layer_2/depthwise_output': RANDOM.normal(size=(1, 9, 13, 2)).astype(np.float32),
}


def build(**fields):
    """The decoder's output, and the model variables by name."""
    options = ModelOptions(
        {'semantic': 7}, model_variant='mobilenet_v3_small_seg', decoder=DecoderOptions(filters=7, **fields)
    )
    with tf.Graph().as_default() as graph, layers.mode_scope(is_training=False, fine_tune_batch_norm=False):
        graph.seed = 5
        end_points = {name: tf.constant(skip) for name, skip in SKIPS.items()}
        out = decoder.build(tf.constant(FEATURES), end_points, options, image_size=(33, 49))
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            return session.run([out, {v.op.name: v for v in tf.compat.v1.model_variables()}])


def weights(values):
    """Shapes of the weights, by name without the decoder's scope."""
    return {name.removeprefix('decoder/'): v.shape for name, v in values.items() if name.endswith('weights')}


def test_no_stride_no_decoder():
    out, values = build()
    assert not values
    np.testing.assert_array_equal(out, FEATURES)


@pytest.mark.parametrize('separable', [True, False])
def test_a_sum_that_is_the_logits(separable):
    out, values = build(output_strides=(8,), use_sum_merge=True, output_is_logits=True, use_separable_conv=separable)
    assert sorted(values) == [
        f'decoder/{scope}/{part}'
        for scope in ('decoder_conv0', 'feature_projection0')
        for part in ('biases', 'weights')
    ]
    from_features = numpy_layers.resized(FEATURES, (5, 7)) @ values['decoder/decoder_conv0/weights'][0, 0]
    from_skip = SKIPS['layer_4/depthwise_output'] @ values['decoder/feature_projection0/weights'][0, 0]
    assert out.min() < 0  # no activation
    np.testing.assert_allclose(out, from_features + from_skip, rtol=1e-4, atol=1e-5)


def test_a_sum_with_norm_and_activation():
    out, values = build(output_strides=(8,), use_sum_merge=True)
    assert weights(values) == {
        'feature_projection0/weights': (1, 1, 6, 7),
        'decoder_split_sep_conv0_depthwise/depthwise_weights': (3, 3, 5, 1),
        'decoder_split_sep_conv0_pointwise/weights': (1, 1, 5, 7),
    }
    assert out.shape == (1, 5, 7, 7) and out.min() >= 0
    assert not [name for name in values if name.endswith('biases')]


def test_two_stages_of_plain_sums():
    out, values = build(output_strides=(8, 4), use_sum_merge=True, use_separable_conv=False)
    assert weights(values) == {
        'feature_projection0/weights': (1, 1, 6, 7),
        'decoder_conv0/weights': (3, 3, 5, 7),
        'feature_projection0_1/weights': (1, 1, 2, 7),
        'decoder_conv0_1/weights': (3, 3, 7, 7),
    }
    assert out.shape == (1, 9, 13, 7)


def test_concatenation():
    _, values = build(output_strides=(8, 4))
    assert weights(values) == {
        'feature_projection0/weights': (1, 1, 6, 48),
        'decoder_conv0_depthwise/depthwise_weights': (3, 3, 53, 1),
        'decoder_conv0_pointwise/weights': (1, 1, 53, 7),
        'decoder_conv1_depthwise/depthwise_weights': (3, 3, 7, 1),
        'decoder_conv1_pointwise/weights': (1, 1, 7, 7),
        'feature_projection0_1/weights': (1, 1, 2, 48),
        'decoder_conv0_1_depthwise/depthwise_weights': (3, 3, 55, 1),
        'decoder_conv0_1_pointwise/weights': (1, 1, 55, 7),
        'decoder_conv1_1_depthwise/depthwise_weights': (3, 3, 7, 1),
        'decoder_conv1_1_pointwise/weights': (1, 1, 7, 7),
    }


@pytest.mark.parametrize('as_logits', [False, True])
def test_plain_concatenation(as_logits):
    # Logits come from plain convolutions, whatever the flag for separable ones says.
    _, values = build(output_strides=(8,), use_separable_conv=as_logits, output_is_logits=as_logits)
    assert weights(values) == {
        'feature_projection0/weights': (1, 1, 6, 48),
        'decoder_conv0/decoder_conv0_1/weights': (3, 3, 53, 7),
        'decoder_conv0/decoder_conv0_2/weights': (3, 3, 7, 7),
    }
    assert bool([name for name in values if name.endswith('biases')]) == as_logits
    assert bool([name for name in values if 'BatchNorm' in name]) != as_logits


def test_a_branch_may_build_its_decoder():
    def own(features, skips, options):
        assert sorted(skips) == [4, 8]
        return skips[4] + tf.reduce_mean(features)

    options = ModelOptions({'semantic': 7}, model_variant='mobilenet_v3_small_seg')
    end_points = {name: tf.constant(skip) for name, skip in SKIPS.items()}
    branch = Branch('own', 2, ((8, 1), (4, 1)), own)
    out = decoder.build_branch(tf.constant(FEATURES), end_points, options, branch, (33, 49))
    np.testing.assert_allclose(out, SKIPS['layer_2/depthwise_output'] + FEATURES.mean(), rtol=1e-6)
