"""Depth losses and metric against NumPy twins, laws and values by hand."""

import math
import random

import numpy as np
import pytest
import tensorflow as tf

from deeplab import common
from deeplab.errors import DataError
from deeplab.registry import TaskContext
from deeplab.tasks import depth

LOSSES = {'l1': depth.l1, 'silog': depth.silog}
each_loss = pytest.mark.parametrize('name', LOSSES)
CONTEXT = TaskContext(1)
INVALID = (0.0, -1.0, np.nan, np.inf, -np.inf)


def random_case(seed=0, images=3, size=(5, 7)):
    """Predictions and truth; some true depths are invalid, all of the last image."""
    rng = np.random.default_rng(seed)
    truth = rng.uniform(0.5, 80, (images, *size, 1)).astype(np.float32)
    prediction = (truth * rng.lognormal(0.1, 0.4, truth.shape)).astype(np.float32)
    places = rng.random(truth.shape) < 0.3
    truth[places] = rng.choice(INVALID, places.sum())
    truth[-1] = 0
    return prediction, truth


def pairs(prediction, truth):
    """Valid (prediction, truth) of each image that has some, in float64."""
    images = []
    for p, t in zip(prediction, truth, strict=True):
        valid = np.isfinite(t) & (t > 0)
        if valid.any():
            images.append((p[valid].astype(np.float64), t[valid].astype(np.float64)))
    return images


def silog_twin(prediction, truth, weight):
    values = []
    for p, t in pairs(prediction, truth):
        d = np.log(p) - np.log(t)
        values.append(math.sqrt((d**2).mean() - weight * d.mean() ** 2))
    return np.mean(values)


def value_and_gradient(function, prediction, truth):
    with tf.GradientTape() as tape:
        tensor = tf.constant(prediction)
        tape.watch(tensor)
        loss = function(tensor, tf.constant(truth))
    return float(loss), tape.gradient(loss, tensor).numpy()


def test_losses_against_their_twins():
    prediction, truth = random_case()
    p, t = (np.concatenate(values) for values in zip(*pairs(prediction, truth), strict=True))
    assert float(depth.l1(prediction, truth)) == pytest.approx(np.abs(p - t).mean(), rel=1e-5)
    for weight in (0.0, 0.5, 0.85, 1.0):
        loss = float(depth.silog(prediction, truth, silog_lambda=weight))
        assert loss == pytest.approx(silog_twin(prediction, truth, weight), rel=1e-4)
    assert float(depth.silog(prediction, truth)) == float(depth.silog(prediction, truth, silog_lambda=0.85))


def test_losses_by_hand():
    truth = np.array([1, 2, 0, 4], np.float32).reshape(1, 2, 2, 1)
    prediction = np.array([2, 4, 9, 8], np.float32).reshape(1, 2, 2, 1)
    assert float(depth.l1(prediction, truth)) == pytest.approx(7 / 3)
    # All logarithms differ by log 2.
    assert float(depth.silog(prediction, truth, silog_lambda=1.0)) == pytest.approx(0, abs=1e-6)
    assert float(depth.silog(prediction, truth)) == pytest.approx(math.sqrt(0.15) * math.log(2), rel=1e-5)


@each_loss
def test_invalid_pixels_have_no_effect(name):
    prediction, truth = random_case(1)
    value, gradient = value_and_gradient(LOSSES[name], prediction, truth)
    invalid = ~(np.isfinite(truth) & (truth > 0))
    assert np.isfinite(gradient).all() and not gradient[invalid].any() and gradient[~invalid].any()
    for other in (np.nan, np.inf, 0.0, -3.0, 1e30):
        changed, changed_gradient = value_and_gradient(LOSSES[name], np.where(invalid, other, prediction), truth)
        assert changed == value
        np.testing.assert_array_equal(changed_gradient, gradient)


@each_loss
@pytest.mark.parametrize('invalid', INVALID)
def test_no_valid_pixel(name, invalid):
    prediction, truth = np.ones((2, 3, 3, 1), np.float32), np.full((2, 3, 3, 1), invalid, np.float32)
    value, gradient = value_and_gradient(LOSSES[name], prediction, truth)
    assert value == 0 and not gradient.any()


@each_loss
@pytest.mark.parametrize('output', [-1e30, -100.0, -16.0, 0.0, 16.0, 100.0, 1e30, 'truth'])
def test_gradients_are_finite_at_extremes(name, output):
    truth = np.array([1e-6, 1.0, 1.0, 80.0, 1e6, 0.0], np.float32).reshape(1, 2, 3, 1)
    raw = np.log(np.maximum(truth, 1e-6)) if output == 'truth' else np.full_like(truth, output)
    value, gradient = value_and_gradient(lambda x, t: LOSSES[name](depth.positive(x), t), raw, truth)
    assert math.isfinite(value) and np.isfinite(gradient).all()


def test_the_activation_is_positive_and_finite():
    outputs = np.array([-np.inf, -1e9, -2.0, 0.0, 2.0, 1e9, np.inf], np.float32)
    depths = depth.positive(outputs).numpy()
    assert (depths > 0).all() and np.isfinite(depths).all()
    np.testing.assert_allclose(depths[2:5], np.exp([-2, 0, 2]), rtol=1e-6)
    assert depths[0] == pytest.approx(depth.SMALLEST)
    assert depth.positive(tf.constant(outputs, tf.bfloat16)).dtype == tf.float32


def figures_twin(p, t):
    ratio = [max(a / b, b / a) for a, b in zip(p, t, strict=True)]
    squares, logs = [(a - b) ** 2 for a, b in zip(p, t, strict=True)], np.log(p) - np.log(t)
    return {
        'abs_rel': np.mean([abs(a - b) / b for a, b in zip(p, t, strict=True)]),
        'sq_rel': np.mean([square / b for square, b in zip(squares, t, strict=True)]),
        'rmse': math.sqrt(np.mean(squares)),
        'rmse_log': math.sqrt((logs**2).mean()),
        **{f'delta{k}': np.mean([r < 1.25**k for r in ratio]) for k in (1, 2, 3)},
    }


def add(errors, truth, prediction):
    errors.update({common.DEPTH: truth[..., np.newaxis]}, {common.DEPTH: prediction})


def errors_of(prediction, truth):
    errors = depth.DepthMetric(CONTEXT)
    for p, t in zip(prediction[..., 0], truth[..., 0], strict=True):
        add(errors, t, p)
    return errors


def test_figures_against_their_twin():
    prediction, truth = random_case(2, images=4)
    result = errors_of(prediction, truth).result()
    by_image = [figures_twin(*pair) for pair in pairs(prediction, truth)]
    together = figures_twin(*(np.concatenate(values) for values in zip(*pairs(prediction, truth), strict=True)))
    assert len(by_image) == 3 and set(result) == {*together, *(f'pixel_{name}' for name in together)}
    for name, value in together.items():
        assert result[f'pixel_{name}'] == pytest.approx(value, rel=1e-12)
        assert result[name] == pytest.approx(np.mean([figures[name] for figures in by_image]), rel=1e-12)


def test_figures_by_hand():
    errors = depth.DepthMetric(CONTEXT)
    add(errors, np.array([[2.0, 4.0, np.nan]]), np.array([[2.0, 6.0, 1.0]]))
    add(errors, np.array([[10.0]]), np.array([[12.5]]))  # a ratio of exactly 1.25 is not below it
    result = errors.result()
    assert (result['abs_rel'], result['pixel_abs_rel']) == (0.25, 0.25)
    assert result['rmse'] == pytest.approx((math.sqrt(2) + 2.5) / 2)
    assert result['pixel_rmse'] == pytest.approx(math.sqrt((4 + 6.25) / 3))
    assert (result['delta1'], result['delta2'], result['pixel_delta1']) == (0.25, 1.0, pytest.approx(1 / 3))
    assert (result['delta3'], result['sq_rel']) == (1.0, pytest.approx((0.5 + 0.625) / 2))


def test_merging_equals_one_pass_in_any_order():
    prediction, truth = random_case(3, images=9)
    whole = errors_of(prediction, truth).result()
    order = list(range(9))
    random.Random(0).shuffle(order)
    merged = errors_of(prediction[order[:4]], truth[order[:4]])
    merged.merge(errors_of(prediction[order[4:]], truth[order[4:]]))
    merged.merge(depth.DepthMetric(CONTEXT))
    assert merged.result() == whole


def test_perfect_depths_no_depths_and_bad_ones():
    truth = np.array([[1.0, 2.0]])
    errors = depth.DepthMetric(CONTEXT)
    assert set(errors.result().values()) == {None}
    add(errors, np.zeros((2, 2)), np.full((2, 2), np.nan))
    assert set(errors.result().values()) == {None}
    add(errors, truth, truth)
    assert [errors.result()[name] for name in depth.FIGURES] == [0, 0, 0, 0, 1, 1, 1]
    add(errors, truth, np.array([[0.0, -1.0]]))
    assert all(math.isfinite(value) for value in errors.result().values())
    for bad in (np.nan, np.inf):
        with pytest.raises(DataError, match='not finite'):
            add(errors, truth, np.array([[1.0, bad]]))
