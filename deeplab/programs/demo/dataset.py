"""Writes drawn scenes as a data set in the layout of PASCAL VOC, with a JSON description.

JPEGImages/train_0000.jpg
SegmentationClass/train_0000.png      palette PNG: the ids are the palette's indices
ImageSets/Segmentation/{train,val}.txt
SegmentationObject/train_0000.png     with instances: gray PNG of 16 bits, the ids of the instances
street.json                           for --dataset=.../street.json
"""

from __future__ import annotations

import json
import os
import pathlib
import re
from collections.abc import Mapping

import numpy as np
import tqdm
from PIL import Image

from deeplab.files import writing
from deeplab.pictures import drawing
from deeplab.programs.demo import scenes
from deeplab.programs.demo.canvas import IGNORE_LABEL

IMAGES = 'JPEGImages'
MASKS = 'SegmentationClass'
INSTANCES = 'SegmentationObject'
LISTS = 'ImageSets/Segmentation'
DESCRIPTION = 'street.json'
JPEG_QUALITY = 92


def write_dataset(
    folder: str | os.PathLike[str],
    seed: int,
    splits: Mapping[str, int],
    size: tuple[int, int],
    with_instances: bool = False,
) -> None:
    """Draws a data set; `folder` appears only when it is complete.

    Args:
      folder: destination; it must not exist yet, or be empty.
      seed: seed of every scene.
      splits: number of scenes for each split ('train', 'val').
      size: height and width of the scenes, in pixels.
      with_instances: whether to draw crowded scenes, and to write their instances.
    """
    folder = pathlib.Path(folder)
    writing.remove_leftovers(str(folder.parent), re.escape(folder.name))
    bar = tqdm.tqdm(total=sum(splits.values()), desc='scenes', unit='scene', leave=False, disable=None)
    with writing.atomic_path(folder) as temporary, bar:
        root = pathlib.Path(temporary)
        for name in (IMAGES, MASKS, LISTS, *([INSTANCES] if with_instances else [])):
            (root / name).mkdir(parents=True)
        for split, count in splits.items():
            names = [f'{split}_{index:04d}' for index in range(count)]
            for index, name in enumerate(names):
                scene = scenes.draw_scene(seed, split, index, *size, crowded=with_instances)
                Image.fromarray(scene.image).save(root / IMAGES / f'{name}.jpg', quality=JPEG_QUALITY)
                mask = Image.fromarray(scene.mask)
                mask.putpalette(_mask_palette())
                mask.save(root / MASKS / f'{name}.png')
                if with_instances:
                    Image.fromarray(scene.instances).save(root / INSTANCES / f'{name}.png')
                bar.update()
            (root / LISTS / f'{split}.txt').write_text(''.join(f'{name}\n' for name in names), 'utf-8')
        (root / DESCRIPTION).write_text(json.dumps(description(splits, with_instances), indent=2) + '\n', 'utf-8')


def pixels(path: pathlib.Path) -> np.ndarray:
    """Returns the pixels of an image file, or the ids of a mask."""
    with Image.open(path) as picture:
        return np.asarray(picture)


def true_ids(folder: pathlib.Path, stem: str) -> list[np.ndarray]:
    """Returns the class ids of a scene, [h, w], and its instance ids, [h, w], if the data set has instances."""
    paths = (folder / kind / f'{stem}.png' for kind in (MASKS, INSTANCES))
    return [pixels(path) for path in paths if path.exists()]


def _mask_palette() -> list[int]:
    """Returns the palette of masks, 256 RGB triples in a row; unused ids are black, ignored pixels as in VOC."""
    colors = np.zeros((256, 3), np.uint8)
    colors[: len(scenes.PALETTE)] = scenes.PALETTE
    colors[IGNORE_LABEL] = drawing.IGNORED_COLOR
    return colors.ravel().tolist()


def description(splits: Mapping[str, int], with_instances: bool = False) -> dict[str, object]:
    """Returns the description of the data set, with the keys that `datasets/descriptor.py` reads."""
    return {
        'name': 'street',
        'num_classes': len(scenes.CLASS_NAMES),
        'ignore_label': IGNORE_LABEL,
        'class_names': list(scenes.CLASS_NAMES),
        'palette': [list(color) for color in scenes.PALETTE],
        'splits': dict(splits),
        **({'things': list(scenes.THINGS)} if with_instances else {}),
    }
