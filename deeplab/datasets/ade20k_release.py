"""Masks of ADE20K's full release, whose colors are indices of several thousand objects, as masks of the 150 classes.

Source: the description of the files of the release (groups.csail.mit.edu/vision/datasets/ADE20K): the index of the
object of a pixel is red / 10 (a whole number) * 256 + green, and 0 means no object; blue tells the instances apart; a
table of the scene parsing challenge maps the indices to its 150 classes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from deeplab.datasets import images, mask_sources
from deeplab.errors import OptionError
from deeplab.files import documents

MASK_SUFFIX = '_seg'
# The indices of the objects of the classes 1 to 150; three classes have two. Source: mapFromADE.txt of the challenge
# (github.com/CSAILVision/sceneparsing).
_OBJECTS = """
2978 312 2420 976 2855 447 2131 165 3055 1125 350 2377 1831 838 774,783 2684 1610 1910 687 471 401 2994 1735 2473 2329
1276 2264 1564 2178 913 57 2272 907 724 2138 2985,533 1395 155 2053 689 137 266 581 2380 491 627 2212 2388 2423 943
2096 1121 1788 2530 2185 420 1948 1869 2251 2531 2128 294 239 212 571 2793 978 236 1240 181 629 2598 1744 1374 591
2679 223 123 47 1282 327 2821 1451 2880 2828 480 77 2616 246,247 2733 14 738 38 1936 1401 120 868 1702 249 308
1969 2526 2928 2337 1023 609 389 2989 1930 2668 2586 131 146 3016 2739 95 1563 642 1708 103 1002 2569 2704 2833 1551
1981 29 187 1393 747 2254 206 2262 1260 2243 2932 2836 2850 64 894 1858 3109 1919 1583 318 2356 2046 1098 530 954
"""
_INDICES = 26 * 256  # red is at most 255
# The class of each object of the challenge, by its index.
CLASS_MAP = {
    int(index): class_id for class_id, indices in enumerate(_OBJECTS.split(), start=1) for index in indices.split(',')
}


def load_map(path: str, names: Sequence[str]) -> dict[int, int]:
    """Reads a table of the class of each object.

    Args:
      path: a text; each line has the index of an object and the id or the name of a class, separated by a comma, a
        colon, a tab or a space. Objects that it does not list are of class 0.
      names: names of the classes.

    Raises:
      OptionError: The file cannot be read, or a line is not as described.
    """
    try:
        lines = documents.load_text(path).splitlines()
    except documents.DocumentError as error:
        raise OptionError(f"The class map '{path}' {error}.") from None
    class_map = {}
    for number, line in enumerate(map(str.strip, lines), start=1):
        if not line or line.startswith('#'):
            continue
        index, _, name = line.replace(',', ' ', 1).replace(':', ' ', 1).replace('\t', ' ').partition(' ')
        name = name.strip()
        class_id = int(name) if name.isdecimal() else names.index(name) if name in names else -1
        if not index.isdecimal() or not 0 < int(index) < _INDICES or not 0 <= class_id < len(names):
            raise OptionError(
                f"Line {number} of the class map '{path}' is '{line[:80]}'. Write the index of an object (1 to "
                f'{_INDICES - 1}) and the id (0 to {len(names) - 1}) or the name of a class, such as 2836 137.'
            )
        class_map[int(index)] = class_id
    if not class_map:
        raise OptionError(f"The class map '{path}' is empty.")
    return class_map


@dataclasses.dataclass(frozen=True)
class ReleaseMasks:
    """Makes masks of classes, and of the instances of things, of the files *_seg.png.

    Attributes:
      path: the mask.
      class_map: the class of each index; others are of class 0.
      things: the classes whose objects are instances; None if no instances are wanted.
    """

    path: str
    class_map: Mapping[int, int]
    things: Sequence[int] | None = None

    @property
    def key(self) -> str:
        """Identifies the classes of the indices."""
        things = '' if self.things is None else f' {self.things}'
        return f'ade20k release {sorted(self.class_map.items())}{things}'

    def masks(self, path: str) -> mask_sources.Masks:
        """Returns the masks, as PNG files; 0 is the class of all other objects.

        The instances are numbered from 1 on. Parts of objects, which have files of their own, are no instances.
        """
        colors = images.read_colors(mask_sources.contents(path), 'objects').astype(np.int32)
        indices = colors[..., 0] // 10 * 256 + colors[..., 1]  # [h, w], the object of each pixel
        table = np.zeros(_INDICES, np.uint8)
        for index, class_id in self.class_map.items():
            table[index] = class_id
        class_ids = table[indices]
        if self.things is None:
            return mask_sources.Masks(images.encode_png(class_ids))
        blue = colors[..., 2]
        is_instance = np.isin(class_ids, self.things) & (blue > 0)
        numbers = np.zeros(class_ids.shape, np.uint16)
        numbers[is_instance] = np.unique((indices << 8 | blue)[is_instance], return_inverse=True)[1] + 1
        return mask_sources.Masks(images.encode_png(class_ids), images.encode_png(numbers))
