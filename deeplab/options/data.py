"""Options of the input: data set, resizing, augmentation."""

from __future__ import annotations

import dataclasses

from deeplab.options.rules import require, require_not_negative, require_positive, require_share
from deeplab.wording import option

IMAGE_FORMATS = ('jpg', 'jpeg', 'png', 'npy')
IMAGE_BITS = (8, 16)
LABEL_FORMATS = ('png',)


@dataclasses.dataclass(frozen=True)
class DatasetOptions:
    """The records to read.

    Attributes:
      split: name of the split; its shards are DIRECTORY/SPLIT-*.
      directory: folder of the shards.
      name: a known data set's name, a dotted module, or the path of a JSON or YAML file.
      skip_corrupt_records: whether to skip and count records that cannot be read, instead of stopping.
    """

    split: str
    directory: str
    name: str = 'pascal_voc_seg'
    skip_corrupt_records: bool = False


@dataclasses.dataclass(frozen=True)
class ResizeOptions:
    """Resizing of images to a range of sizes; all None for no resizing.

    Attributes:
      min_value: length of the shorter side, in pixels.
      max_value: largest length of the longer side, in pixels.
      factor: each side is rounded up to a multiple of it plus one; None for no rounding.
    """

    min_value: int | None = None
    max_value: int | None = None
    factor: int | None = None

    def __post_init__(self) -> None:
        for name in ('min_value', 'max_value', 'factor'):
            if (value := getattr(self, name)) is not None:
                require_positive(f'ResizeOptions.{name}', value)
        if self.min_value is not None and self.max_value is not None:
            require(
                self.min_value <= self.max_value,
                'ResizeOptions.min_value',
                self.min_value,
                f'it must be at most {option("ResizeOptions.max_value", self.max_value)}',
            )


_LARGEST_AUGMENTATION = {
    'jitter_brightness': 1,
    'jitter_contrast': 1,
    'jitter_saturation': 1,
    'jitter_hue': 0.5,
    'rotation_degrees': 180,
    'blur_sigma': 20,
    'cutout_size': 4096,
    'rare_class_sampling': 1,
}


@dataclasses.dataclass(frozen=True)
class AugmentOptions:
    """Random augmentation of training images.

    Attributes:
      min_scale_factor: smallest scale of the image.
      max_scale_factor: largest scale of the image.
      scale_factor_step_size: distance of the possible scales; 0 for any scale in the range.
      flip_probability: fraction of images that are flipped left to right.
      jitter_brightness: all values are multiplied by a factor from 1 minus this to 1 plus this; 0 for none.
      jitter_contrast: the same for the distance from the image's mean brightness.
      jitter_saturation: the same for the distance from gray.
      jitter_hue: the hue is rotated by up to this fraction of a full turn, in either direction.
      rotation_degrees: images are rotated by up to this angle, in either direction.
      blur_sigma: largest standard deviation of a Gaussian blur, in pixels; 0 for none.
      blur_probability: fraction of images that are blurred.
      cutout_size: side of the squares that are cut out, in pixels; 0 for none.
      cutout_count: number of these squares.
      rare_class_sampling: fraction of crops that are placed on a pixel of a random class, rare classes more often.
    """

    min_scale_factor: float = 0.5
    max_scale_factor: float = 2.0
    scale_factor_step_size: float = 0.25
    flip_probability: float = 0.5
    jitter_brightness: float = 0.0
    jitter_contrast: float = 0.0
    jitter_saturation: float = 0.0
    jitter_hue: float = 0.0
    rotation_degrees: float = 0.0
    blur_sigma: float = 0.0
    blur_probability: float = 0.5
    cutout_size: int = 0
    cutout_count: int = 1
    rare_class_sampling: float = 0.0

    def __post_init__(self) -> None:
        require_positive('AugmentOptions.min_scale_factor', self.min_scale_factor)
        require(
            self.min_scale_factor <= self.max_scale_factor,
            'AugmentOptions.min_scale_factor',
            self.min_scale_factor,
            f'it must be at most {option("AugmentOptions.max_scale_factor", self.max_scale_factor)}',
        )
        require_not_negative('AugmentOptions.scale_factor_step_size', self.scale_factor_step_size)
        for name, largest in _LARGEST_AUGMENTATION.items():
            value = getattr(self, name)
            require(0 <= value <= largest, f'AugmentOptions.{name}', value, f'it must be from 0 (off) to {largest}')
        require_share('AugmentOptions.blur_probability', self.blur_probability)
        require_positive('AugmentOptions.cutout_count', self.cutout_count)

    @property
    def changes_colors(self) -> bool:
        """Whether any color jitter is on."""
        return any((self.jitter_brightness, self.jitter_contrast, self.jitter_saturation, self.jitter_hue))
