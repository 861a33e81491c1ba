"""LAMB: Adam with a learning rate for each layer."""

from __future__ import annotations

from collections.abc import Mapping

from deeplab.core.lazy import tf
from deeplab.core.optimizers.adam import EPSILON, RATES
from deeplab.registry import Optimizer, register


def make(learning_rate: tf.Tensor, decays: Mapping[str, float], adam_epsilon: float) -> tf.compat.v1.train.Optimizer:
    """Returns a `Lamb`."""
    from deeplab.core.optimizers import _decoupled

    return _decoupled.Lamb(learning_rate, decays, adam_epsilon)


register(
    Optimizer(
        name='lamb',
        summary='Adam with a learning rate for each layer and decoupled weight decay, for large batches.',
        function=make,
        parameters=(EPSILON,),
        source='arXiv:1904.00962, algorithm 2',
        decouples_weight_decay=True,
        usual_rates=RATES,
    )
)
