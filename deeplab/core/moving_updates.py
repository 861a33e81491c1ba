"""Moving averages that a forward pass measures and a training step applies: statistics and ranges.

A layer in training mode updates nothing: it registers a `MovingUpdate`, which the training step applies together with
the gradients, or not at all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

_COLLECTION = 'moving_updates'  # graph collection of MovingUpdate


class MovingUpdate(NamedTuple):
    """The update of one moving average by one batch.

    Attributes:
      variable: the moving mean or the moving variance of a batch norm, [channels]; or one end of a range, scalar or
        [channels] (see `quantization`).
      batch_value: the value of the batch, such as its mean or unbiased variance, of the same shape.
      decay: fraction of the old value that stays; a scalar tensor if it changes from step to step.
    """

    variable: tf.Variable
    batch_value: tf.Tensor
    decay: float | tf.Tensor


def register(variable: tf.Variable, batch_value: tf.Tensor, decay: float | tf.Tensor) -> None:
    """Registers a `MovingUpdate` in the default graph."""
    tf.compat.v1.add_to_collection(_COLLECTION, MovingUpdate(variable, batch_value, decay))


@contextlib.contextmanager
def discarded() -> Iterator[None]:
    """Forgets the updates that layers within register: their batch moves no average."""
    updates = tf.compat.v1.get_collection_ref(_COLLECTION)
    before = len(updates)
    yield
    del updates[before:]


def registered(scope: str | None = None) -> list[MovingUpdate]:
    """Returns the updates that layers of the default graph have registered.

    Args:
      scope: name scope of the updates to return, such as 'clone_0'; None or '' for all.
    """
    updates = tf.compat.v1.get_collection(_COLLECTION)
    prefix = scope.rstrip('/') + '/' if scope else ''
    return [update for update in updates if update.batch_value.op.name.startswith(prefix)]


def apply(updates: Sequence[MovingUpdate]) -> list[tf.Operation]:
    """Returns the ops that move averages towards their batch's values: variable -= (variable - value) * (1 - decay).

    A variable with several updates (one for each scale of an image pyramid) takes them in their order, so that every
    run ends in the same value.

    Args:
      updates: updates of one clone, float32 each; see `registered`.

    Source: arXiv:1502.03167, section 3.1 (moving averages of the statistics).
    """
    last: dict[str, tf.Operation] = {}
    constants: dict[float, tf.Tensor] = {}
    for update in updates:
        name = update.variable.op.name
        fraction = _new_fraction(update.decay, constants)
        with tf.control_dependencies([last[name]] if name in last else []):
            step = (tf.convert_to_tensor(update.variable) - update.batch_value) * fraction
            last[name] = update.variable.assign_sub(step, read_value=False)
    return list(last.values())


def _new_fraction(decay: float | tf.Tensor, constants: dict[float, tf.Tensor]) -> tf.Tensor:
    """Returns `1 - decay` in float32; one constant for each number, which `constants` collects."""
    if not isinstance(decay, float):
        return np.float32(1) - decay
    if decay not in constants:
        # In float32, as the original had it: 1 - 0.997 is 0.00300002 there, 7 millionths of itself above 0.003.
        constants[decay] = tf.constant(np.float32(1) - np.float32(decay))
    return constants[decay]
