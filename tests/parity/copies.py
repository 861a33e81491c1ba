"""Goldens that hold a dense prediction cell's variables twice.

The original finds variables again by name when it builds a network a second time in one graph, but for this head:
that one gets a new scope with each call. A golden is built twice, for its labels (`meta_architecture`) and then for
its logits (`meta_architecture_1`), so its logits come from other weights than its labels, and its lists and its number
of parameters hold the head twice. Here all calls share one head, as all checkpoints have it.
"""

from typing import Any

import numpy as np

from deeplab import common
from tests.parity import goldens

_HEAD = f'{common.META_ARCHITECTURE_SCOPE}/'
_COPY = f'{common.META_ARCHITECTURE_SCOPE}_1/'


def without_copy(facts: dict[str, Any]) -> dict[str, Any]:
    """A golden's facts with the head once; fails unless the copy is one."""
    shapes = {name: shape for name, shape in facts['variables'] if name.startswith(_COPY)}
    head = {name: shape for name, shape in facts['variables'] if name.startswith(_HEAD)}
    if shapes:
        assert {name.replace(_COPY, _HEAD): shape for name, shape in shapes.items()} == head
    trained_twice = sum(int(np.prod(shapes[name])) for name in facts['trainable'] if name in shapes)
    return facts | {
        'variables': [(name, shape) for name, shape in facts['variables'] if name not in shapes],
        'trainable': [name for name in facts['trainable'] if name not in shapes],
        'parameters': facts['parameters'] - trained_twice,
    }


def has_copy(facts: dict[str, Any]) -> bool:
    """Whether a golden has the head twice."""
    return any(name.startswith(_COPY) for name, _ in facts['variables'])


def name_in_copy(name: str) -> str:
    """What the variable `name` of the head is called in the copy; other names stay."""
    return _COPY + name.removeprefix(_HEAD) if name.startswith(_HEAD) else name


def assign_copy(session: Any, facts: dict[str, Any], variables: list[Any]) -> None:
    """Gives the head the copy's weights, where the golden has one."""
    if not has_copy(facts):
        return
    head = [v for v in variables if v.op.name.startswith(_HEAD)]
    values = {
        v.initializer.inputs[1]: goldens.weights(
            v.op.name.replace(_HEAD, _COPY), v.shape.as_list(), facts['options']['gain']
        )
        for v in head
    }
    session.run([v.initializer for v in head], values)
