"""Weight inflation: conversion of a checkpoint's first convolution from three to another number of input channels.

One rule: of an image whose channels are all equal the network sees what it sees of the same image as three equal
channels. So a gray network made from one for colors predicts for gray images just what that one predicts for them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

RGB_CHANNELS = 3


def can_inflate(shape: Sequence[int], held_shape: Sequence[int], input_channels: int) -> bool:
    """Returns whether weights in a checkpoint are the first convolution for three channels, not for the network's.

    Args:
      shape: of the weights in the network, [height, width, channels, filters].
      held_shape: of the weights in the checkpoint.
      input_channels: channels of the network's images.
    """
    if input_channels == RGB_CHANNELS or len(shape) != 4 or len(held_shape) != 4:
        return False
    # Only a convolution of the image itself reads as many channels as an image has.
    same_kernel = tuple(shape[:2]) == tuple(held_shape[:2]) and shape[3] == held_shape[3]
    return same_kernel and shape[2] == input_channels and held_shape[2] == RGB_CHANNELS


def inflate(weights: np.ndarray, input_channels: int) -> np.ndarray:
    """Weights of the first convolution for another number of channels.

    Of more than three channels the first three are red, green and blue and keep their weights; each of the others gets
    the mean of them; of fewer, all get the mean. All are then multiplied by 3 / input_channels, so that the sum over
    the channels stays: for one channel it is the sum itself.

    Args:
      weights: [height, width, 3, filters].
      input_channels: 1 or more.

    Returns:
      [height, width, input_channels, filters].
    """
    mean = weights.mean(axis=2, keepdims=True, dtype=np.float64)
    kept = weights if input_channels > RGB_CHANNELS else weights[:, :, :0]
    others = np.repeat(mean, input_channels - kept.shape[2], axis=2)
    spread = np.concatenate([kept, others], axis=2) * (RGB_CHANNELS / input_channels)
    return spread.astype(weights.dtype)
