"""Records of annotated images: their files, names, splits and masks, and warnings about the annotations."""

from __future__ import annotations

import collections
import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from absl import logging

from deeplab.datasets import file_pairs, folder_splits, folders, pairs
from deeplab.datasets.annotations import formats, image_search, label_classes, labelme
from deeplab.datasets.annotations.label_classes import LabelClasses
from deeplab.datasets.annotations.masks import AnnotationMask
from deeplab.datasets.annotations.shapes import AnnotatedImage, AnnotationSet
from deeplab.errors import DataError
from deeplab.names import counted, listed, shown
from deeplab.options import BuildFolderOptions
from deeplab.wording import option

_SHOWN = 3  # number of texts with paths that a message lists
_LONGEST = 500  # characters of such a text
_BESIDE_IMAGES = ('annotations', 'ann', 'labels')  # folders that often lie beside a folder of images


def find(
    options: BuildFolderOptions, names: Sequence[str] | None, ignore_label: int
) -> tuple[LabelClasses, dict[str, list[pairs.SourceFiles]]]:
    """Reads annotations, and finds their images; returns the classes, and the records of each split.

    Args:
      options: the input.
      names: names of the classes in order; None to take the names in the annotations.
      ignore_label: id of pixels that are excluded from loss and metrics.

    Raises:
      OptionError: The labels do not fit the options.
      DataError: Annotations are broken or of no known format, images are missing or annotated twice.
    """
    path = options.annotations or ''
    annotations = formats.read(path)
    logging.info("'%s' contains %s of %s.", path, annotations.format, counted(len(annotations.images), 'image'))
    classes = label_classes.of(annotations, options, names, ignore_label)
    if options.image_folder != BuildFolderOptions.image_folder:
        folders.require_folder(options.image_folder, 'BuildFolderOptions.image_folder')
    roots = _roots(path, options)
    painted = [image.painted.path for image in annotations.images if image.painted is not None]
    search = image_search.ImageSearch(roots, [*painted, *annotations.not_images])
    images = _with_images(annotations.images, search, options)
    files = [file for _, file in images]
    stems = _stems(files, roots)
    masks = {
        stem: AnnotationMask(annotated, file, classes)
        for stem, (annotated, file) in sorted(zip(stems, images, strict=True), key=lambda pair: pair[0])
    }
    items = {
        stem: pairs.SourceFiles(mask.image, mask.path, stem, mask, labelme.embedded_image if mask.is_embedded else None)
        for stem, mask in masks.items()
    }
    named = {stem: mask.annotated.split for stem, mask in masks.items()}
    bare = search.beside(files)
    used = {id(annotated) for annotated, _ in images}
    unmatched = [*bare, *(image.names[0] for image in annotations.images if id(image) not in used)]
    without = [os.path.splitext(path)[0] for path in unmatched] if options.allow_unmatched else []
    splits = folder_splits.split(list(items), options, named, without)
    _log(annotations, [annotated for annotated, _ in images], bare, options)
    return classes, {split: [items[stem] for stem in stems] for split, stems in splits.items()}


def log_drawing(
    splits: Mapping[str, Sequence[pairs.SourceFiles]], counts: np.ndarray, options: BuildFolderOptions
) -> None:
    """Warns of shapes that reach beyond their images or cover no pixel, once all masks were read.

    Args:
      splits: the records.
      counts: [256], pixels of each id in all masks.
      options: the input.
    """
    masks = {
        item.name: item.source for items in splits.values() for item in items if isinstance(item.source, AnnotationMask)
    }
    clipped = {name: mask.clipped for name, mask in masks.items() if mask.clipped}
    empty = {name: mask.empty for name, mask in masks.items() if mask.empty}
    for what, numbers in (('extend beyond their images and were clipped', clipped), ('cover no pixel', empty)):
        if numbers:
            total, names = sum(numbers.values()), file_pairs.named(list(numbers))
            logging.warning('%d shapes %s, in %d images: %s.', total, what, len(numbers), names)
    fill = next((mask.classes.fill for mask in masks.values()), None)
    if fill is not None and not counts[fill] and options.unlabeled == label_classes.BACKGROUND:
        logging.warning(
            'No pixel is without a label, so that the class %s has none. %s leaves it out.',
            label_classes.BACKGROUND,
            option('BuildFolderOptions.unlabeled', label_classes.IGNORED),
        )


def _roots(path: str, options: BuildFolderOptions) -> list[str]:
    """Returns the folders that are searched for images."""
    folder = path if os.path.isdir(path) else os.path.dirname(path) or '.'
    parent, name = os.path.split(os.path.abspath(folder))
    roots = [options.image_folder, folder]
    if name.lower() in _BESIDE_IMAGES:
        roots.append(os.path.join(parent, 'images'))
    return list(dict.fromkeys(filter(os.path.isdir, roots)))


def _with_images(
    annotated: Iterable[AnnotatedImage], search: image_search.ImageSearch, options: BuildFolderOptions
) -> list[tuple[AnnotatedImage, str]]:
    """Returns annotations with the files of their images."""
    with_files: list[tuple[AnnotatedImage, str]] = []
    missing, several, twice = [], [], []
    earlier: dict[str, AnnotatedImage] = {}
    for image in annotated:
        paths = search.find(image)
        if len(paths) > 1:
            several.append(f'{image.names[0]} ({" or ".join(paths[:2])})')
        elif not paths and image.embedded is None:
            missing.append(image.names[0])
        elif paths and (other := earlier.setdefault(os.path.realpath(paths[0]), image)) is not image:
            twice.append(f"{paths[0]} ('{other.path}' and '{image.path}')")
        else:
            with_files.append((image, paths[0] if paths else image.embedded or ''))
    total = len(with_files) + len(missing) + len(several) + len(twice)
    if several:
        raise DataError(
            f'The images of {len(several)} of {total} annotations are not unique, since files in several folders have '
            f'their names: {_listed(several)}. Remove the others, or set '
            f'{option("BuildFolderOptions.image_folder")} to the folder that is meant.'
        )
    if twice:
        raise DataError(
            f'{len(twice)} images have two annotations: {_listed(twice)}. Remove one of each, or set '
            f'{option("BuildFolderOptions.annotations")} to the file that is meant.'
        )
    if missing and (not options.allow_unmatched or not with_files):
        raise DataError(
            f'The images of {len(missing)} of {total} annotations are missing: {file_pairs.named(missing)}. Set '
            f'{option("BuildFolderOptions.image_folder")}, or leave them out with '
            f'{option("BuildFolderOptions.allow_unmatched", True)}.'
        )
    if missing:
        logging.warning(
            '%d of %d annotations were left out, because their images are missing: %s.',
            len(missing),
            total,
            file_pairs.named(missing),
        )
    return with_files


def _listed(texts: Sequence[str]) -> str:
    """Returns the first three texts with paths, and the number of the others."""
    return listed([shown(text, _LONGEST) for text in texts], _SHOWN)


def _stems(files: Sequence[str], roots: Sequence[str]) -> list[str]:
    """Returns the paths of images without extension, relative to a root with all of them or to their common folder."""
    paths = [os.path.abspath(file) for file in files]
    candidates = [os.path.abspath(root) for root in roots]
    candidates.append(os.path.commonpath([os.path.dirname(path) for path in paths]))
    base = next(root for root in candidates if all(os.path.commonpath([root, path]) == root for path in paths))
    stems = [os.path.splitext(os.path.relpath(path, base))[0].replace(os.sep, '/') for path in paths]
    if len(set(stems)) < len(stems):
        stem = collections.Counter(stems).most_common(1)[0][0]
        first, second = [file for file, own in zip(files, stems, strict=True) if own == stem][:2]
        raise DataError(f"'{first}' and '{second}' have the same name except for the extension. Rename one of them.")
    return stems


def _log(
    annotations: AnnotationSet, annotated: Sequence[AnnotatedImage], others: Sequence[str], options: BuildFolderOptions
) -> None:
    """Warns of what was left out, and of images without shapes or annotation."""
    if annotations.left_out:
        parts = ', '.join(f'{number} x {reason}' for reason, number in sorted(annotations.left_out.items()))
        logging.warning('Left out of the annotations: %s.', parts)
    bare = [image.names[0] for image in annotated if image.painted is None and not image.shapes]
    if bare:
        logging.warning(
            '%d of %d images have no shape: all of their pixels become %s: %s.',
            len(bare),
            len(annotated),
            options.unlabeled,
            file_pairs.named(bare),
        )
    if others:
        logging.warning(
            '%d images beside the annotated ones have no annotation and are left out: %s.',
            len(others),
            file_pairs.named(others),
        )
