"""Splits of a folder of images: by lists, by folders, or by a ratio that keeps groups together."""

from __future__ import annotations

import collections
import hashlib
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence, Set
from typing import NamedTuple

from absl import logging

from deeplab.datasets import color_tables, file_pairs, folders, mask_sources, pairs, plane_files, split_lists
from deeplab.errors import DataError
from deeplab.names import agreeing, counted, listed, shown
from deeplab.options import IMAGE_FORMATS, BuildFolderOptions
from deeplab.wording import option

DEFAULT_VAL_FRACTION = 0.1
# Names of the folders that are splits.
_FOLDERS = {
    'train': 'train',
    'training': 'train',
    'val': 'val',
    'valid': 'val',
    'validation': 'val',
    'dev': 'val',
    'eval': 'val',
    'evaluation': 'val',
    'test': 'test',
    'testing': 'test',
}
_YEAR = re.compile(r'[_-]?\d{4}$')
_LISTED_FORMATS = (*IMAGE_FORMATS, *file_pairs.RASTER_FORMATS)


class Remark(NamedTuple):
    """A remark about usable splits of a folder that may not be as the user expects.

    Attributes:
      kind: OTHER_TEXT: a text file beside the lists is not a list; LEFT_OUT: files without a partner are in no split;
        REPEATED: a list has names more than once; SHARED: images are in train and in val; UNLISTED: images are in no
        list; NO_VAL: the names of folders, or of a tool's splits, leave nothing for val; POOLED: they are not used,
        since some are no names of splits.
      what: the remark, as a sentence without a full stop.
      names: the files or names that it is about; none if the sentence has them.
    """

    kind: str
    what: str
    names: tuple[str, ...] = ()


OTHER_TEXT, LEFT_OUT, REPEATED, SHARED, UNLISTED = 'other_text', 'left_out', 'repeated', 'shared', 'unlisted'
NO_VAL, POOLED = 'no_val', 'pooled'
Listener = Callable[[Remark], None]


def log(remark: Remark) -> None:
    """Logs a remark as a warning, except for images that are in no list, because that is usual."""
    if remark.kind == UNLISTED:
        return
    logging.warning('%s%s.', remark.what, f': {file_pairs.named(remark.names)}' if remark.names else '')


def usual_split(name: str | None) -> str | None:
    """Returns the split that the name of a folder, or of a tool's split, stands for; None for other names.

    A year may follow, as in train2017.
    """
    return _FOLDERS.get(_YEAR.sub('', (name or '').lower()))


def items(
    options: BuildFolderOptions, table: color_tables.ColorTable | None, tell: Listener = log
) -> dict[str, list[pairs.SourceFiles]]:
    """Finds images and masks, and distributes them over splits.

    Args:
      options: the folders; and the lists, or the fraction and the groups of val.
      table: colors of the masks; None for masks of ids alone.
      tell: function that is called with each remark about files that are left out, and about the lists.

    Raises:
      DataError: see `file_pairs.find` and `split`; or a plane of an image is missing.
    """
    files = file_pairs.find(options)
    for stems, noun, other in ((files.without_mask, 'image', 'a mask'), (files.without_image, 'mask', 'an image')):
        if stems:
            tell(Remark(LEFT_OUT, f'Left out {counted(len(stems), noun)} without {other}', tuple(stems)))
    instances = plane_files.instances(options, files.files)
    further = plane_files.find(options, files.files)

    def source(stem: str) -> mask_sources.MaskSource | None:
        return table if instances is None else mask_sources.FileBeside(instances[stem], table)

    unmatched = [*files.without_mask, *files.without_image]
    splits = split(list(files.files), options, unmatched=unmatched, tell=tell)
    return {
        name: [
            pairs.SourceFiles(*files.files[stem], name=stem, source=source(stem), planes=further[stem])
            for stem in stems
        ]
        for name, stems in splits.items()
    }


def split(
    stems: Sequence[str],
    options: BuildFolderOptions,
    named: Mapping[str, str | None] | None = None,
    unmatched: Sequence[str] = (),
    tell: Listener = log,
) -> dict[str, list[str]]:
    """Distributes images over splits.

    Args:
      stems: relative paths of the images without extension, sorted.
      options: the lists, or the fraction and the groups of val.
      named: a tool's name of the split of each image, which counts before folders; None for none.
      unmatched: paths, without extension, of files without a partner, which lists may name: they are left out.
      tell: function that is called with each remark about the lists, or about names that give no splits, or no val.

    Returns:
      Stems by split: in the order of the lists, or else sorted.

    Raises:
      DataError: A list names an image that does not exist, the groups cannot be found, or a split would be empty.
    """
    if options.list_folder:
        return _by_lists(stems, options.list_folder, unmatched, tell)
    if options.folds is not None or (options.val_fraction is None and options.group_pattern is None):
        in_folders = {stem: stem.partition('/')[0] if '/' in stem else None for stem in stems}
        if splits := _by_names(stems, named or {}) or _by_names(stems, in_folders):
            if 'val' not in splits and options.folds is None:
                tell(without_val(splits))
            return splits
        require_splits_alone(in_folders, 'choose the images of each split by lists or by a fraction for val')
        for names in (named or {}, in_folders):
            _tell_of_pool(frozenset(names.values()), tell)
    return {'train': list(stems)} if options.folds is not None else by_ratio(stems, options)


def _by_names(stems: Sequence[str], names: Mapping[str, str | None]) -> dict[str, list[str]] | None:
    """Returns the splits if every image has the name of a split, and some are for training."""
    splits: dict[str, list[str]] = {}
    for stem in stems:
        name = usual_split(names.get(stem))
        if name is None:
            return None
        splits.setdefault(name, []).append(stem)
    return {name: splits[name] for name in ('train', 'val', 'test') if name in splits} if 'train' in splits else None


def without_val(splits: Mapping[str, Sequence[str]]) -> Remark:
    """Returns the remark that the names of folders, or of a tool's splits, leave nothing for val."""
    counts = ' and '.join(f'{counted(len(stems), "image")} into {name}' for name, stems in splits.items())
    fraction = option('BuildFolderOptions.val_fraction', DEFAULT_VAL_FRACTION)
    what = f'There is no split val: the folders, or the splits that are given, put {counts}'
    return Remark(NO_VAL, f'{what}. To draw val from all images instead, set {fraction}')


def _tell_of_pool(names: Set[str | None], tell: Listener) -> None:
    """Tells of names of splits that are not used, because other images have another name, or none."""
    given = sorted(name for name in names if name)
    others = [name for name in given if usual_split(name) is None]
    if len(others) == len(given):
        return
    reason = 'none is for training'
    if others:
        reason = f'{_quoted(others)} {agreeing(len(others), "are")} not among train, val and test'
    elif None in names:
        reason = 'some images have none'
    what = f'The names {_quoted(given)} are not used as splits, since {reason}: all images are one pool. To use them, '
    tell(Remark(POOLED, f'{what}rename or move the others, or write lists'))


def _quoted(names: Sequence[str]) -> str:
    return listed([f"'{shown(name)}'" for name in names])


def require_splits_alone(folders: Mapping[str, str | None], other_fix: str) -> None:
    """Raises `DataError` if there are folders of several splits, but some images are in none of them.

    Args:
      folders: the outermost folder of each image; None for none.
      other_fix: what to do instead of moving these images.
    """
    splits = sorted({folder for folder in folders.values() if folder and usual_split(folder)})
    found = set(map(usual_split, splits))
    others = sorted(stem for stem, folder in folders.items() if usual_split(folder) is None)
    if others and 'train' in found and len(found) > 1:
        raise DataError(
            f'There are folders of splits ({", ".join(splits)}), but {counted(len(others), "image")} '
            f'{agreeing(len(others), "are")} in none of them: {file_pairs.named(others)}. Move them into these folders '
            f'or elsewhere, or {other_fix}.'
        )


def by_ratio(
    stems: Sequence[str], options: BuildFolderOptions, given_groups: Mapping[str, Sequence[str]] | None = None
) -> dict[str, list[str]]:
    """Chooses whole groups for the split val, ordered by a digest of seed and group, as far as they fit its share.

    The order does not depend on the other groups, so that the choice changes little when images are added.

    Args:
      stems: relative paths of the images without extension, sorted.
      options: the fraction of val, the pattern of groups and the seed.
      given_groups: the images of each group; None for the groups of the pattern.

    Returns:
      Stems by split, sorted.

    Raises:
      DataError: The groups cannot be found, or a split would be empty.
    """
    fraction = DEFAULT_VAL_FRACTION if options.val_fraction is None else options.val_fraction
    if not fraction:
        return {'train': list(stems)}
    groups = given_groups or groups_of(stems, options.group_pattern)
    if len(groups) < 2:
        what, fix = 'group of images' if given_groups else 'image', 'Set'
        if options.group_pattern is not None:
            what = 'group of images'
            smaller = option('BuildFolderOptions.group_pattern', '^(.*)[0-9]{3}$')
            fix = f'Make smaller groups, such as parts of 1000 frames of a video with {smaller}, or set'
        raise DataError(
            f'There is one {what} only, which cannot be both in train and in val. {fix} '
            f'{option("BuildFolderOptions.val_fraction", 0)} for no split val.'
        )
    order = sorted(groups, key=lambda group: rank_of(group, options.seed))
    target, count, chosen = fraction * len(stems), 0, set()
    for group in order[:-1]:  # the last one is left for train
        if abs(count + len(groups[group]) - target) < abs(count - target):
            chosen.add(group)
            count += len(groups[group])
    chosen = chosen or {min(order, key=lambda group: len(groups[group]))}
    val = {stem for group in chosen for stem in groups[group]}
    return {'train': [stem for stem in stems if stem not in val], 'val': [stem for stem in stems if stem in val]}


def rank_of(group: str, seed: int) -> bytes:
    """Returns a digest that orders groups at random, each independently of the others."""
    text = f'{seed}:{group}'.encode('utf-8', 'surrogateescape')  # file names may be of another encoding
    return hashlib.sha256(text).digest()


def groups_of(stems: Sequence[str], pattern: str | None) -> dict[str, list[str]]:
    """Returns the images of each group.

    Args:
      stems: relative paths of the images without extension.
      pattern: regular expression that finds the group in a path; None for a group for each image.

    Raises:
      DataError: An image has no group.
    """
    groups: dict[str, list[str]] = collections.defaultdict(list)
    lost = []
    for stem in stems:
        match = None if pattern is None else re.search(pattern, stem)
        if pattern is not None and match is None:
            lost.append(stem)
            continue
        group = stem if match is None else match[1] if match.re.groups and match[1] is not None else match[0]
        groups[group].append(stem)
    if lost:
        raise DataError(
            f'{option("BuildFolderOptions.group_pattern", pattern)} finds no group in {len(lost)} of {len(stems)} '
            f'images: {file_pairs.named(lost)}. It is searched for in the path of an image, without extension.'
        )
    return groups


def _by_lists(stems: Sequence[str], folder: str, unmatched: Sequence[str], tell: Listener) -> dict[str, list[str]]:
    search, others = (split_lists.Search(each, _LISTED_FORMATS) for each in (stems, unmatched))
    splits = {path.stem: _read_list(path, search, others, tell) for path in lists_in(folder, search, tell)}
    shared = sorted(set(splits.get('train', ())) & set(splits.get('val', ())))
    if shared:
        what = f'The splits train and val have {counted(len(shared), "image")} in common, so that the metrics of val '
        tell(Remark(SHARED, f'{what}will be too good', tuple(shared)))
    if unlisted := sorted(set(stems).difference(*splits.values())):
        tell(
            Remark(
                UNLISTED,
                f'{counted(len(unlisted), "image")} {agreeing(len(unlisted), "are")} in no list',
                tuple(unlisted),
            )
        )
    return splits


def lists_in(folder: str, search: split_lists.Search, tell: Listener = log) -> list[pathlib.Path]:
    """Returns the lists of splits in a folder; all texts in it if none is such a list.

    Raises:
      DataError: There is no text.
    """
    paths = folders.of_extension(pathlib.Path(folder).iterdir(), 'txt')
    if not paths:
        raise DataError(
            f"There is no list *.txt in '{folder}'. Each split needs one, with one name per line. "
            f'{folders.summary(folder)}'
        )
    return lists_among(paths, search, tell) or paths


def lists_among(paths: Sequence[pathlib.Path], search: split_lists.Search, tell: Listener = log) -> list[pathlib.Path]:
    """Returns the lists of splits among texts: a list names an image, or has the name of a split.

    If there is one, a remark tells of each of the other texts, such as names of classes.
    """
    lists = [path for path in paths if usual_split(path.stem) is not None or search.is_list(path)]
    for path in paths:
        if lists and path not in lists:
            what = f"'{path}' is left out: none of its lines is the name of an image with a mask"
            tell(Remark(OTHER_TEXT, what))
    return lists


def _read_list(
    path: pathlib.Path, search: split_lists.Search, unmatched: split_lists.Search, tell: Listener
) -> list[str]:
    """Returns the images with masks in a list, each once."""
    lines = split_lists.read(path)
    stems = {line: search.find(line) for line in lines}
    unknown = [line for line, stem in stems.items() if stem is None]
    left_out = [line for line in unknown if unmatched.find(line) is not None]
    lost = [line for line in unknown if unmatched.find(line) is None]
    once = list(dict.fromkeys(stem for stem in stems.values() if stem is not None))
    if lost or not once:
        raise DataError(
            f"{len(lost or left_out)} of {len(lines)} names in the list '{path}' match no image with a "
            f'mask: {file_pairs.named(lost or left_out)}. Correct or remove them. If a name occurs in several folders, '
            'write the folder, too.'
        )
    if left_out:
        what = f"Left out of the list '{path}': {counted(len(left_out), 'file')} without a partner"
        tell(Remark(LEFT_OUT, what, tuple(left_out)))
    counts = collections.Counter(stem for line in lines if (stem := stems[line]) is not None)
    if repeated := sum(counts.values()) - len(once):
        what = f"The list '{path}' repeats {counted(repeated, 'name')}; each image is used once"
        tell(Remark(REPEATED, what, tuple(stem for stem, count in counts.items() if count > 1)))
    return once
