"""Images and masks of a data set, from records or from folders, split by split."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import ClassVar

from deeplab import names
from deeplab.datasets import (
    color_tables,
    description_file,
    example,
    file_pairs,
    folder_splits,
    folders,
    mask_sources,
    pairs,
    planes,
    raster_tiles,
    rasters,
    segmentation_dataset,
    split_lists,
    tfrecord,
    wire,
)
from deeplab.datasets import descriptor as descriptor_lib
from deeplab.datasets.pair_records import PairRecords
from deeplab.datasets.record_index import RecordIndex, Records
from deeplab.errors import DataError, OptionError
from deeplab.files import storage
from deeplab.names import agreeing, counted
from deeplab.options import IMAGE_FORMATS, BuildFolderOptions, DoctorOptions
from deeplab.wording import option

_IMAGE_FOLDERS = ('images', 'image', 'imgs', 'img', 'jpegimages')
_MASK_FOLDERS = ('segmentationclassraw', 'segmentationclass', 'masks', 'mask', 'labels', 'annotations', 'gt')
_LIST_FOLDERS = ('ImageSets/Segmentation', 'ImageSets', 'lists', 'splits', '.')
# Files of other formats are a finding.
_SEARCHED_IMAGES = (*IMAGE_FORMATS, *file_pairs.OTHER_FORMATS)
_SEARCHED_MASKS = (*file_pairs.MASK_FORMATS, *file_pairs.OTHER_FORMATS)
_SEPARATORS = '_-. '  # first character of an ending such as _mask
_NOT_DESCRIBED = BuildFolderOptions()
WHOLE = 'all'  # name of the only split of folders without lists
UNUSED_MASK = 'unused_mask'  # kind of the remark on masks without an image


@dataclasses.dataclass(frozen=True)
class Sample:
    """An image with its mask, still encoded.

    Attributes:
      name: name in messages: the path in the folder of the images, or name and place of the record.
      stem: name without extension.
      misnamed_mask: path of the mask if it has not exactly the name of the image; else ''.
      other_images: paths of further images of this name.
      sums: length and checksum of the record if it was made from files; else empty.
      features: features of the record, or the instance mask among files.
    """

    name: str
    image: bytes
    mask: bytes | None
    stem: str
    misnamed_mask: str = ''
    other_images: tuple[str, ...] = ()
    sums: tuple[int, ...] = ()
    features: Mapping[str, wire.Value] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Source:
    """The splits of a data set.

    Attributes:
      is_records: whether the splits are TFRecord shards; otherwise files.
      image_folder: folder of the images; None for records.
      mask_folder: folder of the masks; None for records.
      list_folder: folder of the lists of files; None without lists.
      is_described: whether a description names the folders, so that programs read them without records.
      has_unmatched: whether files without a partner are in no split, so that builders need `allow_unmatched`.
      mask_suffix: end of the names of all masks that images need; '' if they need none, or it is given.
      remarks: remarks on files that are in no split, and on texts that are not lists.
    """

    splits: Sequence[Split]
    is_records: bool
    image_folder: str | None = None
    mask_folder: str | None = None
    list_folder: str | None = None
    is_described: bool = False
    has_unmatched: bool = False
    mask_suffix: str = ''
    remarks: Sequence[folder_splits.Remark] = ()


def open_source(options: DoctorOptions, label_divisor: int | None = None) -> Source:
    """Finds the splits of a data set.

    Args:
      options: the data set.
      label_divisor: divisor of raw labels in records; None for records without such labels.

    Raises:
      DataError: There are neither records nor images with masks.
      OptionError: Only one of the folders of images and of masks is given.
    """
    for given, other in (('image_folder', 'mask_folder'), ('mask_folder', 'image_folder')):
        if getattr(options, given) is not None and getattr(options, other) is None:
            here = option(f'DoctorOptions.{given}', getattr(options, given))
            raise OptionError(f'{here} needs {option(f"DoctorOptions.{other}")}. Pass both folders, or neither.')
    try:
        return _splits(options, label_divisor)
    except OSError as error:
        where = error.filename or options.data
        raise DataError(f"The folder '{where}' cannot be read: {error.strerror}.") from None


def _splits(options: DoctorOptions, label_divisor: int | None) -> Source:
    """Returns the splits in the folders that are given, in shards, or in folders of usual names."""
    if options.image_folder is not None and options.mask_folder is not None:
        return _from_files(options, pathlib.Path(options.image_folder), pathlib.Path(options.mask_folder))
    if (named := segmentation_dataset.find_folders('', options.data)) is not None:
        return _from_description(named, options)
    data = description_file.folder_of(options.data)
    if splits := segmentation_dataset.split_names(data):
        return Source([_records(data, split, label_divisor) for split in splits], True)
    if storage.is_remote(data):
        raise DataError(
            f"'{options.data}' contains no shards (SPLIT-00000-of-00004.tfrecord). Images and masks are read from "
            'local folders only: copy them to a local disk, or pass the folder of records.'
        )
    folder = pathlib.Path(data)
    inner = _folders_in(folder)
    if pair := _pair(inner):
        return _from_files(options, *pair)
    split_pairs = {path.name: pair for path in inner.values() if (pair := _pair(_folders_in(path)))}
    if split_pairs:
        return Source(
            [_FolderPair(*pair, options.mask_suffix).split(name) for name, pair in split_pairs.items()], False
        )
    raise DataError(
        f"'{options.data}' contains neither shards (SPLIT-00000-of-00004.tfrecord) nor a folder of images and a "
        f'folder of masks (images and masks, JPEGImages and SegmentationClass). {folders.summary(folder)} Set '
        f'{option("DoctorOptions.image_folder")} and {option("DoctorOptions.mask_folder")} if they have other names. '
        'If it has annotations of a labeling tool, build records with deeplab build_folder_data '
        f'{option("BuildFolderOptions.annotations", options.data)}, and check those.'
    )


def _from_description(named: segmentation_dataset.FolderSource, options: DoctorOptions) -> Source:
    """Returns the splits of the folders that a description names, even if files have no partner."""
    given, described = named.options, descriptor_lib.load(named.description)
    remarks: list[folder_splits.Remark] = []
    try:
        items_of = segmentation_dataset.folder_items(named, described, remarks.append)
    except DataError:
        if not all(map(os.path.isdir, filter(None, (given.image_folder, given.mask_folder, given.instance_folder)))):
            raise
        lists = options.list_folder or given.list_folder or None
        root = description_file.folder_of(options.data)
        options = dataclasses.replace(options, data=root, list_folder=lists, mask_suffix=given.mask_suffix)
        table = color_tables.chosen(given.colors, described, described.ignore_label)
        source = _from_files(
            options,
            pathlib.Path(given.image_folder),
            pathlib.Path(given.mask_folder),
            # A tile has a name of its own, but lists, and masks that are missing, are about files.
            dataclasses.replace(given, ignore_label=described.ignore_label, tile_size=None, tile_overlap=0),
            table,
        )
        paths = [item.image for split in source.splits if isinstance(split, FileSplit) for item in split.items]
        if (given.raster.is_set or given.tile_size is not None) and not any(map(rasters.is_raster, paths)):
            raise  # the description is wrong, which no finding about a file says
        return dataclasses.replace(source, is_described=True)
    splits = [FileSplit(name, items) for name, items in items_of.items()]
    return Source(
        splits, False, given.image_folder, given.mask_folder, given.list_folder or None, True, remarks=remarks
    )


def _folders_in(folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """Returns the folders in a folder by their names in lower case."""
    return {path.name.lower(): path for path in sorted(folder.iterdir()) if path.is_dir()}


def _pair(by_name: dict[str, pathlib.Path]) -> tuple[pathlib.Path, pathlib.Path] | None:
    """Returns the folders of images and of masks among folders by name; None if one is not there."""
    images = next((by_name[name] for name in _IMAGE_FOLDERS if name in by_name), None)
    masks = next((by_name[name] for name in _MASK_FOLDERS if name in by_name), None)
    return None if images is None or masks is None else (images, masks)


class _FolderPair:
    """A folder of images and one of masks, with the folders in them, searched once."""

    def __init__(
        self,
        image_folder: pathlib.Path,
        mask_folder: pathlib.Path,
        mask_suffix: str = '',
        described: BuildFolderOptions = _NOT_DESCRIBED,
        table: color_tables.ColorTable | None = None,
    ) -> None:
        for folder in (image_folder, mask_folder):
            if not folder.is_dir():
                raise DataError(f"The folder '{folder}' does not exist.")
        self.image_folder, self.mask_folder = str(image_folder), str(mask_folder)
        self.images, self.masks = file_pairs.search(
            self.image_folder, self.mask_folder, mask_suffix, _SEARCHED_IMAGES, _SEARCHED_MASKS
        )
        if not self.images and self.masks and image_folder.samefile(mask_folder):
            raise DataError(
                f"'{image_folder}' contains both images and masks, and all files were read as masks. Set "
                f'{option("DoctorOptions.mask_suffix")} to the suffix of the mask names, such as _mask.'
            )
        file_pairs.require_images(self.images, self.image_folder, _SEARCHED_IMAGES, 'DoctorOptions')
        file_pairs.require_masks(self.masks, self.mask_folder, mask_suffix, 'DoctorOptions')
        self.partners = partners(sorted(self.images), self.masks)
        self._mask_of = {stem: self.masks[partner][0] for stem, partner in self.partners.items()}
        # The builder takes TIFF files where there are no others.
        has_rasters = all(rasters.is_raster(paths[0]) for paths in self.images.values())
        self._takes_rasters = has_rasters and rasters.is_installed()
        instance_folder = described.instance_folder
        self._instances = file_pairs.grouped(instance_folder, ('png',)) if instance_folder else {}
        self._described, self._table = described, table

    def split(
        self, name: str, stems: Iterable[str] | None = None, missing: Sequence[tuple[str, str]] = ()
    ) -> FileSplit:
        """Returns the images of some stems, None for all of them, with their masks."""
        items = []
        for stem in sorted(self.images) if stems is None else stems:
            instances = self._instances.get(stem)
            source = self._table if instances is None else mask_sources.FileBeside(instances[0], self._table)
            items.append(self._item(pairs.SourceFiles(self.images[stem][0], self._mask_of.get(stem), stem, source)))
        return FileSplit(name, items, missing, self)

    def _item(self, item: pairs.SourceFiles) -> pairs.SourceFiles:
        """Returns an item, with the reader of its TIFF files if the builder takes them, too."""
        if not self._takes_rasters:
            return item
        with contextlib.suppress(DataError):  # reading the file tells
            (item,) = raster_tiles.cut(item, self._described, {})
        return item

    def unusual(self, stem: str) -> tuple[str, tuple[str, ...]]:
        """Returns the mask of an image if it has another name, and further images of the name, as in a `Sample`."""
        is_misnamed = self.partners.get(stem, stem) != stem
        mask = names.shown(os.path.relpath(self._mask_of[stem], self.mask_folder)) if is_misnamed else ''
        return mask, tuple(names.shown(os.path.relpath(path, self.image_folder)) for path in self.images[stem][1:])

    def source(
        self,
        splits: Sequence[FileSplit],
        list_folder: str | None = None,
        others: Collection[str] = (),
        remarks: Sequence[folder_splits.Remark] = (),
    ) -> Source:
        """Returns the splits with the files that no split uses; `others` are the stems of images in none of them."""
        unused = sorted(set(self.masks) - set(self.partners.values()))
        unlisted = sorted(stem for stem in others if stem in self.partners)
        outside = 'are in no list' if list_folder else 'are in no folder of a split'
        of_files = [
            folder_splits.Remark(kind, f'{counted(len(stems), noun)} {agreeing(len(stems), what)}', tuple(stems))
            for kind, stems, noun, what in (
                (UNUSED_MASK, unused, 'mask', 'have no image'),
                (folder_splits.UNLISTED, unlisted, 'image', outside),
            )
            if stems
        ]
        return Source(
            splits,
            False,
            self.image_folder,
            self.mask_folder,
            list_folder,
            has_unmatched=bool(unused) or len(unlisted) < len(others),
            mask_suffix=file_pairs.fitting_suffix(self.partners, self.masks),
            remarks=[*of_files, *remarks],
        )


def _from_files(
    options: DoctorOptions,
    image_folder: pathlib.Path,
    mask_folder: pathlib.Path,
    described: BuildFolderOptions = _NOT_DESCRIBED,
    table: color_tables.ColorTable | None = None,
) -> Source:
    """Returns the splits of a folder of images and one of masks: by lists, by folders of equal names, or only one.

    Args:
      options: the data set.
      image_folder: folder of the images.
      mask_folder: folder of the masks.
      described: what a description says of the files.
      table: meaning of the colors of masks.
    """
    pair = _FolderPair(image_folder, mask_folder, options.mask_suffix, described, table)
    search = split_lists.Search(pair.images, _SEARCHED_IMAGES)
    remarks: list[folder_splits.Remark] = []
    list_folder, lists = _lists(options, search, remarks.append)
    if lists:
        splits = [_listed(path, pair, search) for path in lists]
        listed = {item.name for split in splits for item in split.items}
        others = [stem for stem in pair.images if stem not in listed]
        return pair.source(splits, os.path.normpath(list_folder), others, remarks)
    in_folders: dict[str, list[str]] = {}
    for stem in sorted(pair.images):
        in_folders.setdefault(stem.partition('/')[0] if '/' in stem else '', []).append(stem)
    both = in_folders.keys() & {mask.partition('/')[0] for mask in pair.masks if '/' in mask}
    if any(folder_splits.usual_split(name) for name in both):
        splits = [pair.split(name, in_folders[name]) for name in sorted(both)]
        return pair.source(splits, others=[stem for name in in_folders.keys() - both for stem in in_folders[name]])
    return pair.source([pair.split(WHOLE)])


def _lists(
    options: DoctorOptions, search: split_lists.Search, tell: folder_splits.Listener
) -> tuple[str, list[pathlib.Path]]:
    """Returns the folder of the lists, and the lists: the given folder, or the first usual folder that has lists."""
    if (given := options.list_folder) is not None:
        if not os.path.isdir(given):
            raise DataError(f"The folder '{given}' of {option('DoctorOptions.list_folder')} does not exist.")
        return given, folder_splits.lists_in(given, search, tell)
    for name in _LIST_FOLDERS:
        folder = pathlib.Path(options.data, name)
        texts = folders.of_extension(folder.iterdir(), 'txt') if folder.is_dir() else []
        # In the folder of the data set itself, train.txt and other texts may be something else.
        is_list_folder = name != '.' or any(map(search.is_list, texts))
        if is_list_folder and (lists := folder_splits.lists_among(texts, search, tell)):
            return str(folder), lists
    return '', []


def _listed(path: pathlib.Path, pair: _FolderPair, search: split_lists.Search) -> FileSplit:
    """Returns the split of a list; lines that name no image, or one name of several images, are missing ones."""
    try:
        lines = split_lists.read(path)
    except DataError:  # it is empty or no text: a split without an image is a finding
        lines = []
    stems = [search.find(line) for line in lines]
    missing = [('no_image', names.shown(line)) for line, stem in zip(lines, stems, strict=True) if stem is None]
    return pair.split(path.stem, [stem for stem in stems if stem is not None], missing)


def _records(directory: str, name: str, label_divisor: int | None) -> RecordSplit:
    """Returns a split in TFRecord shards; damaged and missing shards are missing samples."""
    missing: list[tuple[str, str]] = []
    shards: tuple[str, ...] = ()
    try:
        shards = segmentation_dataset.find_shards(name, directory)
    except DataError as error:
        missing.append(('shards', str(error)))
    index = RecordIndex(shards, skip_corrupt=True, label_divisor=label_divisor)
    return RecordSplit(name, index, [*missing, *(('corrupt', text) for text in index.damaged)])


@dataclasses.dataclass(frozen=True)
class RecordSplit:
    """A split in records."""

    name: str
    index: Records
    missing: Sequence[tuple[str, str]] = ()

    @property
    def parallel_reads(self) -> int:
        """See `record_index.Records`."""
        return self.index.parallel_reads

    def __len__(self) -> int:
        return len(self.index)

    def read(self, number: int) -> Sample:
        """Returns a record."""
        where = self.index.name_of(number)
        content = self.index.read(number)
        try:
            parsed = example.parse(content)
        except DataError as error:
            raise DataError(f'{where}: {error}') from None
        name = f"'{names.shown(parsed.image_name)}' ({where})"
        # Shards contain the checksums of their records.
        sums = (len(content), tfrecord.masked_crc(content)) if isinstance(self.index, PairRecords) else ()
        image, mask = parsed.image_bytes, parsed.label_bytes
        return Sample(name, image, mask, parsed.image_name, sums=sums, features=parsed.features)


@dataclasses.dataclass(frozen=True)
class FileSplit:
    """A split in files: images, and the masks that belong to them.

    `pair` has what is unusual about the names of files that no description names.
    """

    name: str
    items: Sequence[pairs.SourceFiles]
    missing: Sequence[tuple[str, str]] = ()
    pair: _FolderPair | None = None
    parallel_reads: ClassVar[int] = 0  # they are on local disks

    def __len__(self) -> int:
        return len(self.items)

    def read(self, number: int) -> Sample:
        """Returns an image with its mask, of ids where a description gives its colors a meaning."""
        item = self.items[number]
        name = names.shown(item.name + os.path.splitext(item.image)[1])
        try:
            image = item.image_contents() if item.embedded else pathlib.Path(item.image).read_bytes()
            mask = None if item.label is None else pathlib.Path(item.label).read_bytes()
        except OSError as error:
            raise DataError(f'{name}: {error.strerror}') from None
        features: dict[str, wire.Value] = {}
        if item.source is not None and item.label is not None:
            with contextlib.suppress(DataError):  # another rule names what is wrong with it
                mask, instances = mask_sources.masks_of(item.source, item.label)
                if instances is not None:
                    features[planes.INSTANCE.feature] = instances
        unusual = self.pair.unusual(item.name) if self.pair else ('', ())
        return Sample(name, image, mask, item.name, *unusual, features=features)


Split = RecordSplit | FileSplit  # reading is safe from several threads at once


def partners(stems: Collection[str], masks: Collection[str]) -> dict[str, str]:
    """Returns the name of the mask for each image that has one.

    Args:
      stems: names of the images without extension, each once.
      masks: names of the masks without extension.

    Returns:
      The mask by image. If no mask has the name of the image, it is a mask with this name in another case, or with an
      ending such as _mask that at least half of these images need.
    """
    mask_of = {stem: stem for stem in stems if stem in masks}
    by_lower = _by_lower(mask for mask in masks if mask not in mask_of)
    mask_of |= {stem: by_lower[stem.lower()] for stem in stems if stem not in mask_of and stem.lower() in by_lower}
    rest = [stem for stem in stems if stem not in mask_of]
    if ending := _common_ending(rest, by_lower):
        mask_of |= {stem: by_lower[stem.lower() + ending] for stem in rest if stem.lower() + ending in by_lower}
    return mask_of


def _by_lower(names: Iterable[str]) -> dict[str, str]:
    """Returns names by their lower case, without those that are equal in lower case."""
    by_lower = collections.defaultdict(list)
    for name in names:
        by_lower[name.lower()].append(name)
    return {lower: same[0] for lower, same in by_lower.items() if len(same) == 1}


def _common_ending(stems: Collection[str], masks: Mapping[str, str]) -> str:
    """Returns the most common end of the names of masks behind names of images, such as _mask; '' if there is none."""
    lower = {stem.lower() for stem in stems}
    endings: collections.Counter[str] = collections.Counter()
    for mask in masks:
        for place, sign in enumerate(mask):
            if sign in _SEPARATORS and mask[:place] in lower:
                endings[mask[place:]] += 1
    if not endings:
        return ''
    ending, count = endings.most_common(1)[0]
    return ending if 2 * count >= len(stems) else ''
