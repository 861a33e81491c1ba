"""Cells of networks found by architecture search, built from a genotype.

A cell has two inputs, the features before it and the output of the cell before those. Each of its blocks applies two
operations, each to a state of its own, and adds the results; the cell's output is the concatenation of all blocks.

Source: arXiv:1712.00559, section 3.1; arXiv:1901.02985, section 3.1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from deeplab.core.lazy import dropout, layers, shapes, tf

# States that a branch may read; block i of the cell is state FIRST_BLOCK + i.
INPUT = 0  # the features that enter the cell
PREVIOUS = 1  # the output of the previous cell, resized and projected to the size and the channels of this one
FIRST_BLOCK = 2

SEPARABLE = 'separable'  # a separable convolution, twice
ATROUS = 'atrous'  # a convolution of rate 2
MAX_POOL = 'max_pool'
IDENTITY = 'identity'

ATROUS_RATE = 2


class Branch(NamedTuple):
    """One operation of a block: its kind, the side of its kernel, and the state that it reads."""

    operation: str
    kernel_size: int
    state: int


# Left and right branch of each block.
Genotype = tuple[tuple[Branch, Branch], ...]


PNASNET_CELL: Genotype = (
    (Branch(SEPARABLE, 5, PREVIOUS), Branch(MAX_POOL, 3, PREVIOUS)),
    (Branch(SEPARABLE, 7, INPUT), Branch(MAX_POOL, 3, INPUT)),
    (Branch(SEPARABLE, 5, INPUT), Branch(SEPARABLE, 3, INPUT)),
    (Branch(SEPARABLE, 3, FIRST_BLOCK + 2), Branch(MAX_POOL, 3, INPUT)),
    (Branch(SEPARABLE, 3, PREVIOUS), Branch(IDENTITY, 1, INPUT)),
)
HNASNET_CELL: Genotype = (
    (Branch(ATROUS, 5, PREVIOUS), Branch(SEPARABLE, 3, INPUT)),
    (Branch(SEPARABLE, 3, PREVIOUS), Branch(ATROUS, 3, INPUT)),
    (Branch(SEPARABLE, 3, FIRST_BLOCK + 1), Branch(SEPARABLE, 3, PREVIOUS)),
    (Branch(SEPARABLE, 5, FIRST_BLOCK + 2), Branch(SEPARABLE, 5, FIRST_BLOCK + 0)),
    (Branch(SEPARABLE, 5, FIRST_BLOCK + 1), Branch(ATROUS, 5, FIRST_BLOCK + 3)),
)


class CellStyle(NamedTuple):
    """Settings that all cells of one network share, and the drop-path keep probability of this one.

    Attributes:
      genotype: the blocks.
      keep_probability: probability that a path is kept in training, in (0, 1]; None for no drop path.
    """

    genotype: Genotype
    keep_probability: float | tf.Tensor | None = None


def fan_in_uniform(shape: list[int], seed: tuple[int, int]) -> tf.Tensor:
    """Initializes uniformly in +-sqrt(1 / fan_in), with variance 1 / (3 fan_in)."""
    limit = math.prod(shape[:-1]) ** -0.5
    return tf.random.stateless_uniform(shape, seed, -limit, limit)


def linear_conv2d(
    inputs: tf.Tensor, filters: int, kernel_size: int, *, scope: str, norm: str, stride: int = 1, rate: int = 1
) -> tf.Tensor:
    """Builds a convolution `scope` and its batch norm `norm`, which lie beside each other, without activation.

    Returns:
      [n, ceil(h / stride), ceil(w / stride), filters], of the type of `inputs`.
    """
    return layers.conv2d(
        inputs,
        filters,
        kernel_size,
        scope=scope,
        stride=stride,
        rate=rate,
        fixed_padding=True,
        norm_beside=norm,
        activation=None,
    )


def _separable(net: tf.Tensor, kernel_size: int, filters: int, stride: int) -> tf.Tensor:
    """Builds activation, separable convolution and batch norm, twice; the first one has the stride.

    The depthwise and the 1x1 convolution have their weights in one scope.
    """
    for i in (1, 2):
        scope = f'separable_{kernel_size}x{kernel_size}_{i}'
        net = layers.depthwise_conv2d(
            tf.nn.relu(net),
            kernel_size,
            scope=scope,
            stride=stride if i == 1 else 1,
            fixed_padding=True,
            normalize=False,
            bias=False,
            activation=None,
        )  # [n, h/s, w/s, c]
        net = layers.conv2d(
            net,
            filters,
            1,
            scope=scope,
            weights_name='pointwise_weights',
            norm_beside=f'bn_sep_{kernel_size}x{kernel_size}_{i}',
            activation=None,
        )  # [n, h/s, w/s, filters]
    return net


def _atrous(net: tf.Tensor, kernel_size: int, filters: int, stride: int) -> tf.Tensor:
    """Builds an atrous convolution; if the cell has a stride, its input is resized instead and the rate is 1."""
    side = f'{kernel_size}x{kernel_size}'
    net, rate = tf.nn.relu(net), ATROUS_RATE
    if stride > 1:
        height, width = shapes.spatial_size(net)
        size = shapes.scaled_size(height, 1.0 / stride), shapes.scaled_size(width, 1.0 / stride)
        net, rate = shapes.resize_bilinear(net, size), 1  # [n, h/s, w/s, c]
    return linear_conv2d(net, filters, kernel_size, scope=f'atrous_{side}', norm=f'bn_atr_{side}', rate=rate)


def _branch(net: tf.Tensor, branch: Branch, filters: int, stride: int, style: CellStyle) -> tf.Tensor:
    """Applies one branch to its state [n, h, w, filters]; returns [n, h/s, w/s, filters]."""
    if branch.operation == IDENTITY:
        # The identity path is never dropped, so that the output always depends on the input.
        if stride == 1:
            return net
        return linear_conv2d(tf.nn.relu(net), filters, 1, scope='1x1', norm='bn_1', stride=stride)
    if branch.operation == SEPARABLE:
        net = _separable(net, branch.kernel_size, filters, stride)
    elif branch.operation == ATROUS:
        net = _atrous(net, branch.kernel_size, filters, stride)
    elif branch.operation == MAX_POOL:
        net = tf.nn.max_pool2d(net, branch.kernel_size, stride, 'SAME')
    else:
        raise ValueError(f"Unknown operation '{branch.operation}' in a genotype.")
    if style.keep_probability is None:
        return net
    return dropout.drop_path(net, style.keep_probability, scope='drop_path')


def _adjusted_previous(previous: tf.Tensor, inputs: tf.Tensor, filters: int) -> tf.Tensor:
    """Resizes the output of the previous cell to the size of `inputs`, projected if it has not `filters` channels."""
    # Even if the strides agree, downsampling and upsampling may have lost a row: 34 -> 17 -> 33.
    previous = shapes.resize_bilinear(previous, shapes.spatial_size(inputs))
    if int(previous.shape[-1]) == filters:
        return previous
    return linear_conv2d(tf.nn.relu(previous), filters, 1, scope='prev_1x1', norm='prev_bn')


def cell(
    inputs: tf.Tensor,
    previous: tf.Tensor,
    style: CellStyle,
    *,
    filters: int,
    stride: int,
    scope: str,
) -> tf.Tensor:
    """Builds one cell.

    Args:
      inputs: [n, h, w, c] float, the features before it.
      previous: [n, h', w', c'] float, the output of the previous cell.
      style: genotype and drop path.
      filters: channels of every operation.
      stride: 1 or 2, for operations that read one of the cell's two inputs.
      scope: variable scope.

    Returns:
      [n, ceil(h / stride), ceil(w / stride), filters * blocks] of their type, before any activation.

    Source: arXiv:1712.00559, section 3.1.
    """
    with tf.compat.v1.variable_scope(scope, values=[inputs]):
        adjusted = _adjusted_previous(previous, inputs, filters)  # [n, h, w, filters]
        net = linear_conv2d(tf.nn.relu(inputs), filters, 1, scope='1x1', norm='beginning_bn')
        states = [net, adjusted]
        for i, branches in enumerate(style.genotype):
            with tf.compat.v1.variable_scope(f'comb_iter_{i}'):
                parts = []
                for side, branch in zip(('left', 'right'), branches, strict=True):
                    branch_stride = stride if branch.state < FIRST_BLOCK else 1
                    with tf.compat.v1.variable_scope(side):
                        parts.append(_branch(states[branch.state], branch, filters, branch_stride, style))
                states.append(layers.fake_quantized(tf.add(*parts, name='add')))  # [n, h/s, w/s, filters]
        return tf.concat(states[FIRST_BLOCK:], axis=3, name='cell_output')
