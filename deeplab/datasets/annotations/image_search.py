"""Search for the image files of annotations."""

from __future__ import annotations

import collections
import os
import re
from collections.abc import Iterable

from deeplab.datasets import folders as folders_lib
from deeplab.datasets.annotations.shapes import AnnotatedImage
from deeplab.options import IMAGE_FORMATS

_DRIVE = re.compile('^[A-Za-z]:')
_REMOVED = re.compile(r'[^-\w.]')  # from the names of uploaded files


class ImageSearch:
    """Finds images by the paths and names that annotations have for them.

    Args:
      folders: folders that are searched with all folders in them.
      without: files that are not images, but masks.
    """

    def __init__(self, folders: Iterable[str], without: Iterable[str] = ()) -> None:
        self._folders = list(folders)
        self._without = {os.path.realpath(path) for path in without}
        self._by_name: dict[str, list[str]] = collections.defaultdict(list)
        self._by_stem: dict[str, list[str]] = collections.defaultdict(list)
        self._by_uploaded: dict[str, list[str]] = collections.defaultdict(list)
        visited: set[str] = set()
        for folder in self._folders:
            for here, names in folders_lib.walk(folder, visited):
                for name in names:
                    path, (stem, extension) = os.path.join(here, name), os.path.splitext(folders_lib.composed(name))
                    if extension[1:].lower() in IMAGE_FORMATS and not self._is_left_out(path):
                        self._by_name[f'{stem}{extension}'.lower()].append(path)
                        self._by_stem[stem].append(path)
                        self._by_uploaded[_uploaded(f'{stem}{extension}')].append(path)

    def find(self, image: AnnotatedImage) -> list[str]:
        """Returns the paths of files that may be the image: one, none, or several if its name is ambiguous."""
        several: list[str] = []
        for stated in image.names:
            name = _DRIVE.sub('', stated.replace('\\', '/'))
            for folder in (*image.folders, *self._folders):
                if path := self._with_extension(os.path.join(folder, name.lstrip('/'))):
                    return [path]
            if os.path.isabs(name) and self._is_image(name):
                return [name]
            fitting = self._by_end(name)
            if len(fitting) == 1:
                return fitting
            several = several or fitting
        if not several and image.uploaded:
            return list(self._by_uploaded.get(folders_lib.composed(image.uploaded), []))
        return several

    def beside(self, paths: Iterable[str]) -> list[str]:
        """Returns the other images in the folders of these images, sorted."""
        given = {os.path.realpath(path) for path in paths}
        folders = {os.path.dirname(path) for path in given}
        others = {os.path.realpath(path): path for listed in self._by_name.values() for path in listed}
        return sorted(path for real, path in others.items() if os.path.dirname(real) in folders and real not in given)

    def _by_end(self, name: str) -> list[str]:
        """Returns the files whose paths share the longest end with a stated path, with or without its extension."""
        parts = [part for part in folders_lib.composed(name).split('/') if part not in ('', '.', '..')]
        if not parts:
            return []
        stem, extension = os.path.splitext(parts[-1])
        plain = stem if extension[1:].lower() in IMAGE_FORMATS else parts[-1]
        for candidates, last in (
            (self._by_name.get(parts[-1].lower(), []), True),
            (self._by_stem.get(plain, []), False),
        ):
            if len(candidates) > 1:
                candidates = _longest_common(candidates, parts if last else parts[:-1], last)
            if candidates:
                return list(candidates)
        return []

    def _with_extension(self, path: str) -> str | None:
        """Returns the path of an image whose extension may be missing; None if there is none."""
        if os.path.splitext(path)[1][1:].lower() in IMAGE_FORMATS:
            return path if self._is_image(path) else None
        return next((full for kind in IMAGE_FORMATS if self._is_image(full := f'{path}.{kind}')), None)

    def _is_image(self, path: str) -> bool:
        return os.path.isfile(path) and not self._is_left_out(path)

    def _is_left_out(self, path: str) -> bool:
        return bool(self._without) and os.path.realpath(path) in self._without


def _uploaded(name: str) -> str:
    """Returns the name that Label Studio gives an uploaded file, apart from what it puts in front.

    Source: Django, `utils.text.get_valid_filename`.
    """
    return _REMOVED.sub('', name.strip().replace(' ', '_'))


def _longest_common(paths: list[str], parts: list[str], with_name: bool) -> list[str]:
    """Returns the paths that share the longest end with a stated path."""
    stated = [part.lower() for part in reversed(parts)]

    def agreement(path: str) -> int:
        own = folders_lib.composed(path).replace(os.sep, '/').lower().split('/')
        return len(os.path.commonprefix([(own if with_name else own[:-1])[::-1], stated]))

    best = max(map(agreement, paths))
    return [path for path in paths if agreement(path) == best]
