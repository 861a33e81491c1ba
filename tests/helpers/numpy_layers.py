"""NumPy twins of layers with biases, whose weights are given by name, and of resizing."""

import numpy as np


def conv(values, weights, scope):
    """A convolution of stride 1 with zeros around the map, biases and ReLU: [n, h, w, c] to [n, h, w, filters]."""
    kernel = weights[f'{scope}/weights']
    side = kernel.shape[0] // 2
    padded = np.pad(values, [(0, 0), (side, side), (side, side), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel.shape[:2], axis=(1, 2))  # [n, h, w, c, kh, kw]
    return np.maximum(np.einsum('nhwcij,ijcf->nhwf', windows, kernel, optimize=True) + weights[f'{scope}/biases'], 0)


def max_pool(values):
    """The maximum of 2x2 values; a last odd row or column is dropped: [n, h, w, c] to [n, h // 2, w // 2, c]."""
    n, height, width, channels = values.shape
    even = values[:, : height // 2 * 2, : width // 2 * 2]
    return even.reshape(n, height // 2, 2, width // 2, 2, channels).max(axis=(2, 4))


def dense(values, weights, scope):
    """A fully connected layer with biases: [n, ...] to [n, filters]."""
    return values.reshape(len(values), -1) @ weights[f'{scope}/weights'] + weights[f'{scope}/biases']


def resized(values, size):
    """Bilinear resizing with aligned corners: [..., h, w, c] to [..., *size, c]."""
    for axis, new in zip((-3, -2), size, strict=True):
        old = values.shape[axis]
        position = np.linspace(0, old - 1, new)
        lower = np.minimum(position.astype(int), max(old - 2, 0))
        share = (position - lower).reshape([-1, *[1] * (-1 - axis)])
        upper = np.minimum(lower + 1, old - 1)
        values = np.take(values, lower, axis) * (1 - share) + np.take(values, upper, axis) * share
    return values
