"""Moving averages of the weights, which predict better than the last weights where steps are large or batches small.

Each variable of the network has a shadow, `VARIABLE/ExponentialMovingAverage`, that follows it slowly. Training changes
the shadows and never reads them; prediction may take them in the place of the weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import tensorflow as tf
from absl import logging

from deeplab.core import checkpoints
from deeplab.errors import CheckpointError

SUFFIX = 'ExponentialMovingAverage'  # as TensorFlow's own averages end


def shadow_name(name: str) -> str:
    """Name of the shadow of the variable `name`."""
    return f'{name}/{SUFFIX}'


def is_shadow(name: str) -> bool:
    """Whether `name` is that of a shadow."""
    return name.endswith(f'/{SUFFIX}')


def without_shadows(variables: Iterable[tf.Variable]) -> list[tf.Variable]:
    """Those of `variables` that are no shadows."""
    return [variable for variable in variables if not is_shadow(variable.op.name)]


def ramped_decay(step: tf.Tensor | int, decay: float) -> tf.Tensor:
    """The decay of the update that follows `step` steps: `min(decay, (1 + step) / (10 + step))`.

    A young average has little worth keeping, so it begins fast (0.1 at step 0).

    Args:
      step: steps done before, scalar integer, 0 or more.
      decay: share of the old average that stays in the end, in (0, 1).

    Returns:
      scalar float32.
    """
    step = tf.cast(step, tf.float32)
    return tf.minimum(decay, (1.0 + step) / (10.0 + step))


class MovingAverages:
    """The shadows of some variables, in the current graph."""

    def __init__(self, variables: Sequence[tf.Variable], decay: float, global_step: tf.Variable) -> None:
        """Makes the shadows: global variables, so that checkpoints hold them, and no model variables.

        Args:
          variables: what to average, float32.
          decay: see `ramped_decay`.
          global_step: the counter of updates.
        """
        self._decay = decay
        self._global_step = global_step
        self._pairs = [(variable, _make_shadow(variable)) for variable in variables]
        starts = [shadow.assign(variable, read_value=False) for variable, shadow in self._pairs]
        self.start = tf.group(*starts, name='start_moving_averages')  # gives each shadow its variable's value

    def update(self) -> list[tf.Operation]:
        """Operations that move each shadow towards its variable: shadow -= (shadow - variable) * (1 - decay).

        They read variables and step when they run; make them where the weights are new and the step is not.

        Source: Polyak and Juditsky, "Acceleration of stochastic approximation by averaging" (the idea).
        """
        share = 1.0 - ramped_decay(self._global_step, self._decay)
        return [shadow.assign_sub((shadow - variable) * share, read_value=False) for variable, shadow in self._pairs]


def _make_shadow(variable: tf.Variable) -> tf.Variable:
    """The shadow of `variable`, 0 until it is started."""
    # Not with the variable itself as initial value: initialisers run all at once, in no order.
    return tf.compat.v1.get_variable(
        shadow_name(variable.op.name),
        variable.shape,
        variable.dtype.base_dtype,
        tf.compat.v1.zeros_initializer(),
        trainable=False,
    )


def held_by(path: str) -> list[str]:
    """Names of the shadows in the checkpoint at `path`, sorted.

    Raises:
      CheckpointError: it cannot be read.
    """
    return [name for name in checkpoints.entries(path) if is_shadow(name)]


def resume(
    session: tf.compat.v1.Session, path: str, variables: Sequence[tf.Variable], averages: MovingAverages | None
) -> None:
    """Gives variables, shadows among them, their values in a checkpoint of an earlier run.

    Shadows that the checkpoint does not hold at all start from its weights, with a line that says so.

    Args:
      session: to restore into.
      path: of the checkpoint.
      variables: what to restore.
      averages: those of this run; None for none.

    Raises:
      CheckpointError: it does not fit.
    """
    held = held_by(path)
    if averages is not None and not held:
        checkpoints.restore_all(session, path, without_shadows(variables))
        session.run(averages.start)
        logging.info('%s holds no moving averages of the weights: they start from its weights.', path)
        return
    checkpoints.restore_all(session, path, variables)
    if averages is None and held:
        logging.warning(
            '%s holds moving averages of the weights, but --moving_average_decay is not set: they end here.', path
        )


def shadow_of_each(path: str, variables: Iterable[tf.Variable]) -> dict[str, str]:
    """Under which name the checkpoint at `path` holds the average of each variable, by the variable's name.

    Raises:
      CheckpointError: it holds no averages, or cannot be read.
    """
    if not held_by(path):
        raise CheckpointError(
            f"The checkpoint '{path}' holds no moving averages of the weights. Leave --use_moving_average away, or "
            'give a checkpoint of a training with --moving_average_decay'
        )
    return {variable.op.name: shadow_name(variable.op.name) for variable in variables}


def restore_weights(
    session: tf.compat.v1.Session, path: str, variables: Sequence[tf.Variable], use_moving_average: bool
) -> None:
    """Gives a network for prediction its weights: those of a checkpoint, or their moving averages.

    Args:
      session: to restore into.
      path: of the checkpoint.
      variables: all of the network's.
      use_moving_average: whether each takes its shadow's value.

    Raises:
      CheckpointError: it does not fit, or holds no averages where they are wanted.
    """
    names = shadow_of_each(path, variables) if use_moving_average else None
    checkpoints.restore_all(session, path, variables, names)
