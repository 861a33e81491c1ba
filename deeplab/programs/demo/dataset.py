"""Writes drawn scenes as a data set in the layout of PASCAL VOC, with a JSON description.

JPEGImages/train_0000.jpg
SegmentationClass/train_0000.png      palette PNG: the ids are the palette's indices
ImageSets/Segmentation/{train,val}.txt
street.json                           for --dataset=.../street.json
"""

from __future__ import annotations

import io
import json
import os
import pathlib
import re
from collections.abc import Callable, Mapping

from PIL import Image

from deeplab.files import writing
from deeplab.programs.demo import scenes
from deeplab.programs.demo.canvas import IGNORE_LABEL

IMAGES = 'JPEGImages'
MASKS = 'SegmentationClass'
LISTS = 'ImageSets/Segmentation'
DESCRIPTION = 'street.json'
JPEG_QUALITY = 92


def write_dataset(
    folder: str | os.PathLike[str],
    seed: int,
    splits: Mapping[str, int],
    size: tuple[int, int],
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Draws a data set; `folder` appears only when it is complete.

    Args:
      folder: destination; it must not exist yet, or be empty.
      seed: seed of every scene.
      splits: number of scenes for each split ('train', 'val').
      size: height and width of the scenes, in pixels.
      progress: called with (number of scenes drawn, number of all scenes) after each scene.
    """
    folder = pathlib.Path(folder)
    writing.remove_leftovers(str(folder.parent), re.escape(folder.name))
    with writing.atomic_path(folder) as temporary:
        _write_into(pathlib.Path(temporary), seed, splits, size, progress)


def _write_into(
    beside: pathlib.Path,
    seed: int,
    splits: Mapping[str, int],
    size: tuple[int, int],
    progress: Callable[[int, int], None] | None,
) -> None:
    """Writes all files of the data set into a new folder."""
    for name in (IMAGES, MASKS, LISTS):
        (beside / name).mkdir(parents=True)
    drawn, total = 0, sum(splits.values())
    for split, count in splits.items():
        names = [f'{split}_{index:04d}' for index in range(count)]
        for index, name in enumerate(names):
            scene = scenes.draw_scene(seed, split, index, *size)
            (beside / IMAGES / f'{name}.jpg').write_bytes(_jpeg(scene))
            (beside / MASKS / f'{name}.png').write_bytes(_mask_png(scene))
            drawn += 1
            if progress is not None:
                progress(drawn, total)
        (beside / LISTS / f'{split}.txt').write_text(''.join(f'{name}\n' for name in names), 'utf-8')
    (beside / DESCRIPTION).write_text(json.dumps(description(splits), indent=2) + '\n', 'utf-8')


def description(splits: Mapping[str, int]) -> dict[str, object]:
    """Returns the description of the data set, with the keys that `datasets/descriptor.py` reads."""
    return {
        'name': 'street',
        'num_classes': len(scenes.CLASS_NAMES),
        'ignore_label': IGNORE_LABEL,
        'class_names': list(scenes.CLASS_NAMES),
        'palette': [list(color) for color in scenes.PALETTE],
        'splits': dict(splits),
    }


def _jpeg(scene: scenes.Scene) -> bytes:
    content = io.BytesIO()
    Image.fromarray(scene.image).save(content, 'JPEG', quality=JPEG_QUALITY)
    return content.getvalue()


def _mask_png(scene: scenes.Scene) -> bytes:
    picture = Image.fromarray(scene.mask)
    picture.putpalette(scenes.mask_palette())
    content = io.BytesIO()
    picture.save(content, 'PNG')
    return content.getvalue()
