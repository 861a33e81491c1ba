"""The task `depth`: a positive number for each pixel, in the unit of the data set, such as meters.

A true depth that is 0, negative or not finite is invalid: its pixel is excluded from losses and metric. Augmentations
that scale the image leave the depths as they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from deeplab import common
from deeplab.core.lazy import tf
from deeplab.datasets import planes
from deeplab.errors import DataError
from deeplab.options import ModelOptions
from deeplab.registry import Output, Parameter, ResultFile, Task, TaskContext, Term, register

_LARGEST = np.iinfo(np.uint16).max
_DEFAULT_SCALE = 1 / 256
LOG_LIMIT = 16.0  # of logarithms of predicted depths: 1e-7 to 9e6 in the unit of the data set
SMALLEST = math.exp(-LOG_LIMIT)
RATIO = 1.25  # of depths: delta k counts pixels with a smaller ratio than RATIO**k
FIGURES = ('abs_rel', 'sq_rel', 'rmse', 'rmse_log', 'delta1', 'delta2', 'delta3')

_ROOTS = 2, 3  # places of the figures that are roots of means
_LEAST_VARIANCE = 1e-12  # below it, SILog is 0 and has no gradient: differences of logarithms are rounding errors


def outputs(options: ModelOptions) -> list[Output]:
    """Returns the output: the last layer gives the logarithm of the depth."""
    return [Output(common.DEPTH, 1, positive)]


def targets(sample: Mapping[str, tf.Tensor], context: TaskContext) -> dict[str, tf.Tensor]:
    """Returns the true depth."""
    return {common.DEPTH: sample[common.DEPTH]}


def losses(maps: Mapping[str, tf.Tensor], made: Mapping[str, tf.Tensor], context: TaskContext) -> dict[str, Term]:
    """Returns the loss of the depth, as `depth_loss` says."""
    settings = context.settings
    predicted, truth = positive(maps[common.DEPTH]), made[common.DEPTH]
    if settings['depth_loss'] == 'l1':
        value = l1(predicted, truth)
    else:
        value = silog(predicted, truth, settings['silog_lambda'])
    return {settings['depth_loss']: Term(value, settings['depth_loss_weight'])}


def decode(maps: Mapping[str, np.ndarray], context: TaskContext) -> dict[str, Any]:
    """Returns 'depth' [h, w] float32."""
    return {common.DEPTH: maps[common.DEPTH][..., 0]}


def positive(values: tf.Tensor) -> tf.Tensor:
    """Makes depths of the last layer's output: its exponential, so the network predicts the logarithm of the depth.

    A factor between units is then a bias, and depths from centimeters to a hundred meters are a few numbers apart; with
    softplus, far depths would need large outputs, and near ones would lose their digits in the logarithm of SILog.

    Args:
      values: any shape, float; an output of 0 is a depth of 1. Beyond `LOG_LIMIT` depth no longer changes.

    Returns:
      float32 of the same shape, greater than 0 and finite.

    Source: arXiv:1406.2283, section 3.3 (a network that predicts log depth).
    """
    return tf.exp(tf.clip_by_value(tf.cast(values, tf.float32), -LOG_LIMIT, LOG_LIMIT))


def l1(prediction: tf.Tensor, truth: tf.Tensor) -> tf.Tensor:
    """Mean absolute error over the valid pixels of a batch.

    Args:
      prediction: [n, h, w, 1] float32, depths.
      truth: [n, h, w, 1] float32, depths; invalid where 0, negative or not finite.

    Returns:
      scalar float32, in the unit of the depths; 0 without valid pixels.
    """
    valid = _is_valid(truth)
    errors = tf.abs(_where(valid, prediction) - _where(valid, truth))  # 0 where invalid
    return tf.math.divide_no_nan(tf.reduce_sum(errors), tf.reduce_sum(tf.cast(valid, tf.float32)))


def silog(prediction: tf.Tensor, truth: tf.Tensor, silog_lambda: float = 0.85) -> tf.Tensor:
    """Scale-invariant logarithmic error: mean over the images of `sqrt(mean(d**2) - lambda * mean(d)**2)`.

    d is the difference of the logarithms of a predicted and a true depth. With lambda 1, a factor that all predictions
    of an image have in common costs nothing; with lambda 0 it is the root mean square of d.

    Args:
      prediction: [n, h, w, 1] float32, depths; smaller ones than `SMALLEST` count as `SMALLEST`, without gradient.
      truth: [n, h, w, 1] float32, depths; invalid where 0, negative or not finite.
      silog_lambda: 0 to 1.

    Returns:
      scalar float32; the mean over the images that have valid pixels, 0 if none has.

    Source: arXiv:1406.2283, section 3.2; arXiv:1907.10326, section 3.3 (root, lambda 0.85; there times 10).
    """
    valid = _is_valid(truth)
    axes = [1, 2, 3]
    differences = tf.math.log(tf.maximum(_where(valid, prediction), SMALLEST)) - tf.math.log(_where(valid, truth))
    weights = tf.cast(valid, tf.float32)
    pixels = tf.reduce_sum(weights, axes, keepdims=True)  # [n, 1, 1, 1]
    means = tf.math.divide_no_nan(tf.reduce_sum(differences, axes, keepdims=True), pixels)
    deviations = tf.square(differences - means) * weights
    # The same as in the formula, without a difference of nearly equal numbers.
    variances = tf.math.divide_no_nan(tf.reduce_sum(deviations, axes, keepdims=True), pixels)
    means_of_squares = variances + (1.0 - silog_lambda) * tf.square(means)  # [n, 1, 1, 1]
    # The root's own gradient is infinite at 0.
    has_root = means_of_squares > _LEAST_VARIANCE
    roots = tf.where(has_root, tf.sqrt(_where(has_root, means_of_squares)), 0.0)
    return tf.math.divide_no_nan(tf.reduce_sum(roots), tf.reduce_sum(tf.cast(pixels > 0, tf.float32)))


def _is_valid(truth: tf.Tensor) -> tf.Tensor:
    """Returns which true depths are valid, bool of the same shape."""
    return tf.logical_and(truth > 0, tf.math.is_finite(truth))


def _where(condition: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Returns the values where the condition holds, and 1 elsewhere, which has logarithm and root."""
    return tf.where(condition, values, tf.ones_like(values))


class DepthMetric:
    """Errors of predicted depths, image by image; see `registry.metrics.Accumulator`.

    With p the predicted and t the true depth of a valid pixel: `abs_rel` is the mean of `|p - t| / t`; `sq_rel` of
    `(p - t)**2 / t`; `rmse` the root of the mean of `(p - t)**2`; `rmse_log` the same of the natural logarithms of p
    and t; `delta1`, `delta2` and `delta3` are the fractions of pixels with `max(p / t, t / p)` below 1.25, 1.25**2 and
    1.25**3.

    Source: arXiv:1406.2283, tables 1 and 2.
    """

    accumulated = ('_images',)

    def __init__(self, context: TaskContext) -> None:
        """Begins without an image."""
        # Pixels of each image, then the mean of each figure (before roots). A sum over the images is exact (`fsum`), so
        # the figures do not depend on their order.
        self._images: list[tuple[float, ...]] = []

    def update(self, sample: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Adds an image; one without valid pixel changes nothing.

        Args:
          sample: has the true depth, [h, w, 1] float.
          result: the result of `decode`; depths of 0 and negative ones count as `SMALLEST`.

        Raises:
          DataError: A predicted depth of a valid pixel is not finite.
        """
        truth, prediction = sample[common.DEPTH][..., 0], result[common.DEPTH]
        valid = np.isfinite(truth) & (truth > 0)
        if not valid.any():
            return
        t, p = truth[valid].astype(np.float64), np.maximum(prediction[valid].astype(np.float64), SMALLEST)
        if not np.isfinite(p).all():
            raise DataError(
                'The network gives depths that are not finite numbers. Its weights are probably not finite either: '
                'check them with `deeplab checkpoint`, and evaluate an earlier checkpoint.'
            )
        error, ratio = np.abs(p - t), np.maximum(p / t, t / p)
        figures = [error / t, error**2 / t, error**2, np.log(p / t) ** 2, *(ratio < RATIO**k for k in (1, 2, 3))]
        self._images.append((t.size, *(float(figure.mean()) for figure in figures)))

    def merge(self, other: DepthMetric) -> None:
        """Adds the images of `other`."""
        self._images += other._images

    def result(self) -> dict[str, float | None]:
        """Returns the figures by name, None without valid pixels.

        The names in `FIGURES` are means over the images, which most publications about KITTI and NYU Depth state. With
        'pixel_' before the name, all valid pixels count evenly, whatever their image.
        """
        return {
            **self._means('', [1] * len(self._images)),
            **self._means('pixel_', [int(image[0]) for image in self._images], roots_last=True),
        }

    def _means(self, prefix: str, weights: list[int], *, roots_last: bool = False) -> dict[str, float | None]:
        """Returns weighted means over the images; roots are taken of the image's mean, or of the mean over all."""
        means: dict[str, float | None] = {}
        for place, name in enumerate(FIGURES):
            has_root = place in _ROOTS
            values = [math.sqrt(i[place + 1]) if has_root and not roots_last else i[place + 1] for i in self._images]
            total = math.fsum(weight * value for weight, value in zip(weights, values, strict=True))
            mean = total / sum(weights) if weights else None
            means[prefix + name] = math.sqrt(mean) if has_root and roots_last and mean is not None else mean
        return means


def as_16_bits(result: Mapping[str, Any], image: np.ndarray, context: TaskContext) -> np.ndarray:
    """Returns depths in the unit of 16-bit files: [h, w] uint16, 1 or more, as 0 is invalid.

    The unit is `depth_scale` in the description of the data set, or else 1 / 256 as in KITTI.
    """
    units: np.ndarray = np.rint(result[common.DEPTH] / (context.depth_scale or _DEFAULT_SCALE))
    return units.clip(1, _LARGEST).astype(np.uint16)


def overlay(result: Mapping[str, Any], image: np.ndarray, context: TaskContext) -> np.ndarray:
    """Returns the depth in colors, from near (bright) to far (dark): [h, w, 3] uint8."""
    from deeplab.pictures import plane_pictures  # here, so that help does without Pillow

    return plane_pictures.depth(result[common.DEPTH])


register(
    Task(
        name='depth',
        summary='The depth of each pixel.',
        outputs=outputs,
        needs_labels=False,
        planes=(planes.DEPTH,),
        targets=targets,
        losses=losses,
        decode=decode,
        metric=DepthMetric,
        headline='-abs_rel',
        files={
            'depth': ResultFile('.png', as_16_bits),
            'depth_array': ResultFile('.npy', lambda result, image, context: result[common.DEPTH]),
        },
        overlay=overlay,
        parameters=(
            Parameter(
                'depth_loss',
                'silog',
                'Depth loss; silog: scale-invariant logarithmic error; l1: absolute error.',
                choices=('silog', 'l1'),
            ),
            Parameter(
                'silog_lambda',
                0.85,
                'Scale invariance of silog: 1 ignores errors of scale, 0 counts them in full.',
                range='[0, 1]',
            ),
            Parameter('depth_loss_weight', 1.0, 'Weight of the depth loss.', range='[0, inf)'),
        ),
        source='arXiv:1406.2283',
    )
)
