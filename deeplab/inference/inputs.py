"""The files to predict: images, folders, patterns, lists and videos, and the names of their results.

The folder structure is kept. A result has the name of its image without the extension, unless another image has
the same name. Names consist of printable characters and stay inside the output folder.
"""

from __future__ import annotations

import collections
import hashlib
import os
import pathlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from deeplab import names
from deeplab.datasets import split_lists
from deeplab.errors import DataError, OptionError
from deeplab.inference import image_files, videos
from deeplab.options import IMAGE_FORMATS
from deeplab.wording import option

VIDEO_SUFFIXES = frozenset({'.mp4', '.avi', '.mov', '.mkv', '.webm', '.m4v', '.mpg', '.mpeg', '.wmv', '.flv'})
LIST_SUFFIXES = ('.txt', '.lst')
_MAGIC = re.compile(r'[*?\[]')


class InputFile(NamedTuple):
    """A file to predict.

    Attributes:
      path: path of the file.
      name: name of its results, relative to the output folder, without extension; folders separated by '/'.
      relative: path of the file in the folder that all files have in common, for annotations; separated by '/'.
      is_video: whether it is a video, a camera or a stream.
      is_live: whether it is a camera or a stream, which is predicted until it is stopped; `path` is its address.
    """

    path: str
    name: str
    is_video: bool = False
    is_live: bool = False
    relative: str = ''

    @property
    def shown(self) -> str:
        """The path for messages and files, without a password."""
        return videos.without_password(self.path) if self.is_live else self.path


class Failure(NamedTuple):
    """A file that was not predicted, and why."""

    path: str
    reason: str


class _RootedFile(NamedTuple):
    """A file, and the folder to which its name is relative."""

    path: str
    root: str


def find(inputs: Sequence[str], output_dir: str) -> tuple[list[InputFile], list[Failure]]:
    """Finds the files to predict, each once, in a fixed order.

    Args:
      inputs: files, folders, patterns such as `photos/**/*.jpg`, and lists (.txt) of one path a line, with or without
        extension, which are relative to the list or to the current folder.
      output_dir: folder of the results; files in it are not taken from folders and patterns.

    Returns:
      The files, and the inputs without a file.

    Raises:
      OptionError: a camera or stream is not the only input.
    """
    if live := [text for text in inputs if videos.is_live(text)]:
        shown = videos.without_password(live[0])
        if len(inputs) > 1:
            raise OptionError(
                f"'{shown}' is a camera or stream and must be the only input, because prediction runs until you stop it"
            )
        return [InputFile(live[0], _clean(re.sub(r'[^\w.-]+', '_', shown)), is_video=True, is_live=True)], []
    results = [result for text in inputs for result in _of_input(text, output_dir)]
    failures = [result for result in results if isinstance(result, Failure)]
    places = [result for result in results if isinstance(result, _RootedFile)]
    unique = {os.path.abspath(place.path): place for place in reversed(places)}
    chosen = list(reversed(unique.values()))
    relative = _relative(chosen)
    counts = collections.Counter(relative)
    items = []
    for (path, _), name, inside in zip(chosen, _names(chosen, relative), relative, strict=True):
        unique_path = inside if counts[inside] == 1 else name + os.path.splitext(path)[1]  # of unprintable names
        items.append(InputFile(path, name, _is_video(path), relative=unique_path))
    return items, failures


def _of_input(text: str, output_dir: str) -> Iterator[_RootedFile | Failure]:
    """Yields the files of one input, and what is wrong with it."""
    if os.path.realpath(text) == os.path.realpath(output_dir):
        other = f'set another {option("PredictOptions.output_dir")}'
        yield Failure(text, f'it is the folder of the results, which is not predicted; {other}')
    elif os.path.isdir(text):
        inside: list[_RootedFile | Failure] = [*_in_folder(text, output_dir)]
        yield from inside or [Failure(text, 'there is no image or video in this folder')]
    elif os.path.lexists(text):
        if text.lower().endswith(LIST_SUFFIXES):
            yield from _listed(text)
        else:
            yield _RootedFile(text, os.path.dirname(text))
    elif _MAGIC.search(text):
        try:
            matching: list[_RootedFile | Failure] = [*_matching(text, output_dir)]
        except ValueError:  # of `Path.glob`
            yield Failure(text, 'it is not a pattern: ** stands for folders, as in photos/**/*.jpg')
        else:
            yield from matching or [Failure(text, 'no file matches this pattern')]
    else:
        yield Failure(text, 'it does not exist')


def digest_of(items: Iterable[InputFile]) -> str:
    """Returns a digest of the names of files, for jobs that share them."""
    return hashlib.sha256('\n'.join(item.name for item in items).encode('utf-8', 'surrogateescape')).hexdigest()


def images_in(folder: str) -> list[str]:
    """Returns the paths of the images in a folder and its folders by name; hidden ones are left out."""
    return [place.path for place in _in_folder(folder) if not _is_video(place.path)]


def _is_video(path: str) -> bool:
    return os.path.splitext(path)[1].lower() in VIDEO_SUFFIXES


def _in_folder(folder: str, output_dir: str | None = None) -> Iterator[_RootedFile]:
    """Yields the images and videos in a folder and its folders; hidden ones are left out."""
    suffixes = image_files.suffixes() | VIDEO_SUFFIXES
    results = None if output_dir is None else os.path.realpath(output_dir)
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if name[0] != '.' and os.path.realpath(os.path.join(parent, name)) != results
        )
        for name in sorted(files):
            if name[0] != '.' and os.path.splitext(name)[1].lower() in suffixes:
                yield _RootedFile(os.path.join(parent, name), folder)


def _matching(pattern: str, output_dir: str) -> Iterator[_RootedFile]:
    parts = pathlib.Path(pattern).parts
    fixed = next(i for i, part in enumerate(parts) if _MAGIC.search(part))
    root = pathlib.Path(*parts[:fixed])
    results = os.path.join(os.path.realpath(output_dir), '')
    for path in sorted(root.glob(os.path.join(*parts[fixed:]))):
        is_hidden = any(part[0] == '.' for part in path.relative_to(root).parts)
        if path.is_file() and not is_hidden and not os.path.realpath(path).startswith(results):
            yield _RootedFile(str(path), str(root))


def _listed(path: str) -> Iterator[_RootedFile | Failure]:
    """Yields the files in a list, and the lines of which there is no file."""
    try:
        lines = split_lists.read(pathlib.Path(path))
    except DataError as error:
        yield Failure(path, str(error).removesuffix('.'))
        return
    paths = []
    for line in lines:
        existing = next(filter(os.path.isfile, _candidates(line, os.path.dirname(path))), None)
        if existing is None:
            yield Failure(line, f'it does not exist (listed in {path})')
        else:
            paths.append(existing)
    root = _common([os.path.dirname(each) for each in paths])
    yield from (_RootedFile(each, root) for each in paths)


def _candidates(line: str, folder: str) -> Iterator[str]:
    """Yields the paths that a line of a list in a folder may stand for: lists of splits often omit extensions."""
    for text in dict.fromkeys((line, line.replace('\\', '/'))):
        for suffix in ('', *(f'.{kind}' for kind in IMAGE_FORMATS)):
            yield os.path.join(folder, f'{text}{suffix}')
            yield f'{text}{suffix}'


def _common(folders: Iterable[str]) -> str:
    unique = {os.path.abspath(folder) for folder in folders}
    return os.path.commonpath(unique) if unique else ''


def _relative(places: Sequence[_RootedFile]) -> list[str]:
    """Returns the path of each file in the folder that all have in common, with `_clean` names."""
    base = _common({place.root for place in places})
    paths = (os.path.relpath(os.path.abspath(place.path), base) for place in places)
    return ['/'.join(map(_clean, path.split(os.sep))) for path in paths]


def _names(places: Sequence[_RootedFile], relative: Sequence[str]) -> list[str]:
    """Returns a unique output name for each file; `relative` is from `_relative`."""
    cleaned = [path.split('/') for path in relative]
    stems = ['/'.join([*parts[:-1], os.path.splitext(parts[-1])[0] or parts[-1]]) for parts in cleaned]
    counts = collections.Counter(map(_key, stems))
    folders = {_key('/'.join(parts[:end])) for parts in cleaned for end in range(1, len(parts))}
    taken: set[str] = set()
    unique_names = []
    for place, parts, stem in zip(places, cleaned, stems, strict=True):
        is_alone = counts[_key(stem)] == 1 and not _is_video(place.path)
        wanted = stem if is_alone else '/'.join(parts)  # a.jpg and a.png, which exist once each in a folder
        name, number = wanted, 2
        while _key(name) in taken or (not is_alone and _key(name) in counts) or _meets(name, folders):
            name, number = f'{wanted}_{number}', number + 1
        taken.add(_key(name))
        unique_names.append(name)
    return unique_names


def _meets(name: str, folders: set[str]) -> bool:
    """Returns whether a file of this name, with the extension of a result, would be where a folder is."""
    return any(_key(f'{name}{suffix}') in folders for suffix in ('.png', '.jpg', '.npy'))


def _key(name: str) -> str:
    """Returns a key that is equal for names that some file systems do not distinguish."""
    return unicodedata.normalize('NFC', name).casefold()


def _clean(part: str) -> str:
    """Returns a file's or folder's name with printable characters only, not too long, and not `..`."""
    shown = ''.join(sign if sign.isprintable() and sign not in '/\\' else '_' for sign in part)
    if len(shown.encode()) > names.LONGEST_FILE_NAME - 40:
        stem, suffix = os.path.splitext(shown)
        shown = stem.encode()[: names.LONGEST_FILE_NAME - 60].decode('utf-8', 'ignore') + suffix[:10]
    return '_' if shown in ('', '.', '..') else shown
