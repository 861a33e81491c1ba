"""Search for image files and mask files that belong together, by their paths in two folders."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from deeplab.datasets import folders
from deeplab.errors import DataError
from deeplab.names import listed, shown
from deeplab.options import IMAGE_FORMATS, BuildFolderOptions
from deeplab.wording import option

# Files that are certainly meant as masks, although only PNG can be read: the error names them.
MASK_FORMATS = ('png', 'jpg', 'jpeg')
RASTER_FORMATS = ('tif', 'tiff')  # which are taken where there are no others
OTHER_FORMATS = ('bmp', 'tif', 'tiff', 'webp', 'gif', 'ppm', 'pgm', 'avif', 'heic', 'heif')  # that records cannot hold
_SHOWN = 10  # number of names that a message lists


def search(
    image_folder: str,
    mask_folder: str,
    mask_suffix: str = '',
    image_formats: Sequence[str] = IMAGE_FORMATS,
    mask_formats: Sequence[str] = MASK_FORMATS,
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Returns the images and masks in two folders and in the folders in them, for builders and for the doctor.

    In one folder of both, the PNG files with the suffix are masks, and all other files are images. Where one folder is
    in the other, its files belong to it alone.

    Args:
      image_folder: folder of the images.
      mask_folder: folder of the masks.
      mask_suffix: end of the stem of each mask.
      image_formats: extensions of images; files of earlier ones come first.
      mask_formats: extensions of masks.

    Returns:
      The paths of the images and of the masks by stem, see `grouped`; several images of a stem differ in the extension.

    Raises:
      DataError: A folder cannot be read.
    """
    if os.path.realpath(image_folder) != os.path.realpath(mask_folder):
        masks = grouped(mask_folder, mask_formats, mask_suffix, (image_folder,))
        return grouped(image_folder, image_formats, '', (mask_folder,)), masks
    masks = grouped(mask_folder, ('png',), mask_suffix)
    taken = {os.path.realpath(path) for paths in masks.values() for path in paths}
    images = grouped(image_folder, image_formats, is_wanted=lambda path: os.path.realpath(path) not in taken)
    return images, masks


class Pairs(NamedTuple):
    """Images and masks that belong together, and the stems of files without a partner.

    Attributes:
      files: paths of image and mask by their common stem, sorted; None where no masks are wanted.
      without_mask: stems of images.
      without_image: stems of masks.
    """

    files: Mapping[str, tuple[str, str | None]]
    without_mask: list[str]
    without_image: list[str]


def find(options: BuildFolderOptions) -> Pairs:
    """Returns the images and masks in two folders; the images alone if masks are not wanted.

    Raises:
      DataError: A folder has no such files, two files have the same stem, or one has no partner.
    """
    if not options.wants_masks:
        alone = by_stem(options.image_folder, IMAGE_FORMATS) or by_stem(options.image_folder, RASTER_FORMATS)
        require_images(alone, options.image_folder, IMAGE_FORMATS, 'BuildFolderOptions')
        return Pairs({stem: (alone[stem], None) for stem in sorted(alone)}, [], [])
    all_images, all_masks = _search_any(options)
    masks = _single(all_masks)
    require_masks(masks, options.mask_folder, options.mask_suffix, 'BuildFolderOptions')
    images = _single(all_images)
    require_images(images, options.image_folder, IMAGE_FORMATS, 'BuildFolderOptions')
    both = sorted(images.keys() & masks.keys())
    if not both or not options.allow_unmatched:
        _require_partners(images, masks, options)
    files = {stem: (images[stem], masks[stem]) for stem in both}
    return Pairs(files, sorted(images.keys() - masks.keys()), sorted(masks.keys() - images.keys()))


def _search_any(options: BuildFolderOptions) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Returns images and masks as `search` does; TIFF files where there are no others."""
    searched = options.image_folder, options.mask_folder, options.mask_suffix
    images, masks = search(*searched)
    if not images or not masks:
        formats = IMAGE_FORMATS if images else RASTER_FORMATS, MASK_FORMATS if masks else RASTER_FORMATS
        other_images, other_masks = search(*searched, *formats)
        images, masks = images or other_images, masks or other_masks
    return images, masks


def matched(split: str, image_folder: str, mask_folder: str, mask_suffix: str = '') -> dict[str, tuple[str, str]]:
    """Returns paths of image and mask of a split by their common stem, sorted.

    Args:
      split: name of the split, for messages.
      image_folder: folder of the images.
      mask_folder: folder of the masks.
      mask_suffix: text at the end of the stem of each mask, in addition to the stem of its image.

    Raises:
      DataError: A folder has no such files, or one has no partner.
    """
    images, masks = by_stem(image_folder, IMAGE_FORMATS), by_stem(mask_folder, ('png',), mask_suffix)
    for files, folder, kinds in ((images, image_folder, IMAGE_FORMATS), (masks, mask_folder, (f'{mask_suffix}.png',))):
        if not files:
            raise DataError(
                f"Split '{split}': there is no file ({', '.join(kinds)}) in '{folder}'. {folders.summary(folder)}"
            )
    if parts := _without_partner(images, masks, image_folder, mask_folder):
        raise DataError(f"Split '{split}': {' '.join(parts)} Complete the data set, or remove these files.")
    return {stem: (images[stem], masks[stem]) for stem in sorted(images)}


def _without_partner(
    images: Mapping[str, str], masks: Mapping[str, str], image_folder: str, mask_folder: str
) -> list[str]:
    """Returns a sentence about the images, and one about the masks, that have no partner; none if all have one."""
    return [
        f"{len(lost)} of {len(files)} {kind}s in '{folder}' have no {other}: {named(lost)}."
        for kind, files, folder, other, others in (
            ('image', images, image_folder, 'mask', masks),
            ('mask', masks, mask_folder, 'image', images),
        )
        if (lost := sorted(files.keys() - others.keys()))
    ]


def named(stems: Sequence[str]) -> str:
    """Returns the first ten names, separated by commas, and the number of the others."""
    return listed(list(map(shown, stems)), _SHOWN)


def by_stem(folder: str, formats: Sequence[str], suffix: str = '') -> dict[str, str]:
    """Returns the files of a folder and of the folders in it by stem, as `grouped` does.

    Raises:
      DataError: A folder cannot be read, or two files have the same stem.
    """
    return _single(grouped(folder, formats, suffix))


def grouped(
    folder: str,
    formats: Sequence[str],
    suffix: str = '',
    without: Sequence[str] = (),
    is_wanted: Callable[[str], bool] = lambda path: True,
) -> dict[str, list[str]]:
    """Returns the files of a folder and of the folders in it by stem.

    Args:
      folder: path of the folder.
      formats: extensions in lower case, without a dot; files may have them in any case.
      suffix: end of the stem of each file, which the result omits. Files that have no other name are left out.
      without: folders to leave out.
      is_wanted: whether to take the file of a path.

    Returns:
      Paths by stem, in the order of the formats. A stem is the path relative to `folder`, with slashes, without suffix
      and extension, in composed Unicode (NFC).

    Raises:
      DataError: A folder cannot be read.
    """
    visited = {os.path.realpath(other) for other in without}
    suffix = folders.composed(suffix)
    files: dict[str, list[str]] = {}
    for here, names in folders.walk(folder, visited):
        for name in names:
            stem, extension = os.path.splitext(name)
            stem, path = folders.composed(stem), os.path.join(here, name)
            plain = stem.removesuffix(suffix)
            if not (plain and stem.endswith(suffix) and extension[1:].lower() in formats and is_wanted(path)):
                continue
            key = os.path.relpath(os.path.join(here, plain), folder).replace(os.sep, '/')
            files.setdefault(folders.composed(key), []).append(path)
    for paths in files.values():
        paths.sort(key=lambda path: formats.index(os.path.splitext(path)[1][1:].lower()))
    return files


def _single(files: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Returns the only file of each stem; raises `DataError` if there are two."""
    for first, *others in files.values():
        if others:
            raise DataError(
                f"'{first}' and '{others[0]}' have the same name except for the extension. Remove one of them."
            )
    return {stem: path for stem, (path,) in files.items()}


def require_masks(masks: Collection[str], folder: str, suffix: str, options: str) -> None:
    """Raises `DataError` if no mask was found.

    Args:
      masks: paths or names of the masks.
      folder: folder that was searched.
      suffix: end of the stem of each mask.
      options: the class of options that has the folder, for the message.
    """
    _require_some(masks, folder, f'mask (*{suffix}.png)', f'{options}.{"mask_suffix" if suffix else "mask_folder"}')


def require_images(images: Collection[str], folder: str, formats: Sequence[str], options: str) -> None:
    """Raises `DataError` if no image was found; see `require_masks`."""
    _require_some(images, folder, f'image ({", ".join(formats)})', f'{options}.image_folder')


def _require_some(files: Collection[str], folder: str, what: str, field: str) -> None:
    if not files:
        raise DataError(
            f"There is no {what} in '{folder}' or its folders. {folders.summary(folder)} Set {option(field)}."
        )


def _require_partners(images: Mapping[str, str], masks: Mapping[str, str], options: BuildFolderOptions) -> None:
    parts = _without_partner(images, masks, options.image_folder, options.mask_folder)
    if not parts:
        return
    if other := _of_other_format(sorted(masks.keys() - images.keys()), options.image_folder):
        formats = ', '.join(IMAGE_FORMATS)
        parts.append(f"'{shown(other)}' has the name of such a mask, but images are {formats}: convert it.")
    fix = f'Leave them out with {option("BuildFolderOptions.allow_unmatched", True)}.'
    suffix = fitting_suffix(images, masks)
    if suffix:
        fix = f'The names of masks end in {suffix}: set {option("BuildFolderOptions.mask_suffix", suffix)}.'
    elif not images.keys() & masks.keys():
        fix = (
            'A mask has the path of its image, relative to its folder, apart from the extension. If the names of all '
            f'masks end in the same text, such as _mask, set {option("BuildFolderOptions.mask_suffix")}.'
        )
    raise DataError(' '.join([*parts, fix]))


def _of_other_format(stems: Sequence[str], folder: str) -> str:
    """Returns an image file of another format with the name of one of the masks; '' if there is none."""
    for stem in stems[:_SHOWN]:
        for path in glob.glob(f'{glob.escape(os.path.join(folder, stem))}.*'):
            if os.path.splitext(path)[1][1:].lower() in OTHER_FORMATS:
                return path
    return ''


def fitting_suffix(images: Collection[str], masks: Collection[str]) -> str:
    """Returns the text that every mask's name has behind its image's name; '' if there is none."""
    first = min(images, default='')
    endings = [mask[len(first) :] for mask in masks if first and mask.startswith(first)]
    return next((ending for ending in sorted(endings) if all(stem + ending in masks for stem in images)), '')
