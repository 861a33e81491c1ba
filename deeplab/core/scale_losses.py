"""The training loss of each scale's logits, from a formula such as `softmax+0.5*dice`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

from deeplab import common
from deeplab.core import channels_first, loss_terms, shapes, summation
from deeplab.core.loss_terms import check_label_weights as check_label_weights
from deeplab.options import LossOptions
from deeplab.registry import LOSSES, REGIONS


class ScaleLoss(NamedTuple):
    """The loss of one scale.

    Attributes:
      value: scalar float32: the sum of the terms, each times its weight.
      terms: scalar float32 of each term by name, not weighted.
    """

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
            result[key] = ScaleLoss(tf.identity(_weighted_sum(terms, options), 'value'), terms)
    return result


def _weighted_sum(terms: Mapping[str, tf.Tensor], options: LossOptions) -> tf.Tensor:
    """Returns the weighted sum of the terms, scalar float32."""
    weighted = [terms[term.name] if term.weight == 1.0 else term.weight * terms[term.name] for term in options.terms]
    return summation.in_order(weighted)


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
            pixels = loss_terms.pixel_losses(record, labeled, options.label_weights, **parameters)
            terms[record.name] = _mean_of_pixels(pixels, options, global_step)
        elif record.of == REGIONS:
            regions = regions or loss_terms.regions_of(labeled)
            classes = loss_terms.class_losses(regions, record.function, **parameters)
            terms[record.name] = loss_terms.mean_of_classes(classes, options.label_weights)
        else:
            sampled = labels[:, :: options.stride, :: options.stride, 0]  # [n, h, w]
            label_ids = tf.where(sampled == ignore_label, -1, sampled)
            shape = [labeled.classes, *tf.unstack(tf.shape(label_ids))]
            by_image = tf.reshape(labeled.logits, shape)  # [classes, n, h, w]
            terms[record.name] = record.function(tf.transpose(by_image, [1, 2, 3, 0]), label_ids, **parameters)
    return terms


def _mean_of_pixels(pixels: loss_terms.PixelLosses, options: LossOptions, global_step: tf.Tensor | None) -> tf.Tensor:
    """Returns the mean over all labeled pixels, or over the hardest ones, scalar float32."""
    if options.top_k_percent_pixels == 1.0:
        return loss_terms.mean_of_counted(pixels)
    if global_step is None:
        global_step = tf.compat.v1.train.get_or_create_global_step()
    fraction = loss_terms.mining_fraction(global_step, options.top_k_percent_pixels, options.hard_example_mining_step)
    return loss_terms.mean_of_hardest(pixels, fraction)
