"""Mean teacher: the averaged network labels images without labels, and the network learns from its labels.

The teacher is the network with the moving averages of all variables, in inference mode, so that its predictions are
the ones of the network that will be used. It sees a weak view of each image. Where it is confident, its class is the
pseudo label of the student, the network that is trained, which sees a strong view of the same place.

The student's pass over these images is one of its own. Its batch norms normalize with the statistics of their batch,
but do not move the running statistics: strong views have other statistics than the images that the network will see.
A common batch would also change what images with labels are normalized with.

Source: arXiv:1703.01780 (mean teacher); arXiv:2001.07685, section 2 (pseudo labels, threshold); arXiv:1906.01916,
section 3 (CutMix between images without labels).
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf
from absl import logging

from deeplab import common, model
from deeplab.core import layers, moving_average, moving_updates, scale_losses, shapes
from deeplab.deployment import model_deploy
from deeplab.options import LossOptions, TrainOptions
from deeplab.training.network_clone import CloneOutputs
from deeplab.wording import option

SCOPE = 'unlabeled'
USUAL_DECAY = 0.99  # arXiv:1703.01780, section 3.1: of the ramp-up phase, about as long as a fine-tuning
_RAMP_STEEPNESS = 5.0

Scalars = dict[str, tf.Tensor]


def with_averages(options: TrainOptions) -> TrainOptions:
    """Returns the options with moving averages if there are images without labels; says so if that is a change."""
    if not options.unlabeled.is_on or options.moving_average_decay is not None:
        return options
    logging.info(
        '%s: the teacher is an average of the network, so %s is set. Other programs then use the average, too.',
        option('UnlabeledOptions.directory', options.unlabeled.directory),
        option('TrainOptions.moving_average_decay', USUAL_DECAY),
    )
    return dataclasses.replace(options, moving_average_decay=USUAL_DECAY)


def add(
    clones: Sequence[model_deploy.Clone],
    batches: model_deploy.Batches,
    options: TrainOptions,
    config: model_deploy.DeploymentConfig,
    averages: moving_average.MovingAverages,
    global_step: tf.Variable,
    ignore_label: int,
) -> list[model_deploy.Clone]:
    """Adds the loss of images without labels to the clones.

    Args:
      clones: the clones; their outputs are `CloneOutputs`.
      batches: batches of `unlabeled_input.build_input`.
      options: the training.
      config: placement of the clones.
      averages: moving averages of all variables of the network, the teacher.
      global_step: steps done.
      ignore_label: label of pixels excluded from the loss.

    Returns:
      The clones, whose losses have one more, with figures among their terms (`common.UNLABELED_TERMS`).
    """

    def build() -> CloneOutputs:
        batch = batches.dequeue()
        with tf.name_scope(SCOPE):
            loss, figures = _loss(batch, options, averages, global_step, ignore_label)
            loss = tf.identity(loss, 'value')
        terms = {f'{common.UNLABELED_TERMS}{name}': value for name, value in figures.items()}
        return CloneOutputs({SCOPE: loss}, {f'{SCOPE}/{key}': values for key, values in batch.items()}, terms)

    if options.unlabeled.cutmix_probability and options.unlabeled_clone_batch_size == 1:
        logging.warning(
            '%s has no effect: it mixes the images without labels of one clone and micro-batch, which are %d.',
            option('UnlabeledOptions.cutmix_probability', options.unlabeled.cutmix_probability),
            options.unlabeled_clone_batch_size,
        )
    with tf.compat.v1.variable_scope(tf.compat.v1.get_variable_scope(), reuse=True):
        built = model_deploy.create_clones(config, build)
    return [_together(clone, more.outputs) for clone, more in zip(clones, built, strict=True)]


def ramp(step: tf.Tensor | int, steps: int) -> tf.Tensor:
    """Returns the fraction of the weight at `step`: `exp(-5 (1 - step / steps)**2)`, from `steps` on 1.

    Args:
      step: steps done before, scalar integer, 0 or more.
      steps: length of the ramp; 0 for none.

    Returns:
      scalar float32, from 0.0067 to 1.

    Source: arXiv:1610.02242, section 2.1.
    """
    left = 1.0 - tf.minimum(tf.cast(step, tf.float32) / float(max(steps, 1)), 1.0) if steps else tf.constant(0.0)
    return tf.exp(-_RAMP_STEEPNESS * tf.square(left))


class PseudoLabels(NamedTuple):
    """What the teacher says about a batch, at the size of its logits.

    Attributes:
      classes: [n, h', w', 1] int32, the most probable class.
      confidence: [n, h', w', 1] float32, its probability.
    """

    classes: tf.Tensor
    confidence: tf.Tensor


def pseudo_labels(logits: tf.Tensor) -> PseudoLabels:
    """Returns the pseudo labels of logits [n, h', w', classes]; they have no gradient."""
    logits = tf.stop_gradient(logits)
    classes = tf.argmax(logits, axis=3, output_type=tf.int32)[..., tf.newaxis]
    return PseudoLabels(classes, tf.reduce_max(tf.nn.softmax(logits), axis=3, keepdims=True))


def mix(values: tf.Tensor, box: tf.Tensor) -> tf.Tensor:
    """Replaces the box in each image by what the next image of the batch has there.

    Args:
      values: [n, h, w, c], of any type.
      box: [n, h', w', 1] bool; it is resized to the size of the values.
    """
    box = tf.cast(shapes.resize_nearest(tf.cast(box, tf.int32), shapes.spatial_size(values)), tf.bool)
    return tf.where(box, tf.roll(values, shift=-1, axis=0), values)


def targets(labels: PseudoLabels, inside: tf.Tensor, confidence: float, ignore_label: int) -> tuple[tf.Tensor, Scalars]:
    """Returns the labels of the student, and how many pixels have one.

    Args:
      labels: pseudo labels.
      inside: [n, h', w', 1] bool, false for pixels that are excluded: outside the image, or hidden.
      confidence: smallest probability of a pseudo label that is used.
      ignore_label: label of all other pixels.

    Returns:
      [n, h', w', 1] int32; and `used_pixels`, and `used`, their fraction of all pixels inside, scalars float32.
    """
    # The ignore label may be a class of the network: the loss excludes pixels that the teacher gives it.
    is_used = inside & (labels.confidence >= confidence) & tf.not_equal(labels.classes, ignore_label)
    used = tf.reduce_sum(tf.cast(is_used, tf.float32))
    fraction = tf.math.divide_no_nan(used, tf.reduce_sum(tf.cast(inside, tf.float32)))
    return tf.where(is_used, labels.classes, ignore_label), {'used': fraction, 'used_pixels': used}


def _loss(
    batch: dict[str, tf.Tensor],
    options: TrainOptions,
    averages: moving_average.MovingAverages,
    global_step: tf.Variable,
    ignore_label: int,
) -> tuple[tf.Tensor, Scalars]:
    """Builds teacher and student of one clone; returns the weighted loss, and figures for the log."""
    unlabeled = options.unlabeled
    with tf.xla.experimental.jit_scope() if options.xla else contextlib.nullcontext():
        with averages.in_place_of_variables(), tf.name_scope('teacher'):
            teacher = _logits(batch[common.WEAK_IMAGE], options, is_training=False)
        box = batch[common.MIX_BOX]
        with moving_updates.discarded(), tf.name_scope('student'):
            student = _logits(mix(batch[common.IMAGE], box), options, is_training=True)
        size = shapes.spatial_size(teacher)
        inside = tf.not_equal(shapes.resize_nearest(mix(batch[common.LABEL], box), size), ignore_label)
        mixed = PseudoLabels(*(mix(values, box) for values in pseudo_labels(teacher)))
        labels, figures = targets(mixed, inside, unlabeled.confidence, ignore_label)
        # Pseudo labels have the size of the logits. Classes weigh as they do in the loss of labels.
        cross_entropy = LossOptions(upsample_logits=False, label_weights=options.loss.label_weights)
        by_scale = {common.MERGED_LOGITS: student}
        mean = scale_losses.losses_of_scales(by_scale, labels, ignore_label, cross_entropy)[common.MERGED_LOGITS]
        # The mean over all pixels, as in the paper: few confident pixels have a small loss.
        loss = mean.value * figures['used']
    weight = unlabeled.weight * ramp(global_step, options.unlabeled_ramp_steps)
    # The figures of clones and micro-batches are averaged: this makes the mean the sum.
    figures['used_pixels'] *= float(options.clones.parts * options.accumulation_steps)
    return loss * weight, {'loss': loss, 'weight': weight, **figures}


def _logits(images: tf.Tensor, options: TrainOptions, is_training: bool) -> tf.Tensor:
    """Returns the merged logits of the network, [n, h', w', classes]; weight decay is part of the labeled loss."""
    mode = model.Mode(is_training, options.fine_tune_batch_norm, compute_type=tf.as_dtype(options.precision))
    scopes = options.optimizer.trainable_scopes if is_training else ()
    with layers.training_scope(scopes):
        logits = model.multi_scale_logits(images, options.model, options.model.image_pyramid, mode)
    return logits[common.OUTPUT_TYPE][common.MERGED_LOGITS]


def _together(clone: model_deploy.Clone, more: CloneOutputs) -> model_deploy.Clone:
    """Adds losses, batch and terms to the outputs of a clone."""
    outputs: CloneOutputs = clone.outputs
    return clone._replace(
        outputs=outputs._replace(
            losses=outputs.losses | more.losses,
            batch=outputs.batch | more.batch,
            terms={**outputs.terms, **more.terms},
        )
    )
