"""A convolution whose weights may still be changed, as by a batch norm that becomes part of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from deeplab.core import batch_statistics


class Convolution(NamedTuple):
    """A convolution of given inputs.

    Attributes:
      weights: its weights: [h, w, c, filters]; [h, w, c, 1] if it is depthwise.
      apply: computes it with any weights of this shape: [n, h, w, filters].
      around: the variable scope around that of the convolution.
      prefix: of its names, where two convolutions share a scope.
      is_depthwise: whether each channel has its own filter.
      expansion: the same convolution, where its input is the cheaper way to the batch's statistics.
    """

    weights: tf.Tensor
    apply: Callable[[tf.Tensor], tf.Tensor]
    around: tf.compat.v1.VariableScope
    prefix: str = ''
    is_depthwise: bool = False
    expansion: batch_statistics.Expansion | None = None

    def norm_scope(self, beside: str | None) -> contextlib.AbstractContextManager[Any]:
        """Opens the scope that holds that of its batch norm: its own, or the one around it for one `beside` it."""
        stack = contextlib.ExitStack()
        if beside is not None:
            stack.enter_context(tf.compat.v1.variable_scope(self.around, auxiliary_name_scope=False))
            stack.enter_context(tf.name_scope(self.around.original_name_scope))
        return stack
