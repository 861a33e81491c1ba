"""Metadata of an export: what a program needs to run it, and its origin.

It is a dictionary with a JSON form. Each format stores it where its own tools look for such facts; `Exported.metadata`
has it when an export is opened.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

import deeplab
from deeplab.datasets.descriptor import Classes
from deeplab.options import ExportOptions, Target
from deeplab.registry import BACKBONES, EXPORT_FORMATS

KEY = 'deeplab'  # under which formats store it
_VERSION = 1
_LARGEST = 255.0  # value of a pixel


def of(options: ExportOptions, target: Target, checkpoint: str, step: int, classes: Classes) -> dict[str, Any]:
    """Returns the metadata of an export.

    Args:
      options: network, sizes and conversion.
      target: format and variant.
      checkpoint: its path, of which the name is stored.
      step: of the checkpoint.
      classes: names and colors.
    """
    model, conversion = options.model, options.conversion
    normalization = BACKBONES.get(model.model_variant).normalization
    is_portable = EXPORT_FORMATS.get(target.format).is_portable
    assert model.crop_size is not None
    size = None if is_portable and conversion.is_resizable else list(model.crop_size)
    resize = options.resize
    is_resized = resize.min_value is not None or resize.max_value is not None
    return {
        'metadata_version': _VERSION,
        'deeplab_version': deeplab.__version__,
        'format': target.format,
        'variant': target.variant,
        'checkpoint': os.path.basename(checkpoint),
        'global_step': step,
        'model_variant': model.model_variant,
        'output_stride': model.output_stride,
        'class_names': list(classes.names),
        'colors': classes.colors[: len(classes.names)].tolist(),
        'image_channels': model.input_channels,
        'image_bits': options.image_bits,
        'crop_size': size,
        'resize': [resize.min_value, resize.max_value, resize.factor] if is_resized else None,
        # Images are 0 to 255; the network itself normalizes them (see `of_normalized` for those that do not). What is
        # smaller than the crop is padded with the mean pixel.
        'normalization': 'in the network',
        'mean_pixel': [float(value) for value in normalization.mean_pixel_of(model.input_channels)],
        'outputs': ['labels', 'probabilities'][: 2 if not is_portable or conversion.outputs == 'probabilities' else 1],
    }


def of_normalized(size: tuple[int, int], low: np.ndarray, high: np.ndarray) -> dict[str, Any]:
    """Returns what the metadata of a network says that takes the normalized image.

    Args:
      size: height and width of the image.
      low: values of pixels of 0, [channels].
      high: values of pixels of 255, [channels].
    """
    return {
        'metadata_version': _VERSION,
        'image_channels': len(low),
        'crop_size': list(size),
        'resize': None,
        'normalization': {'low': low.tolist(), 'high': high.tolist()},
        'mean_pixel': (-low * _LARGEST / (high - low)).tolist(),
        'outputs': ['labels'],
    }


def usual_ends(channels: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns -1 and 1, [channels] float32 each: the values of pixels of 0 and of 255 for most networks."""
    return np.full(channels, -1, np.float32), np.full(channels, 1, np.float32)


def ends_in(metadata: Mapping[str, Any]) -> tuple[list[float], list[float]] | None:
    """Returns the values of pixels of 0 and of 255, by channel, that a network takes; None if it takes pixels."""
    found = metadata.get('normalization')
    return (found['low'], found['high']) if isinstance(found, dict) else None


def normalized(images: np.ndarray, metadata: Mapping[str, Any]) -> np.ndarray:
    """Returns images [n, h, w, channels], 0 to 255, as a network takes them, see `ends_in`."""
    ends = ends_in(metadata)
    if ends is None:
        return images
    low, high = np.float32(ends)
    return images * ((high - low) / np.float32(_LARGEST)) + low


def dumped(metadata: Mapping[str, Any]) -> str:
    """Returns metadata as text."""
    return json.dumps(metadata)


def loaded(text: str | bytes) -> dict[str, Any]:
    """Returns the metadata in a text; empty if it is none."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) and 'metadata_version' in found else {}


def classes_in(metadata: Mapping[str, Any]) -> Classes | None:
    """Returns names and colors of the classes; None if the metadata has none."""
    names, colors = metadata.get('class_names'), metadata.get('colors')
    if not names or not colors or len(names) != len(colors):
        return None
    bits = int(metadata.get('image_bits', 8))
    return Classes(tuple(map(str, names)), np.array(colors, np.uint8), bits)


def size_in(metadata: Mapping[str, Any]) -> tuple[int, int] | None:
    """Returns the size of the images of an export; None for any."""
    size = metadata.get('crop_size')
    return (int(size[0]), int(size[1])) if size else None
