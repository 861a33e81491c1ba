"""Builder of TFRecord files from ADE20K: the scene parsing challenge data set, or the full release."""

from __future__ import annotations

if __name__ == '__main__':  # first, so that help and errors do not wait for TensorFlow
    import os
    import sys

    if not __package__:  # started by its path: put the folder above deeplab/ on the path instead of this file's
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    from deeplab import start

    start.run_program('build_ade20k_data')

import os
import pathlib
import random
from typing import Any

from deeplab.datasets import ade20k_release, build_data, descriptor, file_pairs, folders, pairs
from deeplab.errors import DataError
from deeplab.options import BuildAde20kOptions
from deeplab.wording import option

DEFAULT_NUM_SHARDS = 4
_IMAGE_FORMATS = ('jpg', 'jpeg')  # of the full release


def run(options: BuildAde20kOptions) -> dict[str, Any]:
    """Writes the splits train and val, each shuffled by the seed.

    All files are searched for before anything is written.

    Returns:
      A summary of what was written (`build_data.write_splits`).

    Raises:
      DataError: A folder or file is missing, or a file is invalid (`build_data.write_split`).
    """
    splits = _find_items(options) if options.full_release_root is None else _find_release_items(options)
    if options.ignore_label:  # in ADE20K, 0 is the id of pixels that belong to no class
        build_data.warn_of_ignored_class(options.num_classes, options.ignore_label)
    return build_data.write_splits(splits, options, DEFAULT_NUM_SHARDS, [descriptor.load('ade20k')])


def _find_items(options: BuildAde20kOptions) -> dict[str, list[pairs.SourceFiles]]:
    """Finds the records of both splits, in their shuffled order."""
    for name in ('train_image_folder', 'train_image_label_folder', 'val_image_folder', 'val_image_label_folder'):
        folders.require_folder(getattr(options, name), f'BuildAde20kOptions.{name}')
    return {
        'train': _items('train', options.train_image_folder, options.train_image_label_folder, options),
        'val': _items('val', options.val_image_folder, options.val_image_label_folder, options),
    }


def _items(split: str, image_folder: str, label_folder: str, options: BuildAde20kOptions) -> list[pairs.SourceFiles]:
    search = folders.Search()

    def label_of(path: str) -> str:
        return search.first(label_folder, [options.label_format], pathlib.Path(path).stem)

    visible = [path for path in pathlib.Path(image_folder).iterdir() if not path.name.startswith('.')]
    others = build_data.other_formats(options.image_format, image_folder, label_folder)
    paths = [str(path) for path in folders.of_extensions(visible, options.image_format, others)]
    ending = f'.{options.image_format}'.lower()
    if any(path.lower().endswith(ending) for path in paths):  # others without a mask are no images of the data set
        paths = [path for path in paths if path.lower().endswith(ending) or os.path.isfile(label_of(path))]
    if not paths:
        hint = build_data.hint_format(image_folder, options.image_format)
        raise DataError(
            f"There is no image (*{ending}, or another one with a mask) in '{image_folder}'. "
            f'{folders.summary(image_folder)}{hint}'
        )
    random.Random(options.seed).shuffle(paths)
    labels = [label_of(path) for path in paths]
    missing = [label for label in labels if not os.path.isfile(label)]
    build_data.require_files(split, missing, len(labels), os.path.join(label_folder, f'NAME.{options.label_format}'))
    return [pairs.SourceFiles(path, label, path) for path, label in zip(paths, labels, strict=True)]


def _find_release_items(options: BuildAde20kOptions) -> dict[str, list[pairs.SourceFiles]]:
    """Finds the records of both splits in the full release, in their shuffled order."""
    root = options.full_release_root or ''
    folders.require_folder(root, 'BuildAde20kOptions.full_release_root')
    masks = file_pairs.by_stem(root, ('png',), ade20k_release.MASK_SUFFIX)
    images = file_pairs.by_stem(root, _IMAGE_FORMATS)
    if not masks:
        raise DataError(
            f"There is no mask *{ade20k_release.MASK_SUFFIX}.png in '{root}' or its folders. {folders.summary(root)} "
            f'Set {option("BuildAde20kOptions.full_release_root")}.'
        )
    for kind, found, partner, others in (('masks', masks, 'image', images), ('images', images, 'mask', masks)):
        if lost := sorted(found.keys() - others.keys()):
            raise DataError(
                f"{len(lost)} of {len(found)} {kind} in '{root}' have no {partner}: {file_pairs.named(lost)}."
            )
    classes, dataset = ade20k_release.CLASS_MAP, descriptor.load('ade20k')
    if options.class_map is not None:
        classes = ade20k_release.load_map(options.class_map, dataset.class_names or ())
    splits: dict[str, list[pairs.SourceFiles]] = {'train': [], 'val': []}
    for stem, mask in sorted(masks.items()):
        source = ade20k_release.ReleaseMasks(mask, classes, dataset.things if options.instances else None)
        splits[_split_of(stem)].append(pairs.SourceFiles(images[stem], mask, pathlib.PurePosixPath(stem).name, source))
    for items in splits.values():
        random.Random(options.seed).shuffle(items)
    return {split: items for split, items in splits.items() if items}


def _split_of(stem: str) -> str:
    """Returns the split of an image, such as images/ADE/validation/urban/street/ADE_val_00000001."""
    *above, name = stem.split('/')
    return 'val' if 'validation' in above or name.startswith('ADE_val_') else 'train'
