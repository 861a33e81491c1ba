"""TensorFlow's plain gradient descent, AdaGrad, AdaDelta and FTRL, and Adam that follows the learning rate schedule."""

from __future__ import annotations

from deeplab.core.lazy import tf
from deeplab.core.optimizers.coupled import ADAM_EPSILON, ADAM_RATES
from deeplab.registry import Optimizer, Parameter, register

register(
    Optimizer(
        name='sgd',
        summary='Gradient descent without momentum.',
        function=lambda rate, decays: tf.compat.v1.train.GradientDescentOptimizer(rate),
    )
)
register(
    Optimizer(
        name='adagrad',
        summary='Gradients divided by the square root of the sum of their squares.',
        function=lambda rate, decays, adagrad_initial_accumulator_value: tf.compat.v1.train.AdagradOptimizer(
            rate, adagrad_initial_accumulator_value
        ),
        parameters=(
            Parameter(
                'adagrad_initial_accumulator_value',
                0.1,
                'Initial value of the sum of squares in adagrad.',
                range='(0, inf)',
            ),
        ),
        source='Duchi, Hazan and Singer, Adaptive Subgradient Methods, JMLR 2011',
    )
)
register(
    Optimizer(
        name='adadelta',
        summary='Gradients scaled by the ratio of the RMS of past steps to the RMS of gradients.',
        function=lambda rate, decays, adadelta_rho, adadelta_epsilon: tf.compat.v1.train.AdadeltaOptimizer(
            rate, adadelta_rho, adadelta_epsilon
        ),
        parameters=(
            Parameter('adadelta_rho', 0.95, 'Decay of the moving averages of squares in adadelta.', range='[0, 1)'),
            Parameter(
                'adadelta_epsilon', 1e-8, 'Epsilon of adadelta, added to the averages of squares.', range='(0, inf)'
            ),
        ),
        normalizes_gradients=True,
        source='arXiv:1212.5701',
    )
)
register(
    Optimizer(
        name='ftrl',
        summary='Follow the regularized leader, with L1 and L2 penalties.',
        function=lambda rate, decays, **given: tf.compat.v1.train.FtrlOptimizer(
            rate,
            learning_rate_power=given['ftrl_learning_rate_power'],
            initial_accumulator_value=given['ftrl_initial_accumulator_value'],
            l1_regularization_strength=given['ftrl_l1'],
            l2_regularization_strength=given['ftrl_l2'],
        ),
        parameters=(
            Parameter('ftrl_learning_rate_power', -0.5, 'Exponent of the sum of squares in ftrl.', range='(-inf, 0]'),
            Parameter(
                'ftrl_initial_accumulator_value', 0.1, 'Initial value of the sum of squares in ftrl.', range='[0, inf)'
            ),
            Parameter('ftrl_l1', 0.0, 'L1 penalty of ftrl.', range='[0, inf)'),
            Parameter('ftrl_l2', 0.0, 'L2 penalty of ftrl.', range='[0, inf)'),
        ),
        source='McMahan et al., Ad Click Prediction, KDD 2013, algorithm 1',
    )
)
register(
    Optimizer(
        name='scheduled_adam',
        summary='Adam that follows the learning rate schedule.',
        function=lambda rate, decays, adam_beta1, adam_beta2, adam_epsilon: tf.compat.v1.train.AdamOptimizer(
            rate, adam_beta1, adam_beta2, adam_epsilon
        ),
        parameters=(
            Parameter('adam_beta1', 0.9, 'Decay of the moving average of gradients in scheduled_adam.', range='[0, 1)'),
            Parameter(
                'adam_beta2',
                0.999,
                'Decay of the moving average of squared gradients in scheduled_adam.',
                range='[0, 1)',
            ),
            ADAM_EPSILON,
        ),
        normalizes_gradients=True,
        source='arXiv:1412.6980',
        usual_rates=ADAM_RATES,
    )
)
