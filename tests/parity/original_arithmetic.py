"""Arithmetic that rounds as the original's did where the goldens were computed.

A network in training mode makes percents of single gradients out of noise in the last place, so the original's numbers
can only be met by arithmetic that rounds as its did. TensorFlow 1.15 rounded so, on a processor of Intel's with two
threads; each line was found by comparing with its kernels and with the goldens, whose logits this meets to the last
bit (`test_original_arithmetic.py`):

- A convolution is one matrix product over patches, and so are its gradients: `original_products.py`.
- A batch norm adds up pixel after pixel in one float32; backwards, each thread adds up half of a large layer of few
  channels.
- A reciprocal root is the processor's estimate of 12 bits, improved by one step of Newton's; what is left over of a
  vector of eight takes a true root.
- A softmax takes the exponentials of its sum from the C library, and those that it divides from a polynomial.
- Adam's square root is the product of a number and its reciprocal root.
- What flows back to one tensor from several sides is added from the first to the last, as TensorFlow's gradients list
  them; with an image pyramid, from the side that was built last to the first. Why is not known; each was found from the
  goldens. It was a matter of threads there: at a golden's first step, two kernels have their weight decay before the
  smaller scale.

NumPy computes this in float64, rounds after each step, and so gives the same bits on every processor. It is slow and
for tests alone. What else a network needs (depthwise convolutions, resizing, pooling) rounds today as it did there.
"""

import re
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from deeplab.core import batch_statistics, losses, resize, shapes
from tests.parity import original_products

LANES = original_products.LANES
LARGE_LAYER = 120_000  # values, from which two threads take half each, backwards
FEW_CHANNELS = 64  # at most, for that
SMALLEST = np.finfo(np.float32).tiny
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


def square_root(values: np.ndarray) -> np.ndarray:
    """The square roots of float32 of any shape that are not negative, as the original's kernels rounded them."""
    flat = values.ravel()
    roots = flat * reciprocal_root(np.maximum(flat, SMALLEST))
    roots[flat < SMALLEST] = 0
    whole = flat.size // LANES * LANES
    roots[whole:] = np.sqrt(flat[whole:])
    return roots.reshape(values.shape)


def _call(function, inputs, shape) -> tf.Tensor:
    return tf.ensure_shape(tf.numpy_function(function, inputs, tf.float32, stateful=False), shape)


def _convolution(own):
    """The convolution `own` with the original's rounding."""

    def convolve(inputs, weights, stride, padding):
        height, width, depth, filters = weights.shape.as_list()
        flat_shape = [height * width * depth, filters]

        @tf.custom_gradient
        def rounded(inputs, weights):
            outputs = own(inputs, weights, stride, padding)
            # One row alone takes another way there, which is today's too.
            if int(np.prod(outputs.shape[:3])) == 1:
                return outputs, lambda outer: tf.gradients(outputs, [inputs, weights], [outer])
            patches = _patches(inputs, (height, width), stride, padding)
            flat = tf.reshape(weights, flat_shape)
            outputs = _call(original_products.of_patches, [patches, flat], outputs.shape)

            def gradient(outer):
                to_patches = _call(original_products.input_gradient, [outer, flat], patches.shape)
                to_inputs = _overlapped(to_patches, inputs.shape.as_list(), (height, width), stride, padding)
                to_weights = _call(original_products.weight_gradient, [patches, outer], flat_shape)
                return to_inputs, tf.reshape(to_weights, weights.shape)

            return outputs, gradient

        return rounded(inputs, weights)

    return convolve


def _patches(inputs, size, stride, padding) -> tf.Tensor:
    if size == (1, 1) and stride == 1:
        return inputs
    strides = [1, stride, stride, 1]
    return tf.image.extract_patches(inputs, [1, *size, 1], strides, [1, 1, 1, 1], padding)


def _overlapped(patches, shape, size, stride, padding) -> tf.Tensor:
    """Adds patches [n, h, w, rows * columns * depth] up where they lie in inputs of `shape`, from first to last."""
    if size == (1, 1) and stride == 1:
        return patches

    def add_up(patches):
        (images, height, width), depth = patches.shape[:3], shape[3]
        parts = patches.reshape(images, height, width, *size, depth)
        margins = [
            max((positions - 1) * stride + reach - length, 0) if padding == 'SAME' else 0
            for positions, reach, length in zip((height, width), size, shape[1:3], strict=True)
        ]
        padded = [length + margin for length, margin in zip(shape[1:3], margins, strict=True)]
        total = np.zeros((images, *padded, depth), np.float32)
        # An input lies in earlier patches with its later rows and columns.
        for row in reversed(range(size[0])):
            for column in reversed(range(size[1])):
                rows = slice(row, row + (height - 1) * stride + 1, stride)
                columns = slice(column, column + (width - 1) * stride + 1, stride)
                total[:, rows, columns] += parts[:, :, :, row, column]
        top, left = (margin // 2 for margin in margins)
        return np.ascontiguousarray(total[:, top : top + shape[1], left : left + shape[2]])

    return _call(add_up, [patches], shape)


def _sum_in_order(values: tf.Tensor) -> tf.Tensor:
    """Sum over the first axis of [n, channels], added from the first to the last."""
    return tf.cumsum(values, axis=0)[-1]


def _sum_of_threads(values: tf.Tensor) -> tf.Tensor:
    """The same where two threads may share a layer."""
    count, channels = values.shape.as_list()
    if count * channels < LARGE_LAYER or channels > FEW_CHANNELS:
        return _sum_in_order(values)
    return _sum_in_order(values[: count // 2]) + _sum_in_order(values[count // 2 :])


def _roots_by_place(values: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Reciprocal roots of [channels] at each of `count` pixels, [count, channels].

    Backwards a batch norm runs over all values in vectors of eight. Where one holds the end of a pixel and the
    beginning of the next, its roots are true ones.
    """
    channels = values.size
    padded = np.pad(values, (0, -channels % LANES), constant_values=1)
    starts = np.arange(count * channels).reshape(count, channels) // LANES * LANES % channels
    true = np.float32(1) / np.sqrt(values)
    return np.where(starts > channels - LANES, true, reciprocal_root(padded)[:channels])


def batch_norm(inputs, scale, offset, mean=None, variance=None, epsilon=1e-3, is_training=True):
    """In the place of `tf.compat.v1.nn.fused_batch_norm`, with its formula (arXiv:1502.03167, section 3)."""
    epsilon = np.float32(max(epsilon, batch_statistics.SMALLEST_EPSILON))
    channels = int(inputs.shape[-1])
    count = int(np.prod(inputs.shape[:3]))
    share = np.float32(1) / np.float32(count)

    @tf.custom_gradient
    def normalize(inputs, scale, offset, *statistics):
        pixels = tf.ensure_shape(tf.reshape(inputs, [-1, channels]), [count, channels])
        mean = _sum_in_order(pixels) * share if is_training else statistics[0]
        centred = pixels - mean
        variance = _sum_in_order(centred * centred) * share if is_training else statistics[1]
        inverse = _call(reciprocal_root, [variance + epsilon], [channels])
        outputs = tf.reshape(centred * (inverse * scale) + offset, tf.shape(inputs))

        def gradient(outer, *_):
            outer = tf.ensure_shape(tf.reshape(outer, [-1, channels]), [count, channels])
            if not is_training:
                inner = tf.reshape(outer * (scale * inverse), tf.shape(inputs))
                return inner, _sum_of_threads(outer * centred) * inverse, _sum_of_threads(outer), None, None
            total = _sum_of_threads(outer)
            # TensorFlow would make of a division by a constant a product with its reciprocal.
            divisor = tf.numpy_function(lambda: np.float32(count), [], tf.float32)
            slope = (inverse * inverse) * (_sum_of_threads(outer * centred) / divisor)
            by_place = inverse
            if channels % LANES:
                by_place = _call(_roots_by_place, [variance + epsilon, count], [count, channels])
            inner = (scale * by_place) * ((outer - total * share) - centred * slope)
            return tf.reshape(inner, tf.shape(inputs)), _sum_of_threads(outer * (centred * by_place)), total

        unbiased = variance * (np.float32(count) / np.float32(max(count - 1, 1)))
        return ((outputs, mean, unbiased) if is_training else outputs), gradient

    if is_training:
        return normalize(inputs, scale, offset)
    return (normalize(inputs, scale, offset, mean, variance),)


def exponential(values: np.ndarray) -> np.ndarray:
    """`exp` of float32 of any shape, by the polynomial of the Cephes library as the original's kernels had it."""
    values = values.astype(np.float32)
    power = np.floor(values * np.float32(1.44269504088896341) + np.float32(0.5))
    rest = values - power * np.float32(0.693359375) - power * np.float32(-2.12194440e-4)
    result = np.full_like(values, 1.9875691500e-4)
    for factor in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
        result = result * rest + np.float32(factor)
    result = result * (rest * rest) + rest + np.float32(1)
    return np.ldexp(result, power.astype(np.int32))


def _library_exponential(values: np.ndarray) -> np.ndarray:
    """`expf` of float32 as the GNU C library has it: 2**(i/32) from a table, the rest from a cubic, in float64."""
    scaled = values.astype(np.float64) * float.fromhex('0x1.71547652b82fep+0') * 32
    whole = np.rint(scaled)
    rest = scaled - whole
    cubic = float.fromhex('0x1.c6af84b912394p-5') / 32**3
    square = float.fromhex('0x1.ebfce50fac4f3p-3') / 32**2
    line = float.fromhex('0x1.62e42ff0c52d6p-1') / 32
    polynomial = (cubic * rest + square) * (rest * rest) + (line * rest + 1)
    return (polynomial * np.exp2(whole / 32)).astype(np.float32)


def softmax(logits: np.ndarray) -> np.ndarray:
    """The probabilities of float32 [pixels, classes] as the original rounded them."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    terms = _library_exponential(shifted)
    total = terms[:, 0]
    for column in terms.T[1:]:
        total = total + column
    return exponential(shifted) / total[:, np.newaxis]


def cross_entropy(logits, labels, label_smoothing=0.0):
    """In the place of `losses._cross_entropy`."""
    if label_smoothing:
        raise NotImplementedError('the goldens have no label smoothing')
    truth = tf.one_hot(labels, int(logits.shape[-1]))

    @tf.custom_gradient
    def values_of(logits):
        values = tf.nn.softmax_cross_entropy_with_logits(labels=truth, logits=logits)
        return values, lambda outer: (_call(softmax, [logits], logits.shape) - truth) * outer[:, tf.newaxis]

    return values_of(logits)


def kernels_round_alike() -> bool:
    """Whether TensorFlow's depthwise convolution rounds here as it did there.

    It does as the wheels for x86 have it; with oneDNN, which some processors take by default
    (TF_ENABLE_ONEDNN_OPTS=0 prevents it), and on other processors it does not.
    """
    random = np.random.RandomState(0)
    image = random.normal(size=(1, 9, 9, 24)).astype(np.float32)
    weights = random.normal(size=(3, 3, 24, 1)).astype(np.float32)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        given = tf.compat.v1.placeholder(tf.float32, image.shape)
        outputs = session.run(tf.nn.depthwise_conv2d(given, weights, [1, 1, 1, 1], 'VALID'), {given: image})
    expected = np.zeros((1, 7, 7, 24), np.float32)
    for row in range(3):
        for column in range(3):
            expected = expected + image[:, row : row + 7, column : column + 7] * weights[row, column, :, 0]
    return bool((outputs == expected).all())


def _resized(images, size):
    if images.shape.as_list()[1:3] == list(size):
        return images
    return tf.compat.v1.image.resize_bilinear(images, size, align_corners=True)


def _repeated(own):
    """The resizing `own`, where one position becomes many: its gradient adds up one after the other."""

    def resize(images, size):
        if images.shape.as_list()[1:3] != [1, 1]:
            return own(images, size)

        @tf.custom_gradient
        def repeat(images):
            outputs = own(images, size)
            height, width = outputs.shape.as_list()[1:3]

            def gradient(outer):
                positions = tf.reshape(outer, [-1, height * width, outer.shape[3]])
                return tf.cumsum(positions, axis=1)[:, -1][:, tf.newaxis, tf.newaxis]

            return outputs, gradient

        return repeat(images)

    return resize


def _mean(values):
    return tf.nn.avg_pool2d(values, values.shape[1:3].as_list(), 1, 'VALID')


class Adam(tf.compat.v1.train.AdamOptimizer):
    """In the place of TensorFlow's (arXiv:1412.6980, end of section 2)."""

    def _resource_apply_dense(self, grad, var):
        first, second = self.get_slot(var, 'm'), self.get_slot(var, 'v')
        powers = self._get_beta_accumulators()
        factors = [tf.cast(self._lr_t, tf.float32), *powers, self._beta1_t, self._beta2_t, self._epsilon_t]
        inputs = [var.read_value(), first.read_value(), second.read_value(), grad, *factors]
        values = tf.numpy_function(_adam_step, inputs, [tf.float32] * 3)
        variables = (var, first, second)
        return tf.group(
            [
                variable.assign(tf.ensure_shape(value, var.shape))
                for variable, value in zip(variables, values, strict=True)
            ]
        )


def _adam_step(weights, first, second, gradient, rate, beta1_power, beta2_power, beta1, beta2, epsilon):
    one = np.float32(1)
    corrected = rate * np.sqrt(one - beta2_power) / (one - beta1_power)
    first = first + (gradient - first) * (one - beta1)
    second = second + (gradient * gradient - second) * (one - beta2)
    return weights - first * corrected / (square_root(second) + epsilon), first, second


def _latest_first(gradients_util, early_decay):
    """TensorFlow's function that adds up the gradients of an operation, with those of later operations first."""
    own = gradients_util._AggregatedGrads

    def aggregate(grads, op, *arguments, **keywords):
        for parts in gradients_util._GetGrads(grads, op) or ():
            if isinstance(parts, list) and len(parts) > 2:
                places = {operation.name: number for number, operation in enumerate(op.graph.get_operations())}
                parts.sort(key=lambda gradient: _place(gradient.op.name, places), reverse=True)
                if any(f'{name}/Regularizer/' in parts[-1].op.name for name in early_decay):
                    parts[:] = [_with_early_decay(*parts)]
        return own(grads, op, *arguments, **keywords)

    return aggregate


def _with_early_decay(larger: tf.Tensor, smaller: tf.Tensor, decay: tf.Tensor) -> tf.Tensor:
    is_first = tf.equal(tf.compat.v1.train.get_global_step().read_value(), 0)
    return tf.where(is_first, (larger + decay) + smaller, (larger + smaller) + decay)


def _place(name: str, places: dict[str, int]) -> int:
    """When the operation was built whose gradient, or sum of gradients, has that name."""
    path = re.split('_grad/|_gradient_sum/', name)[0].split('/')
    if 'Regularizer' in path:
        return -1  # there, weight decay was built with the variable
    for start in range(len(path)):
        if '/'.join(path[start:]) in places:
            return places['/'.join(path[start:])]
    raise ValueError(f'{name} is the gradient of no operation')


def install(monkeypatch, has_pyramid: bool = False, early_decay: Sequence[str] = ()) -> None:
    """Lets what is built from here on round this way; where the project has faster ways, TensorFlow's kernels do.

    Args:
      monkeypatch: pytest's.
      has_pyramid: whether the network is built for several scales of an image.
      early_decay: with a pyramid of two, kernels that had weight decay before the smaller scale at the first step.
    """
    plain = _convolution(tf.nn.conv2d)

    def conv2d(inputs, weights, stride, padding, dilations=1, name=None):
        if dilations == 1:
            return plain(inputs, weights, stride, padding)
        if stride != 1:
            raise NotImplementedError('the goldens have no convolution with both a stride and holes')
        size = weights.shape[:2].as_list()
        # With holes, it convolves what lies a rate apart as images of their own.
        return tf.compat.v1.nn.with_space_to_batch(
            inputs, [dilations] * 2, padding, lambda apart, *_: plain(apart, weights, 1, 'VALID'), filter_shape=size
        )

    def atrous_conv2d(inputs, weights, rate, padding, name=None):
        return conv2d(inputs, weights, 1, padding, rate)

    monkeypatch.setattr(tf.nn, 'conv2d', conv2d)
    monkeypatch.setattr(tf.nn, 'atrous_conv2d', atrous_conv2d)
    monkeypatch.setattr(tf.compat.v1.nn, 'fused_batch_norm', batch_norm)
    monkeypatch.setattr(batch_statistics, 'pays', lambda *_: False)
    monkeypatch.setattr(losses, '_cross_entropy', cross_entropy)
    monkeypatch.setattr(resize, 'bilinear', _resized)
    monkeypatch.setattr(shapes, 'resize_bilinear', _repeated(shapes.resize_bilinear))
    monkeypatch.setattr(shapes, 'spatial_mean', _mean)
    monkeypatch.setattr(tf.compat.v1.train, 'AdamOptimizer', Adam)
    if has_pyramid:
        # TensorFlow has no public way to order these sums.
        from tensorflow.python.ops import gradients_util

        monkeypatch.setattr(gradients_util, '_AggregatedGrads', _latest_first(gradients_util, early_decay))
