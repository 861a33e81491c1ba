"""Edge targets, loss and metric against NumPy twins, laws and arrays by hand."""

import math

import numpy as np
import pytest
import tensorflow as tf

from deeplab import common
from deeplab.errors import DataError
from deeplab.registry import TaskContext
from deeplab.tasks import edges
from tests.helpers import metric_batches

IGNORE = 255


def targets_of(labels, width, ignore_label=IGNORE):
    return edges.compute_targets(np.asarray(labels), ignore_label, width)


def targets_twin(labels, width, ignore_label=IGNORE):
    """The definition, pixel by pixel."""
    on_edge, valid = np.zeros(labels.shape, bool), np.zeros(labels.shape, bool)
    reach = width // 2
    for y, x in np.ndindex(labels.shape):
        window = labels[max(0, y - reach) : y + reach + 1, max(0, x - reach) : x + reach + 1]
        if labels[y, x] != ignore_label:
            on_edge[y, x] = ((window != ignore_label) & (window != labels[y, x])).any()
            valid[y, x] = on_edge[y, x] or not (window == ignore_label).any()
    return on_edge, valid


def test_targets_by_hand():
    on_edge, valid = targets_of([[0, 0, 0, 1, 1, 1, 255, 1, 1]], 2)
    assert on_edge.astype(int).tolist() == [[0, 0, 1, 1, 0, 0, 0, 0, 0]]
    assert valid.astype(int).tolist() == [[1, 1, 1, 1, 1, 0, 0, 0, 1]]
    on_edge, valid = targets_of([[0, 0, 0, 1, 1, 1, 255, 1, 1]], 4)
    assert on_edge.astype(int).tolist() == [[0, 1, 1, 1, 1, 0, 0, 0, 0]]
    assert valid.astype(int).tolist() == [[1, 1, 1, 1, 1, 0, 0, 0, 0]]
    corner, _ = targets_of([[0, 0, 0], [0, 0, 0], [0, 0, 1]], 3)
    assert corner.astype(int).tolist() == [[0, 0, 0], [0, 1, 1], [0, 1, 1]]


@pytest.mark.parametrize('width', [2, 3, 6, 20, 51])
@pytest.mark.parametrize('ignore_label', [255, 0])
def test_targets_against_their_twin(width, ignore_label):
    labels = metric_batches.blocks(np.random.default_rng(width), 5, (31, 43), block=9)
    expected = targets_twin(labels, width, ignore_label)
    for result, wanted in zip(targets_of(labels, width, ignore_label), expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_targets_of_a_flipped_image_and_of_a_small_one():
    labels = metric_batches.blocks(np.random.default_rng(1), 4, (13, 17))
    for whole, flipped in zip(targets_of(labels, 5), targets_of(labels[::-1, ::-1], 5), strict=True):
        np.testing.assert_array_equal(whole[::-1, ::-1], flipped)
    for whole, one in zip(targets_of([[3]], 20), (False, True), strict=True):
        assert whole.tolist() == [[one]]


def test_targets_in_a_graph_of_one_class_and_of_none():
    context = TaskContext(5, IGNORE, settings={'edge_width': 7})
    graph = tf.function(
        lambda ids: tuple(edges.targets({common.LABEL: ids[..., tf.newaxis]}, context).values()),
        input_signature=[tf.TensorSpec([None, 9], tf.int32)],
    )
    labels = metric_batches.blocks(np.random.default_rng(2), 3, (6, 9)).astype(np.int32)
    assert [output.shape.as_list() for output in graph.get_concrete_function().outputs] == [[None, 9]] * 2
    for built, computed in zip(graph(labels), targets_of(labels, 7), strict=True):
        np.testing.assert_array_equal(built, computed)
    on_edge, valid = targets_of(np.full((3, 4), 7), 3)
    assert not on_edge.any() and valid.all()
    on_edge, valid = targets_of(np.full((3, 4), IGNORE), 3)
    assert not on_edge.any() and not valid.any()


def loss_case(seed=0):
    rng = np.random.default_rng(seed)
    truth, valid = rng.random((3, 6, 8)) < 0.2, rng.random((3, 6, 8)) < 0.8
    truth[2] = False
    return rng.normal(0, 3, (3, 6, 8, 1)).astype(np.float32), truth, valid


def loss_and_gradient(logits, truth, valid):
    with tf.GradientTape() as tape:
        tensor = tf.constant(logits)
        tape.watch(tensor)
        value = edges.loss(tensor, tf.constant(truth), tf.constant(valid))
    return float(value), tape.gradient(value, tensor).numpy()


def test_loss_against_its_twin():
    logits, truth, valid = loss_case()
    total = weights = 0.0
    for x, g, v in zip(logits[..., 0].astype(np.float64), truth, valid, strict=True):
        p = 1 / (1 + np.exp(-x[v]))
        beta = (~g[v]).mean()
        total += -beta * np.log(p[g[v]]).sum() - (1 - beta) * np.log(1 - p[~g[v]]).sum()
        weights += np.where(g[v], beta, 1 - beta).sum()
    assert loss_and_gradient(logits, truth, valid)[0] == pytest.approx(total / weights, rel=1e-5)


def test_edges_and_other_pixels_weigh_the_same():
    truth = np.zeros((1, 10, 10), bool)
    truth[0, 0, 0] = True
    _, gradient = loss_and_gradient(np.zeros((1, 10, 10, 1), np.float32), truth, np.ones_like(truth))
    assert gradient[0, 0, 0] == pytest.approx(-0.25) and gradient.sum() == pytest.approx(0, abs=1e-6)


def test_invalid_pixels_have_no_effect():
    logits, truth, valid = loss_case(1)
    value, gradient = loss_and_gradient(logits, truth, valid)
    assert gradient[:2][valid[:2]].all() and not gradient[~valid].any() and not gradient[2].any()
    for other in (np.nan, np.inf, 50.0):
        changed = np.where(valid[..., None], logits, np.float32(other))
        assert loss_and_gradient(changed, truth ^ ~valid, valid)[0] == value
    value, gradient = loss_and_gradient(logits, truth, np.zeros_like(valid))
    assert value == 0 and not gradient.any()


@pytest.mark.parametrize('size', [100.0, 1e30])
def test_the_gradient_is_finite_at_extremes(size):
    _, truth, valid = loss_case(2)
    for sign in (np.where(truth, 1, -1), np.where(truth, -1, 1)):
        value, gradient = loss_and_gradient((size * sign[..., None]).astype(np.float32), truth, valid)
        assert math.isfinite(value) and np.isfinite(gradient).all()


def metric_case(seed, size=(15, 19)):
    rng = np.random.default_rng(seed)
    truth, valid = targets_twin(metric_batches.blocks(rng, 3, size, block=7, ignored=0.3), 2)
    probabilities = 1 / (1 + np.exp(-rng.normal(np.where(np.roll(truth, 1, axis=1), 2, -2), 2.0)))
    return truth, (np.floor(probabilities * 64) / 64).astype(np.float32), valid


def reached(points, others, tolerance):
    """How many points are within the tolerance of another set's point."""
    if not len(points) or not len(others):
        return 0
    between = np.hypot(*(points[:, None] - others[None]).transpose(2, 0, 1))
    return int((between.min(axis=1) <= tolerance).sum())


def figures_twin(images, tolerance):
    """(F-score, precision, recall) at each threshold of probabilities that are multiples of 1 / 64."""
    figures = {}
    for threshold in (k / 64 for k in range(1, 65)):
        counts = np.zeros(4)
        for truth, probabilities, valid in images:
            p, t = np.argwhere((probabilities >= threshold) & valid), np.argwhere(truth & valid)
            counts += reached(p, t, tolerance), len(p), reached(t, p, tolerance), len(t)
        precision, recall = counts[0] / max(counts[1], 1), counts[2] / counts[3]
        figures[threshold] = 2 * precision * recall / max(precision + recall, 1e-9), precision, recall
    return figures


def metric_of(*images, tolerance=2.0):
    metric = edges.EdgesMetric(TaskContext(2, settings={'edge_width': 2, 'edge_tolerance': tolerance}))
    for image in images:
        metric.add(*image)
    return metric


@pytest.mark.parametrize('tolerance', [0, 1, 1.5, 4])
def test_metric_against_its_twin(tolerance):
    images = [metric_case(seed) for seed in range(3)]
    result = metric_of(*images, tolerance=tolerance).result()
    figures = figures_twin(images, tolerance)
    best = max(f for f, _, _ in figures.values())
    assert 0.1 < best < 1
    at_threshold = figures[math.ceil(result['threshold'] * 64) / 64]  # all thresholds up to this one do the same
    assert (result['f'], result['precision'], result['recall']) == pytest.approx(at_threshold)
    assert result['f'] == pytest.approx(best)


def test_merging_equals_one_pass():
    images = [metric_case(seed, (9 + seed, 12)) for seed in range(5)]
    merged = metric_of(*images[3:])
    merged.merge(metric_of(*images[:3]))
    merged.merge(metric_of())
    assert merged.result() == metric_of(*images).result()


def test_perfect_shifted_and_missing_edges():
    truth, _, valid = metric_case(0)
    perfect = {'f': 1.0, 'threshold': 0.5, 'precision': 1.0, 'recall': 1.0}
    assert metric_of((truth, (truth & valid).astype(np.float32), valid), tolerance=0).result() == perfect
    line, everywhere = np.zeros((9, 9), bool), np.ones((9, 9), bool)
    line[:, 4] = True
    shifted = np.roll(line, 2, axis=1).astype(np.float32)
    assert metric_of((line, shifted, everywhere), tolerance=2).result()['f'] == 1
    assert metric_of((line, shifted, everywhere), tolerance=1.9).result()['f'] == 0
    assert metric_of((line, np.zeros((9, 9)), everywhere)).result()['f'] == 0
    for nothing in (
        metric_of(),
        metric_of((~everywhere, shifted, everywhere)),
        metric_of((line, shifted, ~everywhere)),
    ):
        assert set(nothing.result().values()) == {None}


def test_invalid_pixels_have_no_effect_on_the_metric():
    truth, probabilities, valid = metric_case(4, (29, 37))
    before = metric_of((truth, probabilities, valid)).result()
    assert not valid.all()
    changed = np.where(valid, probabilities, np.nan)
    assert metric_of((truth ^ ~valid, changed, valid)).result() == before
    with pytest.raises(DataError, match='NaN'):
        metric_of((truth, np.full_like(probabilities, np.nan), valid))
