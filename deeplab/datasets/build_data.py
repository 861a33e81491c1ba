"""Shard writer shared by all dataset builders: images and masks to TFRecord files, in parallel.

Files are checked, and copied byte for byte unless `pairs` has to change them. The order of the records depends only on
the order of the items, so the shards are the same for any number of workers. A split is written completely or not at
all.
"""

from __future__ import annotations

if not __package__:  # scripts for the original import it by this name alone, with its folder on the path
    import os
    import sys

    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))))

import contextlib
import dataclasses
import errno
import glob
import hashlib
import itertools
import os
import pathlib
import shutil
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import IO, Any, TypeVar

import numpy as np
import tqdm
from absl import logging

from deeplab import names
from deeplab.datasets import build_journal, description_file, image_reader, index_file, label_checks, pairs, shard_names
from deeplab.datasets.build_journal import Shard
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.datasets.mask_ids import MaskIds
from deeplab.datasets.pairs import BuiltRecord, SourceFiles
from deeplab.datasets.record_index import RecordIndex
from deeplab.datasets.tfrecord import framed
from deeplab.datasets.totals import Totals
from deeplab.errors import DataError
from deeplab.files import folder_lock, part_folders, writing
from deeplab.options import BuilderOptions, parts
from deeplab.system import overlap, processors
from deeplab.wording import option

Given = TypeVar('Given')
Made = TypeVar('Made')

# Names that scripts import from the original's module.
ImageReader = image_reader.ImageReader
image_seg_to_tfexample = image_reader.image_seg_to_tfexample
int64_list_feature = image_reader.int64_list_feature
bytes_list_feature = image_reader.bytes_list_feature
_int64_list_feature = int64_list_feature  # their names there
_bytes_list_feature = bytes_list_feature

_AHEAD = 4  # records per worker that may wait to be written; limits the memory
_SHOWN = 10  # number of files that a message names
_MIXED = ('jpg', 'jpeg', 'png')  # formats of images that may lie in one folder
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclasses.dataclass(frozen=True)
class Summary:
    """Summary of a split that was written.

    Attributes:
      split: name of the split.
      images: number of records.
      labeled: whether the records have masks.
      shards: paths of the shards.
      seconds: duration.
      counts: [256] int64, pixels of each id in all masks.
      digest: digest of the records, see `RecordIndex.digest`.
    """

    split: str
    images: int
    labeled: bool
    shards: tuple[str, ...]
    seconds: float
    counts: np.ndarray
    digest: str


def write_split(
    items: Sequence[SourceFiles],
    split: str,
    output_dir: str,
    num_shards: int,
    num_workers: int | None = None,
    num_classes: int | None = None,
    ignore_label: int = 255,
) -> Summary:
    """Writes the shards `SPLIT-00000-of-0000N.tfrecord` and so on, and their index.

    Each shard except the last ones has ceil(items / num_shards) records, in the order of the items. Shards that exist
    are kept if their source files and the settings have not changed, and so are those that a killed build finished.

    Args:
      items: the records, at least one.
      split: name of the split.
      output_dir: folder of the shards, made where it is missing.
      num_shards: number of shards.
      num_workers: number of threads that read and check files; None for one per core.
      num_classes: masks may hold 0 to num_classes - 1 and ignore_label; None to allow every id.
      ignore_label: id of the pixels that are excluded from loss and metrics.

    Returns:
      What was written.

    Raises:
      DataError: A file is missing, truncated or of a wrong kind; image and mask differ in size; a mask has several
        channels or ids outside the classes. The message names the file. Finished shards of the split are kept for the
        next build, under temporary names.
    """
    if not items:
        raise DataError(f"Split '{split}' has no image: there is nothing to write.")
    start = time.monotonic()
    _require_no_other_set(pathlib.Path(output_dir), split, num_shards)
    planned = _planned(items, split, output_dir, num_shards, (num_classes, ignore_label))
    total = _write_shards(planned, split, output_dir, num_workers, _allowed(num_classes, ignore_label))
    paths = tuple(shard.path for shard in planned)
    index = finish_split(output_dir, split, paths, total, (num_classes, ignore_label))
    is_labeled = items[0].label is not None
    seconds = time.monotonic() - start
    return Summary(split, len(items), is_labeled, paths, seconds, total.counts, index.digest())


def _write_shards(
    planned: Sequence[Shard], split: str, output_dir: str, num_workers: int | None, allowed: MaskIds | None
) -> Totals:
    """Writes some shards of a split, except those that are finished; returns their totals."""
    shards = build_journal.find(output_dir, split, planned)
    total = Totals()
    written = _atomic(output_dir, split, shards)
    with _made_folder(pathlib.Path(output_dir)), written as (journal, temporary), contextlib.ExitStack() as stack:
        wanted = [item for shard in shards if shard.file is None for item in shard.items]
        read = in_order(lambda item: pairs.read(item, allowed), wanted, num_workers)
        read = stack.enter_context(contextlib.closing(read))
        progress = tqdm.tqdm(read, split, len(wanted), unit='image', leave=False, disable=None)
        progress = stack.enter_context(contextlib.closing(progress))
        records = iter(progress)
        for shard in shards:
            path = temporary.get(shard.path, shard.path)
            totals = _write_shard(shard, path, records)
            build_journal.add(journal, shard, path, totals)
            total.merge(totals)
    return total


def finish_split(
    output_dir: str, split: str, shards: Sequence[str], total: Totals, classes: tuple[int | None, int]
) -> RecordIndex:
    """Writes the index of a split, and logs what its masks show.

    Args:
      output_dir: folder of the shards.
      split: name of the split.
      shards: paths of all shards.
      total: totals over all records.
      classes: number of classes, or None, and ignore label.
    """
    index = RecordIndex(shards)
    total.log_turns(split, len(index))
    for line in label_checks.built(total.counts, *classes, split):
        logging.warning('%s', line)
    index_file.write(output_dir, split, index)
    return index


def write_splits(
    splits: Mapping[str, Sequence[SourceFiles]],
    options: BuilderOptions,
    usual_num_shards: int,
    candidates: Sequence[DatasetDescriptor] = (),
) -> dict[str, Any]:
    """Writes all splits of a data set and their description; locks the output folder against other builders.

    Args:
      splits: the records of each split.
      options: options of the builder.
      usual_num_shards: number of shards of each split if the options do not set it; fewer if there are fewer images.
      candidates: data sets that the records may be of; the description has the classes of the first that the masks fit.

    Returns:
      output_dir, and by split the number of images and shards, whether there are masks, and the seconds taken;
      description and num_classes, if the classes are known.

    Raises:
      DataError: see `write_split`.
    """
    if options.part.chosen is not None:
        return _write_part(splits, options, usual_num_shards, candidates)
    with folder_lock.held(options.output_dir, 'builder', 'BuilderOptions.output_dir'):
        summaries = [
            write_split(
                items,
                split,
                options.output_dir,
                _number_of_shards(options, split, len(items), usual_num_shards),
                options.num_workers,
                options.num_classes,
                options.ignore_label,
            )
            for split, items in splits.items()
        ]
        return describe(options, candidates, summaries)


def describe(
    options: BuilderOptions, candidates: Sequence[DatasetDescriptor], summaries: Sequence[Summary]
) -> dict[str, Any]:
    """Writes the description of splits that have been written; see `write_splits`, which returns the same."""
    described = _described(options, candidates, summaries)
    facts = {s.split: description_file.SplitFacts(s.images, len(s.shards), s.digest) for s in summaries}
    path = description_file.write(options.output_dir, described, facts)
    if earlier := sorted(description_file.split_facts(path).keys() - facts.keys()):
        logging.warning(
            "'%s' also has records of an earlier build: %s. Remove these files unless they are part of the data set: "
            'the splits of two builds may have images in common.',
            options.output_dir,
            ', '.join(f'split {split}' for split in earlier),
        )
    classes = {} if described is None else {'description': path, 'num_classes': described.num_classes}
    return {'output_dir': options.output_dir, 'splits': _facts(summaries), **classes}


def _facts(summaries: Sequence[Summary]) -> dict[str, dict[str, Any]]:
    return {
        summary.split: {
            'images': summary.images,
            'shards': len(summary.shards),
            'labeled': summary.labeled,
            'seconds': round(summary.seconds, 3),
        }
        for summary in summaries
    }


def own_items(
    splits: Mapping[str, Sequence[SourceFiles]], options: BuilderOptions, usual_num_shards: int
) -> Mapping[str, Sequence[SourceFiles]]:
    """Returns the records that the part of the options writes; all without one.

    Raises:
      DataError: there are more parts than images, or than shards.
    """
    part = options.part.chosen
    if part is None:
        return splits
    own = {}
    for split, total in _totals_for_part(splits, options, usual_num_shards).items():
        size, numbers = -(-len(splits[split]) // total), range(total)[part.places(total)]
        own[split] = splits[split][numbers.start * size : numbers.stop * size]
    return own


def _totals_for_part(
    splits: Mapping[str, Sequence[SourceFiles]], options: BuilderOptions, usual_num_shards: int
) -> dict[str, int]:
    """Returns the number of shards of each split; see `own_items`."""
    part = options.part.chosen
    assert part is not None
    if empty := [name for name, items in splits.items() if not items]:
        raise DataError(f"Split '{empty[0]}' has no image: there is nothing to write.")
    part.of(max(map(len, splits.values())))
    totals = {name: _number_of_shards(options, name, len(items), usual_num_shards) for name, items in splits.items()}
    if max(totals.values()) < part.count:
        raise DataError(
            f'{option("PartOptions.part", str(part))}: each part writes whole shards, but no split has more than '
            f'{max(totals.values())}. Set {option("BuilderOptions.num_shards", part.count)} or more.'
        )
    return totals


def _write_part(
    splits: Mapping[str, Sequence[SourceFiles]],
    options: BuilderOptions,
    usual_num_shards: int,
    candidates: Sequence[DatasetDescriptor],
) -> dict[str, Any]:
    """Writes the shards of a part, and notes what `merged_records` needs."""
    part = options.part.chosen
    assert part is not None
    totals = _totals_for_part(splits, options, usual_num_shards)
    folder = part_folders.begin(options.output_dir, part, 'builder')
    facts: dict[str, Any] = {}
    summaries = []
    with folder_lock.held(folder, 'builder', 'BuilderOptions.output_dir'):
        for split, items in splits.items():
            start, total, classes = time.monotonic(), totals[split], (options.num_classes, options.ignore_label)
            _require_no_other_set(pathlib.Path(options.output_dir), split, total)
            planned = _planned(items, split, folder, total, classes, part.places(total))
            counts = _write_shards(planned, split, folder, options.num_workers, _allowed(*classes)).counts
            is_labeled, paths = items[0].label is not None, tuple(shard.path for shard in planned)
            images, seconds = sum(len(shard.items) for shard in planned), time.monotonic() - start
            summaries.append(Summary(split, images, is_labeled, paths, seconds, counts, ''))
            names = hashlib.sha256('\n'.join(item.name for item in items).encode('utf-8', 'surrogateescape'))
            facts[split] = {'images': len(items), 'names': names.hexdigest(), 'labeled': is_labeled, 'shards': total}
        settings = parts.settings_of(options) | {'splits': facts}
        described = [description_file.content_of(candidate) for candidate in candidates]
        note = part_folders.finish(folder, part, 'builder', settings, {'candidates': described})
    return {'output_dir': folder, 'splits': _facts(summaries), 'note': note}


def _described(
    options: BuilderOptions, candidates: Sequence[DatasetDescriptor], summaries: Sequence[Summary]
) -> DatasetDescriptor | None:
    """Returns the description of the records; None if their classes are not known."""
    usual = BuilderOptions().ignore_label
    counts = sum((summary.counts for summary in summaries), np.zeros(256, np.int64))
    for dataset in candidates:
        fits = not len(MaskIds(dataset.num_classes, dataset.ignore_label).outside(counts))
        has_classes = options.num_classes in (None, dataset.num_classes)
        if fits and has_classes and options.ignore_label in (usual, dataset.ignore_label):
            return dataset
    if options.num_classes is None:
        return None
    name = os.path.basename(os.path.abspath(options.output_dir)) or 'dataset'
    names = [f'class_{number}' for number in range(options.num_classes)]
    return DatasetDescriptor(name, options.num_classes, options.ignore_label, class_names=names)


def write_known(
    splits: Mapping[str, Sequence[SourceFiles]],
    options: BuilderOptions,
    dataset: DatasetDescriptor,
    usual_num_shards: int,
) -> dict[str, Any]:
    """Writes all splits of a data set whose classes are known, and its description beside them.

    Number of classes and ignore label are taken from the description; see `write_splits` for all else.
    """
    exact = dataclasses.replace(options, num_classes=dataset.num_classes, ignore_label=dataset.ignore_label)
    return write_splits(splits, exact, usual_num_shards, [dataset])


def warn_of_ignored_class(num_classes: int | None, ignore_label: int) -> None:
    """Warns if the ignore label is one of the classes; see `label_checks.ignored_class` for descriptions."""
    if num_classes is not None and ignore_label < num_classes:
        logging.warning(
            '%s is one of the %d classes (0 to %d): its pixels will be excluded from loss and metrics, and the class '
            'is never learned. Set another %s%s unless this is intended.',
            option('BuilderOptions.ignore_label', ignore_label),
            num_classes,
            num_classes - 1,
            option('BuilderOptions.ignore_label'),
            label_checks.example_of_another(num_classes),
        )


def in_order(
    work: Callable[[Given], Made], given: Sequence[Given], num_workers: int | None
) -> Generator[Made, None, None]:
    """Maps a function in order, in `num_workers` threads, one per core for None; a few records ahead of the caller."""
    workers = num_workers or processors.available_cores()
    return overlap.map_in_order(work, given, workers, workers * _AHEAD)


def other_formats(image_format: str, image_folder: str, mask_folder: str) -> list[str]:
    """Returns further image formats that may lie in the same folder."""
    is_shared = os.path.realpath(image_folder) == os.path.realpath(mask_folder)  # a PNG there may be a mask
    return [other for other in _MIXED if other != image_format and not (is_shared and other == 'png')]


def hint_format(folder: str, extension: str, stem: str = '*') -> str:
    """Returns a hint to set the image format if a folder contains images of another extension, else ''."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    for other in ('jpg', 'jpeg', 'png', 'npy'):
        fitting = (name for name in names if name.lower().endswith(f'.{other}') and other != extension)
        if any(stem in ('*', os.path.splitext(name)[0]) for name in fitting):
            return f' There are .{other} files; did you mean {option("BuilderOptions.image_format", other)}?'
    return ''


def require_files(split: str, missing: Sequence[str], total: int, pattern: str, hint: str = '') -> None:
    """Raises `DataError` when files of a split are missing.

    Args:
      split: name of the split.
      missing: paths of the missing files.
      total: number of files that the split should have.
      pattern: pattern of the paths that were searched.
      hint: a fix, beginning with a space.
    """
    if missing:
        raise DataError(
            f"Split '{split}': {len(missing)} of {total} files are missing, searched for as {pattern}: "
            f'{names.listed([names.shown(os.path.basename(path)) for path in missing], _SHOWN)}.{hint}'
        )


def _totals(folder: pathlib.Path, split: str) -> dict[str, str]:
    """Returns the totals in the names of shards of a split that are there, such as '00004', each with such a name."""
    paths = sorted(folder.glob(f'{glob.escape(split)}-*-of-*.tfrecord'), reverse=True)
    matches = [match for path in paths if (match := shard_names.SHARD_NAME.fullmatch(path.name))]
    return {match['total']: match.string for match in matches if match['split'] == split}


def _number_of_shards(options: BuilderOptions, split: str, images: int, usual: int) -> int:
    """Returns the number of shards of the options, or the usual number, but not more than images.

    An existing set of shards keeps its number up to the usual one, so that the shards of a split are replaced if
    images were added to it.
    """
    if options.num_shards is not None:
        return options.num_shards
    totals = map(int, _totals(pathlib.Path(options.output_dir), split))
    there = [total for total in totals if total <= usual]
    return there[0] if there else min(usual, images)


def _require_no_other_set(folder: pathlib.Path, split: str, num_shards: int) -> None:
    """Raises `DataError` if old shards of the split would remain beside the new ones."""
    for total, name in _totals(folder, split).items():
        if total != f'{num_shards:05d}':
            raise DataError(
                f"'{folder}' contains shards of an older '{split}' split, such as {name}, which would be read "
                f'together with the {num_shards} new ones. Remove them, or set another '
                f'{option("BuilderOptions.output_dir")}.'
            )


def _allowed(num_classes: int | None, ignore_label: int) -> MaskIds | None:
    return None if num_classes is None else MaskIds(num_classes, ignore_label)


def _planned(
    items: Sequence[SourceFiles],
    split: str,
    folder: str,
    total: int,
    settings: Sequence[Any],
    chosen: slice = slice(None),
) -> list[Shard]:
    """Returns the chosen shards of a split: their records, and the digest of the source files and the settings."""
    size = -(-len(items) // total)
    places = list(enumerate(shard_names.of(split, total)))[chosen]
    parts = [(os.path.join(folder, name), items[number * size : (number + 1) * size]) for number, name in places]
    return [Shard(path, part, build_journal.inputs_of(part, settings)) for path, part in parts]


def _write_shard(shard: Shard, path: str, records: Iterator[BuiltRecord]) -> Totals:
    """Writes a shard of the first of `records` to a path, unless it is finished; returns its totals."""
    if shard.totals is not None:
        return shard.totals
    totals = Totals()
    with open(path, 'wb') as file:
        for pair in itertools.islice(records, len(shard.items)):
            file.write(framed(pair.record))
            totals.add(pair)
    return totals


@contextlib.contextmanager
def _made_folder(folder: pathlib.Path) -> Iterator[None]:
    """Creates the folder; removes it after an error if it is empty."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fix = f'Set another {option("BuilderOptions.output_dir")}.'
        raise DataError(f"Cannot create the folder '{folder}': {error.strerror}. {fix}") from None
    try:
        yield
    except BaseException:
        for path in made:
            with contextlib.suppress(OSError):
                path.rmdir()
        raise


@contextlib.contextmanager
def _atomic(folder: str, split: str, shards: Sequence[Shard]) -> Iterator[tuple[IO[str], Mapping[str, str]]]:
    """Yields the journal, and the temporary path of each shard to write.

    The files are renamed at the end, or removed if they cannot be written. After an interruption, or an error in the
    source files, they stay, as after the end of a killed process, if a shard is finished: the next build takes it over.
    """
    journal = build_journal.path_of(folder, split)
    written = [shard.path for shard in shards if shard.file != shard.path]
    is_kept = False
    try:
        with writing.atomic_paths([*written, journal], lambda: is_kept) as temporaries:
            names = dict(zip(written, temporaries, strict=False))
            for shard in shards:
                if shard.path in names and shard.file is not None:
                    os.replace(shard.file, names[shard.path])
            with open(temporaries[-1], 'w', encoding='utf-8') as stream:
                try:
                    yield stream, names
                except (KeyboardInterrupt, DataError):
                    is_kept = stream.tell() > 0
                    raise
    except OSError as error:
        text, fix = f"Cannot write '{error.filename or shards[0].path}': {error.strerror}.", 'Set'
        if error.errno in _FULL:
            items = [item for shard in shards if shard.file is None for item in shard.items]
            text, fix = f'{text} {_space(folder, split, items)}', 'Free space, or set'
        raise DataError(f'{text} {fix} another {option("BuilderOptions.output_dir")}.') from None
    finally:
        if not is_kept:
            build_journal.remove_leftovers(folder, split)


def _space(folder: str, split: str, items: Sequence[SourceFiles]) -> str:
    """Returns a sentence: how much space the records of files need, and how much is free."""
    paths = [item.image for item in items] + [item.label for item in items if item.label and item.source is None]
    needed = sum(os.path.getsize(path) for path in paths if os.path.isfile(path))
    free = shutil.disk_usage(folder).free
    return (
        f"Split '{split}' needs about {names.byte_size(needed)}; {names.byte_size(free)} are free, now that "
        'unfinished files are removed.'
    )
