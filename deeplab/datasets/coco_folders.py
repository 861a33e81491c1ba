"""Folders of COCO, as its archives are unpacked: images of each split and year, and files that belong to them."""

from __future__ import annotations

import os
from collections.abc import Sequence

from deeplab.datasets import folders

SPLITS = ('train', 'val')
_IMAGE_FOLDERS = ('images', '')


def images(root: str, split: str, year: int) -> str | None:
    """Returns the folder of the images of a split, ROOT/images/train2017 or ROOT/train2017; None if there is none."""
    return first(root, _IMAGE_FOLDERS, f'{split}{year}')


def first(root: str, inner: Sequence[str], name: str, without: str | None = None) -> str | None:
    """Returns the first folder ROOT/INNER/NAME that exists and is not `without`; None if there is none."""
    for path in (os.path.join(root, folder, name) for folder in inner):
        if os.path.isdir(path) and path != without:
            return path
    return None


def summary(root: str) -> str:
    """Describes the folder, and its folders of images and annotations, in sentences."""
    text = folders.summary(root)
    for name in ('images', 'annotations'):
        if os.path.isdir(os.path.join(root, name)):
            text += f' {name}: {folders.summary(os.path.join(root, name))}'
    return text
