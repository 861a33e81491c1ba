"""Metadata of an export: what a program needs to run it, and its origin.

It is a dictionary with a JSON form. Each format stores it where its own tools look for such facts; `Exported.metadata`
has it when an export is opened. Runtimes import this module, so it must not import options.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

KEY = 'deeplab'  # under which formats store it
VERSION = 1
OF_PIXELS = {'metadata_version': VERSION}  # of a network that takes pixels, 0 to 255, and has no further metadata
LABELS = 'labels'  # name of the output with the class ids
_LARGEST = 255.0  # value of a pixel


def of_normalized(size: tuple[int, int], low: np.ndarray, high: np.ndarray) -> dict[str, Any]:
    """Returns what the metadata of a network says that takes the normalized image.

    Args:
      size: height and width of the image.
      low: values of pixels of 0, [channels].
      high: values of pixels of 255, [channels].
    """
    return {
        'metadata_version': VERSION,
        'image_channels': len(low),
        'crop_size': list(size),
        'resize': None,
        'normalization': {'low': low.tolist(), 'high': high.tolist()},
        'mean_pixel': (-low * _LARGEST / (high - low)).tolist(),
        'outputs': [LABELS],
    }


def usual_ends(channels: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns -1 and 1, [channels] float32 each: the values of pixels of 0 and of 255 for most networks."""
    return np.full(channels, -1, np.float32), np.full(channels, 1, np.float32)


def normalized(images: np.ndarray, metadata: Mapping[str, Any]) -> np.ndarray:
    """Returns images [n, h, w, channels], 0 to 255, as a network takes them: normalized, or as they are."""
    ends = metadata.get('normalization')
    if not isinstance(ends, dict):
        return images
    low, high = np.array((ends['low'], ends['high']), np.float32)
    scaled: np.ndarray = images * ((high - low) / np.float32(_LARGEST)) + low
    return scaled


def maps_of(metadata: Mapping[str, Any]) -> dict[str, int]:
    """Returns the channels of each output of a network of other tasks than `semantic`, in order; empty for others."""
    return {str(name): int(channels) for name, channels in metadata.get('task', {}).get('channels', {}).items()}


def dumped(metadata: Mapping[str, Any]) -> str:
    """Returns metadata as text."""
    return json.dumps(metadata)


def is_in(path: str) -> bool:
    """Returns whether a file contains metadata, in a format that stores it as plain text."""
    with open(path, 'rb') as file:
        return b'metadata_version' in file.read()


def loaded(text: str | bytes) -> dict[str, Any]:
    """Returns the metadata in a text; empty if it is none."""
    try:
        metadata = json.loads(text)
    except ValueError:
        return {}
    return metadata if isinstance(metadata, dict) and 'metadata_version' in metadata else {}
