"""Sums over devices and machines, by the collective operations of TensorFlow.

Every participant runs its own graph, or its own part of one graph, and adds the same sums in the same order: that gives
equal keys to the operations that belong together. A sum goes around a ring in a fixed order, so it is repeatable, and
all participants get the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from tensorflow.python.ops import collective_ops  # no public name has it for graphs

# The task that knows which participants there are, for servers and sessions of workers.
LEADER = '/job:worker/replica:0/task:0'
# Keys of the groups, which differ among all workers; all sums of a participant must be on one device. The clones of
# worker n are group GRADIENTS + n.
WORKERS, CLONES, GRADIENTS = 1, 2, 3
# Instance keys of groups in one graph must differ, and a gradient's key from a sum's. All workers must have the same
# keys: TensorFlow derives from them which steps of their sessions belong together.
_KEYS_OF_A_GROUP = 1_000_000
_FIRST_OF_GRADIENTS = _KEYS_OF_A_GROUP // 2


class Participant:
    """A participant of the sums of one group: a clone, or a worker."""

    def __init__(self, group: int, size: int) -> None:
        """Creates a participant of the group with key `group`, which has `size` participants, 1 or more."""
        self.size = size
        self._group = group
        self._sums = 0

    def sum(self, values: tf.Tensor) -> tf.Tensor:
        """Returns the sum of `values` over the group, on their device; its gradient is the sum of the gradients.

        Args:
          values: any shape, the same for all participants; float, int32 or int64.
        """
        if self.size == 1:
            return values
        key = min(self._group, GRADIENTS) * _KEYS_OF_A_GROUP + self._sums
        self._sums += 1

        def summed(inputs: tf.Tensor) -> tuple[tf.Tensor, object]:
            return self._reduce(inputs, key), lambda gradient: self._reduce(gradient, key + _FIRST_OF_GRADIENTS)

        result: tf.Tensor = tf.custom_gradient(summed)(values)
        return result

    def _reduce(self, values: tf.Tensor, key: int) -> tf.Tensor:
        # NCCL between GPUs, which TensorFlow uses only if told, and a ring otherwise. Its NCCL refuses bfloat16.
        hint = 'ring' if values.dtype == tf.bfloat16 else 'nccl'
        # No timeout: it would limit the length of a step, a compilation or a checkpoint of another participant.
        return collective_ops.all_reduce(values, self.size, self._group, key, 'Add', 'Id', communication_hint=hint)

    def sum_all(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Returns the sums of tensors of static shapes over the group, by one reduction for each type.

        They have no gradient.
        """
        if self.size == 1:
            return list(tensors)
        sums: list[tf.Tensor] = list(tensors)
        for dtype in sorted({tensor.dtype.name for tensor in tensors}):
            places = [place for place, tensor in enumerate(tensors) if tensor.dtype.name == dtype]
            flat = tf.concat([tf.reshape(tensors[place], [-1]) for place in places], axis=0)
            total = self.sum(tf.stop_gradient(flat))
            parts = tf.split(total, [tensors[place].shape.num_elements() for place in places])
            for place, part in zip(places, parts, strict=True):
                sums[place] = tf.reshape(part, tensors[place].shape)
        return sums
