"""TensorFlow's momentum, RMSProp and Adam: weight decay is a term of the loss."""

from __future__ import annotations

from deeplab.core.lazy import tf
from deeplab.registry import Optimizer, Parameter, UsualRates, register

MOMENTUM = Parameter('momentum', 0.9, 'Momentum.', range='[0, 1)')
ADAM_EPSILON = Parameter(
    'adam_epsilon', 1e-8, 'Epsilon of adam, added to the square root of the second moment.', range='(0, inf)'
)
ADAM_RATES = UsualRates(usual=0.001, most=0.01)

register(
    Optimizer(
        name='momentum',
        summary='Gradient descent with momentum, not Nesterov momentum.',
        function=lambda rate, decays, momentum: tf.compat.v1.train.MomentumOptimizer(rate, momentum),
        parameters=(MOMENTUM,),
        source='arXiv:1802.02611, section 4 (learning rate)',
        # The published rate and its batch size (arXiv:1802.02611, section 4); twice as much is still usual.
        usual_rates=UsualRates(usual=0.007, most=2 * 0.007, batch_size=16),
    )
)
register(
    Optimizer(
        name='rmsprop',
        summary='Gradients divided by their root mean square, with momentum.',
        function=lambda rate, decays, rmsprop_decay, rmsprop_epsilon, momentum: tf.compat.v1.train.RMSPropOptimizer(
            rate, rmsprop_decay, momentum, rmsprop_epsilon
        ),
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
        normalizes_gradients=True,
        source='Tieleman and Hinton, Neural Networks for Machine Learning, lecture 6.5, 2012',
    )
)
register(
    Optimizer(
        name='adam',
        summary='Adam, with a constant learning rate of its own.',
        function=lambda rate, decays, adam_epsilon: tf.compat.v1.train.AdamOptimizer(rate, epsilon=adam_epsilon),
        parameters=(
            Parameter('adam_learning_rate', 1e-3, 'Constant learning rate of adam.', range='[0, inf)'),
            ADAM_EPSILON,
        ),
        normalizes_gradients=True,
        source='arXiv:1412.6980',
        learning_rate_parameter='adam_learning_rate',
        usual_rates=ADAM_RATES,
    )
)
