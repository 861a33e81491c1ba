"""Initializers of variables: constants, truncated normal, Xavier, He. One seed for each name."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable

import numpy as np
import tensorflow as tf

# Draws the first value of a variable: (shape, seed of two integers) -> float32 tensor.
Initializer = Callable[[list[int], tuple[int, int]], tf.Tensor]


def zeros(shape: list[int], seed: tuple[int, int]) -> tf.Tensor:
    """Initializer: 0."""
    del seed
    return tf.zeros(shape)


def ones(shape: list[int], seed: tuple[int, int]) -> tf.Tensor:
    """Initializer: 1."""
    del seed
    return tf.ones(shape)


def constant(value: float) -> Initializer:
    """Initializer: `value` everywhere."""
    return lambda shape, seed: tf.constant(value, tf.float32, shape)


def truncated_normal(stddev: float) -> Initializer:
    """Initializer: normal with mean 0, drawn again beyond two standard deviations."""
    return lambda shape, seed: _truncated_normal(shape, seed, stddev)


def xavier_uniform(shape: list[int], seed: tuple[int, int]) -> tf.Tensor:
    """Initializer: uniform in +-sqrt(6 / (fan_in + fan_out)).

    Source: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", eq. 16.
    """
    limit = (6.0 / (math.prod(shape[:-2]) * (shape[-2] + shape[-1]))) ** 0.5
    low, high = np.float32(-limit), np.float32(limit)
    return tf.raw_ops.StatelessRandomUniform(shape=shape, seed=np.array(seed, np.int64)) * (high - low) + low


def he_normal(shape: list[int], seed: tuple[int, int]) -> tf.Tensor:
    """Initializer: truncated normal of variance 2 / fan_in (after truncation).

    Source: arXiv:1502.01852, section 2.2.
    """
    fan_in = math.prod(shape[:-1])
    # 0.8796 is the standard deviation of a unit normal that is truncated at two.
    return _truncated_normal(shape, seed, (2.0 / fan_in) ** 0.5 / 0.87962566103423978)


def _truncated_normal(shape: list[int], seed: tuple[int, int], stddev: float) -> tf.Tensor:
    """Returns the values of `tf.random.stateless_truncated_normal`, from half as many operations."""
    return tf.raw_ops.StatelessTruncatedNormal(shape=shape, seed=np.array(seed, np.int64)) * np.float32(stddev)


def seed_of(name: str) -> tuple[int, int]:
    """Returns the seed of `name` in the default graph: (graph seed, checksum of the name)."""
    return (tf.compat.v1.get_default_graph().seed or 0, zlib.crc32(name.encode()) & 0x7FFFFFFF)
