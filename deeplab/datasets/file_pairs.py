"""Search for image files and mask files that belong together, by their paths in two folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from deeplab.datasets import folders
from deeplab.errors import DataError
from deeplab.options import IMAGE_FORMATS, BuildFolderOptions
from deeplab.utils.names import shown
from deeplab.wording import option

# Files that are certainly meant as masks, although only PNG can be read: the error names them.
MASK_FORMATS = ('png', 'jpg', 'jpeg')
_SHOWN = 10  # number of names that a message lists


def find(options: BuildFolderOptions) -> dict[str, tuple[str, str]]:
    """Returns paths of image and mask by their common stem, which is a relative path without extension; sorted.

    Raises:
      DataError: A folder has no such files, two files have the same stem, or one has no partner.
    """
    same = os.path.realpath(options.image_folder) == os.path.realpath(options.mask_folder)
    formats = ('png',) if same else MASK_FORMATS
    masks = by_stem(options.mask_folder, formats, options.mask_suffix, () if same else (options.image_folder,))
    _require_some(
        masks,
        options.mask_folder,
        f'mask (*{options.mask_suffix}.png)',
        'mask_suffix' if options.mask_suffix else 'mask_folder',
    )
    taken = {os.path.realpath(path) for path in masks.values()} if same else set()
    inner = () if same else (options.mask_folder,)
    images = by_stem(options.image_folder, IMAGE_FORMATS, '', inner, lambda path: os.path.realpath(path) not in taken)
    _require_some(images, options.image_folder, f'image ({", ".join(IMAGE_FORMATS)})', 'image_folder')
    both = sorted(images.keys() & masks.keys())
    if not both or not options.allow_unmatched:
        _require_partners(images, masks, options)
    return {stem: (images[stem], masks[stem]) for stem in both}


def matched(split: str, image_folder: str, mask_folder: str, mask_suffix: str = '') -> dict[str, tuple[str, str]]:
    """Returns paths of image and mask of a split by their common stem, sorted.

    Args:
      split: name of the split, for messages.
      image_folder: folder of the images.
      mask_folder: folder of the masks.
      mask_suffix: what the stem of each mask has in addition to that of its image.

    Raises:
      DataError: A folder has no such files, or one has no partner.
    """
    images, masks = by_stem(image_folder, IMAGE_FORMATS), by_stem(mask_folder, ('png',), mask_suffix)
    for found, folder, kinds in ((images, image_folder, IMAGE_FORMATS), (masks, mask_folder, (f'{mask_suffix}.png',))):
        if not found:
            raise DataError(
                f"Split '{split}': there is no file ({', '.join(kinds)}) in '{folder}'. {folders.summary(folder)}"
            )
    parts = []
    if lost := sorted(images.keys() - masks.keys()):
        parts.append(f"{len(lost)} of {len(images)} images in '{image_folder}' have no mask: {named(lost)}.")
    if lost := sorted(masks.keys() - images.keys()):
        parts.append(f"{len(lost)} of {len(masks)} masks in '{mask_folder}' have no image: {named(lost)}.")
    if parts:
        raise DataError(f"Split '{split}': {' '.join(parts)} Complete the data set, or remove these files.")
    return {stem: (images[stem], masks[stem]) for stem in sorted(images)}


def named(stems: Sequence[str]) -> str:
    """Returns the first ten names, separated by commas, and the number of the others."""
    more = f' and {len(stems) - _SHOWN} more' if len(stems) > _SHOWN else ''
    return ', '.join(map(shown, stems[:_SHOWN])) + more


def by_stem(
    folder: str,
    formats: Sequence[str],
    suffix: str = '',
    without: Sequence[str] = (),
    is_wanted: Callable[[str], bool] = lambda path: True,
) -> dict[str, str]:
    """Returns the files of a folder and of the folders in it by stem.

    Args:
      folder: path of the folder.
      formats: extensions in lower case, without a dot; files may have them in any case.
      suffix: end of the stem of each file, which the result omits.
      without: folders to leave out.
      is_wanted: whether to take the file of a path.

    Returns:
      Paths by stem: the path relative to `folder`, with slashes, without suffix and extension.

    Raises:
      DataError: A folder cannot be read, or two files have the same stem.
    """
    visited = {os.path.realpath(other) for other in without}
    found: dict[str, str] = {}
    for here, names in folders.walk(folder, visited):
        for name in names:
            stem, extension = os.path.splitext(name)
            path = os.path.join(here, name)
            if extension[1:].lower() not in formats or not stem.endswith(suffix) or not is_wanted(path):
                continue
            key = os.path.relpath(os.path.join(here, stem[: len(stem) - len(suffix)]), folder).replace(os.sep, '/')
            if key in found:
                raise DataError(
                    f"'{found[key]}' and '{path}' have the same name except for the extension. Remove one of them."
                )
            found[key] = path
    return found


def _require_some(found: Mapping[str, str], folder: str, what: str, field: str) -> None:
    """Raises `DataError` if no file was found."""
    if not found:
        fix = f'Set {option(f"BuildFolderOptions.{field}")}.'
        raise DataError(f"There is no {what} in '{folder}' or its folders. {folders.summary(folder)} {fix}")


def _require_partners(images: Mapping[str, str], masks: Mapping[str, str], options: BuildFolderOptions) -> None:
    """Raises `DataError` if a file has no partner."""
    without_mask, without_image = sorted(images.keys() - masks.keys()), sorted(masks.keys() - images.keys())
    parts = []
    if without_mask:
        parts.append(f'{len(without_mask)} of {len(images)} images have no mask: {named(without_mask)}.')
    if without_image:
        parts.append(f'{len(without_image)} of {len(masks)} masks have no image: {named(without_image)}.')
    if not parts:
        return
    fix = f'Leave them out with {option("BuildFolderOptions.allow_unmatched", True)}.'
    if len(without_mask) == len(images):
        fix = (
            'A mask has the path of its image, relative to its folder, apart from the extension. If the names of all '
            f'masks end in the same text, such as _mask, set {option("BuildFolderOptions.mask_suffix")}.'
        )
    raise DataError(' '.join([*parts, fix]))
