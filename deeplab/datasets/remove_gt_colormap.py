"""Conversion of palette PNG masks (such as VOC's SegmentationClass) to single-channel PNG masks of class ids."""

from __future__ import annotations

if __name__ == '__main__':  # first, so that help and errors do not wait for TensorFlow
    import os
    import sys

    if not __package__:  # started by its path: put the folder above deeplab/ on the path instead of this file's
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    from deeplab import start

    start.run_program('remove_gt_colormap')

import contextlib
import functools
import os
import pathlib
import time
from typing import Any

import tqdm

from deeplab.datasets import build_data, folders, images, mask_sources, orientation, pairs
from deeplab.errors import DataError
from deeplab.files import folder_lock, output_files, writing
from deeplab.options import RemoveColormapOptions
from deeplab.wording import option


def run(options: RemoveColormapOptions) -> dict[str, Any]:
    """Converts every mask of a folder; masks of plain ids are copied. EXIF orientations are applied.

    Returns:
      output_dir, the number of masks and the seconds taken.

    Raises:
      DataError: The folder is missing or has no mask, or a mask is truncated or has several channels. Each file is
        written whole or not at all.
    """
    start = time.monotonic()
    folders.require_folder(options.original_gt_folder, 'RemoveColormapOptions.original_gt_folder')
    if os.path.realpath(options.original_gt_folder) == os.path.realpath(options.output_dir):
        raise DataError(
            f'{option("RemoveColormapOptions.output_dir", options.output_dir)} is the folder of the original masks, '
            'which are not overwritten. Set another folder.'
        )
    extension = options.segmentation_format.removeprefix('.')
    paths = [str(path) for path in folders.of_extension(pathlib.Path(options.original_gt_folder).iterdir(), extension)]
    if not paths:
        raise DataError(
            f"There is no *.{extension} in '{options.original_gt_folder}'. "
            f'{folders.summary(options.original_gt_folder)} Set {option("RemoveColormapOptions.original_gt_folder")} '
            f'or {option("RemoveColormapOptions.segmentation_format")}.'
        )
    with folder_lock.held(options.output_dir, 'remove_gt_colormap', 'RemoveColormapOptions.output_dir'):
        writing.remove_leftovers(output_files.make_folder(options.output_dir), r'.+\.png')
        convert = functools.partial(_convert_file, output_dir=options.output_dir)
        with contextlib.closing(build_data.in_order(convert, paths, options.num_workers)) as done:
            for _ in tqdm.tqdm(done, 'masks', len(paths), leave=False, disable=None):
                pass
    return {'output_dir': options.output_dir, 'masks': len(paths), 'seconds': round(time.monotonic() - start, 3)}


def _convert_file(path: str, output_dir: str) -> None:
    """Writes the ids of a mask, a PNG with a palette or one channel, under its own name into an existing folder."""
    with pairs.naming(path):
        content = mask_sources.contents(path)
        ids = images.mask_as_gray_png(content, orientation.read(content))
    target = pathlib.Path(output_dir, f'{pathlib.Path(path).stem}.png')
    with writing.explained(target):
        if target.exists() and not _is_plain_mask(target.read_bytes()):
            raise DataError(
                f"'{target}' exists and is not a single-channel mask, so it is not overwritten. Set another "
                f'{option("RemoveColormapOptions.output_dir")}.'
            )
        writing.write(target, ids)


def _is_plain_mask(content: bytes) -> bool:
    """Returns whether a file is empty or a PNG with one channel of 8 bits, as this program writes."""
    if not content:
        return True
    try:
        header = images.read_header(content)
    except DataError:
        return False
    return (header.format, header.channels, header.bits) == ('png', 1, 8)
