"""Numbers of channels of a network that a depth multiplier scales."""

from __future__ import annotations

from deeplab.options import ModelOptions

CHANNEL_DIVISOR = 8  # numbers of channels that processors compute fast are multiples of it


def round_channels(channels: float, divisor: int = CHANNEL_DIVISOR, smallest: int = CHANNEL_DIVISOR) -> int:
    """Rounds `channels` to a multiple of `divisor`, at least `smallest` and at least 90 % of `channels`."""
    rounded = max(smallest, int(channels + divisor / 2) // divisor * divisor)
    return rounded if rounded >= 0.9 * channels else rounded + divisor


def scaled_channels(channels: int, options: ModelOptions) -> int:
    """Returns `channels` scaled by the depth multiplier: a multiple of 8; unchanged for a multiplier of 1."""
    if options.depth_multiplier == 1.0:
        return channels
    return round_channels(channels * options.depth_multiplier)
