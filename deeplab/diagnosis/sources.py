"""Images and masks of a data set, from records or from folders, split by split."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from deeplab.datasets import (
    description_file,
    example,
    folder_source,
    folders,
    pairs,
    record_index,
    segmentation_dataset,
)
from deeplab.datasets import descriptor as descriptor_lib
from deeplab.diagnosis import pairing
from deeplab.errors import DataError, OptionError
from deeplab.options import DatasetOptions, DoctorOptions
from deeplab.utils import documents, names
from deeplab.wording import option

_IMAGE_FOLDERS = ('images', 'image', 'imgs', 'img', 'jpegimages')
_MASK_FOLDERS = ('segmentationclassraw', 'segmentationclass', 'masks', 'mask', 'labels', 'annotations', 'gt')
_LIST_FOLDERS = ('ImageSets/Segmentation', 'ImageSets', 'lists', 'splits', '.')
_IMAGE_SUFFIXES = ('.jpg', '.jpeg', '.png', '.npy')
# Files of other formats are found, too, and are a finding.
_OTHER_SUFFIXES = ('.bmp', '.tif', '.tiff', '.webp', '.gif', '.ppm', '.pgm')
_MASK_SUFFIXES = ('.png', '.jpg', '.jpeg', *_OTHER_SUFFIXES)
_SPLIT_FOLDERS = ('train', 'training', 'val', 'valid', 'validation', 'test', 'testing', 'trainval')
WHOLE = 'all'  # name of the only split of folders without lists


@dataclasses.dataclass(frozen=True)
class Sample:
    """An image with its mask, still encoded.

    Attributes:
      name: how messages name it.
      image: the image's file.
      mask: the mask's file; None if there is none.
      stem: name of the image without extension.
      mask_name: how messages name the mask; '' in records.
      is_misnamed: whether the mask has not exactly the name of the image.
      other_images: further images of this name.
    """

    name: str
    image: bytes
    mask: bytes | None
    stem: str
    mask_name: str = ''
    is_misnamed: bool = False
    other_images: tuple[str, ...] = ()


class Split(Protocol):
    """A split; reading it is safe from several threads at once."""

    name: str
    missing: list[tuple[str, str]]  # (rule, what) of everything that cannot be read as a sample

    def __len__(self) -> int: ...

    def read(self, number: int) -> Sample:
        """Returns sample `number`; raises `DataError` if it cannot be read."""


@dataclasses.dataclass(frozen=True)
class Source:
    """The splits of a data set.

    Attributes:
      splits: the splits.
      is_records: whether they are TFRecord shards; otherwise files.
      image_folder: of files, else None.
      mask_folder: of files, else None.
      list_folder: of files that are split by lists, else None.
      is_described: whether a description names the folders, so that programs read them without records.
      unused_masks: names of masks without an image.
      unlisted: names of images with masks that are in no list.
      has_unmatched: whether files without a partner are in no split, so that builders need `allow_unmatched`.
    """

    splits: Sequence[Split]
    is_records: bool
    image_folder: str | None = None
    mask_folder: str | None = None
    list_folder: str | None = None
    is_described: bool = False
    unused_masks: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()
    has_unmatched: bool = False


def open_source(options: DoctorOptions) -> Source:
    """Finds the splits of a data set.

    Raises:
      DataError: There are neither records nor images with masks.
      OptionError: Only one of the folders of images and of masks is given.
    """
    for given, other in (('image_folder', 'mask_folder'), ('mask_folder', 'image_folder')):
        if getattr(options, given) is not None and getattr(options, other) is None:
            here = option(f'DoctorOptions.{given}', getattr(options, given))
            raise OptionError(f'{here} needs {option(f"DoctorOptions.{other}")}. Give both folders, or neither.')
    try:
        return _found(options)
    except OSError as error:
        where = error.filename or options.data
        raise DataError(f"The folder '{where}' cannot be read: {error.strerror}.") from None


def _found(options: DoctorOptions) -> Source:
    """Returns the splits in the folders that are given, in shards, or in folders of usual names."""
    if options.image_folder is not None and options.mask_folder is not None:
        return _from_files(options, pathlib.Path(options.image_folder), pathlib.Path(options.mask_folder))
    if (named := folder_source.of_data('', options.data)) is not None:
        return _from_description(named, options)
    folder = pathlib.Path(description_file.folder_of(options.data))
    splits = segmentation_dataset.split_names(str(folder))
    inner = _folders_in(folder)
    if splits:
        return Source([_Records(str(folder), split) for split in splits], True)
    if pair := _pair(inner):
        return _from_files(options, *pair)
    split_pairs = {path.name: pair for path in inner.values() if (pair := _pair(_folders_in(path)))}
    if split_pairs:
        return Source([_Files(name, _stems(pair[0]), *pair) for name, pair in split_pairs.items()], False)
    raise DataError(
        f"'{options.data}' holds neither shards (SPLIT-00000-of-00004.tfrecord) nor a folder of images with one of "
        f'masks (images and masks, JPEGImages and SegmentationClass). {folders.summary(folder)} Set '
        f'{option("DoctorOptions.image_folder")} and {option("DoctorOptions.mask_folder")} if they have other names.'
    )


def _from_description(named: folder_source.FolderSource, options: DoctorOptions) -> Source:
    """Returns the splits of the folders that a description names, even if files have no partner."""
    given = named.options
    try:
        found = folder_source.items(named, descriptor_lib.load(named.description))
    except DataError:
        lists = options.list_folder or given.list_folder or None
        root = description_file.folder_of(options.data)
        options = dataclasses.replace(options, data=root, list_folder=lists)
        source = _from_files(options, pathlib.Path(given.image_folder), pathlib.Path(given.mask_folder))
        return dataclasses.replace(source, is_described=True)
    splits = [_Items(name, items) for name, items in found.items()]
    return Source(splits, False, given.image_folder, given.mask_folder, given.list_folder or None, True)


def _folders_in(folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """Returns the folders in a folder by their names in lower case."""
    return {path.name.lower(): path for path in sorted(folder.iterdir()) if path.is_dir()}


def _pair(found: dict[str, pathlib.Path]) -> tuple[pathlib.Path, pathlib.Path] | None:
    """Returns the folder of images and that of masks among folders by name; None if one is not there."""
    images = next((found[name] for name in _IMAGE_FOLDERS if name in found), None)
    masks = next((found[name] for name in _MASK_FOLDERS if name in found), None)
    return None if images is None or masks is None else (images, masks)


def _from_files(options: DoctorOptions, images: pathlib.Path, masks: pathlib.Path) -> Source:
    """Returns the splits of a folder of images and one of masks: by lists, by folders of equal names, or only one."""
    for folder in (images, masks):
        if not folder.is_dir():
            raise DataError(f"The folder '{folder}' does not exist.")
    candidates = [options.list_folder] if options.list_folder else [f'{options.data}/{name}' for name in _LIST_FOLDERS]
    known = set(_stems(images))
    for list_folder in map(pathlib.Path, candidates):
        lists = folders.of_extension(list_folder.iterdir(), 'txt') if list_folder.is_dir() else []
        found = [(path, stems) for path in lists if (stems := _listed(path, known))]
        if options.list_folder is None:  # other texts, such as names of classes, may lie there
            is_list = [bool(known.intersection(stems)) for _, stems in found]
            if not any(is_list):
                continue
            if list_folder == pathlib.Path(options.data):
                found = [
                    each for each, good in zip(found, is_list, strict=True) if good or each[0].stem in _SPLIT_FOLDERS
                ]
        if found:
            splits = [_Files(path.stem, stems, images, masks) for path, stems in found]
            listed = {stem for _, stems in found for stem in stems}
            return _of_files(splits, images, masks, os.path.normpath(list_folder), listed)
    inner = _folders_in(images)
    other = _folders_in(masks)
    both = [name for name in inner if name in other]
    if any(name in _SPLIT_FOLDERS for name in both):
        return _of_split_folders(images, masks, {name: (inner[name], other[name]) for name in both})
    return _of_files([_Files(WHOLE, _stems(images), images, masks)], images, masks)


def _of_split_folders(
    images: pathlib.Path, masks: pathlib.Path, inner: dict[str, tuple[pathlib.Path, pathlib.Path]]
) -> Source:
    """Returns the splits of folders of equal names in one folder of images and one of masks."""
    splits = [_Files(name, _stems(pair[0]), *pair) for name, pair in inner.items()]
    unused = sorted(f'{split.name}/{name}' for split in splits for name in split.unused_masks())
    in_splits = {folder for pair in inner.values() for folder in pair}
    others = (path for folder in (images, masks) for path in folder.iterdir() if path not in in_splits)
    has_others = any(_by_stem(path, (*_MASK_SUFFIXES, '.npy')) for path in others if path.is_dir())
    shown = tuple(map(names.shown, unused))
    return Source(splits, False, str(images), str(masks), unused_masks=shown, has_unmatched=has_others or bool(unused))


def _of_files(
    splits: Sequence[_Files],
    images: pathlib.Path,
    masks: pathlib.Path,
    list_folder: str | None = None,
    listed: set[str] | None = None,
) -> Source:
    """Returns the splits of one folder of images and one of masks, with the files that no split uses."""
    stems = _stems(images)
    found = pairing.partners(stems, _by_stem(masks, _MASK_SUFFIXES))
    unused = set(_by_stem(masks, _MASK_SUFFIXES)) - set(found.values())
    outside = [] if listed is None else [stem for stem in stems if stem not in listed]
    unlisted = [stem for stem in outside if stem in found]
    shown = [tuple(map(names.shown, sorted(group))) for group in (unused, unlisted)]
    has_unmatched = bool(unused) or len(unlisted) < len(outside)
    return Source(splits, False, str(images), str(masks), list_folder, False, shown[0], shown[1], has_unmatched)


def _listed(path: pathlib.Path, known: Collection[str]) -> list[str]:
    """Returns the names in a list, without folders and extensions of images; none if it is not a list of names.

    Args:
      path: the list; a line may have the path of the mask, or another word, behind the image.
      known: names of the images.
    """
    try:
        lines = documents.entries_of(documents.load_text(path))
    except documents.DocumentError:
        return []
    found = []
    for line in lines:
        paths = [_stem(text.replace('\\', '/')).split('/') for text in (line, line.split()[0])]
        endings = ['/'.join(parts[start:]) for parts in paths for start in range(len(parts))]
        found.append(next((name for name in endings if name in known), endings[-1]))
    return found


def _stem(name: str) -> str:
    stem, suffix = os.path.splitext(name)
    return stem if suffix.lower() in _IMAGE_SUFFIXES else name


def _stems(folder: pathlib.Path) -> list[str]:
    """Returns the names of the images in a folder, without extensions."""
    return sorted(_by_stem(folder, (*_IMAGE_SUFFIXES, *_OTHER_SUFFIXES)))


def _by_stem(folder: pathlib.Path, suffixes: Sequence[str]) -> dict[str, list[pathlib.Path]]:
    """Returns the files of a folder by name without extension, those whose suffix comes first before others.

    If none is directly in it, those of the folders in it are, by their paths from there.
    """
    found: dict[str, list[pathlib.Path]] = {}
    for paths in (folder.iterdir(), folder.rglob('*')):
        for path in sorted(paths):
            if path.suffix.lower() in suffixes and not path.name.startswith('.') and path.is_file():
                found.setdefault(path.relative_to(folder).with_suffix('').as_posix(), []).append(path)
        if found:
            break
    for same in found.values():
        same.sort(key=lambda path: suffixes.index(path.suffix.lower()))
    return found


class _Records:
    """A split in TFRecord shards."""

    def __init__(self, directory: str, name: str) -> None:
        self.name = name
        self.missing: list[tuple[str, str]] = []
        shards: tuple[str, ...] = ()
        try:
            # Of the data set only the shards are used here.
            shards = segmentation_dataset.get_dataset(DatasetOptions.name, name, directory).shards
        except DataError as error:
            self.missing.append(('shards', str(error)))
        self._index = record_index.RecordIndex.walk(shards, skip_corrupt=True)
        self.missing += [('corrupt', text) for text in self._index.damaged]

    def __len__(self) -> int:
        return len(self._index)

    def read(self, number: int) -> Sample:
        """Returns a record."""
        where = self._index.name_of(number)
        content = self._index.read(number)
        try:
            parsed = example.parse(content)
        except DataError as error:
            raise DataError(f'{where}: {error}') from None
        name = f"'{names.shown(parsed.image_name)}' ({where})"
        return Sample(name, parsed.image_bytes, parsed.label_bytes, parsed.image_name)


class _Files:
    """A split in files: an image and the mask of the same name without extension."""

    def __init__(self, name: str, stems: Iterable[str], image_folder: pathlib.Path, mask_folder: pathlib.Path) -> None:
        self.name = name
        self.missing: list[tuple[str, str]] = []
        self._images = _by_stem(image_folder, (*_IMAGE_SUFFIXES, *_OTHER_SUFFIXES))
        self._masks = _by_stem(mask_folder, _MASK_SUFFIXES)
        self._partners = pairing.partners(self._images, self._masks)
        self._stems: list[str] = []
        for stem in stems:
            if stem in self._images:
                self._stems.append(stem)
            else:
                self.missing.append(('no_image', names.shown(stem)))

    def __len__(self) -> int:
        return len(self._stems)

    def unused_masks(self) -> set[str]:
        """Returns the names of the masks in the folder that are those of no image."""
        return self._masks.keys() - self._partners.values()

    def read(self, number: int) -> Sample:
        """Returns an image with its mask."""
        stem = self._stems[number]
        image, *others = self._images[stem]
        partner = self._partners.get(stem)
        mask = None if partner is None else self._masks[partner][0]
        try:
            return Sample(
                names.shown(image.name),
                image.read_bytes(),
                None if mask is None else mask.read_bytes(),
                stem,
                '' if mask is None else names.shown(mask.name),
                partner not in (None, stem),
                tuple(names.shown(path.name) for path in others),
            )
        except OSError as error:
            raise DataError(f'{names.shown(image.name)}: {error.strerror}') from None


class _Items:
    """A split of the images and masks that a description names, as training reads them."""

    def __init__(self, name: str, items: Sequence[pairs.Item]) -> None:
        self.name = name
        self.missing: list[tuple[str, str]] = []
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def read(self, number: int) -> Sample:
        """Returns an image with its mask, of ids where colors have a meaning."""
        item = self._items[number]
        name, label = names.shown(os.path.basename(item.image)), item.label or ''
        try:
            image, mask = pathlib.Path(item.image).read_bytes(), pathlib.Path(label).read_bytes()
        except OSError as error:
            raise DataError(f'{name}: {error.strerror}') from None
        if item.source is not None:
            with contextlib.suppress(DataError):  # another rule names what is wrong with it
                mask = item.source.mask(label)
        return Sample(name, image, mask, item.name, names.shown(os.path.basename(label)))
