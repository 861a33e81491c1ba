"""Records of backbones and heads, and which of them options select. Covers registry/normalization.py."""

import numpy as np
import pytest
import tensorflow as tf

from deeplab import common
from deeplab.core import feature_extractor
from deeplab.errors import OptionError
from deeplab.options import AsppOptions, DecoderOptions, ModelOptions, OptimizerOptions
from deeplab.registry import (
    BACKBONES,
    HEADS,
    SCALE_TO_PLUS_MINUS_ONE,
    SUBTRACT_RGB_MEAN,
    TASKS,
    Backbone,
    Head,
    Parameter,
    register,
)
from tests.helpers.registries import changes_undone

NORMALIZATIONS = [SCALE_TO_PLUS_MINUS_ONE, SUBTRACT_RGB_MEAN]


def _options(**arguments):
    return ModelOptions({'semantic': 3}, **arguments)


@pytest.fixture
def changes():
    """What a test registers is gone when it ends."""
    with changes_undone(BACKBONES), changes_undone(HEADS):
        yield


def _backbone(name='mine', **fields):
    return Backbone(name=name, build=lambda images, options: (images, {}), scope=name, **fields)


def _head(name='own', **fields):
    fields = {'applies': lambda options: True, 'build': lambda features, options: features} | fields
    return Head(name=name, **fields)


def _units(*units):
    return [f'block{block}/unit_{unit}' for block, unit in enumerate(units, start=1)]


def _blocks(*blocks):
    return [*(f'entry_flow/block{block}' for block in blocks), 'exit_flow/block1']


@pytest.mark.parametrize(
    ('fields', 'message'),
    [
        (
            {'model_variant': 'mobilenet_v9'},
            r"'mobilenet_v9' is not known\. Did you mean mobilenet_v2\? Known: .*mobilenet_v2",
        ),
        ({'model_variant': 'xception_65', 'output_stride': 4}, 'output_stride=4 .* xception_65.* 8, 16, 32'),
        (
            {'model_variant': 'resnet_v1_50', 'decoder': DecoderOptions(output_strides=(2,))},
            r'output_strides=\(2,\) .* resnet_v1_50: .* 4, 8, 16',
        ),
    ],
)
def test_options_that_no_backbone_supports(fields, message):
    with pytest.raises(OptionError, match=message):
        BACKBONES.chosen(_options(**fields))


@pytest.mark.parametrize(
    ('names', 'pattern', 'places'),
    [
        (['mobilenet_v2'], 'layer_{}/depthwise_output', (4, 7, 14)),
        (['mobilenet_v3_large', 'mobilenet_v3_large_seg'], 'layer_{}/depthwise_output', (4, 7, 13)),
        (['mobilenet_v3_small', 'mobilenet_v3_small_seg'], 'layer_{}/depthwise_output', (2, 4, 9)),
        (['mobilenet_edgetpu'], '', ()),
        (['resnet_v1_18', 'resnet_v1_18_beta'], 'block{}/unit_1/lite_bottleneck_v1/conv2', (1, 2, 3)),
        (['resnet_v1_50', 'resnet_v1_50_beta'], '{}/bottleneck_v1/conv3', _units(2, 3, 5)),
        (['resnet_v1_101', 'resnet_v1_101_beta'], '{}/bottleneck_v1/conv3', _units(2, 3, 22)),
        (['xception_41', 'xception_65'], '{}/unit_1/xception_module/separable_conv2_pointwise', _blocks(2, 3)),
        (['xception_71'], '{}/unit_1/xception_module/separable_conv2_pointwise', _blocks(3, 5)),
        (['nas_pnasnet'], '{}', ('Stem', 'Cell_3', 'Cell_7')),
        (['nas_hnasnet'], 'Cell_{}', (2, 5, 7)),
    ],
)
def test_low_level_features_of_the_decoder(names, pattern, places):
    """At strides 4, 8 and 16, as in the original; a place beside them may have the same shape."""
    expected = dict(zip((4, 8, 16), map(pattern.format, places), strict=bool(places)))
    for name in names:
        end_points = BACKBONES.get(name).decoder_end_points
        assert {stride: place for stride, place in end_points.items() if stride > 2} == expected


def test_a_backbone_from_outside_the_package(changes):
    mine = _backbone()
    register(mine)
    assert BACKBONES.chosen(_options(model_variant='mine')) is mine
    with pytest.raises(ValueError, match="backbone 'mine' is already registered"):
        register(_backbone())
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        images = tf.constant([[[[0.0, 127.5, 255.0]]]])
        features, _ = feature_extractor.extract_features(images, _options(model_variant='mine'))
        np.testing.assert_allclose(session.run(features), [[[[-1, 0, 1]]]], atol=1e-6)


def test_a_backbone_reads_options_that_there_are():
    with pytest.raises(ValueError, match="backbone 'mine' reads 'multigrid'; allowed: .*multi_grid"):
        _backbone(reads=('multigrid',))


@pytest.mark.parametrize(
    ('fields', 'expected'),
    [
        ({}, 'aspp'),
        ({'aspp': AsppOptions(with_batch_norm=False)}, 'plain'),
        (
            {'dense_prediction_cell_json': 'core/dense_prediction_cell_branch5_top1_cityscapes.json'},
            'dense_prediction_cell',
        ),
    ],
)
def test_the_head_that_options_select(fields, expected):
    assert HEADS.chosen(_options(**fields)).name == expected


def test_heads_are_tried_in_ascending_order(changes):
    register(_head('last', order=400))
    assert HEADS.chosen(_options()).name == 'aspp'
    register(_head('first', applies=lambda options: options.output_stride == 8))
    register(_head('second', order=150))
    assert HEADS.chosen(_options()).name == 'second'
    assert HEADS.chosen(_options(output_stride=8)).name == 'first'
    register(_head('a'))
    assert HEADS.chosen(_options(output_stride=8)).name == 'a'  # of the same order, by name


def test_variables_of_heads_belong_to_the_last_layers(changes):
    of_tasks = TASKS.branch_scopes()
    assert OptimizerOptions().last_layer_scopes == (*common.LAST_LAYER_SCOPES, *of_tasks)
    register(_head(scope='own_scope'))
    assert OptimizerOptions().last_layer_scopes == (*common.LAST_LAYER_SCOPES, 'own_scope', *of_tasks)


def test_parameters_do_not_collide(changes):
    rate = Parameter('own_rate', 0.5, 'Rate.')
    register(_backbone(parameters=(rate,)))
    with pytest.raises(ValueError, match="parameter 'own_rate' of the head 'other' differs from the one of mine"):
        register(_head('other', parameters=(Parameter('own_rate', 2, 'Rate.'),)))
    register(_head(parameters=(rate,)))  # backbone and head may share one
    with pytest.raises(ValueError, match="parameter 'own_rate' of the head 'other' differs from the one of own"):
        register(_head('other', parameters=(Parameter('own_rate', 2, 'Rate.'),)))
    with pytest.raises(ValueError, match="parameter 'output_stride' of the head 'other' .* an option"):
        register(_head('other', parameters=(Parameter('output_stride', 2, 'Stride.'),)))


@pytest.mark.parametrize('normalization', NORMALIZATIONS)
@pytest.mark.parametrize('channels', [1, 2, 3, 4, 7])
def test_the_mean_pixel_of_any_number_of_channels_becomes_zero(normalization, channels):
    pixel = normalization.mean_pixel_of(channels)
    assert len(pixel) == channels
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        zeros = session.run(feature_extractor.normalize(tf.constant([[[pixel]]]), normalization))
    np.testing.assert_allclose(zeros, np.zeros([1, 1, 1, channels]), atol=1e-5)


def test_mean_pixel_of_a_variant():
    assert feature_extractor.mean_pixel('mobilenet_v2') == pytest.approx((127.5, 127.5, 127.5))


def test_channels_beside_red_green_and_blue_have_the_mean_of_their_means():
    mean = (123.15 + 115.90 + 103.06) / 3
    assert SUBTRACT_RGB_MEAN.mean_pixel_of(1) == pytest.approx((mean,))
    assert SUBTRACT_RGB_MEAN.mean_pixel_of(2) == pytest.approx((mean, mean))
    assert SUBTRACT_RGB_MEAN.mean_pixel_of(3) == (123.15, 115.90, 103.06)
    assert SUBTRACT_RGB_MEAN.mean_pixel_of(5) == pytest.approx((123.15, 115.90, 103.06, mean, mean))
    assert SCALE_TO_PLUS_MINUS_ONE.mean_pixel_of(4) == pytest.approx((127.5,) * 4)
