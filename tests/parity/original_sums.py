"""A batch norm that rounds as the original's did: it adds one value after the other, in float32.

TensorFlow 1.15 took a channel's mean, variance and gradients by adding all pixels in order to one float32, whose
rounding grows with their number. Today's TensorFlow adds in pairs, and `core/batch_statistics.py` in blocks; both are
nearer to the exact sums: against the same step in float64, the first loss of the MobileNet golden is off by 5e-6
there and by less than 1e-6 here. A network in training mode makes percents of single gradients out of that
difference, so the original's numbers can only be met by a batch norm that rounds as it did. This one is that, for
tests alone.

With frozen statistics it multiplies by one factor a channel and adds one shift, which is nearer to the original's
slots than today's kernel is: 1e-3 instead of 5e-3 of their deviation after two steps, 0.01 instead of 0.05 after ten.
"""

import numpy as np
import tensorflow as tf

from deeplab.core import batch_statistics


def _sum_in_order(values):
    """Sum over the first axis of [n, channels], added from the first to the last."""
    return tf.cumsum(values, axis=0)[-1]


def batch_norm(inputs, scale, offset, mean=None, variance=None, epsilon=1e-3, is_training=True):
    """In the place of `tf.compat.v1.nn.fused_batch_norm`, with its formula (arXiv:1502.03167, section 3)."""
    if not is_training:
        factor = scale / tf.sqrt(variance + epsilon)
        return (inputs * factor + (offset - mean * factor),)
    epsilon = np.float32(max(epsilon, batch_statistics.SMALLEST_EPSILON))
    channels = int(inputs.shape[-1])

    @tf.custom_gradient
    def normalize(inputs, scale, offset):
        pixels = tf.reshape(inputs, [-1, channels])
        count = int(pixels.shape[0])
        share = np.float32(1) / np.float32(count)
        mean = _sum_in_order(pixels) * share
        centred = pixels - mean
        variance = _sum_in_order(centred * centred) * share
        inverse = tf.math.rsqrt(variance + epsilon)
        outputs = tf.reshape(centred * (inverse * scale) + offset, tf.shape(inputs))

        def gradient(outer, *_):
            outer = tf.reshape(outer, [-1, channels])
            total = _sum_in_order(outer)
            slope = _sum_in_order(outer * centred) * share * (inverse * inverse)
            inner = scale * inverse * (outer - total * share - centred * slope)
            return tf.reshape(inner, tf.shape(inputs)), _sum_in_order(outer * centred * inverse), total

        unbiased = variance * (np.float32(count) / np.float32(count - 1))
        return (outputs, mean, unbiased), gradient

    return normalize(inputs, scale, offset)


def install(monkeypatch) -> None:
    """Lets every batch norm that is built add up this way."""
    monkeypatch.setattr(tf.compat.v1.nn, 'fused_batch_norm', batch_norm)
    monkeypatch.setattr(batch_statistics, 'pays', lambda *_: False)
