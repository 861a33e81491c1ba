"""Region losses against NumPy twins, laws and finite differences.

Covers core/losses/overlap.py, core/losses/lovasz.py, core/scale_losses.py.
"""

import functools

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import scale_losses
from deeplab.core.losses import lovasz
from tests.helpers import computed_losses

IGNORE = 255
MEASURES = {name: functools.partial(computed_losses.regions, name) for name in ('dice', 'jaccard', 'tversky', 'lovasz')}
each_measure = pytest.mark.parametrize('name', MEASURES)


def random_case(seed=0, classes=5):
    """Logits and labels; the last class never occurs, some pixels are ignored."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes - 1, (2, 5, 7, 1)).astype(np.int32)
    labels[rng.uniform(size=labels.shape) < 0.2] = IGNORE
    return rng.normal(0, 2, (2, 5, 7, classes)).astype(np.float32), labels


def lovasz_of_errors(errors, truth):
    """Algorithm 1 of arXiv:1705.08790, one pixel at a time: the loss of one class."""
    order = sorted(range(len(errors)), key=lambda i: -errors[i])
    intersection, union, before, loss = truth.sum(), truth.sum(), 0.0, 0.0
    for i in order:
        intersection, union = intersection - truth[i], union + 1 - truth[i]
        jaccard_loss = 1 - intersection / union
        loss += errors[i] * (jaccard_loss - before)
        before = jaccard_loss
    return loss


def loss_of_class(name, p, g):
    """The loss of one class, of probabilities and truth in float64."""
    overlap = (p * g).sum()
    if name == 'dice':
        return 1 - 2 * overlap / ((p**2).sum() + (g**2).sum())
    if name == 'jaccard':
        return 1 - overlap / (p.sum() + g.sum() - overlap)
    if name == 'tversky':
        return 1 - overlap / (overlap + 0.3 * (p * (1 - g)).sum() + 0.7 * ((1 - p) * g).sum())
    return lovasz_of_errors(np.abs(g - p), g)


def twin(name, logits, labels):
    """Loss of each class that occurs, by class."""
    ids = labels.reshape(-1)
    counted = ids != IGNORE
    flat = logits.reshape(-1, logits.shape[-1]).astype(np.float64)[counted]
    exponentials = np.exp(flat - flat.max(1, keepdims=True))
    probabilities = exponentials / exponentials.sum(1, keepdims=True)
    truth = {c: (ids[counted] == c).astype(np.float64) for c in sorted(set(ids[counted].tolist()))}
    return {c: loss_of_class(name, probabilities[:, c], g) for c, g in truth.items()}


def measured(name, logits, labels):
    return MEASURES[name](computed_losses.regions_of(tf.constant(logits), tf.constant(labels), IGNORE))


def value_and_gradient(name, logits, labels, weights=None):
    with tf.GradientTape() as tape:
        tensor = tf.constant(logits)
        tape.watch(tensor)
        losses = MEASURES[name](computed_losses.regions_of(tensor, tf.constant(labels), IGNORE))
        loss = scale_losses.mean_of_classes(losses, weights)
    return float(loss), tape.gradient(loss, tensor).numpy()


@each_measure
def test_against_its_twin(name):
    logits, labels = random_case()
    expected = twin(name, logits, labels)
    found = measured(name, logits, labels)
    assert found.counted.numpy().tolist() == [1, 1, 1, 1, 0]
    np.testing.assert_allclose(found.values[:4], list(expected.values()), rtol=1e-5)
    assert found.values[4] == 0
    assert found.values.shape == (5,)
    mean = sum(expected.values()) / 4
    assert float(scale_losses.mean_of_classes(found)) == pytest.approx(mean, rel=1e-5)
    weights = (1.0, 0.0, 0.5, 3.0, 100.0)
    mean = sum(weights[c] * loss for c, loss in expected.items()) / 4.5
    assert float(scale_losses.mean_of_classes(found, weights)) == pytest.approx(mean, rel=1e-5)


def test_lovasz_of_the_classes_that_occur_is_that_of_all(monkeypatch):
    """With many classes, only those in the batch are computed."""
    computed, losses_of = [], lovasz._losses
    monkeypatch.setattr(lovasz, '_losses', lambda p, truth: computed.append(len(truth)) or losses_of(p, truth))
    logits, labels = random_case(4)
    value, gradient = value_and_gradient('lovasz', logits, labels)
    monkeypatch.setattr(lovasz, 'MOST_CLASSES', 4)
    few_value, few_gradient = value_and_gradient('lovasz', logits, labels)
    assert few_value == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(few_gradient, gradient, rtol=1e-5, atol=1e-9)
    present = set(np.unique(labels)) - {IGNORE}
    assert computed == [logits.shape[-1], len(present)] and len(present) < logits.shape[-1]


@each_measure
def test_gradient_by_finite_differences(name):
    logits, labels = random_case(3)
    _, gradient = value_and_gradient(name, logits, labels)
    rng = np.random.default_rng(4)
    for _ in range(5):
        direction = rng.normal(size=logits.shape)
        ends = [sum(twin(name, logits + step * direction, labels).values()) / 4 for step in (1e-5, -1e-5)]
        assert (gradient * direction).sum() == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-3, abs=1e-6)


@each_measure
def test_ignored_pixels_change_nothing(name):
    logits, labels = random_case(5)
    changed = np.where(labels == IGNORE, 7.0 - 3 * logits, logits).astype(np.float32)
    assert (changed != logits).any()
    (value, gradient), (other_value, other_gradient) = (value_and_gradient(name, x, labels) for x in (logits, changed))
    assert value == other_value
    np.testing.assert_array_equal(gradient, other_gradient)
    np.testing.assert_array_equal((gradient == 0).all(axis=-1), labels[..., 0] == IGNORE)


@each_measure
def test_all_ignored_is_zero_with_zero_gradients(name):
    logits, labels = random_case(6)
    value, gradient = value_and_gradient(name, logits, np.full_like(labels, IGNORE), (1.0, 2.0, 3.0, 4.0, 5.0))
    assert value == 0
    np.testing.assert_array_equal(gradient, np.zeros_like(logits))


@each_measure
def test_a_sure_answer_costs_what_is_not_covered(name):
    labels = np.array([0, 0, 0, 1, 1, 2], np.int32)
    answer = np.array([0, 0, 1, 1, 1, 1], np.int32)
    found = measured(name, np.eye(3, dtype=np.float32)[answer] * 200, labels)
    expected = {
        'dice': [1 - 4 / 5, 1 - 4 / 6, 1],
        'jaccard': [1 - 2 / 3, 1 - 2 / 4, 1],
        'tversky': [1 - 2 / 2.7, 1 - 2 / 2.6, 1],
        'lovasz': [1 - 2 / 3, 1 - 2 / 4, 1],
    }
    np.testing.assert_allclose(found.values, expected[name], atol=1e-6)
    right = measured(name, np.eye(3, dtype=np.float32)[labels] * 200, labels)
    np.testing.assert_allclose(right.values, [0, 0, 0], atol=1e-6)


@each_measure
def test_a_batch_is_one_set_of_pixels(name):
    logits, labels = random_case(7)
    order = np.random.default_rng(8).permutation(70)
    shuffled = measured(name, logits.reshape(70, 5)[order], labels.reshape(70)[order])
    np.testing.assert_allclose(measured(name, logits, labels).values, shuffled.values, rtol=1e-5)


@pytest.mark.parametrize('spread', [0.1, 3.0, 20.0])
def test_lovasz_is_that_of_the_full_order_but_for_its_bins(spread):
    rng = np.random.default_rng(11)
    logits = rng.normal(0, spread, (3000, 2)).astype(np.float32)
    labels = (rng.uniform(size=3000) < 0.05).astype(np.int32)
    labels[:100] = IGNORE
    exact = np.array(list(twin('lovasz', logits, labels).values()))
    missing = exact - measured('lovasz', logits, labels).values.numpy()
    assert missing.shape == (2,)
    assert (missing > -1e-6).all()
    assert (missing < lovasz.ERROR_STEP + 1e-6).all()


@each_measure
def test_logits_that_are_not_finite_show_in_the_loss(name):
    logits, labels = random_case(12)
    logits[1, 2, 3] = np.nan
    labels[1, 2, 3] = 0
    assert np.isnan(value_and_gradient(name, logits, labels)[0])


def test_tversky_with_even_costs_of_one_is_jaccard():
    logits, labels = random_case(9)
    regions = computed_losses.regions_of(tf.constant(logits), tf.constant(labels), IGNORE)
    np.testing.assert_array_equal(
        MEASURES['tversky'](regions, tversky_alpha=1.0, tversky_beta=1.0).values,
        MEASURES['jaccard'](regions).values,
    )


@pytest.mark.parametrize('scale', [0.0, 200.0])
@each_measure
def test_gradients_are_finite_where_probabilities_tie_or_saturate(name, scale):
    logits, labels = random_case(10)
    value, gradient = value_and_gradient(name, np.sign(logits) * np.float32(scale), labels)
    assert 0 <= value <= 1
    assert np.isfinite(gradient).all()


@each_measure
def test_half_precision_logits_are_measured_in_float32(name):
    regions = computed_losses.regions_of(tf.zeros([4, 3], tf.bfloat16), tf.zeros([4], tf.int32), IGNORE)
    assert MEASURES[name](regions).values.dtype == tf.float32


def test_weights_of_zero_for_all_that_occurs():
    losses = scale_losses.Losses(tf.constant([0.5, 0.0]), tf.constant([1.0, 0.0]))
    assert float(scale_losses.mean_of_classes(losses, (0.0, 1.0))) == 0.0


def test_what_depends_on_the_classes_that_occur_is_not_compiled(monkeypatch):
    """XLA knows no shapes that follow from values; gradients follow the operations that they belong to."""
    monkeypatch.setattr(lovasz, 'MOST_CLASSES', 3)
    with tf.Graph().as_default() as graph:
        with tf.xla.experimental.jit_scope():
            logits = tf.zeros([2, 5, 5, 4]) + 0.0
            labels = tf.zeros([2, 5, 5, 1], tf.int32)
            loss = scale_losses.mean_of_classes(MEASURES['lovasz'](computed_losses.regions_of(logits, labels, IGNORE)))
        tf.gradients(loss, logits)
        compiled = {
            operation.type
            for operation in graph.get_operations()
            if '_XlaCompile' in operation.node_def.attr and operation.node_def.attr['_XlaCompile'].b
        }
    assert 'Exp' in compiled
    assert not compiled & {'Where', 'Bincount', 'GatherNd', 'Cumsum', 'GatherV2', 'Abs', 'Sign'}
