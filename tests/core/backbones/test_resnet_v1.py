"""ResNet v1: resolutions, rates, and properties that hold at any size."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import feature_extractor, layers, moving_updates
from deeplab.core.backbones import resnet_v1
from deeplab.errors import OptionError
from deeplab.options import ModelOptions
from deeplab.registry import BACKBONES
from tests.helpers import given_weights

VARIANTS = ['resnet_v1_18', 'resnet_v1_18_beta', 'resnet_v1_50']
DEEP_VARIANTS = ['resnet_v1_50_beta', 'resnet_v1_101', 'resnet_v1_101_beta']


def options(variant='resnet_v1_18', output_stride=16, **others):
    return ModelOptions({'semantic': 3}, model_variant=variant, output_stride=output_stride, **others)


def features(images, model_options, is_training=False):
    with layers.mode_scope(is_training=is_training, fine_tune_batch_norm=True):
        return feature_extractor.extract_features(images, model_options)


@pytest.fixture
def network():
    with given_weights.network() as network:
        yield network


def architecture(variant):
    return BACKBONES.get(variant).build.keywords['network']


def rates_by_block(variant, **others):
    units = resnet_v1._units(architecture(variant), options(variant, **others))
    blocks = [[] for _ in range(4)]
    for unit in units:
        blocks[int(unit.scope[5]) - 1].append((unit.stride, unit.rate))
    return blocks


def test_the_last_unit_of_a_block_strides():
    assert rates_by_block('resnet_v1_18', output_stride=32) == [
        [(1, 1), (2, 1)],
        [(1, 1), (2, 1)],
        [(1, 1), (2, 1)],
        [(1, 1), (1, 1)],
    ]


@pytest.mark.parametrize(
    ('output_stride', 'block_rates'), [(32, (1, 1, 1, 1)), (16, (1, 1, 1, 2)), (8, (1, 1, 2, 4)), (4, (1, 2, 4, 8))]
)
def test_a_stride_taken_away_doubles_the_rates_behind_it(output_stride, block_rates):
    blocks = rates_by_block('resnet_v1_50', output_stride=output_stride)
    assert [[rate for _, rate in block] for block in blocks] == [
        [rate] * units for rate, units in zip(block_rates, (3, 4, 6, 3), strict=True)
    ]
    strides = [stride for block in blocks for stride, _ in block]
    assert 4 * np.prod(strides) == output_stride


def test_multi_grid_multiplies_the_rates_of_the_last_block_alone():
    blocks = rates_by_block('resnet_v1_101', output_stride=8, multi_grid=(1, 2, 4))
    assert [rate for _, rate in blocks[3]] == [4, 8, 16]
    assert {rate for _, rate in blocks[2]} == {2}
    assert [rate for _, rate in rates_by_block('resnet_v1_18', output_stride=32, multi_grid=(2, 3))[3]] == [2, 3]


def test_multi_grid_that_does_not_fit():
    message = r'multi_grid=\(1, 2, 4\) .* resnet_v1_18: .* 2 factors, each 1 or more, such as multi_grid=\(1, 1\)'
    with pytest.raises(OptionError, match=message):
        rates_by_block('resnet_v1_18', multi_grid=(1, 2, 4))


@pytest.mark.parametrize('variant', VARIANTS + DEEP_VARIANTS)
def test_the_beta_root_and_the_normalization_go_together(variant):
    backbone = BACKBONES.get(variant)
    beta = variant.endswith('_beta')
    assert (architecture(variant).beta_filters is not None) == beta
    assert backbone.normalization.mean_pixel_of(3) == pytest.approx((127.5,) * 3 if beta else (123.15, 115.90, 103.06))
    assert backbone.scope == variant.removesuffix('_beta')


@pytest.mark.parametrize(
    ('variant', 'root'),
    [
        ('resnet_v1_18', {'conv1': [7, 7, 3, 64]}),
        ('resnet_v1_18_beta', {'conv1_1': [3, 3, 3, 16], 'conv1_2': [3, 3, 16, 16], 'conv1_3': [3, 3, 16, 32]}),
        ('resnet_v1_50_beta', {'conv1_1': [3, 3, 3, 64], 'conv1_2': [3, 3, 64, 64], 'conv1_3': [3, 3, 64, 128]}),
    ],
)
def test_root_weights(network, variant, root):
    features(tf.zeros([1, 33, 33, 3]), options(variant))
    scope = BACKBONES.get(variant).scope
    weights = {name: shape for name, shape in network.shapes.items() if name.endswith('weights')}
    found = {name.split('/')[1]: shape for name, shape in weights.items() if name.startswith(f'{scope}/conv1')}
    assert found == root
    # A unit whose input has other channels than its result projects its shortcut; unit 1 of each block, or nearly.
    first_shortcut = f'{scope}/block1/unit_1/lite_bottleneck_v1/shortcut/weights'
    assert (first_shortcut in weights) == (variant == 'resnet_v1_18_beta')


@pytest.mark.parametrize(
    'variant', VARIANTS + [pytest.param(name, marks=pytest.mark.slow) for name in DEEP_VARIANTS[:2]]
)
def test_features_and_skips_at_an_odd_crop(network, variant):
    out, end_points = features(tf.zeros([2, 35, 50, 3]), options(variant, output_stride=16))
    channels = 512 if '_18' in variant else 2048
    assert out.shape.as_list() == [2, 3, 4, channels]
    skips = BACKBONES.get(variant).decoder_end_points
    sizes = {stride: end_points[name].shape.as_list()[1:3] for stride, name in skips.items()}
    # Its block works at the skip's stride, since only the block's last unit strides.
    assert sizes == {4: [9, 13], 8: [5, 7], 16: [3, 4]}
    units = {'18': (1, 1, 1), '50': (2, 3, 5), '101': (2, 3, 22)}[variant.split('_')[2]]
    assert [name.split('/')[1] for name in skips.values()] == [f'unit_{unit}' for unit in units]


@pytest.mark.parametrize(
    ('variant', 'strides'),
    [('resnet_v1_18', (4, 8, 16, 32)), ('resnet_v1_50_beta', (8, 16))],
)
def test_atrous_features_are_those_of_the_next_stride_in_between(network, variant, strides):
    multi_grid = (1, 2) if '_18' in variant else (1, 2, 4)
    images = tf.random.stateless_uniform([1, 39, 54, 3], [1, 2], 0.0, 255.0)
    by_stride = {
        stride: features(images, options(variant, output_stride=stride, multi_grid=multi_grid))[0] for stride in strides
    }
    values = network.run(by_stride)
    for stride, following in itertools.pairwise(strides):
        subsampled, expected = values[stride][:, ::2, ::2], values[following]
        np.testing.assert_allclose(subsampled, expected, rtol=0, atol=1e-4 * expected.std())
        assert expected.std() > 0


def test_batch_norms_have_the_constants_of_the_family(network):
    # A graph for prediction: in training some batch norms are no operation of their own.
    features(tf.zeros([1, 33, 33, 3]), options('resnet_v1_18'))
    norms = [op for op in network.graph.get_operations() if op.type == 'FusedBatchNormV3']
    assert len(norms) == 1 + 16 + 3
    assert {round(op.get_attr('epsilon'), 7) for op in norms} == {1e-5}
    features(tf.zeros([1, 33, 33, 3]), options('resnet_v1_18'), is_training=True)
    updates = moving_updates.registered()
    assert len(updates) == 2 * len(norms)
    assert {update.decay for update in updates} == {0.95}


def test_the_backbone_keeps_its_relu_where_heads_are_bounded(network):
    features(tf.zeros([1, 33, 33, 3]), options('resnet_v1_18', use_bounded_activation=True))
    types = [op.type for op in network.graph.get_operations()]
    assert types.count('Relu') == 1 + 2 * 8 and 'Relu6' not in types


def test_first_weights_are_he_normal(network):
    features(tf.zeros([1, 33, 33, 3]), options('resnet_v1_18'))
    name = 'resnet_v1_18/block4/unit_2/lite_bottleneck_v1/conv1/weights'
    values = network.run(network.initializers[name](network.shapes[name]))
    assert values.std() == pytest.approx((2.0 / (3 * 3 * 512)) ** 0.5, rel=0.01)
    assert abs(values).max() <= 2 * (2.0 / (3 * 3 * 512)) ** 0.5 / 0.8796


@pytest.mark.parametrize(('task', 'decay'), [('semantic', 0.95), ('classification', 0.997)])
def test_decay_of_batch_norms(task, decay, monkeypatch):
    class BuildError(Exception):
        pass

    def scope(batch_norm_decay, **_):
        assert batch_norm_decay == decay
        raise BuildError

    monkeypatch.setattr(layers, 'family_scope', scope)
    with tf.Graph().as_default(), pytest.raises(BuildError):
        features(tf.zeros([1, 33, 33, 3]), options(task=task, **({} if task == 'semantic' else {'output_stride': 32})))
