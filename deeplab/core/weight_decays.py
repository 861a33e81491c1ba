"""Weight decay of variables: its terms in the loss, and its factors for optimizers that apply it in their updates."""

from __future__ import annotations

import tensorflow as tf

_COLLECTION = 'weight_decays'  # graph collection of (name of a variable, factor)


def add(variable: tf.Variable, factor: float) -> None:
    """Adds the term `factor * sum(variable ** 2) / 2` to the regularization losses, once for all clones and scales."""
    name, graph = variable.op.name, tf.compat.v1.get_default_graph()
    if name in factors():
        return
    # One operation. TensorFlow's regularizers compute the term wherever it is used, four times in a training step.
    with graph.colocate_with(variable.op), tf.name_scope(f'{name}/Regularizer/'):
        term = tf.nn.l2_loss(variable) * factor
    graph.add_to_collection(tf.compat.v1.GraphKeys.REGULARIZATION_LOSSES, term)
    graph.add_to_collection(_COLLECTION, (name, factor))


def factors() -> dict[str, float]:
    """Returns the factor of each variable of the default graph that decays, by name."""
    return dict(tf.compat.v1.get_collection(_COLLECTION))
