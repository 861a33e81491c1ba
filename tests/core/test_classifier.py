"""Classifiers of all backbones: variables, dropout, types, gradients; parity/test_classifiers.py has the figures."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import classifier, cost, dropout, feature_extractor, layers, quantization, weight_decays
from deeplab.errors import OptionError
from deeplab.options import ModelOptions
from deeplab.registry import BACKBONES, Backbone
from tests.helpers import given_weights
from tests.helpers.registries import changes_undone

CLASSES = 7
MOBILENET = 'Logits/Conv2d_1c_1x1'


def options(name, **others):
    stride = max(BACKBONES.get(name).output_strides)
    return ModelOptions({'semantic': CLASSES}, model_variant=name, output_stride=stride, **others)


def build(images, model_options, **mode):
    with layers.mode_scope(**{'is_training': False, 'fine_tune_batch_norm': False, **mode}):
        features, end_points = feature_extractor.extract_features(images, model_options)
        return classifier.logits(features, end_points, model_options, CLASSES)


def variables_of_classifier(name, **others):
    """Shapes of the variables after the backbone, by name below its scope."""
    model_options = options(name, **others)
    with cost.abstract_graph() as whole:
        logits = build(tf.zeros([1, 64, 64, 3]), model_options)
        assert logits.shape == [1, 1, 1, CLASSES] and logits.dtype == tf.float32
    with cost.abstract_graph() as backbone:
        feature_extractor.extract_features(tf.zeros([1, 64, 64, 3]), model_options)
    scope = f'{BACKBONES.get(name).scope}/'
    added = {key: shape for key, shape in whole.shapes.items() if key not in backbone.shapes}
    assert all(key.startswith(scope) for key in added)
    return {key.removeprefix(scope): list(shape) for key, shape in added.items() if key in whole.trained}


def last(scope, channels):
    return {f'{scope}/weights': [1, 1, channels, CLASSES], f'{scope}/biases': [CLASSES]}


def hidden(scope, channels, filters, normalized=False):
    rest = ('BatchNorm/gamma', 'BatchNorm/beta') if normalized else ('biases',)
    return {f'{scope}/weights': [1, 1, channels, filters], **{f'{scope}/{name}': [filters] for name in rest}}


@pytest.mark.parametrize(
    ('name', 'multiplier', 'expected'),
    [
        ('mobilenet_v2', 0.5, hidden('Conv_1', 160, 1280, True) | last(MOBILENET, 1280)),
        ('mobilenet_v2', 1.4, hidden('Conv_1', 448, 1792, True) | last(MOBILENET, 1792)),
        ('mobilenet_v3_large', 0.75, hidden('Conv_2', 720, 1280) | last(MOBILENET, 1280)),
        ('mobilenet_v3_small', 1.0, hidden('Conv_2', 576, 1024) | last(MOBILENET, 1024)),
        ('mobilenet_v3_small_seg', 1.0, hidden('Conv_2', 288, 1024) | last(MOBILENET, 1024)),
        ('mobilenet_edgetpu', 1.0, last(MOBILENET, 1280)),
        ('resnet_v1_18', 1.0, last('logits', 512)),
        pytest.param('resnet_v1_50', 1.0, last('logits', 2048), marks=pytest.mark.slow),
        ('xception_41', 1.0, last('logits', 2048)),
        pytest.param('nas_pnasnet', 1.0, {'logits/weights': [1, 1, 800, CLASSES]}, marks=pytest.mark.slow),
        pytest.param('nas_hnasnet', 1.0, {'logits/weights': [1, 1, 200, CLASSES]}, marks=pytest.mark.slow),
    ],
)
def test_variables(name, multiplier, expected):
    assert variables_of_classifier(name, depth_multiplier=multiplier) == expected


@pytest.mark.parametrize(
    ('name', 'multiplier', 'multiply_adds', 'parameters'),
    # Published by TF-Slim in millions, for images of 224x224 and 1001 classes; of ResNet, by the layers.
    [
        ('mobilenet_v2', 1.4, 582, 6.1),
        ('mobilenet_v2', 0.35, 59, 1.7),
        ('mobilenet_v3_large', 1.0, 217, 5.5),
        ('mobilenet_v3_large', 0.75, 155, 4.0),
        ('mobilenet_edgetpu', 1.0, 991, 4.1),
        pytest.param('resnet_v1_50', 1.0, 3482, 25.6, marks=pytest.mark.slow),
    ],
)
def test_published_figures(name, multiplier, multiply_adds, parameters):
    model_options = options(name, depth_multiplier=multiplier, divisible_by=8)
    with cost.abstract_graph() as network:
        features, end_points = feature_extractor.extract_features(tf.zeros([1, 224, 224, 3]), model_options)
        classifier.logits(features, end_points, model_options, 1001)
        counted = network.cost()
    assert counted.multiply_adds / 1e6 == pytest.approx(multiply_adds, abs=1)
    assert counted.parameters / 1e6 == pytest.approx(parameters, abs=0.06)


def build_plugin(images, model_options):
    with tf.compat.v1.variable_scope('mine'):
        return layers.conv2d(images, 4, 3, stride=8, normalize=False, scope='conv'), {}


@pytest.fixture
def plugin():
    with changes_undone(BACKBONES):
        BACKBONES.add(Backbone(name='mine', build=build_plugin, scope='mine', output_strides=(8,)))
        yield options('mine')


def test_a_backbone_of_a_plugin_has_a_mean_and_a_layer_with_biases(plugin):
    images = np.random.default_rng(0).uniform(0, 255, [2, 16, 24, 3]).astype(np.float32)
    with given_weights.network() as network:
        features, _ = feature_extractor.extract_features(tf.constant(images), plugin)
        logits = build(tf.constant(images), plugin, weight_decay=0.5)
        assert weight_decays.factors() == {'mine/conv/weights': 0.5, 'mine/logits/weights': 0.5}
        features, logits = network.run([features, logits])
    weights, biases = (
        given_weights.some_value(f'mine/logits/{kind}', shape)
        for kind, shape in (('weights', [1, 1, 4, CLASSES]), ('biases', [CLASSES]))
    )
    expected = features.mean(axis=(1, 2)) @ weights[0, 0] + biases
    np.testing.assert_allclose(logits[:, 0, 0], expected, rtol=0, atol=1e-5 * expected.std())


@pytest.mark.parametrize(
    ('name', 'expected'),
    [
        ('mobilenet_v2', ('Logits/Conv2d_1c_1x1_dropout', 0.8)),
        ('mobilenet_v3_small', ('Logits/Conv2d_1c_1x1_dropout', 0.8)),
        ('xception_41', ('logits_dropout', 0.5)),
        ('resnet_v1_18', ('logits_dropout', 1.0)),
        ('lenet', ('fc4_dropout', 0.5)),
    ],
)
def test_dropout_of_the_family_before_the_last_layer(monkeypatch, name, expected):
    calls = []

    def recorded(values, keep_probability, *, scope):
        calls.append((scope, keep_probability))
        return values

    monkeypatch.setattr(dropout, 'dropout', recorded)
    with cost.abstract_graph():
        features, end_points = tf.zeros([1, 2, 2, 8]), {}
        classifier.logits(features, end_points, options(name), CLASSES)
    assert calls == [expected]


def test_dropout_is_for_training_alone(monkeypatch):
    usual = BACKBONES.get('mobilenet_v2')
    without = dataclasses.replace(usual, classifier=dataclasses.replace(usual.classifier, keep_probability=1.0))
    with given_weights.network() as network:
        features = tf.constant(np.random.default_rng(0).normal(size=[1, 3, 3, 320]).astype(np.float32))

        def logits(is_training, record=usual):
            monkeypatch.setattr(BACKBONES, 'get', lambda name: record)
            with layers.mode_scope(is_training=is_training, fine_tune_batch_norm=False):
                return classifier.logits(features, {}, options('mobilenet_v2'), CLASSES)

        predicted, trained, kept = network.run([logits(False), logits(True), logits(True, without)])
    np.testing.assert_array_equal(predicted, kept)
    assert np.abs(trained - predicted).max() > 0.01 * predicted.std()


@pytest.mark.parametrize('name', ['mobilenet_v2', 'mobilenet_v3_small', 'lenet', 'cifarnet'])
def test_every_weight_of_a_classifier_learns(name):
    with given_weights.network() as network:
        model_options = options(name)
        size = 32 // max(BACKBONES.get(name).output_strides)
        channels = {'mobilenet_v2': 320, 'mobilenet_v3_small': 576}.get(name, 64)
        features = tf.constant(np.random.default_rng(0).normal(size=[4, size, size, channels]).astype(np.float32))
        with layers.mode_scope(is_training=True, fine_tune_batch_norm=True):
            logits = classifier.logits(features, {}, model_options, CLASSES)
        gradients = tf.gradients(tf.nn.softmax(logits)[..., 0], [network.weights[key] for key in network.trained])
        values = network.run(gradients)
    assert all(np.isfinite(value).all() and value.any() for value in values)


@pytest.mark.parametrize('name', ['resnet_v1_18', 'lenet'])
def test_logits_of_short_types_are_float32(name):
    images = np.random.default_rng(0).uniform(0, 255, [1, 32, 32, 3]).astype(np.float32)
    with given_weights.network() as network:
        tensors = [build(tf.constant(images), options(name), compute_type=kind) for kind in (tf.float32, tf.bfloat16)]
        expected, short = network.run(tensors)
    assert short.dtype == np.float32
    np.testing.assert_allclose(short, expected, rtol=0, atol=0.1 * expected.std())


@pytest.mark.parametrize('per_channel', [False, True])
@pytest.mark.parametrize('name', ['lenet', 'cifarnet', 'mobilenet_v2'])
def test_8_bit_classifiers_have_ranges_of_every_layer(name, per_channel):
    with cost.abstract_graph() as network:
        images, settings = tf.zeros([2, 32, 32, 3]), quantization.FakeQuantization(True, 0, per_channel)
        assert build(images, options(name), fake_quantization=settings).shape == [2, 1, 1, CLASSES]
    layers_with_weights = {key.rpartition('/')[0] for key in network.shapes if key.endswith('/weights')}
    places = {'weights_quant', 'act_quant'}
    for layer in layers_with_weights:
        assert places <= {key.split('/')[-2] for key in network.shapes if key.startswith(f'{layer}/')}


def test_a_fully_connected_layer_needs_the_size_of_the_images():
    with tf.Graph().as_default(), pytest.raises(OptionError, match='fc3 depends on the size.* Set crop_size'):
        build(tf.compat.v1.placeholder(tf.float32, [None, None, None, 3]), options('lenet'))
