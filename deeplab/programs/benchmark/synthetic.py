"""Generated records for measurements without a data set. Importing this module does not load TensorFlow."""

from __future__ import annotations

import io
import os

import numpy as np
from PIL import Image

from deeplab.datasets import example, tfrecord
from deeplab.datasets.descriptor import DatasetDescriptor

_IMAGES = 16
_ROWS, _COLUMNS = 9, 12  # areas of an image


def write(folder: str, split: str, descriptor: DatasetDescriptor, size: tuple[int, int]) -> str:
    """Writes records of one split with images of colored areas and slight noise; returns the folder.

    Args:
      folder: where to; it must exist.
      split: name of the split.
      descriptor: its classes, channels and bits are those of the records.
      size: height and width.
    """
    path = os.path.join(folder, f'{split}-00000-of-00001.tfrecord')
    with open(path, 'wb') as file:
        for number in range(_IMAGES):
            file.write(tfrecord.framed(_record(number, descriptor, size)))
    return folder


def _record(number: int, descriptor: DatasetDescriptor, size: tuple[int, int]) -> bytes:
    """Returns a serialized record."""
    rng = np.random.default_rng(number)
    (height, width), channels = size, descriptor.image_channels
    areas = rng.integers(0, descriptor.num_classes, (_ROWS, _COLUMNS))
    rows, columns = np.arange(height) * _ROWS // height, np.arange(width) * _COLUMNS // width
    mask = areas[rows][:, columns].astype(np.uint8)  # [h, w]
    if descriptor.num_classes > descriptor.ignore_label:
        mask[mask == descriptor.ignore_label] = (descriptor.ignore_label + 1) % descriptor.num_classes
    colors = rng.integers(0, 256, (256, channels))
    pixels = np.clip(colors[mask] + rng.normal(0, 12, (height, width, channels)), 0, 255).astype(np.uint8)
    stream = io.BytesIO()
    if channels == 3 and descriptor.image_bits == 8:
        Image.fromarray(pixels).save(stream, 'JPEG', quality=90)
        kind = 'jpeg'
    else:
        is_wide = descriptor.image_bits == 16
        np.save(stream, pixels.astype(np.uint16) * 257 if is_wide else pixels)
        kind = 'npy'
    label = io.BytesIO()
    Image.fromarray(mask).save(label, 'PNG')
    return example.encode(stream.getvalue(), kind, f'generated_{number}', height, width, channels, label.getvalue())
