"""Builder of TFRecord files for image classification, from folders of classes or from a table of labels."""

from __future__ import annotations

if __name__ == '__main__':  # first, so that help and errors do not wait for TensorFlow
    import os
    import sys

    if not __package__:  # started by its path: put the folder above deeplab/ on the path instead of this file's
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    from deeplab import start

    start.run_program('build_classification_data')

import collections
import contextlib
import csv
import os
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tqdm
from absl import logging

from deeplab import names
from deeplab.datasets import (
    build_data,
    descriptor,
    file_pairs,
    folder_splits,
    folders,
    images,
    label_file,
    mask_sources,
    pairs,
    plane_files,
    planes,
    split_lists,
)
from deeplab.errors import DataError
from deeplab.files import documents
from deeplab.options import IMAGE_FORMATS, BuildClassificationOptions
from deeplab.wording import option

DEFAULT_NUM_SHARDS = 4
_BETWEEN_LABELS = '|'  # of an image of several classes
_INTEGER = re.compile(r'[+-]?\d+')
_SPLIT_NAME = re.compile(r'\w[\w.-]*')
_SHOWN = 3  # number of names that a message has
_LARGEST_IGNORED = 255
_COLOR = (3, 8)  # channels and bits; of images that are no arrays, the most
_MOST_CLASSES = 100_000  # whose number follows from ids; more is a number of something else


class Row(NamedTuple):
    """What is said about an image; empty texts for nothing."""

    label: str
    split: str = ''
    group: str = ''


def run(options: BuildClassificationOptions) -> dict[str, Any]:
    """Writes the splits, their description and labels.txt.

    Returns:
      A summary of what was written (`build_data.write_splits`).

    Raises:
      DataError: A file is missing or no image, a folder has no image, or a label is no class. Nothing is written then.
    """
    folders.require_folder(options.image_folder, 'BuildClassificationOptions.image_folder')
    paths = file_pairs.by_stem(options.image_folder, IMAGE_FORMATS)
    file_pairs.require_images(paths, options.image_folder, IMAGE_FORMATS, 'BuildClassificationOptions')
    table = options.labels_file
    rows = _of_folders(options.image_folder, paths) if table is None else _of_table(table, paths)
    by_label = collections.defaultdict(list)
    for stem in sorted(rows):
        for label in _labels(rows[stem]):
            by_label[label].append(stem)
    class_names, ids = _classes(by_label, options)
    channels, bits = _largest_kind([paths[stem] for stem in rows], options.num_workers)
    splits = _splits(rows, options)
    items = {
        split: [item_of(paths[stem], stem, _class_ids(rows[stem], ids)) for stem in stems]
        for split, stems in splits.items()
    }
    name = os.path.basename(os.path.abspath(options.output_dir)) or 'dataset'
    dataset = described(name, class_names, image_channels=channels, image_bits=bits)
    summary = build_data.write_splits(items, options, DEFAULT_NUM_SHARDS, [dataset])
    label_file.write(summary['output_dir'], class_names)
    for facts in summary['splits'].values():
        facts['labeled'] = True
    return summary


def described(name: str, class_names: Sequence[str], **facts: Any) -> descriptor.DatasetDescriptor:
    """Returns the description of records for image classification; `facts` are further fields of it."""
    count = len(class_names)
    facts['ignore_label_is_class'] = count > _LARGEST_IGNORED  # no image is ignored
    return descriptor.DatasetDescriptor(name, count, class_names=class_names, has_masks=False, **facts)


def item_of(path: str, name: str, class_ids: int | np.ndarray, **more: Any) -> pairs.SourceFiles:
    """Returns the record of an image and its class, or classes [n]; `more` are further fields of it."""
    plane = plane_files.PlaneNumbers(planes.CLASS_LABEL, class_ids)
    return pairs.SourceFiles(path, None, name, planes=(plane,), **more)


def _labels(row: Row) -> list[str]:
    return [label.strip() for label in row.label.split(_BETWEEN_LABELS)]


def _class_ids(row: Row, ids: Mapping[str, int]) -> int | np.ndarray:
    """Returns the class id of an image, or of an image of several classes [n] int64."""
    chosen = [ids[label] for label in _labels(row)]
    return chosen[0] if len(chosen) == 1 else np.array(sorted(set(chosen)), np.int64)


def _grouped(rows: Mapping[str, Row], field: str) -> dict[str, list[str]]:
    """Returns the images by their label, split or group; all in the order of their paths."""
    groups = collections.defaultdict(list)
    for stem in sorted(rows):
        groups[getattr(rows[stem], field)].append(stem)
    return groups


def _of_folders(root: str, paths: Mapping[str, str]) -> dict[str, Row]:
    """Returns what folders say: ROOT/CLASS/..., or ROOT/SPLIT/CLASS/... if all outer folders have names of splits.

    Raises:
      DataError: An image is in no folder of a class, or such a folder has no image, or another file.
    """
    outer = {stem.partition('/')[0] for stem in paths}
    depth = int(all(map(folder_splits.usual_split, outer)))
    name_classes = f'name their classes in a file for {option("BuildClassificationOptions.labels_file")}'
    folder_splits.require_splits_alone({stem: stem.partition('/')[0] for stem in paths}, name_classes)
    if loose := [stem for stem in paths if stem.count('/') <= depth]:
        raise DataError(
            f"{len(loose)} of {len(paths)} images in '{root}' are in no folder of a class: {file_pairs.named(loose)}. "
            f'Move them, or {name_classes}.'
        )
    rows = {}
    for stem in paths:
        parts = stem.split('/')
        rows[stem] = Row(parts[depth], folder_splits.usual_split(parts[0]) or '' if depth else '')
    others, classes = [], set()
    for here, files in folders.walk(root):
        inside = [] if here == root else folders.composed(os.path.relpath(here, root)).split(os.sep)
        classes.update(inside[depth : depth + 1])
        wrong = [file for file in files if os.path.splitext(file)[1][1:].lower() not in IMAGE_FORMATS]
        others += ['/'.join([*inside, file]) for file in wrong if len(inside) > depth]
    kinds = ', '.join(IMAGE_FORMATS)
    if empty := sorted(classes - {row.label for row in rows.values()}):
        raise DataError(
            f"There is no image ({kinds}) in these class folders of '{root}': {file_pairs.named(empty)}. Add some, or "
            'remove the folders.'
        )
    if others:
        raise DataError(f"'{root}' has files that are not images ({kinds}): {file_pairs.named(others)}. Remove them.")
    return rows


def _of_table(path: str, paths: Mapping[str, str]) -> dict[str, Row]:
    """Returns what a CSV file says.

    Raises:
      DataError: It cannot be read, lacks a column or a value, or names an image that does not exist, or one twice.
    """
    search, lost = split_lists.Search(paths), []
    rows: dict[str, Row] = {}
    for line, file, row in _lines(path):
        stem = search.find_name(file)
        split = folder_splits.usual_split(row.split) or row.split
        where = f"'{path}', line {line}:"
        if stem is None:
            lost.append(file)
        elif stem in rows:
            raise DataError(f"{where} the image '{names.shown(stem)}' is named a second time. Remove the line.")
        elif not row.label or (split and not _SPLIT_NAME.fullmatch(split)):
            raise DataError(f'{where} it needs a label, and a split of letters and digits or none. Complete the line.')
        else:
            rows[stem] = row._replace(split=split)
    if lost:
        raise DataError(
            f"'{path}' has {names.counted(len(lost), 'name')} of no image, or of images in several folders: "
            f'{file_pairs.named(lost)}. Paths are relative to {option("BuildClassificationOptions.image_folder")}.'
        )
    if not rows:
        raise DataError(f"'{path}' has no line below the names of the columns. Write one line for each image.")
    for field in ('split', 'group'):
        without = [stem for stem, row in rows.items() if not getattr(row, field)]
        if 0 < len(without) < len(rows):
            raise DataError(f"'{path}': the column {field} is empty for {file_pairs.named(without)}. Fill it in.")
    if left_out := sorted(paths.keys() - rows.keys()):
        logging.warning("Left out %d images that '%s' lacks: %s.", len(left_out), path, file_pairs.named(left_out))
    return rows


def _lines(path: str) -> Iterator[tuple[int, str, Row]]:
    """Yields the number, the file and the rest of each line of a CSV file with commas or semicolons."""
    try:
        text = documents.load_text(path)
    except documents.DocumentError as error:
        raise DataError(f"'{path}' {error}.") from None
    head = text.partition('\n')[0].strip()
    reader = csv.reader(text.splitlines(), delimiter=';' if head.count(';') > head.count(',') else ',')
    header = [cell.strip().lower() for cell in next(reader, [])]
    if not {'file', 'label'} <= set(header):
        raise DataError(
            f"The first line of '{path}' must name the columns file and label, and may name split and group; it is "
            f"'{names.shown(head)}'."
        )
    for cells in filter(None, reader):
        row = dict(zip(header, map(str.strip, cells), strict=False))
        if not row.get('file'):
            raise DataError(f"'{path}', line {reader.line_num}: it names no file. Complete or remove the line.")
        yield reader.line_num, row['file'], Row(**{field: row.get(field, '') for field in Row._fields})


def _classes(
    by_label: Mapping[str, Sequence[str]], options: BuildClassificationOptions
) -> tuple[Sequence[str], dict[str, int]]:
    """Returns the names of all classes, and the class id of each label.

    Raises:
      DataError: A label is no class.
    """
    given: Sequence[str] = label_file.chosen(options.class_names)
    are_numbers = all(map(_INTEGER.fullmatch, by_label))
    if are_numbers and options.labels_file is not None and not set(by_label) <= set(given):
        ids = {label: int(label) for label in by_label}
        count = min(max(0, *ids.values()) + 1, _MOST_CLASSES)
        class_names = given or [f'class_{number}' for number in range(count)]
        allowed = f'class ids are 0 to {len(class_names) - 1}'
    else:
        class_names = given or sorted(by_label, key=int if are_numbers else str)
        ids = {name: number for number, name in enumerate(class_names)}
        allowed = f'the classes are {names.listed(class_names, _SHOWN)}'
    for label, stems in by_label.items():
        if not 0 <= ids.get(label, -1) < len(class_names):
            raise DataError(
                f"The label '{names.shown(label)}' of {names.counted(len(stems), 'image')}, such as "
                f"'{names.shown(stems[0])}', is out of range: {allowed}. Correct it, or set "
                f'{option("BuildClassificationOptions.class_names")}.'
            )
    used = {ids[label] for label in by_label}
    if empty := [name for number, name in enumerate(class_names) if number not in used]:
        logging.warning('Classes without an image: %s.', file_pairs.named(empty))
    return class_names, ids


def _splits(rows: Mapping[str, Row], options: BuildClassificationOptions) -> dict[str, list[str]]:
    """Returns the images of each split in random order; without groups, each class has its share of val.

    Raises:
      DataError: see `folder_splits.split`.
    """
    rules = options.split_rules
    by_split, groups = _grouped(rows, 'split'), _grouped(rows, 'group')
    if rules.list_folder:
        splits = folder_splits.split(sorted(rows), rules)
    elif rules.group_pattern is not None:
        splits = folder_splits.by_ratio(sorted(rows), rules)
    elif '' not in by_split and rules.val_fraction is None:
        splits = by_split
        if 'val' not in splits:
            folder_splits.log(folder_splits.without_val(splits))
    elif '' not in groups:
        splits = folder_splits.by_ratio(sorted(rows), rules, groups)
    else:
        splits = collections.defaultdict(list)
        for stems in _grouped(rows, 'label').values():
            of_class = folder_splits.by_ratio(stems, rules) if len(stems) > 1 else {'train': stems}
            for split, part in of_class.items():
                splits[split] += part
    for stems in splits.values():
        random.Random(options.seed).shuffle(stems)
    return splits


def _largest_kind(paths: Sequence[str], num_workers: int | None) -> tuple[int, int]:
    """Returns the channels and bits that all images need; where a color image decides, the others are not read."""
    arrays = [path for path in paths if path.lower().endswith('.npy')]
    kinds = set(build_data.in_order(_image_kind, arrays, num_workers))
    others = [path for path in paths if not path.lower().endswith('.npy')]
    with contextlib.closing(build_data.in_order(_image_kind, others, num_workers)) as found:
        for kind in tqdm.tqdm(found, 'headers', len(others), unit='image', leave=False, disable=None):
            kinds.add(kind)
            if kind == _COLOR:
                break
    return max(kinds)


def _image_kind(path: str) -> tuple[int, int]:
    """Returns the channels and bits that an image needs; raises `DataError` for another file."""
    with pairs.naming(path):
        header = images.read_header(mask_sources.contents(path))
    return (header.channels, header.bits) if header.format == 'npy' or header.channels == 1 else _COLOR
