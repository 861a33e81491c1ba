"""Comparison of checkpoints with networks, and conversion of a first convolution for RGB to other channels."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from deeplab import model
from deeplab.core import checkpoint_fit
from deeplab.core.checkpoint_fit import ClassesMismatchError, Entry
from deeplab.errors import NetworkMismatchError
from deeplab.options import ModelOptions
from tests.helpers import given_weights

WEIGHTS = np.random.RandomState(0).normal(size=(3, 3, 3, 4)).astype(np.float32)


def _entries(**shapes):
    return {name.replace('__', '/'): Entry(shape, tf.float32) for name, shape in shapes.items()}


def _variables(**shapes):
    """Placeholders of a network in the current graph."""
    names = {name.replace('__', '/'): shape for name, shape in shapes.items()}
    return {name: tf.compat.v1.placeholder(tf.float32, shape, name) for name, shape in names.items()}


def test_comparison_by_names_and_shapes():
    fit = checkpoint_fit.compare({'a': (1,), 'b': (2,), 'd': ()}, {'a': (1,), 'b': (3,), 'c': (4,)})
    assert fit == (('a',), ('b',), ('c',), ('d',))
    assert not fit.is_complete
    assert checkpoint_fit.compare({'a': (1,), 'd': ()}, {'a': (1,)}).is_complete


def test_all_that_differs_is_named():
    held = {**_entries(a=(1,), b=(2,)), 'e': Entry((), tf.int64)}
    with tf.Graph().as_default(), pytest.raises(NetworkMismatchError) as caught:
        checkpoint_fit.require('ckpt', held, _variables(a=[1], b=[3], c=[4], e=[]))
    for part in ("'ckpt'", 'b: [3] here, [2] in', 'e: float32 here, int64 in', '1 of 4 variables (c)'):
        assert part in str(caught.value)
    assert 'a:' not in str(caught.value)


def test_another_number_of_classes_is_stated_instead_of_shapes():
    held, shapes = (
        _entries(net=(2,), logits__semantic__weights=(8, 5)),
        {'net': [2], 'logits__semantic__weights': [8, 3]},
    )
    with tf.Graph().as_default():
        variables = _variables(**shapes)
        with pytest.raises(ClassesMismatchError, match='=3.*5 classes') as caught:
            checkpoint_fit.require('ckpt', held, variables, num_classes=3)
        assert '[8, 5]' not in str(caught.value)
        with pytest.raises(NetworkMismatchError, match=r'\[8, 3\].*\[8, 5\]') as caught:
            checkpoint_fit.require('ckpt', held, variables)
    assert not isinstance(caught.value, ClassesMismatchError)


@pytest.mark.parametrize('channels', [1, 2, 4, 5, 12])
def test_the_sum_over_the_channels_stays(channels):
    inflated = checkpoint_fit.inflate(WEIGHTS, channels)
    assert (inflated.shape, inflated.dtype) == ((3, 3, channels, 4), np.float32)
    np.testing.assert_allclose(inflated.sum(axis=2), WEIGHTS.sum(axis=2), atol=1e-5)


def test_by_hand():
    weights = np.array([1.0, 2.0, 6.0], np.float32).reshape(1, 1, 3, 1)
    expected = {1: [9.0], 2: [4.5, 4.5], 4: [0.75, 1.5, 4.5, 2.25], 6: [0.5, 1.0, 3.0, 1.5, 1.5, 1.5]}
    for channels, values in expected.items():
        np.testing.assert_allclose(checkpoint_fit.inflate(weights, channels).ravel(), values, rtol=1e-6)


@pytest.mark.parametrize(
    ('shape', 'held', 'channels', 'can'),
    [
        ((3, 3, 1, 8), (3, 3, 3, 8), 1, True),
        ((7, 7, 6, 8), (7, 7, 3, 8), 6, True),
        ((3, 3, 3, 8), (3, 3, 1, 8), 3, False),
        ((3, 3, 4, 8), (3, 3, 3, 8), 5, False),
        ((3, 3, 4, 8), (3, 3, 3, 9), 4, False),
        ((3, 3, 4, 8), (5, 5, 3, 8), 4, False),
        ((3, 3, 4, 8), (3, 3, 4, 8), 4, False),
        ((4,), (3,), 4, False),
    ],
)
def test_what_a_first_convolution_is(shape, held, channels, can):
    assert checkpoint_fit.can_inflate(shape, held, channels) is can


NETWORKS = ('toy', 'mobilenet_v3_small_seg', 'mobilenet_v2', 'resnet_v1_50_beta', 'xception_41')


def logits_of(options, images):
    """The logits of a network for images [n, h, w, channels]."""
    return model.multi_scale_logits(tf.constant(images), options)['semantic']['merged_logits']


@pytest.mark.parametrize('variant', NETWORKS[:1] + tuple(pytest.param(v, marks=pytest.mark.slow) for v in NETWORKS[1:]))
def test_equal_channels_give_what_three_equal_channels_gave(toy_network, variant):
    """Holds for networks that scale pixels to -1 to 1."""
    side = 33
    gray = np.random.RandomState(1).uniform(0, 255, (1, side, side, 1)).astype(np.float32)
    options = ModelOptions({'semantic': 3}, (side, side), model_variant=variant)
    with given_weights.network() as colors:
        expected = colors.run(logits_of(options, np.repeat(gray, 3, axis=3)))
    assert np.ptp(expected) > 0
    for channels in (1, 5):
        with given_weights.network() as others:
            logits = logits_of(dataclasses.replace(options, input_channels=channels), np.repeat(gray, channels, axis=3))
        assert others.weights.keys() == colors.weights.keys()
        (first,) = (name for name, shape in others.shapes.items() if shape != colors.shapes[name])
        values = {name: given_weights.some_value(name, shape) for name, shape in colors.shapes.items()}
        values[first] = checkpoint_fit.inflate(values[first], channels)
        found = others.run(logits, values=lambda name, shape, values=values: values[name])
        np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max() + 1e-7)
