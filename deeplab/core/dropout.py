"""Dropout and drop path, with stateless masks that depend only on seed, variable scope and step."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from deeplab.core import compute_types, initializers, tf_compat


def is_frozen(place: str, trained_scopes: tuple[str, ...]) -> bool:
    """Returns whether the variable scope `place` is outside `trained_scopes`; see `training_scope`."""
    return bool(trained_scopes) and not f'{place}/'.startswith(trained_scopes)


MICRO_BATCHES = 'micro_batches'  # graph collection of the one training.accumulation.MicroBatches


def _step_seed(name_scope: str) -> tf.Tensor:
    """Returns the seed [2] int64 of a random op at `name_scope` in this step."""
    # Without the scope of a clone, such as 'clone_1', the clone is 0.
    match = re.match(r'clone_(\d+)(/|$)', name_scope)
    clone, place = (int(match.group(1)), name_scope[match.end() :]) if match else (0, name_scope)
    graph_seed, place_seed = initializers.seed_of(place)
    step = tf.compat.v1.train.get_global_step()
    step = tf.constant(0, tf.int64) if step is None else tf.cast(step, tf.int64)
    # The clone and the graph's seed are folded into where.
    where = zlib.crc32(f'{graph_seed}/{clone}/{place_seed}'.encode())
    return tf.stack([tf.constant(where, tf.int64), draw_number(step)])


@tf_compat.add_arg_scope
def dropout(
    inputs: tf.Tensor,
    keep_probability: float,
    *,
    scope: str,
    is_training: bool = False,
    trained_scopes: tuple[str, ...] = (),
) -> tf.Tensor:
    """Zeroes a fraction of the values and scales the others up; the identity unless `is_training`.

    The mask follows from the graph's seed, the name scope, the clone and the global step: a resumed run draws the same
    masks as an uninterrupted one. Clones draw different masks, and so do the micro-batches of a step.

    Args:
      inputs: any shape, float.
      keep_probability: fraction of the values that stays, in (0, 1].
      scope: name of the operation; NAME_dropout belongs to the layer NAME.
      is_training: whether to drop at all.
      trained_scopes: see `training_scope`.

    Source: Srivastava et al., JMLR 15 (2014), section 4.
    """
    outer = tf.compat.v1.get_variable_scope().name
    layer = scope.removesuffix('_dropout')
    if not is_training or keep_probability == 1.0 or is_frozen(f'{outer}/{layer}'.lstrip('/'), trained_scopes):
        return inputs
    with tf.name_scope(scope) as name_scope:
        seed = _step_seed(name_scope)
        # In float32, which represents 0.9 precisely enough that every precision drops the same values.
        values = compute_types.as_type(inputs, tf.float32)
        values = tf.nn.experimental.stateless_dropout(values, rate=1.0 - keep_probability, seed=seed)
        return compute_types.as_type(values, inputs.dtype)


@tf_compat.add_arg_scope
def drop_path(
    inputs: tf.Tensor,
    keep_probability: float | tf.Tensor,
    *,
    scope: str,
    is_training: bool = False,
    trained_scopes: tuple[str, ...] = (),
) -> tf.Tensor:
    """Zeroes whole images with a probability and scales the others up; the identity unless `is_training`.

    Like `dropout`, it draws from the graph's seed, the place, the clone and the global step.

    Args:
      inputs: [n, h, w, c] float.
      keep_probability: fraction of the images that stays, in (0, 1]; a number or a scalar float32 tensor.
      scope: name of the operation.
      is_training: whether to drop at all.
      trained_scopes: see `training_scope`.

    Returns:
      [n, h, w, c], of the type of `inputs`.

    Source: arXiv:1605.07648, section 4 (drop path); arXiv:1707.07012 (scheduled over training).
    """
    if not is_training or is_frozen(tf.compat.v1.get_variable_scope().name, trained_scopes):
        return inputs
    with tf.name_scope(scope) as name_scope:
        chance = tf.random.stateless_uniform([tf.shape(inputs)[0], 1, 1, 1], _step_seed(name_scope))
        kept = tf.cast(chance < keep_probability, tf.float32)  # [n, 1, 1, 1]
        return inputs * compute_types.as_type(kept / keep_probability, inputs.dtype)


def draw_number(step: tf.Tensor) -> tf.Tensor:
    """Returns the number of a random draw, scalar int64: `step` of that type, or the number of micro-batches so far."""
    micro_batches: Sequence[Any] = tf.compat.v1.get_collection(MICRO_BATCHES)
    return step * micro_batches[0].count + micro_batches[0].number if micro_batches else step
