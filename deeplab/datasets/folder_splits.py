"""Splits of a folder of images: by lists, by folders, or by a ratio that keeps groups together."""

from __future__ import annotations

import collections
import hashlib
import pathlib
import re
from collections.abc import Mapping, Sequence

from absl import logging

from deeplab.datasets import file_pairs, folders, split_lists
from deeplab.errors import DataError
from deeplab.options import BuildFolderOptions
from deeplab.wording import option

DEFAULT_VAL_FRACTION = 0.1
# Names of the folders that are splits.
_FOLDERS = {
    'train': 'train',
    'training': 'train',
    'val': 'val',
    'valid': 'val',
    'validation': 'val',
    'test': 'test',
    'testing': 'test',
}


def known(name: str | None) -> str | None:
    """Returns the split that the name of a folder, or of a tool's split, stands for; None for other names."""
    return _FOLDERS.get((name or '').lower())


def split(
    stems: Sequence[str], options: BuildFolderOptions, named: Mapping[str, str | None] | None = None
) -> dict[str, list[str]]:
    """Distributes images over splits.

    Args:
      stems: relative paths of the images without extension, sorted.
      options: how.
      named: a tool's name of the split of each image, which counts before folders; None for none.

    Returns:
      Stems by split: in the order of the lists, or else sorted.

    Raises:
      DataError: A list names an image that does not exist, the groups cannot be found, or a split would be empty.
    """
    if options.list_folder:
        return _by_lists(stems, options.list_folder)
    if options.val_fraction is None and options.group_pattern is None:
        in_folders = {stem: stem.partition('/')[0] if '/' in stem else None for stem in stems}
        if found := _by_names(stems, named or {}) or _by_names(stems, in_folders):
            return found
    return _by_ratio(stems, options)


def _by_names(stems: Sequence[str], names: Mapping[str, str | None]) -> dict[str, list[str]] | None:
    """Returns the splits if every image has the name of a split, and some are for training."""
    found: dict[str, list[str]] = {}
    for stem in stems:
        name = known(names.get(stem))
        if name is None:
            return None
        found.setdefault(name, []).append(stem)
    return {name: found[name] for name in ('train', 'val', 'test') if name in found} if 'train' in found else None


def _by_ratio(stems: Sequence[str], options: BuildFolderOptions) -> dict[str, list[str]]:
    """Chooses whole groups for the split val, ordered by a digest of seed and group, as far as they fit its share.

    The order does not depend on the other groups, so that the choice changes little when images are added.
    """
    fraction = DEFAULT_VAL_FRACTION if options.val_fraction is None else options.val_fraction
    if not fraction:
        return {'train': list(stems)}
    groups = _groups(stems, options.group_pattern)
    if len(groups) < 2:
        what = 'image' if options.group_pattern is None else 'group of images'
        raise DataError(
            f'There is one {what} only, which cannot be both in train and in val. Set '
            f'{option("BuildFolderOptions.val_fraction", 0)} for no split val.'
        )
    order = sorted(groups, key=lambda group: hashlib.sha256(f'{options.seed}:{group}'.encode()).digest())
    target, count, chosen = fraction * len(stems), 0, set()
    for group in order[:-1]:  # the last one is left for train
        if abs(count + len(groups[group]) - target) < abs(count - target):
            chosen.add(group)
            count += len(groups[group])
    chosen = chosen or {min(order, key=lambda group: len(groups[group]))}
    val = {stem for group in chosen for stem in groups[group]}
    return {'train': [stem for stem in stems if stem not in val], 'val': [stem for stem in stems if stem in val]}


def _groups(stems: Sequence[str], pattern: str | None) -> dict[str, list[str]]:
    """Returns the images of each group."""
    found: dict[str, list[str]] = collections.defaultdict(list)
    lost = []
    for stem in stems:
        match = None if pattern is None else re.search(pattern, stem)
        if pattern is not None and match is None:
            lost.append(stem)
            continue
        group = stem if match is None else match[1] if match.re.groups and match[1] is not None else match[0]
        found[group].append(stem)
    if lost:
        raise DataError(
            f'{option("BuildFolderOptions.group_pattern", pattern)} finds no group in {len(lost)} of {len(stems)} '
            f'images: {file_pairs.named(lost)}. It is searched for in the path of an image, without extension.'
        )
    return found


def _by_lists(stems: Sequence[str], folder: str) -> dict[str, list[str]]:
    """Reads a split from each list in a folder."""
    paths = folders.of_extension(pathlib.Path(folder).iterdir(), 'txt')
    if not paths:
        raise DataError(
            f"There is no list *.txt in '{folder}'. Each split needs one, with one name per line. "
            f'{folders.summary(folder)}'
        )
    search = _Search(stems)
    others = [path for path in paths if known(path.stem) is None and not _names_an_image(path, search)]
    if len(others) < len(paths):  # else the error of the first one says what is wrong
        for path in others:
            logging.warning("'%s' is left out: none of its lines is the name of an image with a mask.", path)
        paths = [path for path in paths if path not in others]
    found = {path.stem: _read_list(path, search) for path in paths}
    _warn_of_shared(found)
    return found


def _names_an_image(path: pathlib.Path, search: _Search) -> bool:
    """Returns whether a text is a list of images, rather than of classes or of something else."""
    return any(search.find(line) is not None for line in split_lists.read(path))


class _Search:
    """Finds images by the names that lists have for them: paths, with or without extension."""

    def __init__(self, stems: Sequence[str]) -> None:
        self._stems = frozenset(stems)
        self._by_name: dict[str, list[str]] = collections.defaultdict(list)
        for stem in stems:
            self._by_name[stem.rpartition('/')[2]].append(stem)

    def find(self, line: str) -> str | None:
        """Returns the stem of the image in a line of a list; None if there is no such image, or several."""
        for name in split_lists.names_in(line):
            if name in self._stems:
                return name
        for name in split_lists.names_in(line):
            if '/' not in name and len(same := self._by_name.get(name, [])) == 1:
                return same[0]
        return None


def _read_list(path: pathlib.Path, search: _Search) -> list[str]:
    """Returns the images of a list, each once."""
    lines = split_lists.read(path)
    found = [search.find(line) for line in lines]
    lost = [line for line, stem in zip(lines, found, strict=True) if stem is None]
    if lost:
        raise DataError(
            f"{len(lost)} of {len(lines)} names in the list '{path}' are not those of an image with a mask: "
            f'{file_pairs.named(lost)}. Remove the names of images without a mask. If a name occurs in several '
            'folders, write the folder, too.'
        )
    once = list(dict.fromkeys(stem for stem in found if stem is not None))
    if len(once) < len(lines):
        logging.warning(
            "The list '%s' names %d images more than once; each is used once.", path, len(lines) - len(once)
        )
    return once


def _warn_of_shared(splits: Mapping[str, Sequence[str]]) -> None:
    """Warns if train and val have images in common."""
    shared = sorted(set(splits.get('train', ())) & set(splits.get('val', ())))
    if shared:
        logging.warning(
            'The splits train and val have %d images in common (%s): the metrics of val will be too good.',
            len(shared),
            file_pairs.named(shared),
        )
