"""Search for the files of planes beside images: instance masks, depth and masks of overlapping classes in folders."""

from __future__ import annotations

import os
from collections.abc import Collection

from deeplab.datasets import build_data, file_pairs, folders, planes
from deeplab.datasets.plane_files import PlaneFiles
from deeplab.errors import DataError
from deeplab.options import BuildFolderOptions


def instances(options: BuildFolderOptions, stems: Collection[str]) -> dict[str, str] | None:
    """Returns the file of the instance mask of each image; None if there is no folder of them.

    Args:
      options: the folder.
      stems: relative paths of the images without extension.

    Raises:
      DataError: The folder or a file is missing.
    """
    if options.instance_folder is None:
        return None
    build_data.require_folder(options.instance_folder, 'BuildFolderOptions.instance_folder')
    return _of_every(stems, options.instance_folder, ('png',), 'instance mask (zeros for no instance)')


def _of_every(stems: Collection[str], folder: str, formats: Collection[str], what: str) -> dict[str, str]:
    """Returns the files in a folder by stem; raises `DataError` if one is missing."""
    files = file_pairs.by_stem(folder, tuple(formats))
    if lost := [stem for stem in stems if stem not in files]:
        raise DataError(
            f"{len(lost)} of {len(stems)} images have no {what} in '{folder}': {file_pairs.named(lost)}. It has the "
            f'path of its image, relative to its folder, apart from the extension ({", ".join(formats)}).'
        )
    return files


def class_folders(options: BuildFolderOptions) -> list[str]:
    """Returns the names of the folders of masks of overlapping classes, in the order of the classes.

    Args:
      options: the folder of these folders, and the names of the classes; without names, all folders, sorted.

    Raises:
      DataError: A folder is missing.
    """
    root = options.multilabel_folder
    if root is None:
        return []
    build_data.require_folder(root, 'BuildFolderOptions.multilabel_folder')
    there = sorted(entry.name for entry in os.scandir(root) if entry.is_dir() and not entry.name.startswith('.'))
    names = list(options.class_names) or there
    lost = [name for name in names if name not in there]
    if lost or not names:
        raise DataError(
            f"'{root}' has no folder for the classes {', '.join(lost) or '(there is none)'}. {folders.summary(root)} "
            'It needs a folder with the masks of each class.'
        )
    return names


def find(options: BuildFolderOptions, stems: Collection[str]) -> dict[str, tuple[PlaneFiles, ...]]:
    """Returns the files of the planes of each image.

    Args:
      options: the folders.
      stems: relative paths of the images without extension.

    Raises:
      DataError: A folder is missing, or a file is.
    """
    files: dict[str, tuple[PlaneFiles, ...]] = dict.fromkeys(stems, ())
    if options.depth_folder is not None:
        build_data.require_folder(options.depth_folder, 'BuildFolderOptions.depth_folder')
        plane = planes.DEPTH._replace(scale=options.depth_scale)
        depths = _of_every(stems, options.depth_folder, ('npy', 'png'), 'depth')
        for stem in stems:
            files[stem] += (PlaneFiles(plane, (depths[stem],)),)
    if names := class_folders(options):
        root = str(options.multilabel_folder)
        masks = [file_pairs.by_stem(os.path.join(root, name), ('png',)) for name in names]
        for name, of_class in zip(names, masks, strict=True):
            if of_class and not of_class.keys() & files.keys():
                raise DataError(
                    f"No mask in '{os.path.join(root, name)}' has the path of an image, relative to its folder, apart "
                    f'from the extension: {file_pairs.named(sorted(of_class))}.'
                )
        plane = planes.MULTILABEL._replace(channels=len(names))
        for stem in stems:
            files[stem] += (PlaneFiles(plane, tuple(of_class.get(stem) for of_class in masks)),)
    return files
