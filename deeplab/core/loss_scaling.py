"""Dynamic loss scaling for float16 training.

The smallest positive float16 is 6e-8, and many gradients in a network are smaller. The loss is therefore multiplied by
a large factor before it is differentiated, and the gradients of the (float32) variables are divided by it. If the
factor is too large, a gradient is infinite: the step is skipped, and the factor halved. The loss itself is measured
before it is multiplied: if it is not finite, no other factor would help.

Source: arXiv:1710.03740, sections 3.2 and 4.
"""

from __future__ import annotations

import tensorflow as tf

SCOPE = 'loss_scale'
NAMES = (f'{SCOPE}/factor', f'{SCOPE}/good_steps')
FIRST_FACTOR = 2.0**15
SMALLEST_FACTOR = 1.0
LARGEST_FACTOR = 2.0**24
STEPS_TO_GROW = 2000


class LossScale:
    """The loss scale and its number of steps without a change; variables, so that a resumed run continues with them."""

    def __init__(self) -> None:
        """Creates the variables `loss_scale/factor` (float32) and `loss_scale/good_steps` (int32)."""
        with tf.compat.v1.variable_scope(SCOPE):
            self._factor = tf.compat.v1.get_variable('factor', initializer=FIRST_FACTOR, trainable=False)
            self._good_steps = tf.compat.v1.get_variable('good_steps', initializer=0, trainable=False)
        self.factor = tf.convert_to_tensor(self._factor)  # scalar float32, before this step's update

    def grow(self) -> list[tf.Operation]:
        """Updates the factor after a step with finite gradients: `STEPS_TO_GROW` of them in a row double it."""
        steps = self._good_steps + 1
        is_due = steps >= STEPS_TO_GROW
        larger = tf.minimum(self.factor * 2.0, LARGEST_FACTOR)
        return [
            self._factor.assign(tf.where(is_due, larger, self.factor), read_value=False),
            self._good_steps.assign(tf.where(is_due, 0, steps), read_value=False),
        ]

    def has_overflowed(self, loss: tf.Tensor) -> tf.Tensor:
        """Returns whether the factor may be why gradients of a step with this loss are not finite, scalar bool."""
        return tf.math.is_finite(loss) & (self.factor > SMALLEST_FACTOR)

    def shrink(self, loss: tf.Tensor) -> list[tf.Operation]:
        """Updates the factor after a step without finite gradients: halves it, down to 1, if `loss` is finite."""
        is_finite = tf.math.is_finite(loss)
        smaller = tf.maximum(self.factor / 2.0, SMALLEST_FACTOR)
        return [
            self._factor.assign(tf.where(is_finite, smaller, self.factor), read_value=False),
            self._good_steps.assign(tf.where(is_finite, 0, self._good_steps), read_value=False),
        ]
