"""Files of class names as TF-Slim wrote them beside its records: labels.txt, with lines such as `0:roses`."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from deeplab.errors import DataError
from deeplab.files import documents, storage, writing

FILE_NAME = 'labels.txt'
_LINE = re.compile(r'(\d+):(.*)')
_SUFFIXES = ('.txt', '.names', '.csv')  # a single class name that ends so is certainly meant as a file


def write(directory: str, names: Sequence[str]) -> None:
    """Writes the names of the classes, in the order of their ids, to a folder; `DataError` if that is not possible."""
    path = os.path.join(directory, FILE_NAME)
    with writing.explained(path):
        writing.write(path, ''.join(f'{number}:{name}\n' for number, name in enumerate(names)))


def is_numbered(path: str) -> bool:
    """Returns whether a file exists of which each line has an id and a name."""
    try:
        lines = documents.entries_of(documents.load_text(path))
    except documents.DocumentError:
        return False
    return bool(lines) and all(map(_LINE.fullmatch, lines))


def read(path: str) -> tuple[str, ...]:
    """Returns the names of the classes in a file: one in each line, with or without its id in front.

    Raises:
      DataError: The file cannot be read or is empty, or its ids are not 0, 1, 2, ...
    """
    try:
        lines = documents.entries_of(documents.load_text(path))
    except documents.DocumentError as error:
        raise DataError(f"The file of class names '{path}' {error}.") from None
    matches = [match for match in map(_LINE.fullmatch, lines) if match]
    if not lines:
        raise DataError(f"The file of class names '{path}' is empty. Write one name per line.")
    if len(matches) < len(lines):
        return tuple(lines)
    names = {int(match[1]): match[2].strip() for match in matches}
    if sorted(names) != list(range(len(lines))):
        raise DataError(
            f"The {len(lines)} lines of '{path}' do not have the ids 0 to {len(lines) - 1}, each once. Number the "
            'classes from 0.'
        )
    return tuple(names[number] for number in range(len(names)))


def chosen(given: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names of classes that an option has: names, or a single file of them.

    Raises:
      DataError: see `read`.
    """
    path = os.path.expanduser(given[0]) if len(given) == 1 else ''
    return read(path) if path and (path.endswith(_SUFFIXES) or os.path.isfile(path)) else given


def contradiction(directory: str, described: Sequence[str] | int, where: str = 'the data set') -> str:
    """Returns how labels.txt in a folder contradicts a description, as a sentence without a full stop; '' if it agrees.

    Args:
      directory: the folder; without the file, nothing contradicts.
      described: names of the classes, or their number.
      where: what has these classes, for the sentence.

    Raises:
      DataError: see `read`.
    """
    path = os.path.join(directory, FILE_NAME)
    names = read(path) if storage.is_file(path) else None
    count = described if isinstance(described, int) else len(described)
    if names is not None and len(names) != count:
        return f"'{path}' has {len(names)} classes, {where} {count}"
    pairs = () if names is None or isinstance(described, int) else enumerate(zip(names, described, strict=True))
    differing = [f"class {i} '{here}', not '{there}' as {where}" for i, (here, there) in pairs if here != there]
    return f"'{path}' calls {differing[0]}" if differing else ''
