"""Gradient accumulation: a step whose images pass through the network in several micro-batches, one after the other.

The graph has one network. What a run of it gives is set down in local variables (no checkpoint holds them) by the
first micro-batch of a step and added to by those in between; the last one takes the mean of it all into the update.
As the first one overwrites, nothing is left of a step that was not applied or not finished.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import tensorflow as tf

from deeplab.core import dropout

if TYPE_CHECKING:
    from deeplab.core.layers import MovingUpdate

_SCOPE = 'accumulation'


class Step(NamedTuple):
    """What a step is made of; see `training_step.gated_update`.

    Attributes:
      loss: scalar float32.
      gradients: pairs of gradient and variable.
      moving_updates: what the batch says about the statistics of batch norms.
    """

    loss: tf.Tensor
    gradients: list[tuple[tf.Tensor, tf.Variable]]
    moving_updates: list[MovingUpdate]


class MicroBatches:
    """The micro-batches of each step of the default graph; to be made before the network.

    Attributes:
      count: how many a step has, 2 or more.
      number: scalar int64, which one a run of the graph is, from 0 to `count` - 1; to be fed.
      runs: what to run for each micro-batch but the last, whose run performs the step.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.number = tf.compat.v1.placeholder_with_default(tf.constant(0, tf.int64), [], 'micro_batch')
        self.runs: tuple[tf.Operation, ...] = ()
        tf.compat.v1.add_to_collection(dropout.MICRO_BATCHES, self)

    def mean(self, step: Step) -> Step:
        """The step of the mean over the micro-batches; fills `runs`.

        What is not finite in one micro-batch is not finite in the mean. Weight decay, the same in all of them, counts
        once.

        Args:
          step: what one micro-batch gives.
        """
        tensors = [step.loss, *(gradient for gradient, _ in step.gradients)]
        shapes = [tf.TensorShape([]), *(variable.shape for _, variable in step.gradients)]
        for update in step.moving_updates:
            tensors.append(update.batch_value)
            shapes.append(update.variable.shape)
        with tf.compat.v1.variable_scope(_SCOPE):
            sums = [_local_variable(f'sum_{i}', tensors[i].dtype, shape) for i, shape in enumerate(shapes)]
            pairs = list(zip(sums, tensors, strict=True))
            first = tf.group(*(total.assign(value, read_value=False) for total, value in pairs), name='first')
            more = tf.group(*(total.assign_add(value, read_value=False) for total, value in pairs), name='more')
            means = [(total + value) / self.count for total, value in pairs]
        self.runs = (first, *[more] * (self.count - 2))
        loss, *rest = means
        gradients = rest[: len(step.gradients)]
        statistics = rest[len(step.gradients) :]
        return Step(
            loss,
            [(mean, variable) for mean, (_, variable) in zip(gradients, step.gradients, strict=True)],
            [update._replace(batch_value=mean) for mean, update in zip(statistics, step.moving_updates, strict=True)],
        )


def _local_variable(name: str, dtype: tf.DType, shape: tf.TensorShape) -> tf.Variable:
    """A variable that no checkpoint holds; it needs no first value, as the first micro-batch sets it."""
    return tf.compat.v1.get_variable(
        name,
        shape,
        dtype,
        tf.compat.v1.zeros_initializer(),
        trainable=False,
        collections=[tf.compat.v1.GraphKeys.LOCAL_VARIABLES],
    )
