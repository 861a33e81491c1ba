"""Facts about registered data sets and data sets in folders."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Sequence

from deeplab.datasets import description_file, index_file, segmentation_dataset
from deeplab.datasets import descriptor as descriptor_lib
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.datasets.record_index import RecordIndex
from deeplab.errors import DataError, UserError
from deeplab.files import storage
from deeplab.wording import option

UNCHANGED, CHANGED = 'unchanged', 'changed'


@dataclasses.dataclass(frozen=True)
class ListedSplit:
    """A split in a folder.

    Attributes:
      name: name of the split.
      images: number of its images; None if they cannot be counted.
      shards: number of its shards; None for images and masks.
      size: bytes of the shards; None for images and masks.
      problem: why it cannot be read; None if it is complete.
      is_indexed: whether an index beside the shards is valid for all of them.
      since_described: whether the records have changed since the description was written: UNCHANGED or CHANGED; None if
        the description does not tell.
    """

    name: str
    images: int | None = None
    shards: int | None = None
    size: int | None = None
    problem: str | None = None
    is_indexed: bool = False
    since_described: str | None = None


@dataclasses.dataclass(frozen=True)
class FolderFacts:
    """A data set in a folder.

    Attributes:
      folder: the folder.
      description: path of its description; None if there is none.
      dataset: the data set of a valid description; None without one.
      problem: error in the description; None for none.
      image_folder: folder of the images, if they are read directly; None for records.
      splits: splits of the data set.
    """

    folder: str
    description: str | None
    dataset: DatasetDescriptor | None
    problem: str | None
    image_folder: str | None
    splits: tuple[ListedSplit, ...]

    @property
    def is_complete(self) -> bool:
        """Whether the description and all splits can be read."""
        return self.problem is None and bool(self.splits) and all(split.problem is None for split in self.splits)


def in_folder(directory: str) -> list[FolderFacts]:
    """Returns the data set in a folder, or those in the folders in it.

    Raises:
      DataError: The folder cannot be read.
    """
    try:
        if not storage.is_folder(directory):
            what = 'is not a folder' if storage.is_file(directory) else 'does not exist'
            raise DataError(f"'{directory}' {what}. Set {option('ListDatasetsOptions.directory')} to a folder.")
        data_set = _look(directory)
        inner = [] if storage.is_remote(directory) else sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError as error:
        raise DataError(f"'{directory}' cannot be read: {error.strerror}.") from None
    if data_set is not None:
        return [data_set]
    folders = [entry.path for entry in inner if entry.is_dir() and not entry.name.startswith('.')]
    data_sets = []
    for folder in folders:
        with contextlib.suppress(OSError):
            data_sets.append(_look(folder))
    return [facts for facts in data_sets if facts is not None]


def write_indexes(directory: str) -> list[str]:
    """Writes the indexes of all splits in a folder, and their digests to the description (in local folders).

    Returns:
      The paths of the files.

    Raises:
      DataError: A file cannot be written, or a shard cannot be read.
    """
    facts, written = {}, []
    is_described = segmentation_dataset.find_folders('', directory) is not None  # its images and masks are read instead
    for name in [] if is_described else _split_names(directory):
        shards = segmentation_dataset.find_shards(name, directory)
        index = RecordIndex(shards)
        written.append(index_file.write(directory, name, index))
        facts[name] = description_file.SplitFacts(len(index), len(shards), index.digest())
    if not facts:
        raise DataError(f"There are no records in '{directory}', which an index is for.")
    if storage.is_remote(directory):  # descriptions are written to local folders
        return written
    path = description_file.write(directory, None, facts)
    is_written = all(description_file.split_facts(path).get(name) == fact for name, fact in facts.items())
    return [*written, path] if is_written else written  # a description that a user wrote is not touched


def _look(folder: str) -> FolderFacts | None:
    """Returns the data set in a folder; None if there is none."""
    path = description_file.beside(folder)
    dataset = problem = image_folder = None
    splits: Sequence[ListedSplit] = ()
    try:
        dataset = None if path is None else descriptor_lib.load(path)
        source = None if path is None else segmentation_dataset.described_folders(path)
        if source is not None and dataset is not None:
            image_folder = source.options.image_folder
            splits = [
                ListedSplit(name, len(items))
                for name, items in segmentation_dataset.folder_items(source, dataset).items()
            ]
    except UserError as error:
        problem = str(error)
    names = _split_names(folder) if image_folder is None else []
    if path is None and not names:
        return None
    if names:
        digests = description_file.split_facts(path or os.path.join(folder, description_file.FILE_NAME))
        splits = [_split(folder, name, digests.get(name)) for name in names]
    if path is not None and not splits and problem is None:
        problem = 'there are no records beside it'
    return FolderFacts(folder, path, dataset, problem, image_folder, tuple(splits))


def _split_names(folder: str) -> list[str]:
    with contextlib.suppress(OSError):
        return segmentation_dataset.split_names(folder)
    return []


def _split(folder: str, name: str, described: description_file.SplitFacts | None) -> ListedSplit:
    try:
        shards = segmentation_dataset.find_shards(name, folder)
        columns = index_file.load(folder, name, shards)
        index = RecordIndex(shards, indexed=columns)
        size = sum(storage.stat(shard).size for shard in shards)
    except (UserError, OSError) as error:
        return ListedSplit(name, problem=str(error))
    state = None
    if described is not None and described.digest is not None:
        state = UNCHANGED if described.digest == index.digest() else CHANGED
    return ListedSplit(name, len(index), len(shards), size, None, len(columns) == len(shards), state)
