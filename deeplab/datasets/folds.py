"""Folds for cross-validation: parts of a data set, each a split of its own, over which groups are distributed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from deeplab.datasets import folder_splits, pairs, segmentation_dataset
from deeplab.errors import DataError
from deeplab.names import agreeing, counted
from deeplab.options import BuildFolderOptions, split_of_fold
from deeplab.wording import option

_TEST = 'test'


def distribute(
    splits: Mapping[str, Sequence[pairs.SourceFiles]],
    counts: Mapping[str, np.ndarray],
    options: BuildFolderOptions,
) -> dict[str, list[pairs.SourceFiles]]:
    """Distributes the images of all splits but test over folds; all images of a group are in one fold.

    Groups are placed one after the other, those with the largest share of a class first: each into the fold that has
    least of what the group has, weighted by how much of it the group has.

    Args:
      splits: the records of each split.
      counts: [256], pixels of each id in the masks of an image, by the path of the image.
      options: number of folds, pattern of groups, seed, ignore label.

    Returns:
      The records of each fold, and of the split test if there is one.

    Raises:
      DataError: There are fewer groups than folds, or the groups cannot be found.
    """
    number = options.folds
    assert number is not None
    pooled = {item.name: item for name, items in splits.items() if name != _TEST for item in items}
    groups = _groups(pooled.values(), options)
    if len(groups) < number:
        kind, fix = 'image', f'{option("BuildFolderOptions.folds")} to at most this number'
        if options.group_pattern is not None:
            kind, fix = 'group', f'{fix}, or a {option("BuildFolderOptions.group_pattern")} that makes smaller groups'
        raise DataError(
            f'{option("BuildFolderOptions.folds", number)} needs at least as many {kind}s, but there '
            f'{agreeing(len(groups), "are")} {counted(len(groups), kind)}. Set {fix}.'
        )
    _require_no_others(options.output_dir, number)
    fold_of = _balanced(_shares(groups, counts, options.ignore_label), number, options.seed)
    folds: dict[str, list[pairs.SourceFiles]] = {split_of_fold(fold): [] for fold in range(1, number + 1)}
    for name, items in groups.items():
        folds[split_of_fold(fold_of[name] + 1)] += items
    folds = {name: sorted(items, key=lambda item: item.name) for name, items in folds.items()}
    return folds | ({_TEST: list(splits[_TEST])} if _TEST in splits else {})


def _require_no_others(directory: str, number: int) -> None:
    """Raises `DataError` if a folder has records of further folds, which hold the same images."""
    with contextlib.suppress(OSError):
        there = (segmentation_dataset.FOLD.fullmatch(split) for split in segmentation_dataset.split_names(directory))
        if others := [match[0] for match in there if match is not None and int(match[1]) > number]:
            raise DataError(
                f"'{directory}' has the split {others[0]} of an earlier build with more folds, whose images would be "
                f'used twice. Remove its files, or set another {option("BuilderOptions.output_dir")}.'
            )


def _groups(items: Iterable[pairs.SourceFiles], options: BuildFolderOptions) -> dict[str, list[pairs.SourceFiles]]:
    """Returns the records of each group; those of one image are always together."""
    stems: dict[str, list[pairs.SourceFiles]] = {}
    for item in items:  # the names of tiles end with their place
        stem = item.name if options.tile_size is None else item.name.rsplit('_', 2)[0]
        stems.setdefault(stem, []).append(item)
    groups = folder_splits.groups_of(sorted(stems), options.group_pattern)
    return {group: [item for stem in members for item in stems[stem]] for group, members in groups.items()}


def _shares(
    groups: Mapping[str, Sequence[pairs.SourceFiles]], counts: Mapping[str, np.ndarray], ignore_label: int
) -> dict[str, np.ndarray]:
    """Returns the share of each group in the images and in the pixels of each class, [257]."""
    images = sum(map(len, groups.values()))
    numbers = {}
    for group, items in groups.items():
        pixels = sum((counts[item.name] for item in items if item.name in counts), np.zeros(256))
        pixels[ignore_label] = 0
        numbers[group] = np.append(pixels, len(items)).astype(np.float64)
    total = np.maximum(np.sum(list(numbers.values()), axis=0), 1)
    total[-1] = images
    return {group: each / total for group, each in numbers.items()}


def _balanced(shares: Mapping[str, np.ndarray], number: int, seed: int) -> dict[str, int]:
    """Returns the fold of each group, from 0; none is empty if there are enough groups."""
    order = sorted(shares, key=lambda group: (-shares[group].max(), folder_splits.rank_of(group, seed)))
    totals = np.zeros((number, 257))
    fold_of = {}
    for group in order:
        fold = int(np.argmin(totals @ shares[group] + 1e-9 * totals[:, -1]))  # equal ones: the one with fewer images
        fold_of[group] = fold
        totals[fold] += shares[group]
    return fold_of
