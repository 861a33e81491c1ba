"""Adam."""

from __future__ import annotations

from collections.abc import Mapping

from deeplab.core.lazy import tf
from deeplab.registry import Optimizer, Parameter, UsualRates, register

EPSILON = Parameter('adam_epsilon', 1e-8, 'Added to the square root of the second moment.', range='(0, inf)')
RATES = UsualRates(usual=0.001, most=0.01)


def make(learning_rate: tf.Tensor, decays: Mapping[str, float], adam_epsilon: float) -> tf.compat.v1.train.Optimizer:
    """Returns TensorFlow's Adam; slots `VAR/Adam`, `VAR/Adam_1`."""
    return tf.compat.v1.train.AdamOptimizer(learning_rate, epsilon=adam_epsilon)


register(
    Optimizer(
        name='adam',
        summary='Adam, with a constant learning rate of its own.',
        function=make,
        parameters=(
            Parameter('adam_learning_rate', 1e-3, 'Constant learning rate of adam.', range='[0, inf)'),
            EPSILON,
        ),
        source='arXiv:1412.6980',
        learning_rate_parameter='adam_learning_rate',
        usual_rates=RATES,
    )
)
