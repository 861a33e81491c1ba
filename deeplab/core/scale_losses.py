"""Training losses of each scale's logits, from a formula such as `softmax+0.5*dice`.

The functions of `core/losses` compute a loss of each pixel, or of each class from its predicted and true regions. The
losses of classes treat a batch as one set of pixels: overlap is measured over all its images together, like the mean
IoU of an evaluation. Only classes that occur among the labels of the batch have a loss. Ignored pixels are excluded
from every loss and its gradient.

Arrays are [classes, pixels], so that sums run over contiguous memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from deeplab import common
from deeplab.core import channels_first, shapes, summation
from deeplab.core.channels_first import LabeledLogits
from deeplab.errors import OptionError
from deeplab.options import LossOptions
from deeplab.registry import LOSSES, PIXELS, REGIONS, Loss
from deeplab.wording import option


class ScaleLoss(NamedTuple):
    """The loss of one scale: the weighted sum of the terms, and each term by name, not weighted; scalars float32."""

    value: tf.Tensor
    terms: dict[str, tf.Tensor]


def losses_of_scales(
    scales_to_logits: Mapping[str, tf.Tensor],
    labels: tf.Tensor,
    ignore_label: int,
    options: LossOptions,
    global_step: tf.Tensor | None = None,
    scope: str = common.OUTPUT_TYPE,
) -> dict[str, ScaleLoss]:
    """Builds the loss of each scale's logits.

    Args:
      scales_to_logits: logits [n, h', w', classes] by key, such as 'merged_logits' and 'logits_0.50'.
      labels: [n, h, w, 1] int32.
      ignore_label: label of the pixels that are excluded from the loss.
      options: the formula, upsampling, stride, weights, hard example mining.
      global_step: scalar integer, for the schedule of hard example mining; None for the graph's own.
      scope: first part of the losses' names.

    Returns:
      A loss for each key. The name of its value's operation contains `SCOPE_KEY`.

    Raises:
      OptionError: if the number of label weights fits neither one nor the classes.
    """
    result = {}
    for key, logits in scales_to_logits.items():
        check_label_weights(options.label_weights, int(logits.shape[-1]))
        with tf.name_scope(f'{scope}_{key}'):
            terms = _terms_of_one_scale(logits, labels, ignore_label, options, global_step)
            result[key] = ScaleLoss(weighted_sum(terms, options), terms)
    return result


def weighted_sum(terms: Mapping[str, tf.Tensor], options: LossOptions) -> tf.Tensor:
    """Returns the loss of the formula, scalar float32, from the scalars of its terms by name."""
    weighted = [terms[term.name] if term.weight == 1.0 else term.weight * terms[term.name] for term in options.terms]
    return tf.identity(summation.in_order(weighted), 'value')


def _terms_of_one_scale(
    logits: tf.Tensor, labels: tf.Tensor, ignore_label: int, options: LossOptions, global_step: tf.Tensor | None
) -> dict[str, tf.Tensor]:
    """Returns the terms of one scale's loss by name, scalars float32, not weighted."""
    if options.upsample_logits:
        labeled = channels_first.resized_with_labels(logits, labels, ignore_label, options.stride)
    else:
        labels = shapes.resize_nearest(labels, shapes.spatial_size(logits))  # [n, h', w', 1]
        labeled = channels_first.with_labels(logits, labels, ignore_label)
    regions = None
    terms = {}
    for record in (LOSSES.get(term.name) for term in options.terms):
        parameters = options.settings_of(record)
        if record.is_of_pixels:
            pixels = pixel_losses(record, labeled, options.label_weights, **parameters)
            terms[record.name] = mean_of_pixels(pixels, options, global_step)
        elif record.of == REGIONS:
            regions = regions or regions_of(labeled)
            classes = class_losses(regions, record.function, **parameters)
            terms[record.name] = mean_of_classes(classes, options.label_weights)
        else:
            sampled = labels[:, :: options.stride, :: options.stride, 0]  # [n, h, w]
            label_ids = tf.where(sampled == ignore_label, -1, sampled)
            shape = [labeled.classes, *tf.unstack(tf.shape(label_ids))]
            by_image = tf.reshape(labeled.logits, shape)  # [classes, n, h, w]
            terms[record.name] = record.function(tf.transpose(by_image, [1, 2, 3, 0]), label_ids, **parameters)
    return terms


def mean_of_pixels(pixels: Losses, options: LossOptions, global_step: tf.Tensor | None) -> tf.Tensor:
    """Returns the mean over all labeled pixels, or over the hardest ones, scalar float32."""
    if options.top_k_percent_pixels == 1.0:
        return mean_of_counted(pixels)
    if global_step is None:
        global_step = tf.compat.v1.train.get_or_create_global_step()
    fraction = mining_fraction(global_step, options.top_k_percent_pixels, options.hard_example_mining_step)
    return mean_of_hardest(pixels, fraction)


def check_label_weights(label_weights: Sequence[float] | None, num_classes: int) -> None:
    """Raises `OptionError` unless there are no weights, one, or one per class."""
    if label_weights and len(label_weights) not in (1, num_classes):
        raise OptionError(
            f'{option("LossOptions.label_weights")} has {len(label_weights)} weights, but there are {num_classes} '
            'classes. Pass one weight for all classes, or one per class'
        )


class Losses(NamedTuple):
    """The loss of every pixel, or of every class.

    Attributes:
      values: [pixels] or [classes] float32; 0 for ignored pixels, and for classes that do not occur.
      counted: [pixels] or [classes] float32, 1 for labeled pixels and for classes of labeled pixels, else 0.
    """

    values: tf.Tensor
    counted: tf.Tensor


def pixel_losses(
    record: Loss, labeled: LabeledLogits, label_weights: Sequence[float] | None = None, **parameters: float
) -> Losses:
    """Computes the loss of each pixel, with a record for pixels and the values of its parameters.

    `label_weights` has one weight per class, or one for all classes; None for 1.
    """
    logits = tf.transpose(labeled.logits) if record.of == PIXELS else labeled.logits
    values = record.function(logits, labeled.labels, **parameters)  # [pixels]
    counted = tf.cast(labeled.is_counted, tf.float32)
    weights = tuple(label_weights or (1.0,))
    if len(weights) > 1:
        weight_of_pixels = counted * tf.gather(tf.constant(weights, tf.float32), labeled.labels)
    else:
        weight_of_pixels = counted if weights[0] == 1.0 else counted * weights[0]
    return Losses(values * weight_of_pixels, counted)


def mean_of_counted(losses: Losses) -> tf.Tensor:
    """Returns the sum of the losses divided by the number of labeled pixels, scalar float32; 0 if there are none."""
    return tf.math.divide_no_nan(tf.reduce_sum(losses.values), tf.reduce_sum(losses.counted))


def mean_of_hardest(losses: Losses, fraction: tf.Tensor | float) -> tf.Tensor:
    """Returns the mean of the hardest pixels.

    The `int(fraction * pixels)` largest losses are kept, where `pixels` includes ignored ones; their sum is divided by
    the number of kept losses that are not 0.

    Args:
      losses: losses of a clone's whole batch.
      fraction: fraction of the pixels that is kept, greater than 0 and at most 1.

    Returns:
      scalar float32; 0 if no kept loss is above 0.

    Source: arXiv:1604.03540, section 4.2, applied to pixels instead of regions.
    """
    pixels = tf.cast(tf.size(losses.values), tf.float32)
    kept = tf.cast(pixels * fraction, tf.int32)
    hardest, _ = tf.nn.top_k(losses.values, k=kept, sorted=False)  # [kept]
    not_zero = tf.reduce_sum(tf.cast(tf.not_equal(hardest, 0.0), tf.float32))
    return tf.math.divide_no_nan(tf.reduce_sum(hardest), not_zero)


def mining_fraction(global_step: tf.Tensor, last_fraction: float, mining_step: int) -> tf.Tensor | float:
    """Returns the fraction of pixels of hard example mining: from 1 linearly to `last_fraction` at `mining_step`.

    Args:
      global_step: scalar integer.
      last_fraction: final fraction, greater than 0 and at most 1.
      mining_step: step at which the final fraction is reached; 0 for the start.

    Returns:
      the fraction, a number or a scalar float32 tensor.
    """
    if mining_step == 0:
        return last_fraction
    progress = tf.minimum(1.0, tf.cast(global_step, tf.float32) / mining_step)
    return last_fraction * progress + (1.0 - progress)


class Regions(NamedTuple):
    """Predicted and true regions of the classes.

    Attributes:
      probabilities: [classes, pixels] float32, softmax over the classes; 0 for ignored pixels.
      truth: [classes, pixels] float32, 1 where the pixel has the class, else 0; 0 for ignored pixels.
    """

    probabilities: tf.Tensor
    truth: tf.Tensor


def regions_of(labeled: LabeledLogits) -> Regions:
    """Returns the regions of a batch."""
    members = tf.where(labeled.is_counted, labeled.labels, -tf.ones_like(labeled.labels))  # one_hot of -1 is all zeros
    truth = tf.one_hot(members, labeled.classes, axis=0)  # [classes, pixels]
    return Regions(_softmax(labeled.logits, tf.cast(labeled.is_counted, tf.float32)), truth)


def _softmax(scores: tf.Tensor, counted: tf.Tensor) -> tf.Tensor:
    """Returns the softmax of [classes, pixels] over the classes, times `counted`, [pixels].

    TensorFlow's own softmax would transpose twice. The exponentials and their sum are computed by the same operations
    as in `losses/cross_entropy.py`: TensorFlow executes them once if both losses are in the formula.
    """

    def softmax(values: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        exponentials = tf.exp(values - tf.reduce_max(values, axis=0))
        result = exponentials * (counted / tf.reduce_sum(exponentials, axis=0))
        return result, lambda gradient: result * (gradient - tf.reduce_sum(gradient * result, axis=0))

    result: tf.Tensor = tf.custom_gradient(softmax)(scores)
    return result


def class_losses(regions: Regions, function: Callable[..., tf.Tensor], **parameters: float) -> Losses:
    """Returns the losses of the classes that have labeled pixels, by the function of a record for regions."""
    occurs = tf.cast(tf.reduce_sum(regions.truth, axis=1) > 0, tf.float32)  # [classes]
    return Losses(function(*regions, **parameters) * occurs, occurs)


def mean_of_classes(losses: Losses, label_weights: Sequence[float] | None = None) -> tf.Tensor:
    """Returns the mean over the classes that occur, scalar float32; 0 if none does.

    Args:
      losses: losses of a clone's whole batch.
      label_weights: how much each class counts in the mean; None, or one number for all classes, for evenly.
    """
    class_weights = losses.counted * tf.constant(tuple(label_weights or (1.0,)), tf.float32)
    return tf.math.divide_no_nan(tf.reduce_sum(losses.values * class_weights), tf.reduce_sum(class_weights))
