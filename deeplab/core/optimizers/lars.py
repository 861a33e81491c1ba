"""LARS: momentum with a learning rate for each layer."""

from __future__ import annotations

from collections.abc import Mapping

from deeplab.core.lazy import tf
from deeplab.core.optimizers.momentum import MOMENTUM
from deeplab.registry import Optimizer, UsualRates, register


def make(learning_rate: tf.Tensor, decays: Mapping[str, float], momentum: float) -> tf.compat.v1.train.Optimizer:
    """Returns a `Lars`."""
    from deeplab.core.optimizers import _decoupled

    return _decoupled.Lars(learning_rate, decays, momentum)


register(
    Optimizer(
        name='lars',
        summary='Momentum with a learning rate for each layer and decoupled weight decay, for large batches.',
        function=make,
        parameters=(MOMENTUM,),
        source='arXiv:1708.03888, algorithm 1',
        decouples_weight_decay=True,
        # A step changes a layer by a thousandth of its norm times the rate.
        usual_rates=UsualRates(usual=2.0, least=0.05),
    )
)
