"""One clone of the network with its losses: `_build_deeplab`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

import tensorflow as tf

from deeplab import common, model
from deeplab.core import collectives, layers
from deeplab.deployment import model_deploy
from deeplab.options import TrainOptions
from deeplab.registry import TaskContext
from deeplab.training import task_losses


class CloneOutputs(NamedTuple):
    """Outputs of `_build_deeplab`.

    Attributes:
      losses: scalars by `OUTPUT_KEY`.
      batch: the samples, by the keys of `common`.
      terms: scalars by `OUTPUT_KEY/TERM`, if the loss is a sum; for summaries.
      outputs: the maps of all outputs by name, without activation, [n, h', w', channels].
    """

    losses: dict[str, tf.Tensor]
    batch: dict[str, tf.Tensor]
    terms: Mapping[str, tf.Tensor] = {}
    outputs: Mapping[str, tf.Tensor] = {}

    @property
    def logits(self) -> tf.Tensor | None:
        """The merged logits of the semantic output, [n, h', w', classes]; None if there is no such output."""
        return self.outputs.get(common.OUTPUT_TYPE)


def _build_deeplab(
    inputs_queue: model_deploy.Batches,
    options: TrainOptions,
    ignore_label: int,
    global_step: tf.Variable,
    context: TaskContext | None = None,
    group: Callable[[], collectives.Participant | None] = lambda: None,
) -> CloneOutputs:
    """Builds one clone: dequeues a batch, runs the network at every scale, and computes its losses.

    Args:
      inputs_queue: batches of images [n, h, w, channels] float32 and labels [n, h, w, 1] int32.
      options: the training.
      ignore_label: label of pixels excluded from loss and metrics.
      global_step: steps done.
      context: what the tasks know of the data set; None for what follows from the other arguments.
      group: returns the clone among all clones, for batch norms that use the statistics of all their batches; None for
        batch norms that use the clone's.
    """
    context = context or TaskContext(options.model.num_classes, ignore_label)
    batch = inputs_queue.dequeue()
    # Compiles the network and its gradients alone. The session's own switch would also compile the input pipeline, with
    # images of unknown sizes.
    with tf.xla.experimental.jit_scope() if options.xla else contextlib.nullcontext():
        with layers.training_scope(options.optimizer.trainable_scopes, group()):
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
        losses, terms = task_losses.build(logits, batch, options, context, global_step)
    merged = {output: by_scale[common.MERGED_LOGITS] for output, by_scale in logits.items()}
    return CloneOutputs(losses, batch, terms, merged)
