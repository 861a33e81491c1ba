"""Training targets of Panoptic-DeepLab: heatmap of instance centers, offsets to them, and the weights of pixels."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from deeplab.core.lazy import tf


class PanopticTargets(NamedTuple):
    """Targets of one crop, each [h, w, channels] float32.

    Attributes:
      heatmap: [h, w, 1], 1 at the center of each instance, falling like a Gaussian around it.
      offsets: [h, w, 2], the center of the pixel's instance minus the pixel's position (y, x) in pixels; 0 elsewhere.
      center_weight: [h, w, 1], weight of the loss of the heatmap: 0 where the label is ignored or a crowd, else 1.
      offset_weight: [h, w, 1], weight of the loss of the offsets: 1 on instances, else 0.
      semantic_weight: [h, w, 1], weight of the loss of the classes: larger on small instances, else 1.
    """

    heatmap: Any
    offsets: Any
    center_weight: Any
    offset_weight: Any
    semantic_weight: Any


class TargetRule(NamedTuple):
    """How targets follow from labels.

    Attributes:
      things: ids of the classes that have instances.
      ignore_label: class id of pixels that are ignored.
      sigma: standard deviation of the Gaussian of a center, in pixels.
      small_area: instances with fewer pixels in the crop are small.
      small_weight: semantic weight of their pixels.
    """

    things: Sequence[int]
    ignore_label: int
    sigma: float = 8.0
    small_area: int = 4096
    small_weight: float = 3.0


class _Runs(NamedTuple):
    """Stretches of one row with the same class and instance, in the order of the image."""

    rows: np.ndarray
    columns: np.ndarray  # the first ones
    lengths: np.ndarray
    class_ids: np.ndarray
    instance_ids: np.ndarray


def build_targets(class_ids: tf.Tensor, instance_ids: tf.Tensor, rule: TargetRule) -> PanopticTargets:
    """Builds the operations of `compute_targets`.

    They call NumPy; the same in TensorFlow's operations takes several times as long.

    Args:
      class_ids: [h, w] of any integer type.
      instance_ids: [h, w] of any integer type; see `compute_targets`.
      rule: how targets follow.

    Returns:
      Tensors with the shapes that are static for `class_ids`.
    """
    values = tf.numpy_function(
        functools.partial(compute_targets, rule=rule), [class_ids, instance_ids], [tf.float32] * 5, stateful=False
    )
    targets = PanopticTargets(*values)
    for value, channels in zip(targets, (1, 2, 1, 1, 1), strict=True):
        value.set_shape([*class_ids.shape.as_list(), channels])
    return targets


def compute_targets(class_ids: np.ndarray, instance_ids: np.ndarray, rule: TargetRule) -> PanopticTargets:
    """Computes the targets of a crop.

    An instance is a pair of class and instance id. Its center is the mean position of its pixels in the crop, rounded
    to the nearest pixel, halves to the even one. Mirrored labels therefore give mirrored targets except that a center
    halfway between two pixels can move by one.

    Args:
      class_ids: [h, w] integers.
      instance_ids: [h, w] integers from 1; 0 on stuff, and on crowds of things.
      rule: how targets follow.

    Returns:
      The targets as arrays.

    Source: arXiv:1911.10194, section 3.2; a Gaussian ends after 3 sigma + 1 pixels, and the larger of two counts.
    """
    height, width = class_ids.shape
    runs = _runs_of(class_ids, instance_ids)
    is_thing = np.isin(runs.class_ids, rule.things)
    is_instance = is_thing & (runs.instance_ids > 0)
    is_left_out = (is_thing & ~is_instance) | (runs.class_ids == rule.ignore_label)
    centers, areas, numbers = _centers_of(_Runs(*(values[is_instance] for values in runs)))

    def plane(values: np.ndarray | np.bool_) -> np.ndarray:
        """Gives each pixel the value of its run: [h, w]."""
        return np.repeat(values.astype(np.float32), runs.lengths).reshape(height, width)

    center_of_run = np.zeros((len(is_instance), 2), np.float32)
    center_of_run[is_instance] = centers[numbers]
    weight_of_run = np.ones(len(is_instance), np.float32)
    weight_of_run[is_instance] = np.where(areas < rule.small_area, rule.small_weight, 1)[numbers]
    offset_weight = plane(is_instance)
    offsets = np.empty((height, width, 2), np.float32)
    offsets[..., 0] = plane(np.where(is_instance, center_of_run[:, 0] - runs.rows, 0))
    offsets[..., 1] = plane(center_of_run[:, 1]) - offset_weight * np.arange(width, dtype=np.float32)
    return PanopticTargets(
        heatmap=_heatmap(centers, (height, width), rule.sigma)[..., np.newaxis],
        offsets=offsets,
        center_weight=plane(~is_left_out)[..., np.newaxis],
        offset_weight=offset_weight[..., np.newaxis],
        semantic_weight=plane(weight_of_run)[..., np.newaxis],
    )


def _runs_of(class_ids: np.ndarray, instance_ids: np.ndarray) -> _Runs:
    """Returns the runs of an image: some ten thousand instead of millions of pixels."""
    begins = np.ones(class_ids.shape, bool)
    begins[:, 1:] = (class_ids[:, 1:] != class_ids[:, :-1]) | (instance_ids[:, 1:] != instance_ids[:, :-1])
    starts = np.flatnonzero(begins)
    rows, columns = np.divmod(starts, max(class_ids.shape[1], 1))
    lengths = np.diff(starts, append=class_ids.size)
    return _Runs(rows, columns, lengths, class_ids.ravel()[starts], instance_ids.ravel()[starts])


def _centers_of(runs: _Runs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns rounded centers [instances, 2] and areas [instances] of instances, and of each run its instance."""
    keys = (runs.class_ids.astype(np.int64) << 32) | runs.instance_ids.astype(np.int64)
    instances, numbers = np.unique(keys, return_inverse=True)
    sums = [
        np.bincount(numbers, values, minlength=len(instances))
        for values in (runs.lengths, runs.rows * runs.lengths, (runs.columns + (runs.lengths - 1) / 2) * runs.lengths)
    ]  # in float64: exact
    centers = np.rint(np.stack(sums[1:], axis=-1) / sums[0][:, np.newaxis]).astype(np.int64)
    return centers, sums[0], numbers


def _heatmap(centers: np.ndarray, size: tuple[int, int], sigma: float) -> np.ndarray:
    """Draws a Gaussian around each of `centers` [instances, 2], which lie inside of [h, w]; the maximum counts."""
    radius = round(3 * sigma + 1)
    squares = np.square(np.arange(-radius, radius + 1, dtype=np.float64))
    gaussian = np.exp(-(squares[:, np.newaxis] + squares) / (2 * sigma**2)).astype(np.float32)
    heatmap = np.zeros((size[0] + 2 * radius, size[1] + 2 * radius), np.float32)
    for y, x in centers.tolist():
        patch = heatmap[y : y + len(gaussian), x : x + len(gaussian)]
        np.maximum(patch, gaussian, out=patch)
    return np.ascontiguousarray(heatmap[radius:-radius, radius:-radius])
