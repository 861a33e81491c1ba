"""Weight decay of variables: its terms in the loss, and its factors for optimizers that apply it in their updates."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

WEIGHT_DECAYS = 'weight_decays'  # graph collection of WeightDecay


class WeightDecay(NamedTuple):
    """Weight decay of one variable.

    Attributes:
      name: name of the variable.
      factor: factor of half the sum of its squares in the loss, or of the variable in an update.
    """

    name: str
    factor: float


def add(variable: tf.Variable, factor: float) -> None:
    """Adds the term of a variable to the regularization losses, once however many clones and scales share it."""
    name, graph = variable.op.name, tf.compat.v1.get_default_graph()
    if name in factors():
        return
    # One operation. TensorFlow's regularizers compute the term wherever it is used, four times in a training step.
    with graph.colocate_with(variable.op), tf.name_scope(f'{name}/Regularizer/'):
        term = tf.nn.l2_loss(variable) * factor
    graph.add_to_collection(tf.compat.v1.GraphKeys.REGULARIZATION_LOSSES, term)
    graph.add_to_collection(WEIGHT_DECAYS, WeightDecay(name, factor))


def factors() -> dict[str, float]:
    """Returns the factor of each variable of the default graph that decays, by name."""
    return dict(tf.compat.v1.get_collection(WEIGHT_DECAYS))
