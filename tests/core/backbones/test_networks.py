"""Properties of all backbones: dense features, gradients, unknown sizes, depth multipliers."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf

from deeplab import common, model
from deeplab.core import feature_extractor, layers, moving_updates, scale_losses
from deeplab.core.backbones import xception
from deeplab.errors import OptionError
from deeplab.options import ModelOptions
from deeplab.registry import BACKBONES
from tests.helpers import computed_losses, given_weights

_QUICK = ('mobilenet_v3_small_seg', 'xception_41', 'resnet_v1_18')
_CLASSES = 3
_CENTERED = (65, 97)  # 32 * k + 1: every stride finds a center
_ANY = (45, 62)  # explicit padding needs none
_TRAINED = (49, 67)
_EXPLICIT_PADDING = ('resnet', 'xception')
# Deeper, of the same units as a smaller one of their family.
_DEEPER = ('resnet_v1_50_beta', 'resnet_v1_101', 'resnet_v1_101_beta', 'xception_65', 'xception_71')
_WIDER = ('mobilenet_v3_large', 'mobilenet_v3_small')
_ONE_STRIDE = ('lenet', 'cifarnet')  # see test_lenet.py, test_cifarnet.py


def _options(name, output_stride, **arguments):
    outputs = {common.OUTPUT_TYPE: _CLASSES}
    return ModelOptions(outputs, model_variant=name, output_stride=output_stride, **arguments)


def _images(size, count=1):
    return np.random.RandomState(0).uniform(0, 255, [count, *size, 3]).astype(np.float32)


def _features(name, output_stride, size):
    """Features of a random image with random weights."""
    with given_weights.network() as network, layers.mode_scope(is_training=False, fine_tune_batch_norm=False):
        features, _ = feature_extractor.extract_features(tf.constant(_images(size)), _options(name, output_stride))
        return network.run(features)


def _strides(name):
    strides = BACKBONES.get(name).output_strides
    return [stride for stride in (8, 16, 32) if stride in strides] or [max(strides)]


def _case(name, *more, quick, is_long=False):
    marks = () if quick else pytest.mark.long if is_long else pytest.mark.slow
    return pytest.param(name, *more, marks=marks, id='-'.join([name, *map(str, more)]).replace(' ', ''))


def _laws():
    """Name, the strides to compare, size of the image."""
    for name in BACKBONES.names():
        # Searched cells resize their inputs to each other; MobileNetV3's gates average over the denser map, and
        # test_mobilenets.py holds the law without them. test_resnet_v1.py has it for two ResNets.
        if name.startswith(('nas_', 'mobilenet_v3', *_ONE_STRIDE)) or name in ('resnet_v1_18', 'resnet_v1_50_beta'):
            continue
        strides = _strides(name)
        quick, is_long = name in ('mobilenet_v2', 'xception_41'), name in (*_DEEPER, 'resnet_v1_50')
        yield _case(name, strides, _CENTERED, quick=quick, is_long=is_long)
        if name.startswith(_EXPLICIT_PADDING):
            yield _case(name, strides[:2], _ANY, quick=False, is_long=is_long)


@pytest.mark.parametrize(('name', 'strides', 'size'), list(_laws()))
def test_dense_features_contain_the_strided_ones(name, strides, size):
    dense, *others = (_features(name, stride, size) for stride in strides)
    assert others
    for strided in others:
        assert strided.std() > 0.01
        np.testing.assert_allclose(dense[:, ::2, ::2], strided, rtol=0, atol=1e-4 * strided.std())
        dense = strided


_IGNORE = 255


def _labels():
    labels = np.random.RandomState(1).randint(0, _CLASSES, [2, *_TRAINED, 1])
    labels[:, :5] = _IGNORE
    return tf.constant(labels, tf.int32)


def _size_of_logits(stride):
    return [2, *(int((side - 1) / stride + 1) for side in _TRAINED), _CLASSES]


# A network of each family; test_compute_types.py has the gradients at stride 16.
_QUICK_TO_LEARN = (('mobilenet_v2', 8), ('mobilenet_v3_small_seg', 8), ('resnet_v1_18', 8))
_LEARNING = (
    ('mobilenet_v2', 32),
    ('mobilenet_edgetpu', 8),
    ('resnet_v1_18_beta', 32),
    ('xception_41', 8),
    ('nas_pnasnet', 32),
    ('nas_hnasnet', 8),
)


@pytest.mark.parametrize(
    ('name', 'stride'),
    [
        _case(name, stride, quick=dict(_QUICK_TO_LEARN).get(name) == stride, is_long=(name, stride) not in _LEARNING)
        for name in BACKBONES.names()
        for stride in _strides(name)
    ],
)
def test_every_weight_and_statistic_learns_on_an_odd_crop(name, stride):
    with given_weights.network() as network:
        mode = model.Mode(True, fine_tune_batch_norm=True)
        images = tf.constant(_images(_TRAINED, 2))
        logits = model.multi_scale_logits(images, _options(name, stride, crop_size=_TRAINED), mode=mode)['semantic']
        logits = logits[common.MERGED_LOGITS]
        assert logits.shape == _size_of_logits(stride)
        labels = tf.image.resize(_labels(), logits.shape[1:3], 'nearest')[..., 0]
        loss = scale_losses.mean_of_counted(computed_losses.softmax(logits, labels, _IGNORE))
        gradients = tf.gradients(loss, [network.weights[name] for name in sorted(network.trained)])
        updates = moving_updates.registered()
        values, statistics = network.run([gradients, [update.batch_value for update in updates]])
    assert all(np.isfinite(value).all() for value in [*values, *statistics])
    without = [n for n, value in zip(sorted(network.trained), values, strict=True) if not value.any()]
    # A shift whose batch norm's every value is cut off, or which another norm takes away, may have none.
    assert not [n for n in without if 'weights' in n]
    assert {update.variable.op.name for update in updates} == {n for n in network.weights if 'moving_' in n}
    assert all(value.any() for value in statistics)


@pytest.mark.parametrize(
    'name',
    [
        _case(name, quick=name in _QUICK, is_long=name in (*_DEEPER, *_WIDER, 'mobilenet_v3_large_seg'))
        for name in BACKBONES.names()
    ],
)
def test_predicts_batches_and_sizes_unknown_when_it_was_built(name):
    options = _options(name, _strides(name)[0])
    image = _images(_ANY, 2)
    with given_weights.network() as network:
        images = tf.compat.v1.placeholder(tf.float32, [None, None, None, 3])
        unknown = model.predict_labels(images, options)
        known = model.predict_labels(tf.constant(image), dataclasses.replace(options, crop_size=_ANY))
        unknown, known = network.run([unknown, known], {images: image})
    assert unknown['semantic'].shape == (2, *_ANY)
    np.testing.assert_allclose(unknown['semantic_prob'], known['semantic_prob'], rtol=0, atol=1e-4)


@pytest.mark.parametrize('name', [_case('xception_41', quick=True), _case('xception_71', quick=False)])
def test_skips_of_xception_lie_at_their_strides(name):
    with given_weights.network(), layers.mode_scope(is_training=False, fine_tune_batch_norm=False):
        _, end_points = feature_extractor.extract_features(tf.zeros([1, *_ANY, 3]), _options(name, 32))
    sizes = {at: end_points[skip].shape.as_list()[1:3] for at, skip in BACKBONES.get(name).decoder_end_points.items()}
    assert sizes == {2: [23, 31], 4: [12, 16], 8: [6, 8], 16: [3, 4]}


def _build_tiny_xception(**arguments):
    """Features and end points of an Xception of four narrow blocks, made dense at output stride 4."""
    options = ModelOptions({'semantic': 3}, model_variant='xception_41', output_stride=4, **arguments)
    blocks = (
        xception.Block('entry_flow/block1', (4, 4, 4), stride=2),
        xception.Block('middle_flow/block1', (4, 4, 4), shortcut='sum'),
        xception.Block('exit_flow/block1', (4, 4, 4), stride=2),
        xception.Block('exit_flow/block2', (4, 4, 4), shortcut='none', inner_activation=True, multi_grid=True),
    )
    images = np.random.RandomState(0).uniform(-9, 9, [1, 33, 33, 3]).astype(np.float32)
    return xception.build(tf.constant(images), options, scope='x', blocks=blocks)


def _tiny_xception(**arguments):
    """Values of the features, and of what the middle flow gives."""
    with given_weights.network() as network:
        features, end_points = _build_tiny_xception(**arguments)
        values = functools.partial(given_weights.some_value, gain=3.0)
        return network.run([features, end_points['middle_flow/block1/unit_1/xception_module']], values=values)


def test_multi_grid_multiplies_the_last_rates():
    plain, same, other = (_tiny_xception(multi_grid=grid)[0] for grid in (None, (1, 1, 1), (1, 2, 4)))
    assert plain.shape == (1, 9, 9, 4)
    np.testing.assert_array_equal(plain, same)
    assert np.abs(plain - other).max() > 0.1 * plain.std()


def test_multi_grid_that_does_not_fit():
    with pytest.raises(OptionError, match=r'multi_grid=\(0, 1, 2\) .* xception_41: .* 3 factors, each 1'):
        _tiny_xception(multi_grid=(0, 1, 2))


@functools.cache
def _operations(**arguments):
    """The operations of the tiny Xception: (name, type, padding)."""
    with given_weights.network() as network:
        _build_tiny_xception(**arguments)
    return [
        (o.name, o.type, o.get_attr('padding').decode() if 'padding' in o.node_def.attr else '')
        for o in network.graph.get_operations()
    ]


def _kinds(scope, **arguments):
    """The operations below a scope of the tiny Xception: (type, padding)."""
    return {(kind, padding) for name, kind, padding in _operations(**arguments) if name.startswith(f'x/{scope}')}


def test_bounded_activations():
    _, free = _tiny_xception()
    _, bounded = _tiny_xception(use_bounded_activation=True)
    assert free.min() < 0 and free.max() > 6
    assert bounded.min() == 0 and bounded.max() <= 6


@pytest.mark.parametrize('part', ['depthwise', 'pointwise'])
@pytest.mark.parametrize('block', ['entry_flow/block1', 'middle_flow/block1', 'exit_flow/block1', 'exit_flow/block2'])
def test_bounded_activations_clip_both_parts_of_separable_convolutions(block, part):
    scope = f'{block}/unit_1/xception_module/separable_conv2_{part}'
    has_activation = block == 'exit_flow/block2'
    assert (('Relu', '') in _kinds(scope)) == has_activation
    bounded = {kind for kind, _ in _kinds(scope, use_bounded_activation=True)}
    assert ('Minimum' in bounded) != has_activation
    assert ('Relu6' in bounded) == has_activation


def test_bounded_activations_pad_strides_as_same():
    scope = 'entry_flow/block1/unit_1/xception_module/separable_conv3_depthwise'
    assert ('DepthwiseConv2dNative', 'VALID') in _kinds(scope)
    assert ('DepthwiseConv2dNative', 'SAME') in _kinds(scope, use_bounded_activation=True)
