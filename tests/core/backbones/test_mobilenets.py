"""MobileNetV2, V3 and EdgeTPU: channels for each depth multiplier, skips, strides, dense features."""

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import feature_extractor, layers, moving_updates
from deeplab.core.backbones import mobilenets
from deeplab.core.densify import densify
from deeplab.errors import OptionError
from deeplab.options import DecoderOptions, ModelOptions
from deeplab.registry import BACKBONES
from tests.helpers import given_weights

NETWORKS = {
    'mobilenet_v2': mobilenets.V2,
    'mobilenet_v3_large_seg': mobilenets.V3_LARGE_SEG,
    'mobilenet_v3_small_seg': mobilenets.V3_SMALL_SEG,
    'mobilenet_edgetpu': mobilenets.EDGETPU,
}
VARIANTS = list(NETWORKS)


def options(variant, output_stride=16, **others):
    return ModelOptions({'semantic': 3}, model_variant=variant, output_stride=output_stride, **others)


def features(images, model_options, is_training=False):
    with layers.mode_scope(is_training=is_training, fine_tune_batch_norm=True):
        return feature_extractor.extract_features(images, model_options)


@pytest.fixture
def network():
    with given_weights.network() as network:
        yield network


def channels(variant, **others):
    """Channels of the first convolution, of each block's result, and of the last convolution."""
    _, end_points = features(tf.zeros([1, 33, 33, 3]), options(variant, **others))
    return [tensor.shape.as_list()[3] for name, tensor in end_points.items() if '/' not in name]


@pytest.mark.parametrize(
    ('variant', 'depth_multiplier', 'expected'),
    [
        ('mobilenet_v3_small_seg', 0.75, [16, 16, 24, 24, 32, 32, 32, 40, 40, 40, 40, 40, 216]),
        ('mobilenet_v3_small_seg', 1.5, [24, 24, 40, 40, 64, 64, 64, 72, 72, 72, 72, 72, 432]),
        (
            'mobilenet_v3_large_seg',
            0.5,
            [8, 8, 16, 16, 24, 24, 24, 40, 40, 40, 40, 56, 56, 40, 40, 40, 240],
        ),
        (
            'mobilenet_edgetpu',
            0.75,
            [24, 16, *[24] * 4, *[40] * 4, *[72] * 8, *[120] * 4, 144, 960],
        ),
    ],
)
def test_channels_stay_multiples_of_eight(network, variant, depth_multiplier, expected):
    assert channels(variant, depth_multiplier=depth_multiplier) == expected


@pytest.mark.parametrize(
    ('depth_multiplier', 'divisible_by', 'expected'),
    [
        (1.0, None, [32, 16, 24, 320]),
        (0.5, None, [16, 8, 12, 160]),
        (0.35, None, [11, 6, 8, 112]),
        (1.3, None, [42, 21, 31, 416]),
        (1.4, None, [45, 22, 34, 448]),
        (0.5, 8, [16, 8, 16, 160]),
    ],
)
def test_mobilenet_v2_rounds_to_integers_under_a_multiplier(depth_multiplier, divisible_by, expected):
    model_options = options('mobilenet_v2', depth_multiplier=depth_multiplier, divisible_by=divisible_by)
    assert [mobilenets.v2_channels(wide, model_options) for wide in (32, 16, 24, 320)] == expected


def test_divisible_by_is_for_mobilenet_v2(network):
    assert [name for name in VARIANTS if 'divisible_by' in BACKBONES.get(name).reads] == ['mobilenet_v2']
    assert channels('mobilenet_v3_small_seg', divisible_by=32)[2] == 24


@pytest.mark.parametrize('variant', ['mobilenet_v2', 'mobilenet_v3_small_seg'])
def test_a_tiny_multiplier_leaves_a_network(network, variant):
    narrow = 1 if variant == 'mobilenet_v2' else 8
    assert min(channels(variant, depth_multiplier=0.02)) == narrow
    first = ('expanded_conv/depthwise/depthwise_weights', 'expanded_conv/project/weights')
    expanded = [shape[2:] for name, shape in network.shapes.items() if name.endswith(first)]
    assert expanded and all(shape[0] == narrow for shape in expanded)  # the first block expands nothing


@pytest.mark.parametrize(
    ('variant', 'expected'),
    [
        ('mobilenet_v3_large_seg', {2: [18, 27, 16], 4: [9, 14, 72], 8: [5, 7, 120], 16: [3, 4, 672]}),
        ('mobilenet_v3_small_seg', {4: [9, 14, 16], 8: [5, 7, 88], 16: [3, 4, 144]}),
        ('mobilenet_v2', {2: [18, 27, 32], 4: [9, 14, 144], 8: [5, 7, 192], 16: [3, 4, 576]}),
    ],
)
def test_skips_at_an_odd_crop(network, variant, expected):
    _, end_points = features(tf.zeros([2, 35, 54, 3]), options(variant, output_stride=32))
    skips = BACKBONES.get(variant).decoder_end_points
    assert {stride: end_points[name].shape.as_list()[1:] for stride, name in skips.items()} == expected


def test_skips_of_v3_come_before_the_gate(network):
    _, end_points = features(tf.zeros([1, 33, 33, 3]), options('mobilenet_v3_large_seg'))
    skip = end_points[BACKBONES.get('mobilenet_v3_large_seg').decoder_end_points[8]]
    assert skip.op.type == 'Relu' and skip.op.name.startswith('MobilenetV3/expanded_conv_5/depthwise/')
    assert 'MobilenetV3/expanded_conv_5/squeeze_excite/Mean' in {op.name for op in skip.consumers()}


def test_edgetpu_has_no_skips():
    model_options = options('mobilenet_edgetpu', decoder=DecoderOptions(output_strides=(4,)))
    with pytest.raises(OptionError, match='mobilenet_edgetpu: it has no skip at stride 4.* none'):
        BACKBONES.chosen(model_options)


@pytest.mark.parametrize(
    ('variant', 'rates'),
    [
        # Rates of the blocks at output stride 4; the first block that loses its stride keeps the rate before it.
        ('mobilenet_v2', [*[1] * 4, *[2] * 3, *[4] * 7, *[8] * 3]),
        ('mobilenet_v3_large_seg', [*[1] * 4, *[2] * 3, *[4] * 6, *[8] * 2]),
        ('mobilenet_v3_small_seg', [*[1] * 2, *[2] * 2, *[4] * 5, *[8] * 2]),
        ('mobilenet_edgetpu', [*[1] * 6, *[2] * 4, *[4] * 8, *[8] * 4]),
    ],
)
def test_rates(variant, rates):
    strides = [2, *(block.stride for block in NETWORKS[variant].blocks)]
    assert np.prod(strides) == 32
    for output_stride, factor in ((4, 1), (8, 2), (16, 4), (32, 8)):
        units = densify(strides, output_stride)[1:]
        assert 2 * np.prod([stride for stride, _ in units]) == output_stride
        # Each denser map doubles the rates, which are never below 1.
        assert [rate for _, rate in units] == [max(rate // factor, 1) for rate in rates]


# test_networks.py shows it of the others. Squeeze-and-excite means another thing on a denser map (the mean over other
# positions), and the small V3 another network below stride 32 (test_inverted_residual.py: a block that loses its stride
# gains a shortcut): what is left of the law is held to.
@pytest.mark.parametrize(
    ('variant', 'strides'),
    [
        pytest.param('mobilenet_v3_large_seg', (8, 16, 32), marks=pytest.mark.slow),
        ('mobilenet_v3_small_seg', (8, 16)),
    ],
)
def test_atrous_features_are_those_of_the_next_stride_in_between(network, monkeypatch, variant, strides):
    monkeypatch.setattr(mobilenets, '_squeeze_excite', lambda inputs: inputs)
    images = tf.random.stateless_uniform([1, 65, 97, 3], [1, 2], 0.0, 255.0)
    narrow = {'depth_multiplier': 0.25}
    values = network.run({s: features(images, options(variant, output_stride=s, **narrow))[0] for s in strides})
    for stride, following in zip(strides, strides[1:], strict=False):
        expected = values[following]
        np.testing.assert_allclose(values[stride][:, ::2, ::2], expected, rtol=0, atol=1e-4 * expected.std())
    assert values[strides[-1]].std() > 0


@pytest.mark.parametrize(
    ('variant', 'norms'),
    [('mobilenet_v3_small_seg', 34), pytest.param('mobilenet_edgetpu', 58, marks=pytest.mark.slow)],
)
def test_batch_norms_have_the_constants_of_the_family(network, variant, norms):
    features(tf.zeros([1, 33, 33, 3]), options(variant))
    made = [op for op in network.graph.get_operations() if op.type == 'FusedBatchNormV3']
    assert len(made) == norms
    assert {round(op.get_attr('epsilon'), 7) for op in made} == {1e-3}
    features(tf.zeros([1, 33, 33, 3]), options(variant), is_training=True)
    updates = moving_updates.registered()
    assert len(updates) == 2 * norms
    assert {update.decay for update in updates} == {0.997}


@pytest.mark.parametrize(
    ('variant', 'relu', 'relu6'),
    [
        ('mobilenet_v3_small_seg', 1 + 4 + 9, 2 + 16 + 9),  # a ReLU in each gate; a ReLU6 in each swish and gate
        ('mobilenet_edgetpu', 2 + 21 + 13, 0),
    ],
)
def test_bounded_activations_are_for_heads_alone(network, variant, relu, relu6):
    features(tf.zeros([1, 33, 33, 3]), options(variant, use_bounded_activation=True))
    types = [op.type for op in network.graph.get_operations()]
    assert (types.count('Relu'), types.count('Relu6')) == (relu, relu6)


def test_first_weights(network):
    features(tf.zeros([1, 33, 33, 3]), options('mobilenet_v3_large_seg'))
    ends = ('expanded_conv_13/expand/weights', 'expanded_conv_13/depthwise/depthwise_weights', 'excite/Conv_1/weights')
    first = [network.initializers[name](shape) for name, shape in network.shapes.items() if name.endswith(ends)]
    values = network.run(first)
    assert len(values) == 2 + 8
    for value in values:
        # A unit normal that is truncated at two has the standard deviation 0.8796.
        assert value.std() == pytest.approx(0.09 * 0.8796, rel=0.1)
        assert abs(value).max() <= 0.18
