"""Exponential moving averages (EMA) of the weights.

Each variable of the network has an average, `VARIABLE/ExponentialMovingAverage`, except for quantization ranges, which
are moving averages already. Training updates the averages; prediction may use them instead of the weights, which often
helps with large steps or small batches. Training reads them only with images without labels
(`training/mean_teacher.py`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf
from absl import logging

from deeplab.core import checkpoints, quantization
from deeplab.errors import CheckpointError
from deeplab.wording import is_set_by_flag, option

SUFFIX = 'ExponentialMovingAverage'  # the suffix of TensorFlow's own averages
# The options that request averages, of which a program has at most one.
_USE_FIELDS = (
    'EvalOptions.use_moving_average',
    'VisOptions.use_moving_average',
    'ExportOptions.use_moving_average',
)


def average_name(name: str) -> str:
    """Returns the name of the average of the variable `name`."""
    return f'{name}/{SUFFIX}'


def is_average(name: str) -> bool:
    """Returns whether `name` is the name of an average."""
    return name.endswith(f'/{SUFFIX}')


def without_averages(variables: Iterable[tf.Variable]) -> list[tf.Variable]:
    """Returns the variables that are not averages."""
    return [variable for variable in variables if not is_average(variable.op.name)]


def ramped_decay(step: tf.Tensor | int, decay: float) -> tf.Tensor:
    """Returns the decay of the update after `step` steps: `min(decay, (1 + step) / (10 + step))`.

    The ramp starts at 0.1 so that the initial weights are forgotten quickly.

    Args:
      step: number of previous steps, scalar integer, 0 or more.
      decay: final decay, in (0, 1).

    Returns:
      scalar float32.
    """
    step = tf.cast(step, tf.float32)
    return tf.minimum(decay, (1.0 + step) / (10.0 + step))


class MovingAverages:
    """Exponential moving averages of variables, in the current graph."""

    def __init__(self, variables: Sequence[tf.Variable], decay: float, global_step: tf.Variable) -> None:
        """Creates the averages as global variables, which checkpoints contain, but not as model variables.

        Args:
          variables: variables to average, float32.
          decay: see `ramped_decay`.
          global_step: number of updates.
        """
        self._decay = decay
        self._global_step = global_step
        # Variables are not used as initial values because initializers run in no particular order.
        zeros = tf.compat.v1.zeros_initializer()
        averages = [
            tf.compat.v1.get_variable(
                average_name(variable.op.name), variable.shape, variable.dtype.base_dtype, zeros, trainable=False
            )
            for variable in variables
        ]
        self._pairs = list(zip(variables, averages, strict=True))
        starts = [average.assign(variable, read_value=False) for variable, average in self._pairs]
        self.start = tf.group(*starts, name='start_moving_averages')  # sets each average to its variable's value

    @contextlib.contextmanager
    def in_place_of_variables(self) -> Iterator[None]:
        """Gives layers that are built within the averages of the variables that they ask for."""
        by_name = {variable.op.name: average for variable, average in self._pairs}

        def average_of(getter: Callable[..., tf.Variable], name: str, **arguments: Any) -> tf.Variable:
            del getter, arguments
            return by_name[name]

        with tf.compat.v1.variable_scope(tf.compat.v1.get_variable_scope(), custom_getter=average_of):
            yield

    def update(self) -> list[tf.Operation]:
        """Returns operations that update each average: average -= (average - variable) * (1 - decay).

        They read variables and step when they run: create them with control dependencies on the update of the weights,
        but before the step is incremented.

        Source: Polyak and Juditsky, "Acceleration of stochastic approximation by averaging" (averaging of weights).
        """
        fraction = 1.0 - ramped_decay(self._global_step, self._decay)
        # The kernel of gradient descent multiplies and subtracts: one operation less for each variable.
        return [
            tf.raw_ops.ResourceApplyGradientDescent(var=average.handle, alpha=fraction, delta=average - variable)
            for variable, average in self._pairs
        ]


def held_by(path: str) -> list[str]:
    """Returns the names of the averages in the checkpoint at `path`, sorted.

    Raises:
      CheckpointError: it cannot be read.
    """
    return [name for name in checkpoints.entries(path) if is_average(name)]


def resume(
    session: tf.compat.v1.Session, path: str, variables: Sequence[tf.Variable], averages: MovingAverages | None
) -> None:
    """Restores variables, including averages, from a checkpoint of an earlier run.

    If the checkpoint contains no averages, the averages of this run start from its weights, which is logged.

    Raises:
      CheckpointError: it does not match the variables.
    """
    held = held_by(path)
    if averages is not None and not held:
        checkpoints.restore_all(session, path, without_averages(variables))
        session.run(averages.start)
        logging.info('%s contains no moving averages (EMA) of the weights: they start from its weights.', path)
        return
    checkpoints.restore_all(session, path, variables)
    if averages is None and held:
        logging.warning(
            '%s contains moving averages (EMA) of the weights, but %s is not set: they are discarded.',
            path,
            option('TrainOptions.moving_average_decay'),
        )


def names_of_weights(
    path: str, variables: Iterable[tf.Variable | tf.Tensor], use_moving_average: bool | None
) -> dict[str, str] | None:
    """Returns the names of weights in the checkpoint at `path`, for `checkpoints.read_all`.

    Args:
      path: path of the checkpoint.
      variables: all variables of a network for prediction, or placeholders with their names.
      use_moving_average: whether to use the averages of the weights instead of the weights.

    Returns:
      The name of the average of each variable, by the variable's name; its own name for a quantization range, which is
      a moving average already. None for the variables' own names.

    Raises:
      CheckpointError: the checkpoint contains no averages although they are requested, or cannot be read.
    """
    if not use_moving_average:
        return None
    if not held_by(path):
        field = next(filter(is_set_by_flag, _USE_FIELDS), _USE_FIELDS[0])
        raise CheckpointError(
            f"The checkpoint '{path}' contains no moving averages (EMA) of the weights. Omit {option(field)}, or pass "
            f'a checkpoint of a training run with {option("TrainOptions.moving_average_decay")}'
        )
    names = [variable.op.name for variable in variables]
    return {name: name if quantization.is_range(name) else average_name(name) for name in names}
