"""The heads that exist. Each says itself whether the options ask for it.

A head is a file in this folder that ends in `register(Head(...))`: no list names it.
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
    """One way to look at the features.

    Attributes:
      name: for messages.
      applies: whether the options ask for this head; exactly one head may say so.
      build: (features [n, h, w, c], options) -> [n, h, w, channels].
      check: raises OptionError where the options ask for something that the head cannot do.
      logits_rates: atrous rates of the logits that follow, one set of logits for each; they are summed.
    """

    name: str
    applies: Callable[[ModelOptions], bool]
    build: Callable[[tf.Tensor, ModelOptions], tf.Tensor]
    check: Callable[[ModelOptions], None] = lambda options: None
    logits_rates: Callable[[ModelOptions], tuple[int, ...]] = lambda options: (1,)


_heads: dict[str, Head] = {}


def register(head: Head) -> Head:
    """Makes `head` known.

    Raises:
      ValueError: another head has that name.
    """
    if _heads.setdefault(head.name, head) is not head:
        raise ValueError(f"A head '{head.name}' is registered already; names must differ.")
    return head


def choose(options: ModelOptions) -> Head:
    """The head that `options` ask for, checked against them.

    Raises:
      OptionError: the head cannot do what is asked.
    """
    package = importlib.import_module(__package__)
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f'{__package__}.{module.name}')
    chosen = [head for head in _heads.values() if head.applies(options)]
    if len(chosen) != 1:
        raise ValueError(f'One head must apply to the options, not {[head.name for head in chosen]}.')
    chosen[0].check(options)
    return chosen[0]


def scope(options: ModelOptions) -> AbstractContextManager[None]:
    """How layers of heads and decoder are made."""
    return layers.family_scope(
        batch_norm_decay=layers.HEAD_BATCH_NORM_DECAY,
        batch_norm_epsilon=layers.HEAD_BATCH_NORM_EPSILON,
        activation=backbones.activation(options),
    )
