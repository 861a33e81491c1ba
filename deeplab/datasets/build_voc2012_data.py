"""Builder of TFRecord files from the layout of PASCAL VOC 2012: images, masks, and a list of names for each split."""

from __future__ import annotations

if __name__ == '__main__':  # first, so that help and errors do not wait for TensorFlow
    import os
    import sys

    if not __package__:  # started by its path: put the folder above deeplab/ on the path instead of this file's
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    from deeplab import start

    start.run_program('build_voc2012_data')

import functools
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import logging

from deeplab.datasets import build_data, descriptor, folders, pairs, split_lists
from deeplab.errors import DataError
from deeplab.names import shown
from deeplab.options import BuildVocOptions
from deeplab.wording import option

DEFAULT_NUM_SHARDS = 4


def run(options: BuildVocOptions) -> dict[str, Any]:
    """Writes one split for each list.

    A split none of whose masks exists (VOC's test) is written without masks, as long as another split has masks. All
    files are searched for before anything is written.

    Returns:
      A summary of what was written (`build_data.write_splits`).

    Raises:
      DataError: A folder, list or file is missing, or a file is invalid (`build_data.write_split`).
    """
    splits = _find_items(options)
    build_data.warn_of_ignored_class(options.num_classes, options.ignore_label)
    sizes = {split: len(items) for split, items in splits.items()}
    return build_data.write_splits(splits, options, DEFAULT_NUM_SHARDS, descriptor.of_sizes(sizes))


def _find_items(options: BuildVocOptions) -> dict[str, list[pairs.SourceFiles]]:
    """Finds the records of every split, in the order of the lists."""
    folders.require_folder(options.list_folder, 'BuildVocOptions.list_folder')
    folders.require_folder(options.image_folder, 'BuildVocOptions.image_folder')
    if options.semantic_segmentation_folder:
        folders.require_folder(options.semantic_segmentation_folder, 'BuildVocOptions.semantic_segmentation_folder')
    lists = folders.of_extension(pathlib.Path(options.list_folder).iterdir(), 'txt')
    if not lists:
        raise DataError(
            f"There is no list *.txt in '{options.list_folder}'. Each split needs one, with one name without extension "
            f'per line. {folders.summary(options.list_folder)}'
        )
    others = build_data.other_formats(options.image_format, options.image_folder, options.semantic_segmentation_folder)
    search = folders.Search()
    find_image = functools.cache(functools.partial(search.first, options.image_folder, [options.image_format, *others]))
    find_mask = functools.partial(search.first, options.semantic_segmentation_folder, [options.label_format])
    splits = {path.stem: [_name_of(line, find_image) for line in split_lists.read(path)] for path in lists}
    masks: dict[str, dict[str, str]] = dict.fromkeys(splits, {})
    if options.semantic_segmentation_folder:
        masks = {
            split: {name: path for name in names if os.path.isfile(path := find_mask(name))}
            for split, names in splits.items()
        }
        if not any(masks.values()):
            example = shown(f'{next(iter(splits.values()))[0]}.{options.label_format}')
            raise DataError(
                f"There is no mask of any split in '{options.semantic_segmentation_folder}', searched for as "
                f'NAME.{options.label_format}, such as {example}. Set '
                f'{option("BuildVocOptions.semantic_segmentation_folder")}, or leave it empty to build records without '
                'masks.'
            )
    return {
        split: _items(split, [(name, find_image(name)) for name in names], masks[split], options)
        for split, names in splits.items()
    }


def _name_of(line: str, find_image: Callable[[str], str]) -> str:
    """Returns the name of the image in a line: its path without extension; the line itself if there is none."""
    return next((name for name in split_lists.names_in(line) if os.path.isfile(find_image(name))), line)


def _items(
    split: str, images: Sequence[tuple[str, str]], masks: Mapping[str, str], options: BuildVocOptions
) -> list[pairs.SourceFiles]:
    """Returns the records of one split, from names and paths of its images, and paths of existing masks by name."""
    missing = [path for _, path in images if not os.path.isfile(path)]
    if missing:
        stem = pathlib.Path(missing[0]).name.removesuffix(f'.{options.image_format}')
        hint = build_data.hint_format(options.image_folder, options.image_format, stem)
        pattern = os.path.join(options.image_folder, f'NAME.{options.image_format}')
        build_data.require_files(split, missing, len(images), pattern, hint)
    if not masks:
        logging.warning("Split '%s' has no masks: it can be visualized, but not trained on or evaluated.", split)
        return [pairs.SourceFiles(path, None, name) for name, path in images]
    pattern = os.path.join(options.semantic_segmentation_folder, f'NAME.{options.label_format}')
    without_mask = [f'{name}.{options.label_format}' for name, _ in images if name not in masks]
    build_data.require_files(split, without_mask, len(images), pattern)
    return [pairs.SourceFiles(path, masks[name], name) for name, path in images]
