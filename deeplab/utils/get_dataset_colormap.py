"""Color maps of data sets, and label images in color."""

from __future__ import annotations

if not __package__:  # scripts for the original import it by this name alone, with its folder on the path
    import os
    import sys

    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))))

from typing import Any

import numpy as np

from deeplab.datasets import descriptor
from deeplab.errors import DataError, OptionError
from deeplab.wording import did_you_mean

PASCAL = 'pascal'
CITYSCAPES = 'cityscapes'
ADE20K = 'ade20k'
MAPILLARY_VISTAS = 'mapillary_vistas'

# The 66 classes of Mapillary Vistas 1.2, one color each as hexadecimal bytes.
_MAPILLARY_VISTAS_COLORS = """
a52a2a 00c000 c4c4c4 be9999 b4a5b4 66669c 66669c 8040ff 8c8cc8 aaaaaa faaaa0 606060 e6968c 804080 6e6e6e f423e8 966464
464646 96785a dc143c ff0000 ff0000 ff0000 c88080 ffffff 40aa40 804040 4682b4 ffffff 98fb98 6b8e23 00aa1e ffff80 fa001e
000000 dcdcdc aaaaaa de2828 64aa1e 282828 212121 aaaaaa 00008e aaaaaa d2aa64 999999 808080 00008e faaa1e c0c0c0 dcdc00
b4a5b4 770b20 00008e 003c64 00008e 00005a 0000e6 005064 804040 00006e 000046 0000c0 202020 000000 000000
"""


def get_pascal_name() -> str:
    """Returns the name of the PASCAL VOC colors, 'pascal'."""
    return PASCAL


def get_cityscapes_name() -> str:
    """Returns the name of the Cityscapes colors, 'cityscapes'."""
    return CITYSCAPES


def get_ade20k_name() -> str:
    """Returns the name of the ADE20K colors, 'ade20k'."""
    return ADE20K


def get_mapillary_vistas_name() -> str:
    """Returns the name of the Mapillary Vistas colors, 'mapillary_vistas'."""
    return MAPILLARY_VISTAS


def bit_get(val: Any, idx: Any) -> Any:
    """Returns the bit `idx` of `val`, 0 or 1, counted from the lowest one; of arrays, element by element."""
    return (val >> idx) & 1


def create_pascal_label_colormap() -> np.ndarray:
    """Returns the PASCAL VOC colors.

    Returns:
      [512, 3] int64, as in the original, red, green and blue of each id.

    Source: `descriptor.bit_shift_palette`.
    """
    return descriptor.bit_shift_palette(512).astype(np.int64)


def create_cityscapes_label_colormap() -> np.ndarray:
    """Returns the Cityscapes colors by train id, black from 19 on.

    Returns:
      [256, 3] uint8, as in the original, red, green and blue of each id.

    Source: cityscapesscripts (arXiv:1604.01685).
    """
    colors = descriptor.load('cityscapes').palette
    return np.pad(colors, ((0, 256 - len(colors)), (0, 0)))


def create_ade20k_label_colormap() -> np.ndarray:
    """Returns the ADE20K colors, 0 (other) black.

    Returns:
      [151, 3] int64, as in the original, red, green and blue of each id.

    Source: the scene parsing challenge of 2016 (arXiv:1608.05442).
    """
    colors: np.ndarray = descriptor.load('ade20k').palette
    return colors.astype(np.int64)


def create_mapillary_vistas_label_colormap() -> np.ndarray:
    """Returns the Mapillary Vistas colors.

    Returns:
      [66, 3] int64, as in the original, red, green and blue of each id.

    Source: G. Neuhold et al., The Mapillary Vistas Dataset for Semantic Understanding of Street Scenes, ICCV 2017.
    """
    return np.frombuffer(bytes.fromhex(_MAPILLARY_VISTAS_COLORS), np.uint8).reshape(-1, 3).astype(np.int64)


_MAKERS = {
    PASCAL: create_pascal_label_colormap,
    CITYSCAPES: create_cityscapes_label_colormap,
    ADE20K: create_ade20k_label_colormap,
    MAPILLARY_VISTAS: create_mapillary_vistas_label_colormap,
}


def create_label_colormap(dataset: str = PASCAL) -> np.ndarray:
    """Returns a color map by its name.

    Args:
      dataset: 'pascal', 'cityscapes', 'ade20k' or 'mapillary_vistas'.

    Returns:
      [n, 3] int64, of 'cityscapes' uint8: red, green and blue of each id.

    Raises:
      OptionError: There is no such color map.
    """
    if dataset not in _MAKERS:
        hint = did_you_mean(dataset, _MAKERS)
        raise OptionError(f"Unknown color map '{dataset}'. {hint}Known: {', '.join(_MAKERS)}.")
    return _MAKERS[dataset]()


def label_to_color_image(label: np.ndarray, dataset: np.ndarray | str = PASCAL) -> np.ndarray:
    """Converts a label image to colors.

    Args:
      label: [h, w] integers, class ids.
      dataset: name of a color map, or its colors, [n, 3] uint8. The id 255 (ignore) is black if the color map has fewer
        colors.

    Returns:
      [h, w, 3] of the type of the colors, red, green and blue.

    Raises:
      DataError: `label` is not an [h, w] array of integers, or has an id without a color.
    """
    colors = create_label_colormap(dataset) if isinstance(dataset, str) else np.asarray(dataset)
    if label.ndim != 2 or label.dtype.kind not in 'iu':
        raise DataError(
            f'A label image is an array [height, width] of integers, not {label.dtype} {list(label.shape)}.'
        )
    ids = len(colors)
    colors = np.pad(colors, ((0, max(0, 256 - ids)), (0, 0)))
    if label.size and (label.min() < 0 or label.max() >= ids):
        bad = label[(label < 0) | (label >= ids) & ((label != 255) | (ids > 255))]
        if bad.size:
            raise DataError(f'The label image has the id {bad[0]}; the color map has colors for 0 to {ids - 1}.')
    painted: np.ndarray = np.take(colors, label, axis=0, mode='clip')  # [h, w, 3]
    return painted
