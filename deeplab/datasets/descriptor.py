"""Descriptors of data sets and of their classes, loaded by name, from a Python module or from a JSON or YAML file."""

from __future__ import annotations

import dataclasses
import math
import os
import types
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from absl import logging

from deeplab.datasets import label_file
from deeplab.errors import OptionError, UserError
from deeplab.files import documents, run_manifests, storage, user_modules
from deeplab.options.rasters import RasterOptions
from deeplab.options.rules import MOST_CLASSES, require_classes
from deeplab.registry.datasets import DATASETS, Dataset
from deeplab.wording import did_you_mean, option

FILE_SUFFIXES = ('.json', '.yaml', '.yml')
PATH_SUFFIXES = (*FILE_SUFFIXES, user_modules.SUFFIX)  # of names that are paths
IMAGE_BITS = (8, 16)
MOST_CHANNELS = 1000
_MOST_INSTANCES = 1 << 16  # ids have 16 bits
_USUAL_STEM = 'dataset'  # of the names of descriptions that lie beside the data
OF_RASTERS = ('bands', 'value_range')
_FACTS = ('image_bits', 'things', 'ignore_label', 'eval_ids', 'depth_scale')  # of classes, in files
# Fields that files cannot set, or that follow the others there.
_RECORD_FIELDS = ('summary', 'parameters', 'source', 'labels_offset')
# Further keys of files, for a data set that is read from images and masks (`segmentation_dataset.FolderSource`).
FOLDER_KEYS = (
    'images', 'masks', 'mask_suffix', 'instances', 'lists', 'val_fraction', 'group_pattern', 'seed', 'allow_unmatched',
    'colors', 'tile_size', 'tile_overlap', 'bands', 'value_range',
)  # fmt: skip


def bit_shift_palette(size: int) -> np.ndarray:
    """Returns the PASCAL VOC colors of the ids 0 to `size` - 1.

    The bits of an id, from the lowest up, are dealt in turn to red, green and blue; each color fills its byte from
    the highest bit down. So ids that differ little differ much in color.

    Args:
      size: number of colors, 0 to 2 ** 24.

    Returns:
      [size, 3] uint8, red, green and blue.

    Source: the color map of the PASCAL VOC development kit (M. Everingham et al., The PASCAL Visual
      Object Classes Challenge 2012, development kit).
    """
    ids = np.arange(size)
    colors = np.zeros((size, 3), np.uint8)
    for bit in range(24):
        channel, place = bit % 3, 7 - bit // 3
        colors[:, channel] |= ((ids >> bit & 1) << place).astype(np.uint8)
    return colors


@dataclasses.dataclass(frozen=True, eq=False)
class DatasetDescriptor(Dataset):
    """Description of a data set, and the record that makes it known by name: `register(DatasetDescriptor(...))`.

    Attributes:
      name: short name, for logs; once registered, for --dataset.
      num_classes: number of classes; ids run from 0 to num_classes - 1.
      ignore_label: id of the pixels that are excluded from loss and metrics, 0 to 255; it may be one of the classes.
      splits: number of images of each known split; None if unknown. Other splits may exist.
      class_names: unique names of the classes; None for numbers.
      palette: [n, 3] uint8, one color for each class; None for the PASCAL VOC colors.
      eval_ids: id of each class in the data set's own evaluation; None for the class ids.
      image_channels: channels of the network's input: 1 for gray, 3 for red, green and blue, or more.
      image_bits: 16 to keep all bits of 16-bit images, else 8.
      ignore_label_is_class: whether ignore_label is intentionally one of the classes; disables the warning.
      categories: name of the category of each class, for the metric category_iou; None for no categories.
      license: terms under which the images may be used; None if unknown.
      things: ids of the classes whose objects are counted (they have instances), in ascending order; the other classes
        are stuff. None if unknown.
      label_divisor: divisor of labels in records of deeplab2, class id * label_divisor + instance id; None for records
        with PNG files.
      depth_scale: unit of depth in PNG files of 16 bits, such as 0.001 for millimeters; None for other depth, or none.
      bands: bands of TIFF files that became the channels; None for all.
      value_range: values of TIFF files that became black and white; None for the values as they are.
      has_masks: false for image classification, which may have more classes than masks can hold.
      labels_offset: class id in the records of image classification that is class 0 here (see `without_first`).
    """

    name: str
    num_classes: int
    ignore_label: int = 255
    splits: Mapping[str, int | None] = dataclasses.field(default_factory=dict)
    class_names: Sequence[str] | None = None
    palette: Any = None
    eval_ids: Sequence[int] | None = None
    image_channels: int = 3
    image_bits: int = 8
    ignore_label_is_class: bool = False
    categories: Sequence[str] | None = None
    license: str | None = None
    things: Sequence[int] | None = None
    label_divisor: int | None = None
    depth_scale: float | None = None
    bands: Sequence[int] | None = None
    value_range: Sequence[float] | None = None
    has_masks: bool = True
    labels_offset: int = 0

    def __post_init__(self) -> None:
        self._require(_is_int(self.image_channels, 1, MOST_CHANNELS), 'image_channels', f'1 to {MOST_CHANNELS}')
        self._require(_is_int(self.image_bits, 8, 16) and self.image_bits in IMAGE_BITS, 'image_bits', '8 or 16')
        allowed = f'a whole number from 1 to {MOST_CLASSES}'
        self._require(_is_int(self.num_classes, 1, 2**62), 'num_classes', allowed)
        self._require(isinstance(self.has_masks, bool), 'has_masks', 'true or false')
        if self.has_masks:
            require_classes(f"Data set '{self.name}'", self.num_classes)
        self._require(_is_int(self.ignore_label, 0, 255), 'ignore_label', 'a whole number from 0 to 255')
        self._require(isinstance(self.ignore_label_is_class, bool), 'ignore_label_is_class', 'true or false')
        self._require(self.license is None or _is_text(self.license), 'license', 'a text')
        self._require(_is_text(self.source), 'source', 'a text')
        self._require(_are_splits(self.splits), 'splits', 'a number of images (or null) for each name of a split')
        self._check_planes()
        for key, kind, check in (
            ('class_names', 'names', _is_text),
            ('categories', 'names', _is_text),
            ('eval_ids', 'whole numbers from 0 to 255', lambda value: _is_int(value, 0, 255)),
        ):
            values = getattr(self, key)
            if values is not None:
                good = _is_list(values) and len(values) == self.num_classes and all(check(value) for value in values)
                self._require(good, key, f'a list of {self.num_classes} {kind}, one for each class')
                if key == 'class_names':
                    self._require_unlike(values)
                object.__setattr__(self, key, tuple(values))
        object.__setattr__(self, 'splits', dict(self.splits))
        object.__setattr__(self, 'palette', self._checked_palette())

    def without_first(self, count: int) -> DatasetDescriptor:
        """Returns the data set for classifiers that do not have its first classes, such as a background.

        Raises:
          OptionError: No class is left.
        """
        if not 0 <= count < self.num_classes:
            raise OptionError(
                f'{option("ModelOptions.labels_offset", count)} is not allowed: it must be from 0 to '
                f"{self.num_classes - 1}, as the data set '{self.name}' has {self.num_classes} classes."
            )
        kept: dict[str, Any] = {}
        for name in ('class_names', 'palette', 'eval_ids', 'categories'):
            values = getattr(self, name)
            kept[name] = None if values is None else values[count:]
        return dataclasses.replace(
            self,
            num_classes=self.num_classes - count,
            labels_offset=self.labels_offset + count,
            things=None,
            **kept,
        )

    def _check_planes(self) -> None:
        things, scale = self.things, self.depth_scale
        for name, kind in (('bands', int), ('value_range', (int, float))):
            values = getattr(self, name)
            are_numbers = _is_list(values) and all(isinstance(value, kind) for value in values)
            self._require(values is None or are_numbers, name, 'a list of numbers')
        self.raster  # noqa: B018 (which checks them)
        if things is not None:
            are_ids = _is_list(things) and all(_is_int(value, 0, self.num_classes - 1) for value in things)
            allowed = f'a list of ids of classes, 0 to {self.num_classes - 1}, each once'
            self._require(are_ids and len(set(things)) == len(things), 'things', allowed)
            object.__setattr__(self, 'things', tuple(sorted(things)))
        is_divisor = self.label_divisor is None or _is_int(self.label_divisor, 1, _MOST_INSTANCES)
        self._require(is_divisor, 'label_divisor', f'a whole number from 1 to {_MOST_INSTANCES}')
        is_number = isinstance(scale, (int, float)) and not isinstance(scale, bool)
        self._require(scale is None or (is_number and 0 < scale < math.inf), 'depth_scale', 'a number above 0')

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DatasetDescriptor) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self.name)

    def _values(self) -> list[Any]:
        """Returns the values of all fields, the palette as nested lists."""
        values = [getattr(self, field.name) for field in dataclasses.fields(self)]
        return [value.tolist() if isinstance(value, np.ndarray) else value for value in values]

    def class_name(self, class_id: int) -> str:
        """Returns the name of a class, or its number if the data set has no names."""
        return self.class_names[class_id] if self.class_names is not None else str(class_id)

    @property
    def names(self) -> tuple[str, ...]:
        """Name of each class; its number if the data set has no names."""
        return tuple(map(self.class_name, range(self.num_classes)))

    def facts(self) -> dict[str, Any]:
        """Returns what files that travel with a network say besides names and colors, as JSON values."""
        of_rasters = {name: list(value) for name in OF_RASTERS if (value := getattr(self, name))}
        return {name: getattr(self, name) for name in _FACTS} | of_rasters

    @property
    def raster(self) -> RasterOptions:
        """Which bands of TIFF files are the channels, and which values they have."""
        return RasterOptions(tuple(self.bands or ()), tuple(self.value_range or ()))

    def as_json(self) -> dict[str, Any]:
        """Returns what programs without the data set need to know of the classes of a network, as JSON values."""
        colors = zip(self.names, self.palette.tolist(), strict=False)
        return {
            'colors': {name: '#{:02x}{:02x}{:02x}'.format(*color) for name, color in colors},
            **self.facts(),
        }

    def _checked_palette(self) -> np.ndarray:
        """Returns `palette` as a read-only array."""
        if self.palette is None:
            colors = bit_shift_palette(self.num_classes)
        else:
            allowed = f'a list of at least {self.num_classes} colors [red, green, blue], each 0 to 255'
            try:
                given = np.asarray(self.palette)
            except ValueError:  # rows of different lengths
                given = np.empty(0)
            good = (
                given.ndim == 2 and given.shape[1] == 3 and given.dtype.kind in 'iu' and len(given) >= self.num_classes
            )
            self._require(bool(good and given.min() >= 0 and given.max() <= 255), 'palette', allowed)
            colors = given.astype(np.uint8)
        colors.setflags(write=False)
        return colors

    def _require_unlike(self, names: Sequence[str]) -> None:
        """Raises `OptionError` if two classes have the same name, because metrics are reported by name."""
        for class_id, name in enumerate(names):
            if (first := names.index(name)) < class_id:
                raise OptionError(
                    f"Data set '{self.name}': '{name}' appears twice in class_names, for the classes {first} and "
                    f'{class_id}. Names must be unique.'
                )

    def _require(self, condition: bool, key: str, allowed: str) -> None:
        if not condition:
            shown = repr(getattr(self, key))
            shown = shown if len(shown) <= 80 else f'{shown[:77]}...'
            raise OptionError(f"Data set '{self.name}': {key} is {shown}, but must be {allowed}.")


def _is_int(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _are_splits(splits: Any) -> bool:
    return isinstance(splits, Mapping) and all(
        isinstance(name, str) and (images is None or _is_int(images, 0, 2**62)) for name, images in splits.items()
    )


def load(name: str, with_labels: bool = True) -> DatasetDescriptor:
    """Finds a data set.

    Args:
      name: the name of a registered data set, of the package or of a plugin; a module that defines `DATASET`, as the
        path of its file, by its name from the current folder, or by a dotted name that Python can import; or the path
        of a JSON or YAML file with the attributes of `DatasetDescriptor` as keys, or of labels.txt beside records of
        TF-Slim.
      with_labels: whether labels.txt beside such a file must have as many classes.

    Returns:
      The descriptor.

    Raises:
      OptionError: There is no such data set, or its description is invalid.
    """
    if name.endswith(FILE_SUFFIXES):
        return _from_file(name, with_labels)
    if os.path.basename(name) == label_file.FILE_NAME:
        folder, names = os.path.dirname(storage.absolute(name)), label_file.read(name)
        return DatasetDescriptor(os.path.basename(folder), len(names), class_names=names, has_masks=False)
    registered = DATASETS.names()
    if name in registered:
        return cast(DatasetDescriptor, DATASETS.get(name))  # the registry knows only the base class
    if path := user_modules.find(name):
        return _of_module(user_modules.run_file(path, 'data set'), str(path))
    if '.' in name and all(part.isidentifier() for part in name.split('.')):
        module = user_modules.import_by_name(name, 'data set')
        if module is not None:
            return _of_module(module, name)
    if name.endswith(user_modules.SUFFIX):
        raise OptionError(f"The module of the data set, '{name}', does not exist.")
    raise OptionError(
        f"Unknown dataset '{name}'. {did_you_mean(name, registered)}Known: {', '.join(registered)}. Or pass a Python "
        'module that defines DATASET (by its name, or as a file), or a JSON or YAML file.'
    )


def of_sizes(sizes: Mapping[str, int]) -> list[DatasetDescriptor]:
    """Returns the registered data sets with these numbers of images, sorted by number of classes.

    Args:
      sizes: number of images by split; splits that the data set does not list do not matter.
    """
    datasets = []
    for name in DATASETS.names():
        dataset = load(name)
        shared = [split for split in sizes if dataset.splits.get(split) is not None]
        if shared and all(dataset.splits[split] == sizes[split] for split in shared):
            datasets.append(dataset)
    return sorted(datasets, key=lambda dataset: dataset.num_classes)


def _of_module(module: types.ModuleType, name: str) -> DatasetDescriptor:
    dataset = getattr(module, 'DATASET', None)
    if not isinstance(dataset, DatasetDescriptor):
        raise OptionError(
            f"Module '{name}' does not describe a data set: it must define DATASET = "
            'descriptor.DatasetDescriptor(...), or be loaded as a plugin if it registers one.'
        )
    return dataset


def _from_file(path: str, with_labels: bool) -> DatasetDescriptor:
    folder = os.path.dirname(path)
    try:
        content = documents.load(path)
    except FileNotFoundError:
        raise OptionError(f"The file of the data set, '{path}', does not exist.") from None
    except documents.DocumentError as error:
        raise OptionError(f'{path} {error}.') from None
    fields = [field.name for field in dataclasses.fields(DatasetDescriptor) if field.name not in _RECORD_FIELDS]
    fields.append('source')
    if not isinstance(content, Mapping):
        raise OptionError(f'{path}: the file must contain one object with the keys {", ".join(fields)}.')
    for key in content:
        if key not in (allowed := (*fields, *FOLDER_KEYS)):
            hint = did_you_mean(str(key), allowed)
            raise OptionError(f"{path}: unknown key '{key}'. {hint}Allowed: {', '.join(allowed)}.")
    if 'num_classes' not in content:
        number = ''
        if isinstance(given := content.get('class_names'), list):
            require_classes(f'{path}: class_names', len(given))
            number = f' class_names has {len(given)} names: add num_classes: {len(given)}.'
        raise OptionError(f"{path}: the key 'num_classes' is missing.{number}")
    values = {'name': _default_name(path), **{key: value for key, value in content.items() if key in fields}}
    if not isinstance(values['name'], str):
        raise OptionError(f"{path}: 'name' is {values['name']!r}, but must be a string.")
    if _is_list(values.get('splits')):  # names alone
        values['splits'] = {split: None for split in values['splits'] if isinstance(split, str)}
    elif isinstance(values.get('splits'), Mapping):  # numbers of images, or what builders write of each split
        values['splits'] = {
            split: facts.get('images') if isinstance(facts, Mapping) else facts
            for split, facts in values['splits'].items()
        }
    if isinstance(values.get('palette'), str):
        values['palette'] = _palette_of(values['palette'], path)
    try:
        described = DatasetDescriptor(**values)
    except OptionError as error:
        raise OptionError(f'{path}: {error}') from None
    count = described.num_classes
    if not described.has_masks and with_labels and (text := label_file.contradiction(folder, count, f"'{path}'")):
        raise OptionError(f'{text}. Build the records again, or remove labels.txt.')
    return described


def _default_name(path: str) -> str:
    """Returns the stem of a description's file, or its folder's name if the file has the usual name."""
    stem = os.path.splitext(os.path.basename(path))[0]
    return (os.path.basename(os.path.dirname(storage.absolute(path))) or stem) if stem == _USUAL_STEM else stem


def _palette_of(name: str, path: str) -> np.ndarray:
    """Returns the colors of a known data set, black behind its classes."""
    if name in ('pascal', 'pascal_voc_seg'):
        return bit_shift_palette(256)
    registered = DATASETS.names()
    if name not in registered:
        raise OptionError(
            f"{path}: palette '{name}' is unknown. {did_you_mean(name, registered)}Use a list of [red, green, blue] "
            f'or one of: {", ".join(registered)}.'
        )
    colors = load(name).palette
    return np.pad(colors, ((0, 256 - len(colors)), (0, 0)))


def numbered(count: int) -> DatasetDescriptor:
    """Returns classes without names."""
    return DatasetDescriptor('', count, has_masks=False)


def of_facts(names: Sequence[str], colors: Any, facts: Mapping[str, Any]) -> DatasetDescriptor | None:
    """Returns the classes of a network in a file of any origin; None if they are invalid.

    Args:
      names: name of each class.
      colors: color of each class, [n, 3] of 0 to 255.
      facts: `DatasetDescriptor.facts`; other keys are ignored, and missing ones have their defaults.
    """
    used = {name: facts[name] for name in (*_FACTS, *OF_RASTERS) if name in facts}
    try:
        return DatasetDescriptor('', len(names), class_names=names, palette=colors, has_masks=False, **used)
    except (TypeError, ValueError, OptionError):
        return None


def of_json(content: Any, count: int) -> DatasetDescriptor | None:
    """Returns `count` classes of `DatasetDescriptor.as_json` in a file; None if they are none, or invalid."""
    try:
        colors = [list(bytes.fromhex(color.removeprefix('#'))) for color in content['colors'].values()]
    except (TypeError, ValueError, KeyError, AttributeError):
        return None
    return of_facts(list(content['colors']), colors, content) if len(colors) == count else None


def classes_of(
    dataset: str | None, count: int | None, is_required: bool = False, otherwise: DatasetDescriptor | None = None
) -> DatasetDescriptor:
    """Returns a data set of `count` classes; numbers and default colors without one.

    Args:
      dataset: name, module or file of the data set; None for none.
      count: number of classes; None if the network does not show it. The data set's number is then used, or else
        `MOST_CLASSES`.
      is_required: whether to raise an `OptionError` if the data set cannot be used, instead of logging a warning.
      otherwise: the classes to return if there is no data set, or it cannot be used; None for numbers.
    """
    if dataset is None:
        return otherwise or numbered(count or MOST_CLASSES)
    try:
        data_set = load(dataset)
        if data_set.num_classes != (count or data_set.num_classes):
            raise OptionError(
                f"The network has {count} classes, the data set '{data_set.name}' {data_set.num_classes}. Set "
                f'{option("PredictorOptions.dataset")} to the one that it was trained on'
            )
    except UserError as error:
        if is_required:
            raise
        if otherwise is not None:
            return otherwise
        logging.warning('The names of the classes are unknown: %s', error)
        return numbered(count or MOST_CLASSES)
    return data_set


def name_in_run(run: Mapping[str, Any]) -> str | None:
    """Returns the data set of a run.json as its command line had it: the name of a data set, a module or a file."""
    name = run_manifests.option_of(run, 'dataset', 'name')
    return name if isinstance(name, str) else None


def trusted_name_in_run(file: str, run: Mapping[str, Any]) -> str | None:
    """Returns the data set of a run.json of any origin; None for a data set that would run code.

    Args:
      file: path of the run.json.
      run: the run in it.
    """
    dataset = name_in_run(run)
    if dataset is None:
        return None
    if dataset in DATASETS.names():
        return dataset
    if dataset.endswith(FILE_SUFFIXES):
        folders = (os.path.dirname(file), run_manifests.folder_of(run), '')
        candidates = [os.path.join(folder, dataset) for folder in folders]
        return next((path for path in candidates if os.path.isfile(path)), None)
    return None
