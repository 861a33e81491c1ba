"""AdamW, LARS and LAMB, as subclasses of TensorFlow's optimizers, with their kernels where possible.

They decay weights in the update instead of the loss, so that decay affects neither the moments nor a clipped norm. LARS
and LAMB give each layer a rate of its own, in proportion to the norm of its weights. Variables of one axis (biases,
gamma, beta) have none: their norm does not show a layer's scale, and it may begin at 0.
"""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

ADAM_BETA1 = 0.9
ADAM_BETA2 = 0.999
LARS_TRUST = 0.001  # arXiv:1708.03888, section 5: eta

Decays = Mapping[str, float]


class AdamW(tf.compat.v1.train.AdamOptimizer):  # type: ignore[misc]  # TensorFlow has no types
    """Adam with decoupled weight decay: w -= rate * (decay * w + Adam's direction); slots `VAR/AdamW`, `VAR/AdamW_1`.

    As in TensorFlow's Adam, epsilon is added to the square root of the second moment before that is corrected.

    Source: arXiv:1711.05101, algorithm 2, whose decay follows the schedule alone; here it follows the rate.
    """

    def __init__(self, learning_rate: tf.Tensor, decays: Decays, epsilon: float) -> None:
        """See `registry.Optimizer`; `epsilon` is greater than 0."""
        super().__init__(learning_rate, ADAM_BETA1, ADAM_BETA2, epsilon, name='AdamW')
        self._decays = decays

    def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        decay = self._decays.get(var.op.name, 0.0)
        if not decay:
            return super()._resource_apply_dense(grad, var)
        decayed = tf.raw_ops.ResourceApplyGradientDescent(var=var.handle, alpha=self._lr_t * decay, delta=var)
        with tf.control_dependencies([decayed]):
            return super()._resource_apply_dense(grad, var)


class Lars(tf.compat.v1.train.MomentumOptimizer):  # type: ignore[misc]  # TensorFlow has no types
    """Momentum with a rate for each layer; slot `VAR/LARS`.

    With `trust = 0.001 * |w| / (|g| + decay * |w|)`:

      v = momentum * v + rate * trust * (g + decay * w)
      w -= v

    Trust is 1 for variables of one axis, and where a norm is 0.

    Source: arXiv:1708.03888, algorithm 1.
    """

    def __init__(self, learning_rate: tf.Tensor, decays: Decays, momentum: float) -> None:
        """See `registry.Optimizer`; `momentum` is in [0, 1)."""
        super().__init__(1.0, momentum, name='LARS')  # the rate is in what is accumulated
        self._rate = learning_rate
        self._decays = decays

    def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        decay = self._decays.get(var.op.name, 0.0)
        weights = tf.convert_to_tensor(var)
        rate = self._rate
        if _is_layered(var):
            length = tf.norm(weights)
            rate *= _trust(LARS_TRUST * length, tf.norm(grad), decay * length)
        return super()._resource_apply_dense(rate * (grad + decay * weights if decay else grad), var)


class Lamb(tf.compat.v1.train.AdamOptimizer):  # type: ignore[misc]  # TensorFlow has no types
    """Adam with a rate for each layer; slots `VAR/LAMB`, `VAR/LAMB_1`.

    With Adam's corrected moments `m` and `v`:

      u = m / (sqrt(v) + epsilon) + decay * w
      w -= rate * |w| / |u| * u

    The ratio of norms is 1 for variables of one axis, and where a norm is 0.

    Source: arXiv:1904.00962, algorithm 2, with the identity as phi.
    """

    def __init__(self, learning_rate: tf.Tensor, decays: Decays, epsilon: float) -> None:
        """See `registry.Optimizer`; `epsilon` is greater than 0."""
        super().__init__(learning_rate, ADAM_BETA1, ADAM_BETA2, epsilon, name='LAMB')
        self._decays = decays

    def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        first, second = self.get_slot(var, 'm'), self.get_slot(var, 'v')
        first_power, second_power = self._get_beta_accumulators()
        mean = self._beta1_t * first + (1.0 - self._beta1_t) * grad
        square = self._beta2_t * second + (1.0 - self._beta2_t) * tf.square(grad)
        weights = tf.convert_to_tensor(var)
        direction = (mean / (1.0 - first_power)) / (tf.sqrt(square / (1.0 - second_power)) + self._epsilon_t)
        decay = self._decays.get(var.op.name, 0.0)
        if decay:
            direction += decay * weights
        rate = self._lr_t
        if _is_layered(var):
            rate *= _trust(tf.norm(weights), tf.norm(direction))
        return tf.group(
            first.assign(mean, read_value=False),
            second.assign(square, read_value=False),
            var.assign_sub(rate * direction, read_value=False),
        )


def _is_layered(variable: tf.Variable) -> bool:
    """Returns whether LARS and LAMB scale the rate of `variable`: of kernels, but not of biases, gamma and beta."""
    return len(variable.shape) > 1


def _trust(length: tf.Tensor, step: tf.Tensor, more: tf.Tensor | float = 0.0) -> tf.Tensor:
    """Returns `length / (step + more)`, or 1 if `length` or `step` is 0; all scalars, 0 or more."""
    return tf.where((length > 0.0) & (step > 0.0), tf.math.divide_no_nan(length, step + more), 1.0)
