"""Fake quantization against NumPy.

Covers core/convolutions.py and core/moving_updates.py.
"""

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import layers, moving_updates, quantization
from deeplab.core.quantization import FakeQuantization

EPSILON = 1e-3
DECAY = 0.9
DELAY = 2
STEPS = 4


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


# --- The twin --------------------------------------------------------------------------------------------------------


def _round(values, low, high, levels):
    """Rounds to `levels` + 1 values from low to high, of which one is 0."""
    step = (high - low) / levels
    zero = np.round(-low / step)
    return (np.clip(np.round(values / step), -zero, levels - zero)) * step


def _convolve(inputs, weights, is_depthwise):
    """A convolution with stride 1 and SAME padding; [h, w, c, filters] or [h, w, c, 1]."""
    size = weights.shape[0]
    padded = np.pad(inputs, [(0, 0), (size // 2, size // 2), (size // 2, size // 2), (0, 0)])
    height, width = inputs.shape[1:3]
    result = 0.0
    for y in range(size):
        for x in range(size):
            window = padded[:, y : y + height, x : x + width]
            result = result + (window * weights[y, x, :, 0] if is_depthwise else window @ weights[y, x])
    return result


class _Twin:
    """A convolution with batch norm and relu6, trained in 8 bits, in float64."""

    def __init__(self, weights, gamma, beta, is_depthwise, per_channel):
        self.weights, self.gamma, self.beta = weights, gamma, beta
        self.is_depthwise, self.per_channel = is_depthwise, per_channel
        self.mean, self.variance = np.zeros_like(gamma), np.ones_like(gamma)
        self.sums, self.count = np.zeros(2), 0  # of the extents, the last one with weight 1, the one before with 0.999

    def folded(self):
        factor = self.gamma / np.sqrt(self.variance + EPSILON)
        return self.weights * (factor[:, np.newaxis] if self.is_depthwise else factor)

    def extent_of_weights(self):
        folded = self.folded()
        if not self.per_channel:
            return min(folded.min(), 0), max(folded.max(), 0)
        axes = (0, 1, 3) if self.is_depthwise else (0, 1, 2)
        largest = np.abs(folded).max(axes)
        return -largest, largest

    def step(self, inputs, is_on):
        """Returns the output, and moves statistics and ranges."""
        plain = _convolve(inputs, self.weights, self.is_depthwise)
        mean, variance = plain.mean((0, 1, 2)), plain.var((0, 1, 2))
        weights = self.folded()
        low, high = self.extent_of_weights()
        if is_on and self.is_depthwise and self.per_channel:
            low, high = low[:, np.newaxis], high[:, np.newaxis]
        weights = _round(weights, low, high, 254) if is_on else weights
        result = _convolve(inputs, weights, self.is_depthwise)
        result *= np.sqrt((self.variance + EPSILON) / (variance + EPSILON))
        result += self.beta - mean * self.gamma / np.sqrt(variance + EPSILON)
        result = np.clip(result, 0, 6)
        self.sums = self.sums * 0.999 + [min(result.min(), 0), result.max()]
        self.count = self.count * 0.999 + 1
        values = plain.size / plain.shape[-1]
        self.mean = self.mean * DECAY + mean * (1 - DECAY)
        self.variance = self.variance * DECAY + variance * values / (values - 1) * (1 - DECAY)
        return _round(result, *self.range, 255) if is_on else result

    @property
    def range(self):
        """The moving average of the extents of the output."""
        return self.sums / self.count


def _layer(inputs, is_depthwise, per_channel):
    """A layer in training: a depthwise convolution, or a 1x1 convolution, whose statistics come from its input."""
    fake_quantization = FakeQuantization(True, DELAY, per_channel)
    mode = {'is_training': True, 'fine_tune_batch_norm': True, 'batch_norm_decay': DECAY}
    family = layers.family_scope(batch_norm_decay=DECAY, batch_norm_epsilon=EPSILON, activation=tf.nn.relu6)
    with layers.mode_scope(fake_quantization=fake_quantization, **mode), family:
        if is_depthwise:
            return layers.depthwise_conv2d(inputs, 3, scope='layer')
        return layers.conv2d(inputs, 8, 1, scope='layer')


def _updates_after(outputs):
    """The updates of a training step, which change variables that the outputs read first, then the next step."""
    step = tf.compat.v1.train.get_or_create_global_step()
    with tf.control_dependencies([outputs]):
        updates = moving_updates.apply(moving_updates.registered())
    with tf.control_dependencies(updates):
        return step.assign_add(1)


def _assert_variables_equal(values, twin, extent):
    np.testing.assert_allclose(values['weights_quant/min'], extent[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(values['weights_quant/max'], extent[1], rtol=1e-5, atol=1e-6)
    ends = [values['act_quant/min'], values['act_quant/max']]
    np.testing.assert_allclose(ends, twin.range, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(values['BatchNorm/moving_variance'], twin.variance, rtol=1e-4)


@pytest.mark.parametrize(
    ('is_depthwise', 'per_channel'),
    [
        (False, False),
        (True, True),
        pytest.param(False, True, marks=pytest.mark.slow),
        pytest.param(True, False, marks=pytest.mark.slow),
    ],
)
def test_training_against_numpy(graph, is_depthwise, per_channel):
    """The delay ends within the steps."""
    random = np.random.RandomState(1)
    filters = 4 if is_depthwise else 8
    weights = random.normal(size=[3, 3, 4, 1] if is_depthwise else [1, 1, 4, 8])
    gamma, beta = random.uniform(0.5, 2, filters), random.normal(size=filters)
    twin = _Twin(weights, gamma, beta, is_depthwise, per_channel)
    inputs = tf.compat.v1.placeholder(tf.float32, [2, 6, 5, 4])
    outputs = _layer(inputs, is_depthwise, per_channel)
    variables = {v.op.name.removeprefix('layer/'): v for v in tf.compat.v1.model_variables()}
    updated = _updates_after(outputs)
    kernel = 'depthwise_weights' if is_depthwise else 'weights'
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        for name, value in {kernel: twin.weights, 'BatchNorm/gamma': twin.gamma, 'BatchNorm/beta': twin.beta}.items():
            variables[name].load(value, session)
        for number in range(STEPS):
            batch = random.normal(size=[2, 6, 5, 4]) * (1 + number)
            extent = twin.extent_of_weights()
            expected = twin.step(batch, is_on=number >= DELAY)
            result, _ = session.run([outputs, updated], {inputs: batch})
            # A value may be rounded to the next step.
            np.testing.assert_allclose(np.median(np.abs(result - expected)), 0, atol=1e-5)
            assert np.abs(result - expected).max() <= (0.03 if number >= DELAY else 1e-4)
            _assert_variables_equal(session.run(variables), twin, extent)


def test_names_of_ranges_and_of_what_averages_them(graph):
    with layers.mode_scope(is_training=True, fine_tune_batch_norm=True, fake_quantization=FakeQuantization(True)):
        layers.conv2d(tf.zeros([1, 3, 3, 2]), 2, 1, normalize=False, activation=tf.nn.sigmoid, scope='a')
    names = {v.op.name for v in tf.compat.v1.global_variables()} - {'a/weights', 'a/biases'}
    ranges = {f'a/{kind}/{end}' for kind in ('weights_quant', 'conv_quant', 'act_quant') for end in ('min', 'max')}
    averaging = {f'a/{kind}/a/{kind}/min/local_step' for kind in ('conv_quant', 'act_quant')}
    assert names == ranges | averaging
    assert all(map(quantization.is_range, names))
    assert set(filter(quantization.is_averaging, names)) == averaging
    assert not quantization.is_range('a/quantity/weights')


@pytest.mark.parametrize(('delay', 'expected'), [(0, [[1, 1, 0]]), (1, [[1, 1, 1]])])
def test_gradients_pass_rounding_within_the_range(graph, delay, expected):
    """The last value lies beyond the average range, which the first batch has set; the range includes 0."""
    values = tf.compat.v1.placeholder(tf.float32, [1, 3])
    tf.compat.v1.train.get_or_create_global_step()
    outputs = quantization.fake_quantize_activations(values, FakeQuantization(True, delay))
    gradient = tf.gradients(outputs, values)[0]
    updates = moving_updates.apply(moving_updates.registered())
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(updates, {values: [[0.25, 0.5, 1.0]]})
        np.testing.assert_allclose(session.run(tf.compat.v1.model_variables()), [0, 1], atol=1e-6)
        np.testing.assert_array_equal(session.run(gradient, {values: [[0.0, 0.5, 9.0]]}), expected)


def test_an_empty_range_gives_zeros(graph):
    """Also in the exact form: the original's last bits are those of a sum."""
    zero = tf.constant(0.0)
    rounded = quantization._fake_quantize(tf.zeros([2]), (zero, zero), False, FakeQuantization(False, is_exact=True))
    with tf.compat.v1.Session() as session:
        np.testing.assert_array_equal(session.run(rounded), [0, 0])


def test_without_the_mode_nothing_is_rounded(graph):
    values = tf.zeros([1, 2])
    assert layers.fake_quantized(values) is values
