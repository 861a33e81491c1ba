"""Generated records for measurements without a data set. Importing this module does not load TensorFlow."""

from __future__ import annotations

import io
import os

import numpy as np
from PIL import Image

from deeplab.datasets import example, tfrecord
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.pictures.sample_image import sample_image

_IMAGES = 16


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
    channels = descriptor.image_channels
    pixels, mask = sample_image(size, channels, number, descriptor.num_classes, descriptor.ignore_label)
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
    return example.encode(stream.getvalue(), kind, f'generated_{number}', *size, channels, label.getvalue())
