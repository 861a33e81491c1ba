"""Gradient accumulation: the images of a step pass through the network in several micro-batches, one after the other.

The graph has one network. The first micro-batch of a step assigns its results to local variables, which are in no
checkpoint; the next ones add theirs; the last one applies the update with the mean. As the first one overwrites the
variables, a step that was not applied or not finished has no effect on the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import tensorflow as tf

from deeplab.core import dropout

if TYPE_CHECKING:
    from deeplab.core.moving_updates import MovingUpdate
    from deeplab.deployment.model_deploy import Gradient

_SCOPE = 'accumulation'


class MicroBatches:
    """The micro-batches of each step of the default graph; must be created before the network.

    Attributes:
      count: how many a step has, 2 or more.
      number: scalar int64, index of the micro-batch, from 0 to `count` - 1; to be fed.
      runs: operations to run for each micro-batch except the last; the run of the last one applies the update.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.number = tf.compat.v1.placeholder_with_default(tf.constant(0, tf.int64), [], 'micro_batch')
        self.runs: tuple[tf.Operation, ...] = ()
        tf.compat.v1.add_to_collection(dropout.MICRO_BATCHES, self)

    def mean(
        self, loss: tf.Tensor, gradients: Sequence[Gradient], updates: Sequence[MovingUpdate]
    ) -> tuple[tf.Tensor, list[Gradient], list[MovingUpdate]]:
        """Returns the means over the micro-batches; sets `runs`.

        The updates are batch norm statistics and the ranges of 8-bit training. A value that is not finite in one
        micro-batch is not finite in the mean. Weight decay, which is the same in all of them, is included once.
        """
        variables = [variable for _, variable in gradients]
        tensors = [loss, *(gradient for gradient, _ in gradients), *(update.batch_value for update in updates)]
        shapes = [tf.TensorShape([]), *(each.shape for each in (*variables, *(update.variable for update in updates)))]
        # Local variables are in no checkpoint. The first micro-batch assigns them, so no initial value is needed.
        zeros = tf.compat.v1.zeros_initializer()
        with tf.compat.v1.variable_scope(_SCOPE):
            sums = [
                tf.compat.v1.get_local_variable(f'sum_{i}', shape, tensors[i].dtype, zeros)
                for i, shape in enumerate(shapes)
            ]
            pairs = list(zip(sums, tensors, strict=True))
            first = tf.group(*(total.assign(value, read_value=False) for total, value in pairs), name='first')
            more = tf.group(*(total.assign_add(value, read_value=False) for total, value in pairs), name='more')
            means = [(total + value) / self.count for total, value in pairs]
        self.runs = (first, *[more] * (self.count - 2))
        mean_loss, *rest = means
        statistics = rest[len(variables) :]
        return (
            mean_loss,
            list(zip(rest, variables, strict=False)),
            [update._replace(batch_value=mean) for mean, update in zip(statistics, updates, strict=True)],
        )
