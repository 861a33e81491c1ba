"""AdamW: Adam with decoupled weight decay."""

from __future__ import annotations

from collections.abc import Mapping

from deeplab.core.lazy import tf
from deeplab.core.optimizers.adam import EPSILON, RATES
from deeplab.registry import Optimizer, register


def make(learning_rate: tf.Tensor, decays: Mapping[str, float], adam_epsilon: float) -> tf.compat.v1.train.Optimizer:
    """Returns an `AdamW`."""
    from deeplab.core.optimizers import _decoupled

    return _decoupled.AdamW(learning_rate, decays, adam_epsilon)


register(
    Optimizer(
        name='adamw',
        summary='Adam with decoupled weight decay.',
        function=make,
        parameters=(EPSILON,),
        source='arXiv:1711.05101, algorithm 2',
        decouples_weight_decay=True,
        usual_rates=RATES,
    )
)
