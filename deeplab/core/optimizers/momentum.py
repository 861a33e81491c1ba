"""Gradient descent with momentum."""

from __future__ import annotations

from collections.abc import Mapping

from deeplab.core.lazy import tf
from deeplab.registry import Optimizer, Parameter, UsualRates, register

MOMENTUM = Parameter('momentum', 0.9, 'Momentum.', range='[0, 1)')
# The published rate and its batch size (arXiv:1802.02611, section 4); twice as much is still usual.
_RATES = UsualRates(usual=0.007, most=2 * 0.007, batch_size=16)


def make(learning_rate: tf.Tensor, decays: Mapping[str, float], momentum: float) -> tf.compat.v1.train.Optimizer:
    """Returns TensorFlow's momentum optimizer, without Nesterov; slot `VAR/Momentum`."""
    return tf.compat.v1.train.MomentumOptimizer(learning_rate, momentum)


register(
    Optimizer(
        name='momentum',
        summary='Gradient descent with momentum, without Nesterov.',
        function=make,
        parameters=(MOMENTUM,),
        source='arXiv:1802.02611, section 4 (learning rate)',
        usual_rates=_RATES,
    )
)
