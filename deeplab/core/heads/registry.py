"""Registry of heads; each head decides from the options whether it applies.

A head is a file in this folder that ends in `register(Head(...))`; it is found without being listed anywhere.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Callable
from contextlib import AbstractContextManager

import tensorflow as tf

from deeplab.core import layers
from deeplab.core.backbones import registry as backbones
from deeplab.options import ModelOptions


@dataclasses.dataclass(frozen=True)
class Head:
    """One head: the layers between the backbone's features and the decoder or logits.

    Attributes:
      name: name used in messages.
      applies: whether the options select this head; exactly one head must return true.
      build: (features [n, h, w, c], options) -> [n, h, w, channels].
      check: raises OptionError if the head does not support the options.
      logits_rates: atrous rates of the logits layers that follow, whose outputs are summed.
    """

    name: str
    applies: Callable[[ModelOptions], bool]
    build: Callable[[tf.Tensor, ModelOptions], tf.Tensor]
    check: Callable[[ModelOptions], None] = lambda options: None
    logits_rates: Callable[[ModelOptions], tuple[int, ...]] = lambda options: (1,)


_heads: dict[str, Head] = {}


def register(head: Head) -> Head:
    """Registers `head`.

    Raises:
      ValueError: another head has that name.
    """
    if _heads.setdefault(head.name, head) is not head:
        raise ValueError(f"A head '{head.name}' is already registered; names must be unique.")
    return head


def choose(options: ModelOptions) -> Head:
    """Returns the head that `options` select, after checking that it supports them.

    Raises:
      OptionError: the head does not support the options.
    """
    package = importlib.import_module(__package__)
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f'{__package__}.{module.name}')
    chosen = [head for head in _heads.values() if head.applies(options)]
    if len(chosen) != 1:
        raise ValueError(f'Exactly one head must apply to the options, not {[head.name for head in chosen]}.')
    chosen[0].check(options)
    return chosen[0]


def scope(options: ModelOptions) -> AbstractContextManager[None]:
    """Returns the arg_scope of the layers of heads and decoder."""
    return layers.family_scope(
        batch_norm_decay=layers.HEAD_BATCH_NORM_DECAY,
        batch_norm_epsilon=layers.HEAD_BATCH_NORM_EPSILON,
        activation=backbones.activation(options),
    )
