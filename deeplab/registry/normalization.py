"""Normalization of pixels before the first convolution of a backbone."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Normalization:
    """Normalization of pixels of 0 to 255 before the first convolution: `x * scale - offset`, by channel.

    Attributes:
      scale: factor.
      offset: values subtracted from red, green and blue after scaling.
    """

    scale: float
    offset: tuple[float, float, float]

    @property
    def mean_pixel(self) -> tuple[float, float, float]:
        """The pixel that is normalized to zero, with which images are padded."""
        return tuple(value / self.scale for value in self.offset)  # type: ignore[return-value]

    def offset_of(self, channels: int) -> tuple[float, ...]:
        """Returns the value that is subtracted from each of `channels` channels after scaling.

        Three channels, or the first three of more, are red, green and blue. Further channels, and all of fewer than
        three, use the mean of the three.
        """
        mean = sum(self.offset) / 3.0
        return (*self.offset, *[mean] * (channels - 3)) if channels >= 3 else (mean,) * channels

    def mean_pixel_of(self, channels: int) -> tuple[float, ...]:
        """Returns the pixel of `channels` channels that is normalized to zero."""
        return tuple(value / self.scale for value in self.offset_of(channels))


SCALE_TO_PLUS_MINUS_ONE = Normalization(scale=2.0 / 255.0, offset=(1.0, 1.0, 1.0))
SUBTRACT_RGB_MEAN = Normalization(scale=1.0, offset=(123.15, 115.90, 103.06))
