"""One clone of the network with its losses: `_build_deeplab`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

from deeplab import common, model
from deeplab.core import layers, scale_losses
from deeplab.deployment import model_deploy
from deeplab.options import TrainOptions


class CloneOutputs(NamedTuple):
    """Outputs of `_build_deeplab`.

    Attributes:
      losses: scalars by `OUTPUT_KEY`.
      batch: the samples, by the keys of `common`.
      logits: the merged logits of the semantic output, [n, h', w', classes].
      terms: scalars by `OUTPUT_KEY/TERM`, if the loss is a sum; for summaries.
    """

    losses: dict[str, tf.Tensor]
    batch: dict[str, tf.Tensor]
    logits: tf.Tensor
    terms: Mapping[str, tf.Tensor] = {}


def _build_deeplab(
    inputs_queue: model_deploy.Batches, options: TrainOptions, ignore_label: int, global_step: tf.Variable
) -> CloneOutputs:
    """Builds one clone: dequeues a batch, runs the network at every scale, and computes its losses.

    Args:
      inputs_queue: batches of images [n, h, w, channels] float32 and labels [n, h, w, 1] int32.
      options: the training.
      ignore_label: label of pixels excluded from loss and metrics.
      global_step: steps done.
    """
    batch = inputs_queue.dequeue()
    # Compiles the network and its gradients alone. The session's own switch would also compile the input pipeline, with
    # images of unknown sizes.
    with tf.xla.experimental.jit_scope() if options.xla else contextlib.nullcontext():
        with layers.training_scope(options.optimizer.trainable_scopes):
            logits = model.multi_scale_logits(
                batch[common.IMAGE],
                options.model,
                options.model.image_pyramid,
                model.Mode(
                    is_training=True,
                    fine_tune_batch_norm=options.fine_tune_batch_norm,
                    weight_decay=options.optimizer.weight_decay,
                    compute_type=tf.as_dtype(options.precision),
                ),
            )
        losses, terms = {}, {}
        for output, scales_to_logits in logits.items():
            for key, loss in scale_losses.losses_of_scales(
                scales_to_logits, batch[common.LABEL], ignore_label, options.loss, global_step, scope=output
            ).items():
                losses[f'{output}_{key}'] = loss.value
                if len(loss.terms) > 1:
                    terms.update({f'{output}_{key}/{name}': value for name, value in loss.terms.items()})
    return CloneOutputs(losses, batch, logits[common.OUTPUT_TYPE][common.MERGED_LOGITS], terms)
