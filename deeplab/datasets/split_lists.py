"""Lists of the images of a split: text files with one name per line, with or without folder and extension."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator

from deeplab.errors import DataError
from deeplab.options import IMAGE_FORMATS
from deeplab.utils import documents


def read(path: pathlib.Path) -> list[str]:
    """Returns the lines of a list without spaces around them, except blank lines and comments (# ...).

    Raises:
      DataError: It cannot be read, or has no such line.
    """
    try:
        lines = documents.entries_of(documents.load_text(path))
    except documents.DocumentError as error:
        raise DataError(f"The list '{path}' {error}.") from None
    if not lines:
        raise DataError(f"The list '{path}' is empty. Write one name per line, or remove the list.")
    return lines


def names_in(line: str) -> Iterator[str]:
    """Yields the names that a line may stand for, the likeliest first.

    The line itself comes first, then what remains without an extension and without folders; some lists also have the
    path of the mask, or a number, behind that of the image.
    """
    for text in dict.fromkeys([line, *line.split(maxsplit=1)[:1]]):
        path = text.replace('\\', '/').removeprefix('./').lstrip('/')  # paths are below the folder of the images
        for name in (path, *_without_extension(path)):
            parts = name.split('/')
            yield from ('/'.join(parts[start:]) for start in range(len(parts)))


def _without_extension(path: str) -> tuple[str, ...]:
    stem, extension = os.path.splitext(path)
    return (stem,) if extension[1:].lower() in IMAGE_FORMATS else ()
