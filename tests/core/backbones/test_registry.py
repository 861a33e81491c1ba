import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import feature_extractor
from deeplab.core.backbones import registry
from deeplab.errors import OptionError
from deeplab.options import DecoderOptions, ModelOptions


def _options(**arguments):
    return ModelOptions({'semantic': 3}, **arguments)


def test_unknown_variant():
    with pytest.raises(
        OptionError, match=r"model_variant='mobilenet_v9' is not known\. Known variants: .*mobilenet_v2"
    ):
        registry.check(_options(model_variant='mobilenet_v9'))


def test_impossible_output_stride():
    with pytest.raises(OptionError, match='output_stride=4 .* xception_65.* 8, 16, 32'):
        registry.check(_options(model_variant='xception_65', output_stride=4))


def test_decoder_stride_without_a_skip():
    options = _options(decoder=DecoderOptions(output_strides=(2,)))
    with pytest.raises(
        OptionError,
        match=r'output_strides=\(2,\) .* mobilenet_v2: .* 4, 8, 16',
    ):
        registry.check(options)


def test_a_backbone_from_outside_the_package(monkeypatch):
    monkeypatch.setattr(registry, '_backbones', dict(registry._backbones))
    mine = registry.Backbone('mine', lambda images, options: (images, {}), 'mine')
    assert registry.register(mine) is mine
    assert registry.get('mine') is mine
    assert 'mine' in registry.names()
    with pytest.raises(ValueError, match="'mine' is already registered"):
        registry.register(registry.Backbone('mine', mine.build, 'mine'))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        images = tf.constant([[[[0.0, 127.5, 255.0]]]])
        features, _ = feature_extractor.extract_features(images, _options(model_variant='mine'))
        np.testing.assert_allclose(session.run(features), [[[[-1, 0, 1]]]], atol=1e-6)


@pytest.mark.parametrize('normalization', [registry.SCALE_TO_PLUS_MINUS_ONE, registry.SUBTRACT_RGB_MEAN])
def test_the_mean_pixel_becomes_zero(normalization):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        pixel = tf.constant([[[normalization.mean_pixel]]])
        np.testing.assert_allclose(session.run(normalization.apply(pixel)), np.zeros([1, 1, 1, 3]), atol=1e-6)


def test_mean_pixel_of_a_variant():
    assert feature_extractor.mean_pixel('mobilenet_v2') == pytest.approx((127.5, 127.5, 127.5))


NORMALIZATIONS = [registry.SCALE_TO_PLUS_MINUS_ONE, registry.SUBTRACT_RGB_MEAN]


@pytest.mark.parametrize('normalization', NORMALIZATIONS)
@pytest.mark.parametrize('channels', [1, 2, 3, 4, 7])
def test_the_mean_pixel_of_any_number_of_channels_becomes_zero(normalization, channels):
    pixel = normalization.mean_pixel_of(channels)
    assert len(pixel) == channels
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        zeros = session.run(normalization.apply(tf.constant([[[pixel]]])))
    np.testing.assert_allclose(zeros, np.zeros([1, 1, 1, channels]), atol=1e-5)


def test_channels_beside_red_green_and_blue_have_the_mean_of_their_means():
    mean = (123.15 + 115.90 + 103.06) / 3
    assert registry.SUBTRACT_RGB_MEAN.mean_pixel_of(1) == pytest.approx((mean,))
    assert registry.SUBTRACT_RGB_MEAN.mean_pixel_of(2) == pytest.approx((mean, mean))
    assert registry.SUBTRACT_RGB_MEAN.mean_pixel_of(3) == registry.SUBTRACT_RGB_MEAN.mean_pixel
    assert registry.SUBTRACT_RGB_MEAN.mean_pixel_of(5) == pytest.approx((123.15, 115.90, 103.06, mean, mean))
    assert registry.SCALE_TO_PLUS_MINUS_ONE.mean_pixel_of(4) == pytest.approx((127.5,) * 4)
