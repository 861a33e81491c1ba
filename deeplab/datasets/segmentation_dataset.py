"""Splits of data sets: the descriptor, and the TFRecord shards of a split or its images and masks."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import pathlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

from absl import logging

from deeplab import wording
from deeplab.datasets import (
    color_tables,
    description_file,
    folder_splits,
    folders,
    index_file,
    pair_records,
    pairs,
    raster_tiles,
    shard_names,
)
from deeplab.datasets import descriptor as descriptor_lib
from deeplab.datasets.record_index import Columns, RecordIndex, Records
from deeplab.datasets.shard_names import UNFINISHED
from deeplab.errors import DataError, OptionError
from deeplab.files import documents, part_folders, storage
from deeplab.names import listed
from deeplab.options import (
    ALL_FOLDS,
    BuildFolderOptions,
    DatasetOptions,
    RasterOptions,
    split_of_fold,
    split_without_fold,
)
from deeplab.wording import option

# Keys of a description with other names than their fields in the options of build_folder_data, and these fields.
_FIELDS = {'images': 'image_folder', 'masks': 'mask_folder', 'instances': 'instance_folder', 'lists': 'list_folder'}
_KEYS = {f'BuildFolderOptions.{_FIELDS.get(key, key)}': key for key in descriptor_lib.FOLDER_KEYS}  # for messages
_KEYS |= {f'RasterOptions.{key}': key for key in descriptor_lib.OF_RASTERS}
_PATHS = ('images', 'masks', 'instances', 'lists', 'colors')
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    'val_fraction': ((int, float), 'a number'),
    'seed': ((int,), 'a whole number'),
    'allow_unmatched': ((bool,), 'true or false'),
    'tile_size': ((list,), 'a list of height and width'),
    'tile_overlap': ((int,), 'a whole number'),
    'bands': ((list,), 'a list of whole numbers'),
    'value_range': ((list,), 'a list of two numbers'),
}

FOLDS = re.compile(f'{ALL_FOLDS}|' + split_without_fold(0).replace('0', r'(\d+)'))
FOLD = re.compile(split_of_fold(0).replace('0', r'(\d+)'))
Signature = tuple[tuple[str, int, int], ...]


@dataclasses.dataclass(frozen=True)
class SegmentationDataset:
    """A split whose shards, or images and masks, exist.

    Attributes:
      descriptor: description of the data set.
      split: name of the split.
      directory: folder of the shards.
      shards: paths of the shards, sorted by name.
      items: the images and masks of a split without shards, in order.
      skip_corrupt_records: whether records that cannot be read are skipped, and the rest of a damaged shard.
    """

    descriptor: descriptor_lib.DatasetDescriptor
    split: str
    directory: str
    shards: tuple[str, ...]
    items: tuple[pairs.SourceFiles, ...] = ()
    skip_corrupt_records: bool = False

    @property
    def samples(self) -> str:
        """What its samples are, for messages: records or images of a split, or the images without masks in a folder."""
        if self.items and all(item.label is None for item in self.items):
            return f"images in '{self.directory}'"
        return f"{'images' if self.items else 'records'} of split '{self.split}'"

    def open_records(self) -> Records:
        """Opens the records of the split, by the index beside the shards as far as it is valid.

        Raises:
          DataError: A shard cannot be read, ends inside a record or has a damaged header, unless these are skipped.
        """
        if self.items:
            return pair_records.PairRecords(self.items)
        columns: dict[str, Columns] = {}
        shards: dict[str, list[str]] = {}  # by the split that has them
        for shard in self.shards:
            own = shard_names.split_of(os.path.basename(shard)) or ''
            shards.setdefault(own if FOLD.fullmatch(own) else self.split, []).append(shard)
        for name, paths in shards.items():
            columns |= index_file.load(self.directory, name, paths)
        index = RecordIndex(self.shards, self.skip_corrupt_records, columns, self.descriptor.label_divisor)
        if len(columns) < len(self.shards) and len(index) >= index_file.WORTH_AN_INDEX:
            logging.info(
                "An index would open split '%s' faster: deeplab datasets %s --index", self.split, self.directory
            )
        return index

    def signatures(self) -> list[Signature]:
        """Returns (path, size, time of modification) of the files of each part: a shard, or some images and masks.

        Records of parts with equal signatures are equal.
        """
        if not self.items:
            return list(storage.parallel_map(lambda shard: _signature([shard]), self.shards))
        starts = range(0, len(self.items), pair_records.GROUP)
        return [
            _signature([path for item in group for path in (item.image, item.label) if path is not None])
            for group in (self.items[start : start + pair_records.GROUP] for start in starts)
        ]

    def warn_of_changed_records(self, records: Records) -> None:
        """Warns if the description beside the records was written for others."""
        path = None if self.items else description_file.beside(self.directory)
        if path is None or not isinstance(records, RecordIndex):
            return
        digest = description_file.split_facts(path).get(self.split, description_file.SplitFacts()).digest
        if digest is not None and digest != records.digest():
            logging.warning(
                "The records of split '%s' have changed since '%s' was written. If that is intended, write their "
                'digest anew: deeplab datasets %s --index', self.split, path, self.directory,
            )  # fmt: skip


def _signature(paths: Iterable[str]) -> Signature:
    """Returns the signature of files; a missing file has the size -1."""
    signature = []
    for path in paths:
        try:
            stat = storage.stat(path)
        except OSError:
            stat = storage.Stat(-1, 0)
        signature.append((storage.absolute(path), stat.size, stat.modified))
    return tuple(signature)


class DataSource:
    """A data set in a folder. Its description is loaded, and its images and masks are listed, at most once.

    Attributes:
      descriptor: description of the data set.
    """

    def __init__(self, options: DatasetOptions) -> None:
        """Loads the description, unless the options have it.

        Raises:
          OptionError: The data set is unknown.
        """
        self._options = options
        self.descriptor = cast(
            descriptor_lib.DatasetDescriptor, options.description or descriptor_lib.load(options.name)
        )

    @functools.cached_property
    def _folders(self) -> tuple[FolderSource, dict[str, list[pairs.SourceFiles]]] | None:
        """The folders of images and masks, and the files of each split in them; None for records."""
        source = find_folders(self._options.name, self._options.directory)
        return None if source is None else (source, folder_items(source, self.descriptor))

    def split(self, name: str | None = None) -> SegmentationDataset:
        """Finds the shards of a split, or its images and masks if a description names their folders.

        Args:
          name: name of the split; None for the split of the options. Its shards must exist; the descriptor need not
            list it.

        Raises:
          DataError: The folder is missing or empty, it has no shard of the split, or the shards are not complete; or a
            folder that the description names has no such split, or a file without a partner.
        """
        split = self._options.split if name is None else name
        directory, skips = str(self._options.directory), self._options.skip_corrupt_records
        if self._folders is None:
            folder = description_file.folder_of(directory)
            shards = find_shards(split, folder, self.descriptor)
            return SegmentationDataset(self.descriptor, split, folder, shards, skip_corrupt_records=skips)
        source, splits = self._folders
        if split not in splits:
            raise DataError(
                f"There is no split '{split}' in '{source.options.image_folder}', which '{source.description}' names. "
                f'Splits there: {", ".join(splits)}.'
            )
        return SegmentationDataset(self.descriptor, split, directory, (), tuple(splits[split]), skips)


def get_dataset(name: str, split: str, directory: str) -> SegmentationDataset:
    """Finds the shards of a split, or the images and masks if a description names their folders.

    Args:
      name: data set, as for `descriptor.load`.
      split: name of the split. It need not be listed in the descriptor, but its shards must exist.
      directory: folder of the shards, `SPLIT-*`, or of the description; the path of the description is taken, too.

    Raises:
      OptionError: The data set is unknown.
      DataError: There is no such split, see `DataSource.split`.
    """
    return DataSource(DatasetOptions(split, directory, name)).split()


def find_shards(split: str, folder: str, dataset: descriptor_lib.DatasetDescriptor | None = None) -> tuple[str, ...]:
    """Returns the paths of the shards of a split, sorted by name.

    Args:
      split: name of the split, or of all folds (`ALL_FOLDS`), or of all but one (`split_without_fold`).
      folder: folder of the shards.
      dataset: the data set, for messages; None if it does not matter.

    Raises:
      DataError: The folder is missing or empty, it has no shard of the split, or the shards are not complete.
    """
    try:
        if not storage.is_folder(folder):
            what = 'is not a folder' if storage.is_file(folder) else 'does not exist'
            fix = f'Set {option("DatasetOptions.directory")} to the folder of the records.'
            raise DataError(f"The data set's folder '{folder}' {what}. {fix}")
        files = shard_names.candidates(folder)
    except OSError as error:
        raise DataError(f"The data set's folder '{folder}' cannot be read: {error.strerror}.") from None
    shards = [file for file in files if shard_names.is_of_split(file, split)]
    shards = shards or [file for file in files if shard_names.split_of(file) == split]
    if not shards and (joined := FOLDS.fullmatch(split)):
        own = _folds(joined[1], _splits(files), folder)
        return tuple(path for name in own for path in find_shards(name, folder, dataset))
    if not shards and (missing := FOLD.fullmatch(split)):
        _folds(missing[1], _splits(files), folder)
    if not shards:
        raise DataError(_no_shard_message(dataset, split, folder, files))
    _check_complete(shards, split, folder)
    return tuple(os.path.join(folder, shard) for shard in shards)


def folds_in(folder: str) -> list[int]:
    """Returns the numbers of the folds of records, from 1.

    Raises:
      DataError: the records have no folds, or not all of them, or cannot be read.
    """
    shards = find_shards(split_without_fold(1), folder)
    return sorted(
        {1, *(int(match[1]) for match in map(FOLD.fullmatch, _splits(map(os.path.basename, shards))) if match)}
    )


def _folds(without: str | None, splits: Iterable[str], folder: str) -> list[str]:
    """Returns the splits of all folds but the one of this number; raises `DataError` if there is no such fold."""
    numbers = sorted(int(match[1]) for match in map(FOLD.fullmatch, splits) if match is not None)
    if not numbers:
        raise DataError(
            f"The records in '{folder}' have no folds, but the splits {', '.join(splits) or '(none)'}. Build them with "
            f'deeplab build_folder_data and {option("BuildFolderOptions.folds", 5)}.'
        )
    if numbers != list(range(1, len(numbers) + 1)) or len(numbers) < 2:
        there = ', '.join(map(split_of_fold, numbers))
        raise DataError(f"The folds in '{folder}' are not complete: there are {there}. Build the records again.")
    if without is not None and int(without) not in numbers:
        raise DataError(
            f"The records in '{folder}' have {len(numbers)} folds, 1 to {len(numbers)}, but fold {without} is asked "
            f'for. Set {option("TrainOptions.fold")} to one of these.'
        )
    return [split_of_fold(number) for number in numbers if without is None or number != int(without)]


def split_names(directory: str) -> list[str]:
    """Returns the names of the splits whose shards are in a folder, sorted.

    Raises:
      OSError: The folder cannot be read.
    """
    return _splits(shard_names.candidates(directory))


def _no_shard_message(
    dataset: descriptor_lib.DatasetDescriptor | None, split: str, directory: str, files: list[str]
) -> str:
    message = f"There is no shard '{split}-*' in '{directory}'. " if split else 'The name of the split is empty. '
    there = _splits(files)
    if there:
        message += f'Splits with shards there: {", ".join(there)}.'
    else:
        message += 'It holds no shards.' if storage.is_remote(directory) else _what_is_there(pathlib.Path(directory))
    if dataset is not None and dataset.splits and (there or not split) and set(dataset.splits) != set(there):
        message += f" Splits of '{dataset.name}': {', '.join(dataset.splits)}."
    if any(map(FOLD.fullmatch, there)):
        message += f" '{ALL_FOLDS}' is all folds together."
    similar = [name for name in there if split and name.startswith(f'{split}_')]
    if len(similar) == 1:  # such as train_fine of Cityscapes
        message += f' Set {option("DatasetOptions.split", similar[0])}.'
    return message


def _splits(files: Iterable[str]) -> list[str]:
    return sorted({split for file in files if (split := shard_names.split_of(file)) is not None})


def _what_is_there(folder: pathlib.Path) -> str:
    """Describes the content of a folder without a shard, with the fix."""
    content = folders.summary(folder)
    entries = sorted(folder.iterdir())
    if part := next((path.name for path in entries if part_folders.is_part(path.name)), None):
        return f'{content} Folders such as {part} are parts of a build: join them with `deeplab merge {folder}`.'
    for inner in (path for path in entries if path.is_dir()):
        with contextlib.suppress(OSError):
            if splits := split_names(str(inner)):
                fix = option('DatasetOptions.directory', str(inner))
                return f'{content} Its folder {inner.name} contains shards of {", ".join(splits)}: set {fix}.'
    if left := [path.name for path in entries if path.name.endswith(UNFINISHED) and path.is_file()]:
        content += f' Unfinished files such as {left[0]} are ignored: their build is still running or was interrupted.'
    return (
        f'{content} No file is a shard (SPLIT-00000-of-00004.tfrecord). Build the records first (from images and '
        f'masks with deeplab build_folder_data), or set {option("DatasetOptions.directory")}.'
    )


def _check_complete(shards: list[str], split: str, directory: str) -> None:
    """Raises `DataError` unless the numbered shards are one complete set."""
    matches = [match for shard in shards if (match := shard_names.matched(shard)) and match['number']]
    totals = sorted({match['total'] for match in matches})
    if len(totals) > 1:
        raise DataError(
            f"'{directory}' contains several sets of shards of split '{split}': {split}-*-of-{totals[0]} and "
            f'{split}-*-of-{totals[1]}. Keep one of them; otherwise images are used twice.'
        )
    present = {int(match['number']) for match in matches}
    for match in matches[:1]:
        start, end, total = *match.span('number'), int(match['total'])
        first = int(0 not in present and total in present)  # some scripts count from 1
        missing = [
            f'{match.string[:start]}{number:0{end - start}d}{match.string[end:]}'
            for number in range(first, first + total)
            if number not in present
        ]
        if missing:
            raise DataError(
                f"Split '{split}' in '{directory}' is not complete: {listed(missing, 3)} missing. "
                'Copy or build it again.'
            )


class FolderSource(NamedTuple):
    """Folders of images and masks, from which a data set is read without records.

    Attributes:
      description: path of the description that names the folders.
      options: options of `build_folder_data` for the same images, masks and splits.
    """

    description: str
    options: BuildFolderOptions


def find_folders(name: str, directory: str) -> FolderSource | None:
    """Returns the folders of images and masks of a data set; None if it is read from records.

    The description in the folder of the data set decides. If there are neither a description nor records, the
    description with the classes decides.

    Args:
      name: the data set with the classes, as for `descriptor.load`.
      directory: folder of the data set, or the path of its description.

    Raises:
      OptionError: The description is not usable.
    """
    path = description_file.beside(directory)
    if path is not None and (source := described_folders(path)) is not None:
        return source
    if path is None and name.endswith(descriptor_lib.FILE_SUFFIXES) and not _has_shards(directory):
        return described_folders(name)
    return None


def described_folders(path: str) -> FolderSource | None:
    """Returns the folders of images and masks that a description names; None if it names none.

    Raises:
      OptionError: The description is not usable.
    """
    try:
        content = documents.load(path)
    except (documents.DocumentError, OSError):  # `descriptor.load` reports it
        return None
    if not isinstance(content, Mapping) or 'images' not in content:
        return None
    if storage.is_remote(path):
        raise OptionError(f'{path}: images and masks are read from local folders only. Build records from them.')
    if 'masks' not in content:
        raise OptionError(f"{path}: 'images' needs 'masks', the folder of their masks.")
    given = {key: content[key] for key in descriptor_lib.FOLDER_KEYS if content.get(key) is not None}
    values = {_FIELDS.get(key, key): _option_value(path, key, value) for key, value in given.items()}
    try:
        with wording.file_keys(_KEYS):
            raster = RasterOptions(**{key: values.pop(key) for key in descriptor_lib.OF_RASTERS if key in values})
            return FolderSource(path, BuildFolderOptions(**values, raster=raster))
    except OptionError as error:
        raise OptionError(f'{path}: {error}') from None


def folder_items(
    source: FolderSource, dataset: descriptor_lib.DatasetDescriptor, tell: folder_splits.Listener | None = None
) -> dict[str, list[pairs.SourceFiles]]:
    """Finds the images and masks of every split, in the order in which `build_folder_data` writes them.

    Args:
      source: the folders.
      dataset: the data set, whose palette gives the ids of masks with colors if the description names no table.
      tell: function that is called with each remark about files that are left out; None to log each remark once in a
        process, although programs open a data set several times.

    Raises:
      DataError: A folder or list is missing, or a file has no partner.
      OptionError: The table of colors cannot be read.
    """
    options = source.options
    for key, field in _FIELDS.items():
        folder = getattr(options, field)
        if folder and not os.path.isdir(folder):
            raise DataError(f"'{source.description}' names a folder that does not exist: {key} is '{folder}'.")
    table = color_tables.chosen(options.colors, dataset, dataset.ignore_label)
    try:
        with wording.file_keys(_KEYS):
            tell = tell or functools.partial(_log_once, source.description)
            return raster_tiles.items(dataclasses.replace(options, ignore_label=dataset.ignore_label), table, tell)
    except DataError as error:
        raise DataError(f'{source.description}: {error}') from None


@functools.cache
def _log_once(description: str, remark: folder_splits.Remark) -> None:
    """Logs a remark about the data set of a description."""
    folder_splits.log(remark)


def _option_value(path: str, key: str, value: Any) -> Any:
    """Returns the value of an option that a description sets; paths are relative to the folder of the description."""
    kinds, text = _KINDS.get(key, ((str,), 'a text'))
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise OptionError(f"{path}: '{key}' is {value!r}, but must be {text}.")
    if isinstance(value, list):
        if not all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in value):
            raise OptionError(f"{path}: '{key}' is {value!r}, but must be {text}.")
        return tuple(value)
    return os.path.join(os.path.dirname(path), os.path.expanduser(str(value))) if key in _PATHS else value


def _has_shards(directory: str) -> bool:
    with contextlib.suppress(OSError):
        return any('-of-' in name for name in shard_names.candidates(directory))
    return False
