"""CamVid's masks of 32 colors or indices as ids of 32 or 11 classes, and the split of each frame."""

from __future__ import annotations

import re
from collections.abc import Mapping

from deeplab.datasets import color_tables, mask_sources
from deeplab.datasets.descriptors.camvid32 import CLASSES
from deeplab.errors import DataError

IGNORED = 255
# Frames of the split val, and the first of sequence 0001TP in test, which has all of Seq05VD, too; the rest is train.
_VAL_FRAMES = range(7959, 8160)
_FIRST_TEST_FRAME = 8550
_FRAME = re.compile(r'(?P<sequence>0001TP|0006R0|0016E5|Seq05VD)_f?(?P<number>\d+)')


def new_ids(names_of_11: tuple[str, ...] | None) -> dict[str, int]:
    """Returns the id of each of the 32 names, with letters and digits alone, in lower case.

    Args:
      names_of_11: the names of the 11 classes by id; None for ids of 32 classes.
    """
    found = {}
    for number, (name, _, group) in enumerate(CLASSES):
        if names_of_11 is not None:
            number = IGNORED if group is None else names_of_11.index(group)
        found[plain(name)] = number
    return found


def plain(name: str) -> str:
    """Returns a name in the form of `new_ids`, since files spell the same class Column_Pole or column pole."""
    return ''.join(sign for sign in name.lower() if sign.isalnum())


def of_colors(ids: Mapping[str, int]) -> color_tables.ColorTable:
    """Returns the table that converts masks of colors; `ids` as from `new_ids`."""
    return color_tables.ColorTable([color_tables.Entry(ids[plain(name)], color, name) for name, color, _ in CLASSES])


def of_codes(codes: list[str], ids: Mapping[str, int]) -> mask_sources.IdTable:
    """Returns the table that converts masks of indices into a list of names.

    Args:
      codes: the list.
      ids: as from `new_ids`.

    Raises:
      DataError: A name is not one of the 32.
    """
    unknown = [name for name in codes if plain(name) not in ids]
    if unknown:
        raise DataError(f'it has names that are not classes of CamVid: {", ".join(unknown[:3])}')
    return mask_sources.IdTable({number: ids[plain(name)] for number, name in enumerate(codes)})


def split_of(stem: str) -> str | None:
    """Returns the split of a frame, such as 0016E5_07959, in the usual division; None if the name is not a frame's."""
    match = _FRAME.fullmatch(stem)
    if match is None:
        return None
    sequence, number = match['sequence'], int(match['number'])
    if sequence == 'Seq05VD' or (sequence == '0001TP' and number >= _FIRST_TEST_FRAME):
        return 'test'
    return 'val' if sequence == '0016E5' and number in _VAL_FRAMES else 'train'
