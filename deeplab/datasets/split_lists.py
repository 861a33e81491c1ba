"""Lists of the images of a split: text files with one name per line, with or without folder and extension."""

from __future__ import annotations

import collections
import os
import pathlib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from deeplab.datasets import folders
from deeplab.errors import DataError
from deeplab.files import documents
from deeplab.options import IMAGE_FORMATS

_NUMBER_OR_FOLDER = re.compile(r'^-?\d+$|[/\\]')  # what lists have behind the name of an image


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


def names_in(line: str, formats: Collection[str] = IMAGE_FORMATS, most: int | None = None) -> Iterator[str]:
    """Yields the names that a line may stand for, the likeliest first.

    The line itself comes first, then what remains without an extension and without folders; some lists also have the
    mask, or numbers, behind the image. Otherwise a space is part of a name: `photo (2)` is not `photo`.

    Args:
      line: the line.
      formats: extensions of images, in lower case.
      most: the most words behind an image without extension; None for any number.
    """
    yield from _names_of(line, formats)
    words = line.split()
    if len(words) > 1 and _is_image_and_more(words[0], words[1:], formats, most):
        yield from _names_of(words[0], formats)


def _is_image_and_more(first: str, rest: Sequence[str], formats: Collection[str], most: int | None) -> bool:
    """Returns whether the words of a line are an image and its mask or numbers, rather than a name with spaces."""
    if _is_image(first, formats):
        return True
    if most is not None and len(rest) > most:
        return False
    if all(map(_NUMBER_OR_FOLDER.search, rest)):
        return True
    mask = rest[0]  # named after the image; `photo 2.jpg` is not a mask of `photo`
    return len(rest) == 1 and (mask.startswith(first) or (first in mask and _is_image(mask, formats)))


def _is_image(name: str, formats: Collection[str]) -> bool:
    """Returns whether a name has the extension of an image."""
    return os.path.splitext(name)[1][1:].lower() in formats


def _names_of(text: str, formats: Collection[str]) -> Iterator[str]:
    """Yields a path, and what remains without an extension and without folders."""
    path = text.replace('\\', '/').removeprefix('./').lstrip('/')  # paths are below the folder of the images
    stem, extension = os.path.splitext(path)
    for name in (path, stem) if extension[1:].lower() in formats else (path,):
        parts = name.split('/')
        yield from ('/'.join(parts[start:]) for start in range(len(parts)))


class Search:
    """Finds images by the names that lists have for them: paths, with or without extension."""

    def __init__(self, stems: Iterable[str], formats: Collection[str] = IMAGE_FORMATS) -> None:
        """Prepares the search.

        Args:
          stems: paths of the images, relative to their folder, without extension.
          formats: extensions that the names may have.
        """
        self._stems = {folders.composed(stem): stem for stem in stems}
        self._formats = formats
        self._by_name: dict[str, list[str]] = collections.defaultdict(list)
        for stem in self._stems:
            self._by_name[stem.rpartition('/')[2]].append(self._stems[stem])

    def find(self, line: str) -> str | None:
        """Returns the stem of the image in a line of a list; None if there is no such image, or several."""
        return self._first(list(names_in(line, self._formats)))

    def find_name(self, name: str) -> str | None:
        """Returns the stem of the image of a name, which may have spaces; None as for `find`."""
        return self._first(list(_names_of(name, self._formats)))

    def _first(self, names: Collection[str]) -> str | None:
        """Returns the stem of the first name that belongs to exactly one image."""
        names = list(map(folders.composed, names))
        for name in names:
            if name in self._stems:
                return self._stems[name]
        for name in names:
            if '/' not in name and len(same := self._by_name.get(name, [])) == 1:
                return same[0]
        return None

    def is_list(self, path: pathlib.Path) -> bool:
        """Returns whether a text is a list of images, rather than of classes or of something else."""
        try:
            # Lines of color tables have several numbers, and their first word may be the name of an image.
            names = (list(names_in(line, self._formats, most=1)) for line in read(path))
            return any(self._first(each) is not None for each in names)
        except DataError:  # if it is used nevertheless, `read` says what is wrong
            return False
