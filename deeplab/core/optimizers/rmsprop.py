"""RMSProp."""

from __future__ import annotations

from collections.abc import Mapping

from deeplab.core.lazy import tf
from deeplab.core.optimizers.momentum import MOMENTUM
from deeplab.registry import Optimizer, Parameter, register


def make(
    learning_rate: tf.Tensor,
    decays: Mapping[str, float],
    rmsprop_decay: float,
    rmsprop_epsilon: float,
    momentum: float,
) -> tf.compat.v1.train.Optimizer:
    """Returns TensorFlow's RMSProp; slots `VAR/RMSProp` (mean square), `VAR/RMSProp_1` (momentum)."""
    return tf.compat.v1.train.RMSPropOptimizer(learning_rate, rmsprop_decay, momentum, rmsprop_epsilon)


register(
    Optimizer(
        name='rmsprop',
        summary='Gradients divided by the root of their mean square, then momentum.',
        function=make,
        parameters=(
            MOMENTUM,
            Parameter(
                'rmsprop_decay',
                0.9,
                'Decay of the moving average of squared gradients in rmsprop.',
                range='[0, 1)',
            ),
            Parameter('rmsprop_epsilon', 1e-10, 'Epsilon of rmsprop.', range='(0, inf)'),
        ),
        source='Tieleman and Hinton, Neural Networks for Machine Learning, lecture 6.5, 2012',
    )
)
