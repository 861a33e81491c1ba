"""Convolutions and batch norms that round as the original's did where the goldens were computed.

A network in training mode makes percents of single gradients out of noise in the last place, so the original's numbers
can only be met by arithmetic that rounds as its did. TensorFlow 1.15 rounded so, on a processor of Intel's with two
cores; each line was found by comparing with its kernels and with the goldens, whose logits this meets to the last bit
(`test_original_arithmetic.py`):

- A convolution is one matrix product over patches, which adds `a * b` to one float32 after the other, with one rounding
  for both (a fused multiply-add). More than 320 products are split into equal blocks, whose sums are added.
- A batch norm adds up pixel after pixel in one float32.
- A reciprocal root is the processor's estimate of 12 bits, improved by one step of Newton's; what is left over of a
  vector of eight takes a true root.

NumPy computes this in float64, rounds after each step, and so gives the same bits on every processor. It is slow and
for tests alone. Gradients of convolutions are TensorFlow's own.
"""

import numpy as np
import tensorflow as tf

from deeplab.core import batch_statistics, resize, shapes

BLOCK = 320  # products that are added before their sum is set aside
CACHED = 1 << 15  # results at a time, so that the work stays in the cache
LANES = 8  # numbers in a vector register
_MANTISSA_BITS, _INTERVAL_BITS, _ESTIMATE_BITS = 23, 10, 12


def _estimated_reciprocal_root(values: np.ndarray) -> np.ndarray:
    """What the instruction `rsqrtps` gives for positive float32: 12 bits, from the middle of one of 1024 intervals."""
    bits = values.view(np.uint32).astype(np.int64)
    exponent = (bits >> _MANTISSA_BITS) - 127
    interval = (bits >> (_MANTISSA_BITS - _INTERVAL_BITS)) & (2**_INTERVAL_BITS - 1)
    is_odd = exponent & 1
    middle = (1 + (interval + 0.5) / 2**_INTERVAL_BITS) * np.where(is_odd, 2, 1)
    scale = 2.0**_ESTIMATE_BITS
    mantissa = 1 + np.rint((2 / np.sqrt(middle) - 1) * scale) / scale
    return (mantissa * 0.5 * 2.0 ** (-(exponent - is_odd) // 2)).astype(np.float32)


def reciprocal_root(values: np.ndarray) -> np.ndarray:
    """`1 / sqrt(values)` of positive float32 [n], as the original rounded it."""
    estimate = _estimated_reciprocal_root(values)
    roots = estimate * (np.float32(-0.5) * values * (estimate * estimate) + np.float32(1.5))
    whole = values.size // LANES * LANES
    roots[whole:] = np.float32(1) / np.sqrt(values[whole:])
    return roots


def product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """`left @ right` of float32 [..., k] and [k, m] as the original rounded it: [..., m] float32."""
    rows = left.reshape(-1, left.shape[-1])
    count = rows.shape[1]
    step = -(-(count // -(-count // BLOCK)) // LANES) * LANES
    wide = right.astype(np.float64)
    results = np.empty((rows.shape[0], right.shape[1]), np.float32)
    height = max(1, CACHED // right.shape[1])
    for first in range(0, rows.shape[0], height):
        factors = rows[first : first + height].T.astype(np.float64)[:, :, np.newaxis]  # [k, height, 1]
        results[first : first + height] = _blocks(factors, wide, step)
    return results.reshape(*left.shape[:-1], right.shape[1])


def _blocks(factors: np.ndarray, wide: np.ndarray, step: int) -> np.ndarray:
    """Sums of blocks of `step` products, added up; `product` of a few rows."""
    exact = np.empty((factors.shape[1], wide.shape[1]))
    total = None
    for start in range(0, len(wide), step):
        rounded = np.zeros(exact.shape, np.float32)
        for factor, row in zip(factors[start : start + step], wide[start : start + step], strict=True):
            np.multiply(factor, row, out=exact)
            exact += rounded
            rounded[...] = exact
        total = rounded if total is None else total + rounded
    return total


def _convolution(own):
    """The convolution `own` with the original's rounding: forwards ours, backwards TensorFlow's."""

    def convolve(inputs, weights, stride, padding, dilations):
        height, width, depth, filters = weights.shape.as_list()

        @tf.custom_gradient
        def rounded(inputs, weights):
            outputs = own(inputs, weights, stride, padding, dilations)
            if int(np.prod(outputs.shape[:3])) > 1:  # one row alone takes another way there, which is today's too
                patches = tf.image.extract_patches(
                    inputs, [1, height, width, 1], [1, stride, stride, 1], [1, dilations, dilations, 1], padding
                )
                flat = tf.reshape(weights, [height * width * depth, filters])
                values = tf.numpy_function(product, [patches, flat], tf.float32, stateful=False)
                outputs = tf.ensure_shape(values, outputs.shape)

            def gradient(outer):
                return tf.gradients(own(inputs, weights, stride, padding, dilations), [inputs, weights], [outer])

            return outputs, gradient

        return rounded(inputs, weights)

    return convolve


def _sum_in_order(values: tf.Tensor) -> tf.Tensor:
    """Sum over the first axis of [n, channels], added from the first to the last."""
    return tf.cumsum(values, axis=0)[-1]


def batch_norm(inputs, scale, offset, mean=None, variance=None, epsilon=1e-3, is_training=True):
    """In the place of `tf.compat.v1.nn.fused_batch_norm`, with its formula (arXiv:1502.03167, section 3)."""
    epsilon = np.float32(max(epsilon, batch_statistics.SMALLEST_EPSILON))
    channels = int(inputs.shape[-1])
    count = int(np.prod(inputs.shape[:3]))
    share = np.float32(1) / np.float32(count)

    @tf.custom_gradient
    def normalize(inputs, scale, offset, *statistics):
        pixels = tf.reshape(inputs, [-1, channels])
        mean = _sum_in_order(pixels) * share if is_training else statistics[0]
        centred = pixels - mean
        variance = _sum_in_order(centred * centred) * share if is_training else statistics[1]
        inverse = tf.numpy_function(reciprocal_root, [variance + epsilon], tf.float32, stateful=False)
        inverse = tf.ensure_shape(inverse, [channels])
        outputs = tf.reshape(centred * (inverse * scale) + offset, tf.shape(inputs))

        def gradient(outer, *_):
            outer = tf.reshape(outer, [-1, channels])
            total = _sum_in_order(outer)
            product_sum = _sum_in_order(outer * centred)
            if not is_training:
                inner = tf.reshape(outer * (scale * inverse), tf.shape(inputs))
                return inner, product_sum * inverse, total, None, None
            slope = (inverse * inverse) * (product_sum / np.float32(count))
            inner = (scale * inverse) * ((outer - total * share) - centred * slope)
            return tf.reshape(inner, tf.shape(inputs)), _sum_in_order(outer * (centred * inverse)), total

        unbiased = variance * (np.float32(count) / np.float32(max(count - 1, 1)))
        return ((outputs, mean, unbiased) if is_training else outputs), gradient

    if is_training:
        return normalize(inputs, scale, offset)
    return (normalize(inputs, scale, offset, mean, variance),)


def _resized(images, size):
    if images.shape.as_list()[1:3] == list(size):
        return images
    return tf.compat.v1.image.resize_bilinear(images, size, align_corners=True)


def _mean(values):
    return tf.nn.avg_pool2d(values, values.shape[1:3].as_list(), 1, 'VALID')


def install(monkeypatch) -> None:
    """Lets every convolution and batch norm that is built round this way, and takes TensorFlow's kernels for what the
    project has faster ways for."""
    own, own_atrous = tf.nn.conv2d, tf.nn.atrous_conv2d
    plain = _convolution(
        lambda inputs, weights, stride, padding, rate: own(inputs, weights, stride, padding, dilations=rate)
    )
    atrous = _convolution(lambda inputs, weights, stride, padding, rate: own_atrous(inputs, weights, rate, padding))

    def conv2d(inputs, weights, stride, padding, dilations=1, name=None):
        return plain(inputs, weights, stride, padding, dilations)

    def atrous_conv2d(inputs, weights, rate, padding, name=None):
        return atrous(inputs, weights, 1, padding, rate)

    monkeypatch.setattr(tf.nn, 'conv2d', conv2d)
    monkeypatch.setattr(tf.nn, 'atrous_conv2d', atrous_conv2d)
    monkeypatch.setattr(tf.compat.v1.nn, 'fused_batch_norm', batch_norm)
    monkeypatch.setattr(batch_statistics, 'pays', lambda *_: False)
    monkeypatch.setattr(resize, 'bilinear', _resized)
    monkeypatch.setattr(shapes, 'spatial_mean', _mean)
