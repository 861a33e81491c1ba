"""The task `edges`: whether a pixel is near a boundary between classes, beside the classes or alone.

The target follows from the class ids: --task=semantic+edges needs no other records than semantic.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from deeplab import common
from deeplab.core.lazy import tf
from deeplab.core.metrics import _image_counts, _thresholds, boundaries
from deeplab.options import ModelOptions
from deeplab.registry import Output, Parameter, ResultFile, Task, TaskContext, Term, register

_NAME = 'edges'
_DEFAULT_THRESHOLD = 0.5
_COLOR = (255, 40, 200)  # rare in photographs

Mask = npt.NDArray[np.bool_]


def outputs(options: ModelOptions) -> list[Output]:
    """Returns the output: the probability of an edge."""
    return [Output(_NAME, 1, lambda logits: tf.sigmoid(logits))]


def targets(sample: Mapping[str, tf.Tensor], context: TaskContext) -> dict[str, tf.Tensor]:
    """Returns which pixels are on an edge, and which count; both [h, w] bool."""
    labels = sample[common.LABEL][..., 0]
    width = context.settings['edge_width']
    compute = functools.partial(compute_targets, ignore_label=context.ignore_label, width=width)
    masks = tf.numpy_function(compute, [labels], [tf.bool] * 2, stateful=False)
    for mask in masks:
        mask.set_shape(labels.shape)
    return dict(zip((_NAME, 'valid'), masks, strict=True))


def losses(maps: Mapping[str, tf.Tensor], made: Mapping[str, tf.Tensor], context: TaskContext) -> dict[str, Term]:
    """Returns the class-balanced cross entropy."""
    value = loss(maps[_NAME], made['edges'], made['valid'])
    return {'entropy': Term(value, context.settings['edge_loss_weight'])}


def decode(maps: Mapping[str, np.ndarray], context: TaskContext) -> dict[str, Any]:
    """Returns the probability of an edge, 'probabilities' [h, w] float32, and 'edges' [h, w] bool.

    The threshold is the best one of an evaluation on a split whose name begins with "val", else 0.5.
    """
    probabilities = maps[_NAME][..., 0]
    threshold = context.calibration.get(_NAME, {}).get('threshold', _DEFAULT_THRESHOLD)
    return {'probabilities': probabilities, _NAME: probabilities >= np.float32(threshold)}


def compute_targets(labels: npt.NDArray[np.integer[Any]], ignore_label: int, width: int) -> tuple[Mask, Mask]:
    """Derives edges from class ids.

    A pixel is on an edge if another class is within `width // 2` rows and columns of it (in a square, as for Boundary
    IoU): `width // 2` pixels on either side of a straight boundary. Ignored pixels are neither on an edge nor another
    class. What they hide may be one, so pixels as near to them that are not on an edge are invalid like themselves.
    Beyond the border of the image is nothing.

    Where masks ignore a border around each object, as in Pascal VOC, `width // 2` must be greater than the border's
    width; with a smaller one, few edges remain.

    Args:
      labels: [h, w] class ids, 0 or more, or `ignore_label`.
      ignore_label: label of the ignored pixels.
      width: width of an edge in pixels, 2 or more; an odd one has the effect of the even one below it.

    Returns:
      [h, w] bool, whether a pixel is on an edge, and [h, w] bool, whether it has an effect on loss and metric.
    """
    counted = labels != ignore_label
    reach = width // 2
    # Beyond the image is nothing: neither a class nor an ignored pixel.
    padded = [np.pad(values, reach) for values in (np.where(counted, labels, 0), counted, np.ones_like(counted))]
    ids, has_class, inside = padded[0].astype(np.uint16), padded[1], padded[2]
    inner = (slice(reach, -reach),) * 2
    edges = boundaries.near_boundary(ids, has_class, reach)[inner] & counted
    near_ignored = boundaries.near_boundary(has_class.astype(np.uint8), inside, reach)[inner]
    return edges, counted & (edges | ~near_ignored)


def loss(logits: tf.Tensor, edges: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
    """Class-balanced binary cross entropy.

    A pixel on an edge weighs as much as the fraction of its image that is on none, and a pixel on none as much as the
    fraction on edges: both together weigh the same. An image without edges, or full of them, has no loss.

    Args:
      logits: [n, h, w, 1] float.
      edges: [n, h, w] bool, the target.
      valid: [n, h, w] bool, whether a pixel has an effect on the loss.

    Returns:
      scalar float32: the sum over the batch divided by the sum of the weights (the paper has no division, so its loss
      grows with the size of the images); 0 if no pixel has a weight.

    Source: arXiv:1504.06375, section 2.2, equation 2.
    """
    counted = tf.cast(valid, tf.float32)
    truth = tf.cast(edges, tf.float32) * counted  # [n, h, w]
    pixels = tf.reduce_sum(counted, axis=[1, 2], keepdims=True)  # [n, 1, 1]
    fraction = tf.math.divide_no_nan(tf.reduce_sum(truth, axis=[1, 2], keepdims=True), pixels)
    weights = truth * (1.0 - fraction) + (counted - truth) * fraction  # [n, h, w]
    scores = tf.where(valid, tf.cast(logits[..., 0], tf.float32), 0.0)
    entropies = tf.nn.sigmoid_cross_entropy_with_logits(labels=truth, logits=scores)
    return tf.math.divide_no_nan(tf.reduce_sum(weights * entropies), tf.reduce_sum(weights))


class EdgesMetric:
    """Boundary F-score of predicted edges at the best threshold over all images (optimal data set scale, ODS).

    Precision is the fraction of the predicted edge pixels within the tolerance of a true one, recall the fraction of
    the true edge pixels within the tolerance of a predicted one, of all images together. Thresholds are the multiples
    of 1 / 1024 above 0. Invalid pixels are excluded from both.

    Edges are compared at their width: they are not thinned, and several pixels may match one. The figures therefore
    cannot be compared with published ones of BSDS500.

    Source: Martin et al., Learning to detect natural image boundaries, PAMI 2004, section 3 (precision and recall);
    Arbelaez et al., Contour detection and hierarchical image segmentation, PAMI 2011, section 3 (ODS).
    """

    accumulated = ('_counts',)

    def __init__(self, context: TaskContext) -> None:
        """Begins without an image."""
        self._ignore_label, self._width = context.ignore_label, context.settings['edge_width']
        self._tolerance = context.settings['edge_tolerance']
        # Predicted pixels, predicted pixels near a true edge, true pixels by the highest probability near them.
        self._counts = np.zeros((3, _thresholds.BINS), np.int64)

    def update(self, sample: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Adds an image: its class ids [h, w, 1], and the result of `decode`; see `registry.metrics.Accumulator`."""
        truth, valid = compute_targets(sample[common.LABEL][..., 0], self._ignore_label, self._width)
        self.add(truth, result['probabilities'], valid)

    def add(self, truth: Mask, probabilities: npt.NDArray[np.floating[Any]], valid: Mask) -> None:
        """Adds an image.

        Args:
          truth: [h, w] bool, the true edges.
          probabilities: [h, w] float, 0 to 1.
          valid: [h, w] bool, whether a pixel has an effect.

        Raises:
          DataError: The probability of a valid pixel is not a number.
        """
        places = _thresholds.bins(np.where(valid, probabilities, 0))  # threshold 0 is left out, and so are these
        edges = truth.astype(bool) & valid
        near = boundaries.within_disk(edges.astype(np.uint8), self._tolerance) > 0
        highest = boundaries.within_disk(places, self._tolerance, np.maximum)
        for row, values in enumerate((places[valid], places[valid & near], highest[edges])):
            self._counts[row] += _thresholds.histogram(values)

    def merge(self, other: EdgesMetric) -> None:
        """Adds the images of `other`."""
        self._counts += other._counts

    def result(self) -> dict[str, float | None]:
        """Returns the F-score 'f' at the best threshold, this threshold, and precision and recall there.

        All are None if no pixel is on a true edge.
        """
        predicted, near, reached = _thresholds.at_least(self._counts)
        precision = np.nan_to_num(_image_counts.fraction(near, predicted))  # 0 where nothing is predicted
        recall = _image_counts.fraction(reached, np.broadcast_to(reached[0], reached.shape))
        f = np.where(recall > 0, np.nan_to_num(_image_counts.fraction(2 * precision * recall, precision + recall)), 0.0)
        best = _thresholds.best(np.where(np.isnan(recall), np.nan, f))
        if best is None:
            return dict.fromkeys(('f', 'threshold', 'precision', 'recall'))
        return {
            'f': float(f[best]),
            'threshold': best / _thresholds.BINS,
            'precision': float(precision[best]),
            'recall': float(recall[best]),
        }

    def calibration(self) -> dict[str, float]:
        """Returns the best threshold."""
        threshold = self.result()['threshold']
        return {'threshold': _DEFAULT_THRESHOLD if threshold is None else threshold}


def as_8_bits(result: Mapping[str, Any], image: np.ndarray, context: TaskContext) -> np.ndarray:
    """Returns the probability of an edge from 0 to 255: [h, w] uint8."""
    from deeplab.pictures import drawing  # here, so that help does without Pillow

    return drawing.shades(result['probabilities'])


def overlay(result: Mapping[str, Any], image: np.ndarray, context: TaskContext) -> np.ndarray:
    """Returns the image with its edges: [h, w, 3] uint8."""
    from deeplab.pictures import drawing  # here, so that help does without Pillow

    shown = drawing.in_rgb(image)
    shown[result[_NAME]] = _COLOR
    return shown


register(
    Task(
        name=_NAME,
        summary='Boundaries between classes.',
        outputs=outputs,
        targets=targets,
        losses=losses,
        decode=decode,
        metric=EdgesMetric,
        headline='f',
        files={'edges': ResultFile('.png', as_8_bits)},
        overlay=overlay,
        drawn_parts=(_NAME,),
        parameters=(
            Parameter('edge_width', 4, 'Width of the edges between classes, in pixels.', range='[2, inf)'),
            Parameter(
                'edge_tolerance',
                2.0,
                'Largest distance, in pixels, at which edges match in the F-score.',
                range='[0, inf)',
            ),
            Parameter('edge_loss_weight', 1.0, 'Weight of the edge loss.', range='[0, inf)'),
        ),
        source='arXiv:1504.06375, section 2.2',
    )
)
