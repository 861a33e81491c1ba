"""Search for the files of a data set, with extensions in any case, and summaries of folders for messages."""

from __future__ import annotations

import collections
import os
import pathlib
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from deeplab.errors import DataError
from deeplab.names import counted, listed
from deeplab.wording import option

_SHOWN = 3  # number of names that a message lists
_KINDS_SHOWN = 5


def composed(name: str) -> str:
    """Returns a name for comparisons: macOS writes an umlaut as two characters, other systems as one."""
    return unicodedata.normalize('NFC', name)


def of_extension(paths: Iterable[pathlib.Path], extension: str) -> list[pathlib.Path]:
    """Returns the files among `paths` whose names end in `.extension` in any case, such as IMG_1.JPG, sorted.

    Hidden files are left out, such as the ._NAME that macOS puts beside each file on other disks.

    If two files differ only in the case of their extension, the one with the extension as given is returned.
    """
    ending = f'.{extension}'
    visible = (path for path in paths if not path.name.startswith('.'))
    files = sorted(path for path in visible if path.name.lower().endswith(ending.lower()))
    exact = {path for path in files if path.name.endswith(ending)}
    return [path for path in files if path in exact or path.with_name(path.name[: -len(ending)] + ending) not in exact]


def of_extensions(paths: Iterable[pathlib.Path], extension: str, others: Iterable[str]) -> list[pathlib.Path]:
    """Returns the files with the first extension, and files with others if no such file has their stem; sorted."""
    given = list(paths)
    files: list[pathlib.Path] = []
    for each in (extension, *others):
        stems = {path.with_suffix('') for path in files}
        files += [path for path in of_extension(given, each) if path.with_suffix('') not in stems]
    return sorted(files)


def walk(folder: str, visited: set[str] | None = None) -> Iterator[tuple[str, list[str]]]:
    """Yields a folder and the folders in it, each once, with the names of their files, sorted.

    Links are followed. Hidden files and folders are left out, and so is __MACOSX, which archives from macOS contain.

    Args:
      folder: path of the folder.
      visited: real paths of the folders to leave out; yielded folders are added. None for none.

    Raises:
      DataError: A folder cannot be read, whose files would be missing silently.
    """
    seen = set() if visited is None else visited
    for here, inner, names in os.walk(folder, followlinks=True, onerror=_refuse):
        if (real := os.path.realpath(here)) in seen:
            inner.clear()
            continue
        seen.add(real)
        inner[:] = sorted(name for name in inner if not name.startswith(('.', '__MACOSX')))
        yield here, sorted(name for name in names if not name.startswith('.'))


def _refuse(error: OSError) -> None:
    raise DataError(f"The folder '{error.filename}' cannot be read: {error.strerror}.")


def require_folder(folder: str, field: str | None = None) -> None:
    """Raises `DataError` unless `folder` is a folder; `field` is the option that sets it, for the message."""
    if not os.path.isdir(folder):
        what = 'is not a folder' if os.path.exists(folder) else 'does not exist'
        fix = f' Set {option(field)}.' if field else ''
        raise DataError(f"The folder '{folder}' {what}.{fix}")
    try:
        os.scandir(folder).close()
    except OSError as error:
        raise DataError(f"The folder '{folder}' cannot be read: {error.strerror}.") from None


class Search:
    """Finds files whose extension may have another case; lists each folder at most once."""

    def __init__(self) -> None:
        self._listings: dict[pathlib.Path, dict[str, str]] = {}

    def find(self, path: pathlib.Path) -> pathlib.Path:
        """Returns `path`, or an existing file that differs only in the case of its extension."""
        if os.path.isfile(path):  # Path.is_file raises an error for names that are too long
            return path
        folder = path.parent
        if folder not in self._listings:
            names = sorted(os.listdir(folder)) if folder.is_dir() else []
            self._listings[folder] = {_key(name): name for name in names}
        name = self._listings[folder].get(_key(path.name))
        return path if name is None else folder / name

    def first(self, folder: str, extensions: Sequence[str], stem: str) -> str:
        """Returns the first existing file FOLDER/STEM.EXTENSION; the path with the first extension if there is none."""
        paths = (self.find(pathlib.Path(folder, f'{stem}.{extension}')) for extension in extensions)
        there = next((path for path in paths if os.path.isfile(path)), None)
        return str(there or pathlib.Path(folder, f'{stem}.{extensions[0]}'))


def _key(name: str) -> str:
    stem, extension = os.path.splitext(name)
    return stem + extension.lower()


def summary(folder: str | pathlib.Path) -> str:
    """Describes the content of a folder in a sentence: numbers of files by extension and names of folders."""
    try:
        entries = sorted(path for path in pathlib.Path(folder).iterdir() if not path.name.startswith('.'))
    except OSError as error:
        return f'It cannot be read ({error.strerror}).'
    if not entries:
        return 'The folder is empty.'
    kinds = collections.Counter(entry.suffix or entry.name for entry in entries if entry.is_file())
    parts = [f'{count} {kind}' for kind, count in kinds.most_common(_KINDS_SHOWN)]
    if rest := sum(kinds.values()) - sum(count for _, count in kinds.most_common(_KINDS_SHOWN)):
        parts.append(f'{rest} others')
    text = f'{", ".join(parts)} ({counted(sum(kinds.values()), "file")})' if kinds else 'no files'
    if names := [entry.name for entry in entries if entry.is_dir()]:
        text += f', and the folders {listed(names, _SHOWN)}'
    return f'It contains {text}.'
