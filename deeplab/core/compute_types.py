"""Data types in which layers compute: float32, bfloat16, float16."""

from __future__ import annotations

import tensorflow as tf

from deeplab.core import tf_compat


@tf_compat.add_arg_scope
def as_compute_type(images: tf.Tensor, compute_type: tf.DType = tf.float32) -> tf.Tensor:
    """Returns `images` in the type in which the network computes (see `layers.mode_scope`)."""
    return as_type(images, compute_type)


def as_type(values: tf.Tensor | tf.Variable, wanted: tf.DType) -> tf.Tensor | tf.Variable:
    """Returns `values` as type `wanted`; unchanged, without an operation, if they have it already."""
    return values if values.dtype.base_dtype == wanted else tf.cast(values, wanted)
