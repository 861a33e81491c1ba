"""Logits and predictions of whole networks on a toy backbone.

Covers core/heads/plain.py.
"""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from absl import logging

from deeplab import model
from deeplab.core import moving_updates
from deeplab.errors import OptionError
from deeplab.options import AsppOptions, DecoderOptions, ModelOptions, NasOptions
from tests.helpers import given_weights

_SIZE = (33, 49)
_TINY = ModelOptions({'semantic': 3}, crop_size=_SIZE, model_variant='toy', aspp=AsppOptions(filters=8))

pytestmark = pytest.mark.usefixtures('toy_network')


def _with(**arguments):
    return dataclasses.replace(_TINY, **arguments)


def _image(n=1, size=_SIZE):
    return np.random.RandomState(0).uniform(0, 255, [n, *size, 3]).astype(np.float32)


def _variables(options):
    with given_weights.network() as network:
        model.multi_scale_logits(tf.constant(_image()), options)
    return network.shapes


def _behind_the_backbone(options):
    return sorted(name for name in _variables(options) if not name.startswith('toy') and 'BatchNorm' not in name)


def _uniform_bound(shape):
    """Of Xavier's initial values."""
    return (6 / (np.prod(shape[:-2]) * (shape[-2] + shape[-1]))) ** 0.5


def test_initial_values():
    options = ModelOptions(
        {'semantic': 30},
        model_variant='xception_41',
        crop_size=(33, 33),
        aspp=AsppOptions(rates=(1,)),
        decoder=DecoderOptions(output_strides=(4,)),
    )
    deviations = {
        'logits/semantic/weights': 0.01,
        'aspp1_depthwise/depthwise_weights': 0.33,
        'aspp1_pointwise/weights': 0.06,
        'decoder/decoder_conv0_depthwise/depthwise_weights': 0.33,
        'decoder/decoder_conv0_pointwise/weights': 0.06,
        'xception_41/entry_flow/conv1_2/weights': 0.09,
        'xception_41/entry_flow/block1/unit_1/xception_module/separable_conv2_depthwise/depthwise_weights': 0.09,
        'xception_41/entry_flow/block1/unit_1/xception_module/separable_conv2_pointwise/weights': 0.09,
    }
    uniform = ['aspp0/weights', 'image_pooling/weights', 'concat_projection/weights']
    uniform.append('decoder/feature_projection0/weights')
    names = [*deviations, *uniform, 'logits/semantic/biases']
    with given_weights.network() as network:
        model.multi_scale_logits(tf.zeros([1, 33, 33, 3]), options)
        shapes = network.shapes
        values = network.run({name: network.initializers[name](shapes[name]) for name in names})
    for name, deviation in deviations.items():
        # A unit normal that is truncated at two has the standard deviation 0.8796.
        assert values[name].std() == pytest.approx(0.8796 * deviation, rel=0.1), name
        assert abs(values[name]).max() <= 2 * deviation, name
    for name in uniform:
        assert abs(values[name]).max() == pytest.approx(_uniform_bound(shapes[name]), rel=0.01), name
    assert not values['logits/semantic/biases'].any()


def test_scales_share_variables_and_have_keys():
    with given_weights.network() as network:
        logits = model.multi_scale_logits(tf.constant(_image()), _TINY, image_pyramid=(0.5, 1.0, 1.25))['semantic']
        assert list(logits) == ['logits_0.50', 'logits_1.00', 'logits_1.25', 'merged_logits']
        assert set(network.weights) == set(_variables(_TINY))
        values = network.run(logits)
    # int((33 - 1) * 1.25 / 16 + 1), int((49 - 1) * 1.25 / 16 + 1)
    assert {value.shape for value in values.values()} == {(1, 3, 4, 3)}
    merged = values.pop('merged_logits')
    np.testing.assert_allclose(merged, np.max(list(values.values()), axis=0), rtol=1e-6)


def test_average_of_scales():
    with given_weights.network() as network:
        options = _with(merge_method='avg')
        logits = model.multi_scale_logits(tf.constant(_image()), options, image_pyramid=(0.5, 1.0))['semantic']
        values = network.run(logits)
    np.testing.assert_allclose(
        values['merged_logits'], (values['logits_0.50'] + values['logits_1.00']) / 2, rtol=0, atol=1e-7
    )


@pytest.mark.parametrize('pyramid', [None, (0.5,)])
def test_one_scale_gives_the_merged_logits_alone(pyramid):
    with given_weights.network():
        logits = model.multi_scale_logits(tf.constant(_image()), _TINY, image_pyramid=pyramid)['semantic']
        assert list(logits) == ['merged_logits']
        assert logits['merged_logits'].shape == [1, 3, 4, 3]


def test_unknown_batch_and_sizes():
    image = _image(2)
    with given_weights.network() as network:
        options = _with(crop_size=None, aspp=AsppOptions(rates=(2,), filters=8), decoder=DecoderOptions((4,), 8))
        images = tf.compat.v1.placeholder(tf.float32, [None, None, None, 3])
        unknown = model.predict_labels(images, options)
        known = model.predict_labels(tf.constant(image), dataclasses.replace(options, crop_size=_SIZE))
        unknown, known = network.run([unknown, known], {images: image})
    assert unknown['semantic'].shape == (2, *_SIZE)
    assert unknown['semantic'].dtype == np.int32
    np.testing.assert_allclose(unknown['semantic_prob'], known['semantic_prob'], rtol=0, atol=1e-5)


def test_several_scales_of_unknown_size():
    with given_weights.network() as network:
        images = tf.compat.v1.placeholder(tf.float32, [None, None, None, 3])
        predictions = model.predict_labels_multi_scale(images, _with(crop_size=None), (0.5, 1.0), True)
        probabilities = network.run(predictions['semantic_prob'], {images: _image()})
    assert probabilities.shape == (1, *_SIZE, 3)
    np.testing.assert_allclose(probabilities.sum(3), np.ones([1, *_SIZE]), rtol=1e-5)


def test_confidence_is_the_probability_of_the_label():
    with given_weights.network() as network:
        image = tf.constant(_image(2))
        predictions = [
            model.predict_labels(image, _TINY),
            model.predict_labels(image, _TINY, native_dilation=False),
            model.predict_labels(image, _with(prediction_with_upsampled_logits=False)),
            model.predict_labels_multi_scale(image, _TINY, (0.5, 1.0)),
        ]
        predictions = network.run(predictions)
    for found in predictions:
        expected = np.take_along_axis(found['semantic_prob'], found['semantic'][..., np.newaxis], 3)[..., 0]
        np.testing.assert_allclose(found['semantic_confidence'], expected, rtol=0, atol=1e-6)


def test_mirrored_images_give_mirrored_predictions():
    image = _image()
    with given_weights.network() as network:
        first, second = (
            model.predict_labels_multi_scale(tf.constant(array), _TINY, (1.0,), True)['semantic_prob']
            for array in (image, image[:, :, ::-1].copy())
        )
        first, second = network.run([first, second])
    np.testing.assert_allclose(first, second[:, :, ::-1], rtol=0, atol=1e-6)


def test_labels_before_resizing():
    """Labels are resized to the nearest ones, probabilities bilinearly; resized logits have other maps."""
    with given_weights.network() as network:
        options = _with(prediction_with_upsampled_logits=False)
        logits = model.multi_scale_logits(tf.constant(_image()), options)['semantic']['merged_logits']
        predictions = model.predict_labels(tf.constant(_image()), options)
        logits, predictions = network.run([logits, predictions])
    exponentials = np.exp(logits - logits.max(3, keepdims=True))
    probabilities = exponentials / exponentials.sum(3, keepdims=True)  # [1, 3, 4, 3]
    rows, columns = (np.arange(side) / 16 for side in _SIZE)  # in steps of the logits
    nearest = logits.argmax(3)[:, np.floor(rows + 0.5).astype(int)][:, :, np.floor(columns + 0.5).astype(int)]
    np.testing.assert_array_equal(predictions['semantic'], nearest)
    for axis, places in ((1, rows), (2, columns)):
        steps = np.maximum(0, 1 - np.abs(places[:, np.newaxis] - np.arange(probabilities.shape[axis])))
        probabilities = np.moveaxis(np.tensordot(steps, probabilities, (1, axis)), 0, axis)
    np.testing.assert_allclose(predictions['semantic_prob'], probabilities, rtol=0, atol=1e-5)


def test_images_of_another_size_than_the_crop():
    with given_weights.network(), pytest.raises(OptionError, match=r'do not have the size 33,49 of crop_size'):
        model.predict_labels(tf.zeros([1, 40, 49, 3]), _TINY)


def test_images_of_other_channels_than_the_network_is_for():
    with (
        given_weights.network(),
        pytest.raises(OptionError, match=r'do not have the 3 channels'),
    ):
        model.predict_labels(tf.zeros([1, 33, 49, 4]), _TINY)


def test_heads_without_branches():
    assert _behind_the_backbone(_with(aspp=AsppOptions(filters=8, image_level_feature=False))) == [
        'aspp0/weights',
        'concat_projection/weights',
        'logits/semantic/biases',
        'logits/semantic/weights',
    ]


def test_plain_head_has_logits_for_each_rate():
    options = _with(aspp=AsppOptions(rates=(1, 2), with_batch_norm=False), logits_kernel_size=3)
    assert _behind_the_backbone(options) == [
        'logits/semantic/biases',
        'logits/semantic/weights',
        'logits/semantic_1/biases',
        'logits/semantic_1/weights',
    ]


def test_gate_multiplies_instead_of_joining():
    aspp = AsppOptions(filters=8, with_concat_projection=False, with_squeeze_and_excitation=True)
    assert _behind_the_backbone(_with(aspp=aspp)) == [
        'aspp0/weights',
        'image_pooling/biases',
        'image_pooling/weights',
        'logits/semantic/biases',
        'logits/semantic/weights',
    ]


@pytest.mark.parametrize(
    ('decoder', 'names'),
    [
        (
            DecoderOptions((8, 4), 8),
            [f'decoder_conv{i}{s}_{part}' for i in '01' for s in ('', '_1') for part in ('depthwise', 'pointwise')],
        ),
        (
            DecoderOptions((4,), 8, use_separable_conv=False),
            ['decoder_conv0/decoder_conv0_1', 'decoder_conv0/decoder_conv0_2'],
        ),
        (
            DecoderOptions((4,), 8, use_sum_merge=True),
            [f'decoder_split_sep_conv0_{p}' for p in ('depthwise', 'pointwise')],
        ),
        (DecoderOptions((4,), 8, use_separable_conv=False, use_sum_merge=True), ['decoder_conv0']),
        (DecoderOptions((4,), 3, use_sum_merge=True, output_is_logits=True), ['decoder_conv0']),
    ],
)
def test_decoder_names_and_sizes(decoder, names):
    with given_weights.network() as network:
        logits = model.multi_scale_logits(tf.constant(_image()), _with(decoder=decoder))['semantic']['merged_logits']
        assert logits.shape == [1, 9, 13, 3]
        variables = network.shapes
    weights = [name for name in variables if name.startswith('decoder/') and name.endswith('weights')]
    scopes = {name.removeprefix('decoder/').rsplit('/', 1)[0] for name in weights}
    assert {scope for scope in scopes if not scope.startswith('feature_projection0')} == set(names)
    stages = len(decoder.output_strides)
    assert len(scopes) == len(names) + stages
    filters = decoder.filters if decoder.use_sum_merge else 48
    assert variables['decoder/feature_projection0/weights'][3] == filters
    assert ('logits/semantic/weights' in variables) is not decoder.output_is_logits


def test_a_decoder_stride_beyond_the_output_stride():
    with given_weights.network():
        options = _with(output_stride=8, decoder=DecoderOptions((16,), 8))
        logits = model.multi_scale_logits(tf.constant(_image()), options)['semantic']['merged_logits']
        assert logits.shape == [1, 3, 4, 3]


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'quantize_delay_step': 10, 'image_pyramid': (0.5, 1.0)}, 'quantize_delay_step=10 needs one scale'),
        (
            {'decoder': DecoderOptions((4,), output_is_logits=True)},
            "output_is_logits=True .* 'semantic' has 3 classes and filters=256. Set filters=3.",
        ),
        (
            {'aspp': AsppOptions(image_level_feature=False, with_squeeze_and_excitation=True)},
            'with_squeeze_and_excitation=True needs the image-level feature',
        ),
        ({'model_variant': 'alexnet'}, "model_variant='alexnet' is not known"),
    ],
)
def test_what_is_refused(change, message):
    with pytest.raises(OptionError, match=message):
        model.check_options(_with(**change))


def test_pooling_crop_larger_than_the_image():
    options = _with(image_pooling_crop_size=(65, 65))
    with given_weights.network(), pytest.raises(OptionError, match='crop_size is larger .* 65,65 and'):
        model.predict_labels(tf.constant(_image()), options)


@pytest.mark.parametrize(('scale', 'crop'), [(0.75, (769, 1537)), (1.0, (1025, 2049)), (1.25, (1281, 2561))])
def test_the_pooling_crop_is_scaled_with_the_images(scale, crop):
    options = _with(crop_size=(1025, 2049), image_pooling_crop_size=(769, 769))
    with tf.Graph().as_default():
        images, scaled = model._scaled(tf.zeros([1, 1025, 2049, 3]), options, scale)
    side = int(768 * scale + 1)
    assert (tuple(images.shape[1:3]), scaled.crop_size) == (crop, crop)
    assert scaled.image_pooling_crop_size == (side, side)


def test_rates_beyond_the_features_warn(monkeypatch):
    messages = []
    monkeypatch.setattr(
        logging, 'log_first_n', lambda level, message, n, *arguments: messages.append(message % arguments)
    )
    model.check_options(_with(aspp=AsppOptions(rates=(6,))))
    (message,) = messages
    assert 'The atrous rate 6 exceeds the feature map of 4 positions at output stride 16' in message


def test_options_of_searched_networks_have_no_effect_on_others(monkeypatch):
    messages = []
    monkeypatch.setattr(
        logging, 'log_first_n', lambda level, message, n, *arguments: messages.append(message % arguments)
    )
    nas = NasOptions(stem_output_filters=8, drop_path_keep_prob=0.5)
    for variant in ('nas_pnasnet', 'nas_hnasnet'):
        model.check_options(ModelOptions({'semantic': 3}, model_variant=variant, output_stride=8, nas=nas))
    assert not messages
    model.check_options(_with(nas=nas))
    assert messages == ['stem_output_filters=8, drop_path_keep_prob=0.5 has no effect on toy.']


def test_training_registers_updates_and_frozen_batch_norm_none():
    for fine_tune, expected in ((True, True), (False, False)):
        with given_weights.network():
            model.multi_scale_logits(
                tf.constant(_image()), _TINY, mode=model.Mode(True, fine_tune_batch_norm=fine_tune)
            )
            assert bool(moving_updates.registered()) is expected
