"""Options of the input: data set, resizing, augmentation."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from deeplab.errors import OptionError
from deeplab.options.parameters import Settings, with_parameters
from deeplab.options.rules import require, require_not_negative, require_positive
from deeplab.registry.augmentations import AUGMENTATIONS, CROP, Augmentation
from deeplab.registry.records import values_of
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


@with_parameters(AUGMENTATIONS)
@dataclasses.dataclass(frozen=True)
class AugmentOptions:
    """Random augmentation of training images.

    The parameters of all augmentations are keywords and attributes as well, such as `rotation_degrees`; random scaling,
    which is part of every training, has fields.

    Attributes:
      min_scale_factor: smallest scale of the image.
      max_scale_factor: largest scale of the image.
      scale_factor_step_size: distance of the possible scales; 0 for any scale in the range.
      settings: parameters of the augmentations that differ from their defaults.
    """

    min_scale_factor: float = 0.5
    max_scale_factor: float = 2.0
    scale_factor_step_size: float = 0.25
    settings: Settings = ()

    def __post_init__(self) -> None:
        require_positive('AugmentOptions.min_scale_factor', self.min_scale_factor)
        require(
            self.min_scale_factor <= self.max_scale_factor,
            'AugmentOptions.min_scale_factor',
            self.min_scale_factor,
            f'it must be at most {option("AugmentOptions.max_scale_factor", self.max_scale_factor)}',
        )
        require_not_negative('AugmentOptions.scale_factor_step_size', self.scale_factor_step_size)
        crops = [record for record in self.active if record.stage == CROP]
        if len(crops) > 1:
            names = ' and '.join(crop.name for crop in crops)
            raise OptionError(f'The augmentations {names} cannot be combined: each places the crop. Omit all but one.')

    @property
    def active(self) -> tuple[Augmentation, ...]:
        """The augmentations that are on, in the order in which they run."""
        return tuple(record for record in AUGMENTATIONS.records() if record.is_enabled(self.values_of(record)))

    def values_of(self, record: Augmentation) -> dict[str, Any]:
        """Returns the values of the parameters of an augmentation, by name."""
        return values_of(record, functools.partial(getattr, self))

    def check_crop_size(self, crop_size: tuple[int, int]) -> None:
        """Raises `OptionError` if an augmentation that is on does not fit the size of the network's input."""
        for record in self.active:
            if record.check is not None:
                record.check(self.values_of(record), crop_size)
