"""Losses and metric of overlapping classes against NumPy twins, laws and values by hand."""

import math

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import scale_losses
from deeplab.errors import DataError, OptionError
from deeplab.options import LossOptions
from deeplab.registry import LOSSES, Loss, TaskContext, register
from deeplab.registry.losses import BATCH
from deeplab.tasks import multilabel
from tests.helpers import registries

CLASSES = 3
each_formula = pytest.mark.parametrize('formula', ['softmax', 'focal', 'dice', 'jaccard', 'lovasz'])


def random_case(seed=0, size=(5, 7)):
    """Logits, masks and valid pixels; the last class never occurs."""
    rng = np.random.default_rng(seed)
    truth = rng.random((2, *size, CLASSES)) < (0.3, 0.6, 0.0)
    return rng.normal(0, 3, truth.shape).astype(np.float32), truth, rng.random((2, *size)) < 0.8


def options_of(formula, **values):
    return LossOptions(formula=formula, **values)


def value_of(logits, truth, valid, formula, **values):
    options = options_of(formula, **values)
    return float(multilabel.loss(tf.constant(logits), tf.constant(truth), tf.constant(valid), options).value)


def gradient_of(logits, truth, valid, formula):
    with tf.GradientTape() as tape:
        tensor = tf.constant(logits)
        tape.watch(tensor)
        value = multilabel.loss(tensor, tf.constant(truth), tf.constant(valid), options_of(formula)).value
    return float(value), tape.gradient(value, tensor).numpy()


def pixel_twin(logits, truth, valid, gamma=0.0, weights=(1.0, 1.0, 1.0)):
    """Mean over valid pixels and classes of the (focal) binary cross entropy."""
    x, g = logits[valid].astype(np.float64), truth[valid]
    p = 1 / (1 + np.exp(-x))
    of_truth = np.where(g, p, 1 - p)
    return (-((1 - of_truth) ** gamma) * np.log(of_truth) * weights).mean()


def dice_twin(logits, truth, valid, weights=(1.0, 1.0)):
    p, g = 1 / (1 + np.exp(-logits[valid].astype(np.float64))), truth[valid]
    losses = [1 - 2 * (p[:, c] * g[:, c]).sum() / ((p[:, c] ** 2).sum() + g[:, c].sum()) for c in range(2)]
    return np.average(losses, weights=weights)


def test_losses_against_their_twins():
    case = random_case()
    assert value_of(*case, 'softmax') == pytest.approx(pixel_twin(*case), rel=1e-5)
    assert value_of(*case, 'focal') == pytest.approx(pixel_twin(*case, gamma=2.0), rel=1e-5)
    focal = value_of(*case, 'focal', settings=(('focal_gamma', 0.5),))
    assert focal == pytest.approx(pixel_twin(*case, gamma=0.5), rel=1e-5)
    assert value_of(*case, 'dice') == pytest.approx(dice_twin(*case), rel=1e-5)
    total = pixel_twin(*case, gamma=2.0) + 0.5 * dice_twin(*case)
    assert value_of(*case, 'focal+0.5*dice') == pytest.approx(total, rel=1e-5)
    weights = (1.0, 0.5, 4.0)
    assert value_of(*case, 'softmax', label_weights=weights) == pytest.approx(pixel_twin(*case, 0, weights), rel=1e-5)
    dice = value_of(*case, 'dice', label_weights=weights)
    assert dice == pytest.approx(dice_twin(*case, weights[:2]), rel=1e-5)


def test_terms_are_named_and_not_weighted():
    logits, truth, valid = random_case(1)
    built = multilabel.loss(logits, tf.constant(truth), tf.constant(valid), options_of('softmax+0.5*dice'))
    assert isinstance(built, scale_losses.ScaleLoss) and list(built.terms) == ['softmax', 'dice']
    assert float(built.value) == pytest.approx(float(built.terms['softmax'] + 0.5 * built.terms['dice']))


def test_binary_cross_entropy_equals_tensorflow_s_own():
    logits, truth, valid = random_case(2)
    expected = tf.nn.sigmoid_cross_entropy_with_logits(truth[valid].astype(np.float32), logits[valid])
    assert value_of(logits, truth, valid, 'softmax') == pytest.approx(float(tf.reduce_mean(expected)), rel=1e-5)


@each_formula
def test_ignored_pixels_have_no_effect(formula):
    logits, truth, valid = random_case(3)
    value, gradient = gradient_of(logits, truth, valid, formula)
    assert gradient[valid].any() and not gradient[~valid].any()
    other = np.where(valid[..., None], logits, 7.0).astype(np.float32), np.where(valid[..., None], truth, ~truth)
    assert gradient_of(*other, valid, formula)[0] == pytest.approx(value, rel=1e-6)


@each_formula
def test_no_valid_pixel_and_extreme_logits(formula):
    logits, truth, valid = random_case(4)
    value, gradient = gradient_of(logits, truth, np.zeros_like(valid), formula)
    assert value == 0 and not gradient.any()
    for size in (100.0, 1e30):
        for sign in (np.where(truth, 1, -1), np.where(truth, -1, 1)):  # all right, all wrong
            value, gradient = gradient_of((size * sign).astype(np.float32), truth, valid, formula)
            assert math.isfinite(value) and np.isfinite(gradient).all()


def test_a_class_alone_has_the_losses_of_its_mask():
    """Another class changes nothing of it but the mean."""
    logits, truth, valid = random_case(5)
    alone = [value_of(logits[..., c : c + 1], truth[..., c : c + 1], valid, 'softmax') for c in range(CLASSES)]
    assert value_of(logits, truth, valid, 'softmax') == pytest.approx(np.mean(alone), rel=1e-5)


def test_sizes_strides_and_mining():
    logits, truth, valid = random_case(6, size=(5, 9))
    half = truth[:, ::2, ::2], valid[:, ::2, ::2]
    strided = value_of(logits, truth, valid, 'softmax+dice', stride=2)
    assert strided == pytest.approx(value_of(logits[:, ::2, ::2], *half, 'softmax+dice'), rel=1e-5)
    small = logits[:, ::2, ::2]
    down = value_of(small, truth, valid, 'softmax+dice', upsample_logits=False)
    assert down == pytest.approx(value_of(small, *half, 'softmax+dice'), rel=1e-5)
    resized = tf.compat.v1.image.resize_bilinear(small, (5, 9), align_corners=True).numpy()
    up = value_of(small, truth, valid, 'softmax')
    assert up == pytest.approx(value_of(resized, truth, valid, 'softmax'), rel=1e-5)
    hardest = value_of(logits, truth, np.ones_like(valid), 'softmax', top_k_percent_pixels=0.1)
    losses = tf.nn.sigmoid_cross_entropy_with_logits(truth.astype(np.float32), logits).numpy().reshape(-1)
    kept = np.sort(losses)[-int(0.1 * losses.size) :]
    assert hardest == pytest.approx(kept.mean(), rel=1e-5)


def test_what_does_not_fit_is_refused():
    logits, truth, valid = random_case(7)
    with pytest.raises(OptionError, match='2 weights.*3 classes'):
        value_of(logits, truth, valid, 'softmax', label_weights=(1.0, 2.0))
    with registries.changes_undone(LOSSES):
        register(Loss(name='of_batch', summary='Batch.', function=lambda x, y: x, of=BATCH))
        with pytest.raises(OptionError, match='of_batch takes one class id.*softmax'):
            value_of(logits, truth, valid, 'of_batch')


def metric_case(seed, pixels=(6, 50)):
    rng = np.random.default_rng(seed)
    truth = rng.random((*pixels, CLASSES)) < (0.3, 0.7, 0.0)
    probabilities = 1 / (1 + np.exp(-rng.normal(np.where(truth, 1.0, -1.0), 2.0)))
    return truth, probabilities.astype(np.float32), rng.random(pixels) < 0.9


def metric_of(*images, thresholds=None):
    calibration = {} if thresholds is None else {'multilabel': {'thresholds': list(thresholds)}}
    metric = multilabel.MultilabelMetric(TaskContext(CLASSES, calibration=calibration))
    for image in images:
        metric.add(*image)
    return metric


def exact_average_precision(truth, probabilities):
    """The sum of precision times growth of recall, over every different probability."""
    result, before = 0.0, 0
    for threshold in sorted(set(probabilities.tolist()), reverse=True):
        chosen = probabilities >= threshold
        hits = (chosen & truth).sum()
        result += (hits - before) / truth.sum() * hits / chosen.sum()
        before = hits
    return result


@pytest.mark.parametrize('digits', [None, 1, 5])
def test_average_precision_is_within_its_bound(digits):
    for seed in range(4):
        truth, probabilities, valid = metric_case(seed)
        if digits:  # equal probabilities
            probabilities = probabilities.round(digits)
        figures = metric_of((truth, probabilities, valid)).class_figures()
        for c in range(2):
            exact = exact_average_precision(truth[..., c][valid], probabilities[..., c][valid])
            error = figures['average_precision_error'][c]
            assert abs(figures['average_precision'][c] - exact) <= error + 1e-12
            assert error < (0.2 if digits == 1 else 0.05)
        assert figures['average_precision'][2] is None


def test_the_bound_holds_where_all_pixels_have_one_bin():
    """In the order that is best, and in the one that is worst."""
    for sign in (1, -1):
        truth = np.zeros((1, 100, CLASSES), bool)
        truth[0, :30] = True
        probabilities = np.where(truth, 0.9002 + sign * 1e-4, 0.9002).astype(np.float32)
        figures = metric_of((truth, probabilities, np.ones((1, 100), bool))).class_figures()
        exact = exact_average_precision(truth[0, :, 0], probabilities[0, :, 0])
        assert abs(figures['average_precision'][0] - exact) <= figures['average_precision_error'][0] < 1
        assert figures['average_precision'][0] == pytest.approx(0.3)


def test_binned_probabilities_give_the_exact_figures():
    truth, probabilities, valid = metric_case(9)
    probabilities = (np.floor(probabilities * 1024) / 1024).astype(np.float32)
    figures = metric_of((truth, probabilities, valid), thresholds=(0.25, 0.75, 0.5)).class_figures()
    for c, given in ((0, 0.25), (1, 0.75)):
        p, g = probabilities[..., c][valid], truth[..., c][valid]
        assert figures['average_precision'][c] == pytest.approx(exact_average_precision(g, p), rel=1e-12)
        ious = {k / 1024: ((p >= k / 1024) & g).sum() / ((p >= k / 1024) | g).sum() for k in range(1, 1024)}
        assert figures['iou'][c] == pytest.approx(ious[given])
        assert figures['best_iou'][c] == pytest.approx(max(ious.values()))
        assert ious[figures['threshold'][c]] == max(ious.values())


def test_figures_by_hand():
    truth = np.array([[[1, 0, 0], [1, 0, 0], [0, 0, 0], [0, 1, 1]]], bool)
    probabilities = np.array([[[0.9, 0.4, 0.9], [0.3, 0.1, 0.1], [0.2, 0.2, 0.8], [0.0, 0.45, 0.1]]], np.float32)
    metric = metric_of((truth, probabilities, np.array([[True, True, True, True]])))
    figures = metric.class_figures()
    assert figures['iou'] == (0.5, 0.0, 0.0)
    assert figures['average_precision'] == (1.0, 1.0, 0.25)
    assert figures['best_iou'] == (1.0, 1.0, 0.25)
    assert [0.2 < figures['threshold'][0] <= 0.3, 0.4 < figures['threshold'][1] <= 0.45] == [True, True]
    assert metric.result() == {
        'iou': pytest.approx(1 / 6),
        'best_iou': pytest.approx(0.75),
        'average_precision': pytest.approx(0.75),
    }


def test_merging_equals_one_pass():
    images = [metric_case(seed, pixels=(3, 5 + seed)) for seed in range(6)]
    merged = metric_of(*images[4:], *images[:1])
    merged.merge(metric_of(*images[1:4]))
    merged.merge(metric_of())
    assert merged.class_figures() == metric_of(*images).class_figures()
    assert merged.result() == metric_of(*images).result()


def test_no_pixel_and_bad_probabilities():
    truth, probabilities, valid = metric_case(0)
    for metric in (metric_of(), metric_of((truth, probabilities, np.zeros_like(valid)))):
        assert set(metric.result().values()) == {None}
    with pytest.raises(DataError, match='NaN'):
        metric_of((truth, np.full_like(probabilities, np.nan), valid))
