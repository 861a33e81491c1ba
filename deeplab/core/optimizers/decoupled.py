"""AdamW, LARS and LAMB, which decay the weights in their updates."""

from __future__ import annotations

from deeplab.core.lazy import decoupled
from deeplab.core.optimizers.coupled import ADAM_EPSILON, ADAM_RATES, MOMENTUM
from deeplab.registry import Optimizer, UsualRates, register

register(
    Optimizer(
        name='adamw',
        summary='Adam with decoupled weight decay.',
        function=lambda rate, decays, adam_epsilon: decoupled.AdamW(rate, decays, adam_epsilon),
        parameters=(ADAM_EPSILON,),
        normalizes_gradients=True,
        source='arXiv:1711.05101, algorithm 2',
        decouples_weight_decay=True,
        usual_rates=ADAM_RATES,
    )
)
register(
    Optimizer(
        name='lars',
        summary='Momentum with layer-wise learning rates and decoupled weight decay, for large batches.',
        function=lambda rate, decays, momentum: decoupled.Lars(rate, decays, momentum),
        parameters=(MOMENTUM,),
        normalizes_gradients=True,
        source='arXiv:1708.03888, algorithm 1',
        decouples_weight_decay=True,
        # A step changes a layer by a thousandth of its norm times the rate.
        usual_rates=UsualRates(usual=2.0, least=0.05),
    )
)
register(
    Optimizer(
        name='lamb',
        summary='Adam with layer-wise learning rates and decoupled weight decay, for large batches.',
        function=lambda rate, decays, adam_epsilon: decoupled.Lamb(rate, decays, adam_epsilon),
        parameters=(ADAM_EPSILON,),
        normalizes_gradients=True,
        source='arXiv:1904.00962, algorithm 2',
        decouples_weight_decay=True,
        usual_rates=ADAM_RATES,
    )
)
