"""Names and colors of the classes of a network."""

from __future__ import annotations

import dataclasses

import numpy as np
from absl import logging

from deeplab.datasets import descriptor, palettes
from deeplab.errors import OptionError, UserError
from deeplab.options.rules import MOST_CLASSES
from deeplab.wording import option


@dataclasses.dataclass(frozen=True)
class Classes:
    """Names and colors of the classes of a network.

    Attributes:
      names: one for each class.
      colors: [n, 3] uint8, at least one for each class.
      image_bits: bits of the images that the network was trained on, 8 or 16.
    """

    names: tuple[str, ...]
    colors: np.ndarray
    image_bits: int = 8

    @classmethod
    def numbered(cls, count: int) -> Classes:
        """Returns classes without names."""
        return cls(tuple(str(number) for number in range(count)), palettes.bit_shift_palette(count))


def classes_of(dataset: str | None, count: int | None, is_required: bool = False) -> Classes:
    """Returns the names and colors of `count` classes in a data set; numbers and default colors without one.

    Args:
      dataset: name, module or file of the data set; None for none.
      count: number of classes; None if the network does not show it: that of the data set, or else `MOST_CLASSES`.
      is_required: whether to raise an `OptionError` if the data set cannot be used, instead of logging a warning.
    """
    if dataset is None:
        return Classes.numbered(count or MOST_CLASSES)
    try:
        found = descriptor.load(dataset)
        if found.num_classes != (count or found.num_classes):
            raise OptionError(
                f"The network has {count} classes, the data set '{found.name}' {found.num_classes}. Set "
                f'{option("PredictorOptions.dataset")} to the one that it was trained on'
            )
    except UserError as error:
        if is_required:
            raise
        logging.warning('The names of the classes are unknown: %s', error)
        return Classes.numbered(count or MOST_CLASSES)
    return Classes(tuple(map(found.class_name, range(found.num_classes))), found.palette, found.image_bits)
