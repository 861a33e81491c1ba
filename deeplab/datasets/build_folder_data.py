"""Builder of TFRecord files, and of a description, from any images with masks or annotations."""

from __future__ import annotations

if __name__ == '__main__':  # first, so that help and errors do not wait for TensorFlow
    import os
    import sys

    if not __package__:  # started by its path: put the folder above deeplab/ on the path instead of this file's
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    from deeplab import start

    start.run_program('build_folder_data')

import contextlib
import dataclasses
import os
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tqdm

from deeplab.datasets import (
    build_data,
    color_tables,
    descriptor,
    folders,
    folds,
    images,
    label_file,
    pairs,
    plane_files,
    raster_tiles,
)
from deeplab.datasets.annotations import items as annotated_items
from deeplab.datasets.annotations import label_classes
from deeplab.datasets.mask_ids import MaskIds
from deeplab.errors import DataError, OptionError
from deeplab.names import escaped, shell_quoted
from deeplab.options import BuildFolderOptions
from deeplab.options.rules import require_classes
from deeplab.wording import option

DEFAULT_NUM_SHARDS = 4
_SHOWN = 3  # number of files that a message names


@dataclasses.dataclass(frozen=True)
class Classes:
    """What is known of the classes before the masks are read.

    Attributes:
      count: number of classes; None if only the masks can tell.
      ignore_label: id of pixels that are excluded.
      names: names of the classes; None for none.
      dataset: the data set that was given; None for none.
      table: colors of masks; None for masks of ids alone.
      palette: color of each class in the annotations; None for none.
      things: ids of the classes that have instances in the annotations; None without instances.
    """

    count: int | None
    ignore_label: int
    names: tuple[str, ...] | None
    dataset: descriptor.DatasetDescriptor | None
    table: color_tables.ColorTable | None
    palette: np.ndarray | None = None
    things: tuple[int, ...] | None = None


class _Checked(NamedTuple):
    """Pixels of each id, ids with instances and colors of a mask, see `pairs.BuiltRecord`."""

    counts: np.ndarray | None
    things: tuple[int, ...] | None
    id_colors: bytes


class _PaletteColors:
    """The colors of the ids in masks with palettes, of which each id must have one."""

    def __init__(self, ignore_label: int) -> None:
        self._ignore_label = ignore_label
        self._first: dict[int, tuple[bytes, str]] = {}
        self._known: set[bytes] = set()
        self._differing: tuple[int, str, str] | None = None

    def add(self, path: str, id_colors: bytes) -> None:
        """Adds a mask with its `images.Mask.id_colors`."""
        if id_colors in self._known or self._differing is not None:
            return
        self._known.add(id_colors)
        for number, color in struct.iter_unpack('B3s', id_colors):
            first, other = self._first.setdefault(number, (color, path))
            if color != first and number != self._ignore_label:
                self._differing = number, other, path
                return

    def require_one(self) -> None:
        """Raises `DataError` if an id has different colors in two masks."""
        if self._differing is not None:
            number, one, other = self._differing
            raise DataError(
                f"The index {number} has different colors in the palettes of '{escaped(one)}' and '{escaped(other)}', "
                'so it is probably not a class id. List the class of each color in a file for '
                f'{option("BuildFolderOptions.colors")}; if the indices are class ids anyway, remove the palettes '
                'with deeplab remove_gt_colormap.'
            )


def run(options: BuildFolderOptions) -> dict[str, Any]:
    """Reads and checks all files, and then writes the splits and the description of the data set.

    Returns:
      A summary of what was written (`build_data.write_splits`), with the path of the description and num_classes.

    Raises:
      OptionError: Names, colors and number of classes disagree.
      DataError: A folder or file is missing, has no partner or is invalid. Nothing is written then.
    """
    classes = _read_classes(options)
    if classes.dataset is not None:
        options = dataclasses.replace(options, raster=options.raster.otherwise(classes.dataset.raster))
    if options.annotations is None:
        chosen = dataclasses.replace(options, class_names=classes.names or (), ignore_label=classes.ignore_label)
        splits = find_items(chosen, classes.table)
    else:
        classes, splits = _find_annotated(options, classes)
    if (side := options.max_side) is not None:
        splits = {name: [dataclasses.replace(item, max_side=side) for item in own] for name, own in splits.items()}
    if options.part.chosen is not None and classes.count is None:
        raise OptionError(
            f'{option("PartOptions.part", options.part.part)} needs the number of classes, which the masks of a part '
            f'do not show. Set {option("BuilderOptions.num_classes")}'
        )
    own = build_data.own_items(splits, options, DEFAULT_NUM_SHARDS)
    counts, things, of_images = _check(own, classes, options)
    annotated_items.log_drawing(own, counts, options)
    if options.annotations is None and not options.colors and options.part.chosen is None:
        _refuse_black_and_white(counts, classes)
    if options.folds is not None:
        splits = folds.distribute(splits, of_images, options)
    count = _inferred(counts, classes.ignore_label, options) if classes.count is None else classes.count
    described = _description(options, classes, count, splits, things)
    build_data.warn_of_ignored_class(count, classes.ignore_label)
    return build_data.write_known(splits, options, described, DEFAULT_NUM_SHARDS)


def find_items(
    options: BuildFolderOptions, table: color_tables.ColorTable | None = None
) -> dict[str, list[pairs.SourceFiles]]:
    """Finds the records of every split.

    Args:
      options: the input.
      table: colors of the masks; None for masks of ids.

    Raises:
      DataError: A folder or list is missing, or a file has no partner.
    """
    folders.require_folder(options.image_folder, 'BuildFolderOptions.image_folder')
    if options.wants_masks:
        folders.require_folder(options.mask_folder, 'BuildFolderOptions.mask_folder')
    if options.list_folder:
        folders.require_folder(options.list_folder, 'BuildFolderOptions.list_folder')
    return raster_tiles.items(options, table)


def _find_annotated(options: BuildFolderOptions, given: Classes) -> tuple[Classes, dict[str, list[pairs.SourceFiles]]]:
    """Returns the classes and the records of annotations; `given` are the classes that follow from the options."""
    names = given.names
    if names is None and given.dataset is not None and given.dataset.class_names is not None:
        names = tuple(given.dataset.class_names)
    if options.instances and not options.things and given.dataset is not None and names is not None:
        options = dataclasses.replace(options, things=tuple(names[thing] for thing in given.dataset.things or ()))
    labeled, splits = annotated_items.find(options, names, given.ignore_label)
    count = len(labeled.names)
    if given.count not in (None, count) and names is None:
        raise OptionError(
            f'The options define {given.count} classes, but the annotations contain {count} '
            f'({", ".join(labeled.names)}).'
        )
    classes = dataclasses.replace(
        given, count=count, names=labeled.names, table=None, palette=labeled.palette(), things=labeled.things
    )
    return classes, splits


def _read_classes(options: BuildFolderOptions) -> Classes:
    """Collects what the options say of the classes."""
    dataset = descriptor.load(options.dataset) if options.dataset else None
    ignore_label = options.ignore_label
    if dataset is not None and ignore_label == BuildFolderOptions().ignore_label:
        ignore_label = dataset.ignore_label
    names = label_file.chosen(options.class_names) or None
    wanted = names or tuple((dataset and dataset.class_names) or ())
    names = tuple(plane_files.class_folders(dataclasses.replace(options, class_names=wanted))) or names
    if names is not None:
        require_classes(option('BuildFolderOptions.class_names'), len(names))
    table = color_tables.chosen(options.colors, dataset, ignore_label)
    ids = (
        [entry.class_id for entry in table.entries if entry.class_id != ignore_label]
        if options.colors and table
        else []
    )
    counts = {
        'num_classes': options.num_classes,
        'class_names': len(names) if names else None,
        'dataset': dataset.num_classes if dataset is not None else None,
        'colors': max(ids) + 1 if ids else None,
    }
    given = {name: count for name, count in counts.items() if count is not None}
    if len(set(given.values())) > 1:
        text = ', '.join(f'{count} by {option(f"BuildFolderOptions.{name}")}' for name, count in given.items())
        raise OptionError(f'The numbers of classes disagree: {text}.')
    return Classes(next(iter(given.values()), None), ignore_label, names, dataset, table)


def _check(
    splits: Mapping[str, Sequence[pairs.SourceFiles]], classes: Classes, options: BuildFolderOptions
) -> tuple[np.ndarray, set[int] | None, dict[str, np.ndarray]]:
    """Reads every image and mask.

    Returns:
      The number of pixels of each id in all masks; the ids with instances, None if there are no instance masks; for
      folds, the pixels of each id by the name of the record.
    """
    items = list({item.name: item for split in splits.values() for item in split}.values())
    named = () if any(map(label_classes.is_background, classes.names or ())) else classes.names or ()
    allowed = None if classes.count is None else MaskIds(classes.count, classes.ignore_label, named)

    def checked(item: pairs.SourceFiles) -> _Checked | DataError:
        try:
            record = pairs.read(item, allowed)
        except DataError as error:
            return error
        return _Checked(record.counts, record.things, record.id_colors)

    total, errors = np.zeros(256, np.int64), []
    things: set[int] | None = None
    of_images, colors = {}, _PaletteColors(classes.ignore_label)
    with contextlib.closing(build_data.in_order(checked, items, options.num_workers)) as results:
        progress = tqdm.tqdm(results, 'check', len(items), leave=False, disable=None)
        for item, result in zip(items, progress, strict=True):
            if isinstance(result, DataError):
                errors.append(str(result))
                continue
            counts, own_things, id_colors = result
            total += 0 if counts is None else counts
            if item.label is not None:
                colors.add(item.label, id_colors)
            if options.folds is not None and counts is not None:
                of_images[item.name] = counts
            things = things if own_things is None else {*(things or ()), *own_things}
    if errors:
        more = f' And {len(errors) - _SHOWN} more.' if len(errors) > _SHOWN else ''
        if more and options.annotations is None and options.wants_masks:
            given = {'image_folder': options.image_folder, 'mask_folder': options.mask_folder}
            given |= {'mask_suffix': options.mask_suffix} if options.mask_suffix else {}
            flags = ' '.join(f'--{name}={shell_quoted(value)}' for name, value in given.items())
            more += f' The command line "deeplab doctor . {flags}" names them by cause.'
        count = f'{len(errors)} of {len(items)} pairs are invalid. ' if len(errors) > 1 else ''
        raise DataError(count + ' '.join(errors[:_SHOWN]) + more)
    colors.require_one()
    return total, things, of_images


def _refuse_black_and_white(counts: np.ndarray, classes: Classes) -> None:
    """Raises `DataError` for masks of 0 and 255 alone, of which 255 is ignored, if the number of classes is known."""
    is_black_and_white = np.flatnonzero(counts).tolist() == [0, 255] and classes.ignore_label == 255
    if not is_black_and_white or classes.count is None:
        return
    more = ''
    if classes.count == 1:
        both = option('BuilderOptions.num_classes', 2)
        if classes.names:
            both = option('BuildFolderOptions.class_names', (label_classes.BACKGROUND, *classes.names))
        more = f' The background is a class, too: set {both}.'
    raise DataError(
        'The masks contain only the ids 0 and 255, and 255 is ignored, so that nothing but 0 can be learned. Write '
        f'1 for the object (mask // 255), or {_gray_table()}.{more}'
    )


def _gray_table() -> str:
    """Returns the fix for masks of gray levels that leaves the files as they are."""
    return (
        f'name the gray levels in a file for {option("BuildFolderOptions.colors")}, with lines such as '
        "'0 0 0 background' and '255 255 255 object'"
    )


def _inferred(counts: np.ndarray, ignore_label: int, options: BuildFolderOptions) -> int:
    """Returns the number of classes that the ids of all masks suggest; 1 without masks."""
    if options.annotations is None and not options.wants_masks:
        return 1
    ids = [int(i) for i in np.flatnonzero(counts) if i != ignore_label]
    if not ids:
        raise DataError(
            f'All pixels of all masks have the id {ignore_label}, which is ignored. Fix the masks, or set another '
            f'{option("BuilderOptions.ignore_label")}.'
        )
    is_full = ids == list(range(len(ids))) and len(ids) > 1
    likely = MaskIds(max(len(ids), 2), ignore_label)
    advice = None if is_full else likely.advice(counts)
    if advice is not None:
        override = option('BuilderOptions.num_classes', max(ids) + 1)
        are_levels = counts[0] and likely.correct_ids(counts)
        table = f' Or {_gray_table()}.' if are_levels else ''
        raise DataError(f'Fix the masks, {advice}.{table} If the ids are right, set {override}.')
    return ids[-1] + 1


def _description(
    options: BuildFolderOptions,
    classes: Classes,
    count: int,
    splits: Mapping[str, Sequence[pairs.SourceFiles]],
    with_instances: set[int] | None,
) -> descriptor.DatasetDescriptor:
    """Returns the description of the records; `with_instances` are the ids that have instances in the masks."""
    dataset = classes.dataset
    if dataset is None:
        folder = os.path.basename(os.path.abspath(options.output_dir)) or 'dataset'
        channels, bits = _image_kind(next(iter(splits.values()))[0])
        dataset = descriptor.DatasetDescriptor(
            folder, count, palette=classes.palette, image_channels=channels, image_bits=bits
        )
    names, palette = classes.names, None
    if classes.table is not None and options.colors:
        names, palette = names or classes.table.names(count), classes.table.palette(count)
    names = names or tuple(dataset.class_names or (f'class_{number}' for number in range(count)))
    things = dataset.things if classes.things is None else classes.things
    if options.annotations is None and options.things:
        things = label_classes.things_of(options.things, names, classes.ignore_label)
    elif things is None and with_instances is not None:
        things = sorted(with_instances - {classes.ignore_label})
    return dataclasses.replace(
        dataset,
        num_classes=count,
        ignore_label=classes.ignore_label,
        splits={split: len(items) for split, items in splits.items()},
        class_names=names,
        palette=dataset.palette if palette is None else palette,
        things=things,
        label_divisor=None,
        bands=options.raster.bands or None,
        value_range=options.raster.value_range or None,
        depth_scale=dataset.depth_scale if options.depth_scale is None else options.depth_scale,
    )


def _image_kind(item: pairs.SourceFiles) -> tuple[int, int]:
    """Returns channels and bits of an array; the defaults 3 and 8 for other images."""
    header = images.read_header(item.image_contents())
    return (header.channels, header.bits) if header.format == 'npy' else (3, 8)
