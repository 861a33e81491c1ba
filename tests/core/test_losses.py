"""Pixel losses against NumPy twins and values by hand.

Covers core/scale_losses.py, core/losses/cross_entropy.py. What hard example mining keeps at which step, the goldens of
parity/test_losses.py show.
"""

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import scale_losses
from deeplab.errors import OptionError
from deeplab.options import LossOptions
from tests.helpers import computed_losses

IGNORE = 255


def twin(logits, labels, weights=None):
    """Weighted cross entropies and the mask of the pixels that are not ignored, in float64."""
    flat, ids = logits.reshape(-1, logits.shape[-1]).astype(np.float64), labels.reshape(-1)
    counted = ids != IGNORE
    ids = np.where(counted, ids, 0)
    logs = flat - flat.max(1, keepdims=True)
    entropy = np.log(np.exp(logs).sum(1)) - logs[np.arange(len(ids)), ids]
    weight = np.ones(flat.shape[1]) if weights is None else np.broadcast_to(weights, flat.shape[1])
    return entropy * weight[ids] * counted, counted


def smoothed_twin(logits, labels, smoothing, gamma=0.0, weights=(1.0,) * 4):
    """Focal losses (gamma 0: cross entropies) with smoothed labels, in float64."""
    flat, ids = logits.reshape(-1, logits.shape[-1]).astype(np.float64), labels.reshape(-1)
    counted = ids != IGNORE
    ids = np.where(counted, ids, 0)
    p = np.exp(flat - flat.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    truth = np.full_like(p, smoothing / p.shape[1])
    truth[np.arange(len(ids)), ids] += 1 - smoothing
    return (truth * (1 - p) ** gamma * -np.log(p)).sum(1) * np.asarray(weights)[ids] * counted


def random_case(seed=0, classes=4):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, (2, 5, 7, 1)).astype(np.int32)
    labels[rng.uniform(size=labels.shape) < 0.2] = IGNORE
    return rng.normal(0, 3, (2, 5, 7, classes)).astype(np.float32), labels


@pytest.mark.parametrize('weights', [None, (2.0,), (1.0, 0.0, 0.5, 3.0)])
def test_pixel_losses_and_their_mean(weights):
    logits, labels = random_case()
    values, counted = twin(logits, labels, weights)
    found = computed_losses.softmax(tf.constant(logits), tf.constant(labels), IGNORE, weights)
    np.testing.assert_allclose(found.values, values, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found.counted, counted)
    assert float(scale_losses.mean_of_counted(found)) == pytest.approx(values.sum() / counted.sum(), rel=1e-5)


@pytest.mark.parametrize('smoothing', [0.0, 0.1, 0.9])
@pytest.mark.parametrize('gamma', [0.0, 0.5, 1.0, 2.0])
def test_focal_and_smoothing(gamma, smoothing):
    logits, labels = random_case(3)
    weights = (1.0, 0.0, 0.5, 3.0)
    expected = smoothed_twin(logits, labels, smoothing, gamma, weights)
    found = computed_losses.focal(tf.constant(logits), tf.constant(labels), IGNORE, weights, smoothing, gamma)
    np.testing.assert_allclose(found.values, expected, rtol=1e-4, atol=1e-6)
    if gamma == 0.0:
        found = computed_losses.softmax(tf.constant(logits), tf.constant(labels), IGNORE, weights, smoothing)
        np.testing.assert_allclose(found.values, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize('smoothing', [0.0, 0.1])
@pytest.mark.parametrize('gamma', [None, 0.5, 2.0])
def test_gradients_by_finite_differences(gamma, smoothing):
    logits, labels = random_case(4)
    with tf.GradientTape() as tape:
        tensor = tf.constant(logits)
        tape.watch(tensor)
        arguments = (tensor, tf.constant(labels), IGNORE, None, smoothing)
        pixels = computed_losses.softmax(*arguments) if gamma is None else computed_losses.focal(*arguments, gamma)
        loss = scale_losses.mean_of_counted(pixels)
    gradient = tape.gradient(loss, tensor).numpy()
    direction = np.random.default_rng(5).normal(size=logits.shape)
    counted = (labels != IGNORE).sum()
    ends = [
        smoothed_twin(logits + step * direction, labels, smoothing, gamma or 0.0).sum() / counted
        for step in (1e-5, -1e-5)
    ]
    assert (gradient * direction).sum() == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-3)


@pytest.mark.parametrize('gamma', [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize('smoothing', [0.0, 0.1])
def test_focal_of_sure_answers_is_finite(gamma, smoothing):
    logits = tf.constant([[300.0, 0.0], [-300.0, 0.0], [0.0, 0.0]])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        pixels = computed_losses.focal(logits, tf.constant([0, 0, 0]), IGNORE, None, smoothing, gamma)
    assert np.isfinite(pixels.values).all()
    assert np.isfinite(tape.gradient(pixels.values, logits)).all()


def test_equal_logits_cost_the_log_of_the_classes():
    found = computed_losses.softmax(tf.zeros([3, 3, 5]), tf.ones([3, 3], tf.int32), IGNORE)
    np.testing.assert_allclose(found.values, np.full(9, np.log(5)), rtol=1e-6)


@pytest.mark.parametrize('share', [1.0, 0.5, 0.1])
def test_mean_of_hardest(share):
    logits, labels = random_case(1)
    values, _ = twin(logits, labels, (1.0, 0.5, 2.0, 1.0))
    kept = np.sort(values)[::-1][: int(share * values.size)]
    found = computed_losses.softmax(tf.constant(logits), tf.constant(labels), IGNORE, (1.0, 0.5, 2.0, 1.0))
    expected = kept.sum() / (kept != 0).sum()
    assert float(scale_losses.mean_of_hardest(found, share)) == pytest.approx(expected, rel=1e-5)


def test_hardest_by_hand():
    pixels = scale_losses.Losses(tf.constant([0.0, 4.0, 1.0, 2.0, 0.0]), tf.constant([0.0, 1.0, 1.0, 1.0, 0.0]))
    assert float(scale_losses.mean_of_hardest(pixels, 0.4)) == 3.0  # 4 and 2
    assert float(scale_losses.mean_of_hardest(pixels, 0.8)) == pytest.approx(7 / 3)  # the fourth kept loss is 0


def test_all_ignored_is_zero_with_zero_gradients():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        logits = tf.constant(np.random.default_rng(0).normal(size=(1, 3, 3, 4)), tf.float32)
        labels = tf.fill([1, 3, 3, 1], IGNORE)
        for measure in (computed_losses.softmax, computed_losses.focal):
            pixels = measure(logits, labels, IGNORE)
            for loss in (scale_losses.mean_of_counted(pixels), scale_losses.mean_of_hardest(pixels, 0.5)):
                value, gradient = session.run([loss, tf.gradients(loss, logits)[0]])
                assert value == 0.0
                np.testing.assert_array_equal(gradient, np.zeros((1, 3, 3, 4)))


@pytest.mark.parametrize('measure', [computed_losses.softmax, computed_losses.focal])
@pytest.mark.parametrize('smoothing', [0.0, 0.1])
def test_ignored_pixels_have_no_gradient(measure, smoothing):
    logits, labels = random_case(2)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tensor = tf.constant(logits)
        loss = scale_losses.mean_of_counted(measure(tensor, tf.constant(labels), IGNORE, None, smoothing))
        gradient = session.run(tf.gradients(loss, tensor)[0])
    is_zero = (gradient == 0).all(axis=-1)
    np.testing.assert_array_equal(is_zero, labels[..., 0] == IGNORE)


def test_half_precision_logits_are_measured_in_float32():
    found = computed_losses.softmax(tf.zeros([4, 3], tf.bfloat16), tf.zeros([4], tf.int32), IGNORE)
    assert found.values.dtype == tf.float32


def test_wrong_number_of_weights():
    logits, labels = random_case()
    options = LossOptions(label_weights=(1.0, 2.0, 3.0))
    with pytest.raises(OptionError, match='^label_weights has 3 weights, but there are 4 classes'):
        scale_losses.losses_of_scales({'merged_logits': tf.constant(logits)}, tf.constant(labels), IGNORE, options)
