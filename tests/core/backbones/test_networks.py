"""Properties of all backbones: dense features, training steps, unknown sizes, depth multipliers."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf

from deeplab import common, model, train
from deeplab.core import feature_extractor, layers
from deeplab.core.backbones import mobilenet_v2, registry, xception
from deeplab.deployment import model_deploy
from deeplab.errors import OptionError
from deeplab.options import DatasetOptions, LearningRateOptions, ModelOptions, OptimizerOptions, TrainOptions
from deeplab.training import training_step
from tests.parity import goldens

_QUICK = ('mobilenet_v2', 'xception_41', 'resnet_v1_18')
_CLASSES = 3
_CENTRED = (65, 97)  # 32 * k + 1: every stride finds a centre
_ANY = (45, 62)  # explicit padding needs none
_TRAINED = (49, 67)
_EXPLICIT_PADDING = ('resnet', 'xception')
# Deeper, of the same units as a smaller one of their family.
_DEEPER = ('resnet_v1_50_beta', 'resnet_v1_101', 'resnet_v1_101_beta', 'xception_65', 'xception_71')


def _session():
    """A session that does not rewrite its graph, which takes longer than one run of it."""
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return tf.compat.v1.Session(config=config)


def _options(name, output_stride, **arguments):
    outputs = {common.OUTPUT_TYPE: _CLASSES}
    return ModelOptions(outputs, model_variant=name, output_stride=output_stride, **arguments)


def _images(size, count=1):
    return np.random.RandomState(0).uniform(0, 255, [count, *size, 3]).astype(np.float32)


def _features(name, output_stride, size):
    """Features of a random image with the goldens' weights."""
    with tf.Graph().as_default(), _session() as session:
        with layers.mode_scope(is_training=False, fine_tune_batch_norm=False):
            images = tf.constant(_images(size))
            features, _ = feature_extractor.extract_features(images, _options(name, output_stride))
        variables = tf.compat.v1.model_variables()
        session.run([v.initializer for v in variables], goldens.initial_values(variables, 1.5))
        return session.run(features)


def _strides(name):
    return [stride for stride in (8, 16, 32) if stride in registry.get(name).output_strides]


def _case(name, *more, quick=_QUICK, is_long=False):
    marks = () if name in quick else pytest.mark.long if is_long else pytest.mark.slow
    return pytest.param(name, *more, marks=marks, id='-'.join([name, *map(str, more)]).replace(' ', ''))


def _laws():
    """Name, the strides to compare, size of the image."""
    for name in registry.names():
        # Searched cells resize their inputs to each other; MobileNetV3's gates average over the denser map, and
        # test_mobilenets.py holds the law without them.
        if name.startswith(('nas_', 'mobilenet_v3')):
            continue
        strides = _strides(name)
        yield _case(name, strides, _CENTRED, is_long=name in _DEEPER)
        if name.startswith(_EXPLICIT_PADDING):
            yield _case(name, strides[:2], _ANY, quick=('resnet_v1_18',), is_long=name in _DEEPER)


@pytest.mark.parametrize(('name', 'strides', 'size'), list(_laws()))
def test_dense_features_contain_the_strided_ones(name, strides, size):
    dense, *others = (_features(name, stride, size) for stride in strides)
    assert others
    for strided in others:
        assert strided.std() > 0.01
        np.testing.assert_allclose(dense[:, ::2, ::2], strided, rtol=0, atol=1e-4 * strided.std())
        dense = strided


_IGNORE = 255


class _Batch:
    """Replaces the input queue."""

    def dequeue(self):
        labels = np.random.RandomState(1).randint(0, _CLASSES, [2, *_TRAINED, 1])
        labels[:, :5] = _IGNORE
        return {common.IMAGE: tf.constant(_images(_TRAINED, 2)), common.LABEL: tf.constant(labels, tf.int32)}


@pytest.mark.parametrize(
    ('name', 'stride'),
    [
        _case(
            name,
            stride,
            quick=('mobilenet_v2',) if stride == 8 else (),
            is_long=stride > 8 and name in (*_DEEPER, 'nas_pnasnet'),
        )
        for name in registry.names()
        for stride in _strides(name)
    ],
)
def test_trains_a_step_on_an_odd_crop(name, stride):
    network = _options(name, stride, crop_size=_TRAINED)
    rate = LearningRateOptions(base=0.01)
    options = TrainOptions(network, DatasetOptions('train', '.'), '.', optimizer=OptimizerOptions(learning_rate=rate))
    with tf.Graph().as_default() as graph:
        graph.seed = 1
        global_step = tf.compat.v1.train.get_or_create_global_step()
        build = functools.partial(train._build_deeplab, _Batch(), options, _IGNORE, global_step)
        clones = model_deploy.create_clones(model_deploy.DeploymentConfig(), build)
        logits = clones[0].outputs.logits
        assert logits.shape == [2, *(int((side - 1) / stride + 1) for side in _TRAINED), _CLASSES]
        step = training_step.build_train_step(clones, options, tf.constant(0.01), global_step)
        with _session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            watched = {v.op.name: v for v in tf.compat.v1.model_variables()}
            before = session.run(watched)
            applied, loss = session.run([step.is_applied, step.loss])
            after = session.run(watched)
    assert applied and 0.5 < loss < 10
    trained = {v.op.name for v in graph.get_collection(tf.compat.v1.GraphKeys.TRAINABLE_VARIABLES)}
    still = [n for n in trained if np.array_equal(before[n], after[n])]
    # A shift whose batch norm's every value is cut off, or which another norm takes away, may stay.
    assert not [n for n in still if 'weights' in n]
    moved = [n for n in watched if 'moving_' in n and not np.array_equal(before[n], after[n])]
    assert len(moved) == sum('moving_' in n for n in watched)


@pytest.mark.parametrize('name', [_case(name) for name in registry.names()])
def test_predicts_batches_and_sizes_unknown_when_it_was_built(name):
    options = _options(name, _strides(name)[-1])
    image = _images(_ANY, 2)
    with tf.Graph().as_default() as graph, _session() as session:
        graph.seed = 1
        images = tf.compat.v1.placeholder(tf.float32, [None, None, None, 3])
        unknown = model.predict_labels(images, options)
        known = model.predict_labels(tf.constant(image), dataclasses.replace(options, crop_size=_ANY))
        variables = tf.compat.v1.model_variables()
        session.run([v.initializer for v in variables], goldens.initial_values(variables, 1.5))
        unknown, known = session.run([unknown, known], {images: image})
    assert unknown['semantic'].shape == (2, *_ANY)
    np.testing.assert_allclose(unknown['semantic_prob'], known['semantic_prob'], rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ('channels', 'multiplier', 'expected'),
    [(24, 1.0, 24), (24, 0.5, 12), (32, 0.35, 11), (16, 0.35, 6), (320, 1.4, 448), (32, 1.3, 42)],
)
def test_channels_under_a_depth_multiplier(channels, multiplier, expected):
    options = ModelOptions({'semantic': 3}, depth_multiplier=multiplier)
    assert mobilenet_v2.scaled_channels(channels, options) == expected


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
    with tf.Graph().as_default(), _session() as session:
        features, end_points = _build_tiny_xception(**arguments)
        variables = tf.compat.v1.model_variables()
        session.run([v.initializer for v in variables], goldens.initial_values(variables, 3.0))
        return session.run([features, end_points['middle_flow/block1/unit_1/xception_module']])


def test_multi_grid_multiplies_the_last_rates():
    plain, same, other = (_tiny_xception(multi_grid=grid)[0] for grid in (None, (1, 1, 1), (1, 2, 4)))
    assert plain.shape == (1, 9, 9, 4)
    np.testing.assert_array_equal(plain, same)
    assert np.abs(plain - other).max() > 0.1 * plain.std()


def test_multi_grid_of_the_wrong_length():
    with pytest.raises(OptionError, match=r'multi_grid=\(1, 2\) has 2 numbers. xception_41 needs 3'):
        _tiny_xception(multi_grid=(1, 2))


@functools.cache
def _operations(**arguments):
    """The operations of the tiny Xception: (name, type, padding)."""
    with tf.Graph().as_default() as graph:
        _build_tiny_xception(**arguments)
        return [
            (o.name, o.type, o.get_attr('padding').decode() if 'padding' in o.node_def.attr else '')
            for o in graph.get_operations()
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
