"""Label images and RGB images as PNG files."""

from __future__ import annotations

import io
import os
import zlib

import numpy as np
from PIL import Image

from deeplab.errors import DataError
from deeplab.files import writing
from deeplab.utils import get_dataset_colormap

# Labels become smaller than with Pillow's defaults and photographs 5 % larger, in a third of the time.
_COMPRESSION = {'compress_level': 1, 'compress_type': zlib.Z_RLE}


def save_annotation(
    label: np.ndarray,
    save_dir: str,
    filename: str,
    add_colormap: bool = True,
    normalize_to_unit_values: bool = False,
    scale_values: bool = False,
    colormap_type: np.ndarray | str = get_dataset_colormap.PASCAL,
) -> str:
    """Writes a label image as SAVE_DIR/FILENAME.png, atomically.

    Args:
      label: [h, w] numbers: class ids, or values that the two arguments below map to 0 to 255.
      save_dir: existing folder.
      filename: name without extension.
      add_colormap: whether to write the ids in colors (RGB); else they are stored as they are (gray).
      normalize_to_unit_values: whether to map the values' range to 0 to 1 first.
      scale_values: whether to multiply the values by 255 first.
      colormap_type: name of a color map, or its colors, [n, 3] uint8.

    Returns:
      Path of the file.

    Raises:
      DataError: `label` has a value outside 0 to 255 or without a color, or the file cannot be written.
    """
    if add_colormap:
        pixels = get_dataset_colormap.label_to_color_image(label, colormap_type).astype(np.uint8, copy=False)
    else:
        pixels = _as_bytes(label, normalize_to_unit_values, scale_values)
    return save_image(pixels, save_dir, filename)


def save_image(pixels: np.ndarray, save_dir: str, filename: str, palette: np.ndarray | None = None) -> str:
    """Writes pixels as SAVE_DIR/FILENAME.png, atomically.

    Args:
      pixels: [h, w] (gray) or [h, w, 3] (RGB) uint8.
      save_dir: existing folder.
      filename: name without extension.
      palette: [256, 3] uint8, with which [h, w] are stored as indices; None for no palette.

    Returns:
      Path of the file.

    Raises:
      DataError: The file cannot be written.
    """
    path = os.path.join(save_dir, f'{filename}.png')
    with writing.explained(path):
        content = io.BytesIO()  # if Pillow writes the file, it reports a full disk as "encoder error -2"
        picture = Image.fromarray(pixels)
        if palette is not None:
            picture.putpalette(palette.tobytes())
        picture.save(content, 'PNG', **_COMPRESSION)
        writing.write(path, content.getvalue())
    return path


def viewable(pixels: np.ndarray) -> np.ndarray:
    """Returns the visible channels of an image [h, w, channels]: the first three, or the first if there are fewer."""
    return pixels[..., :3] if pixels.shape[-1] >= 3 else pixels[..., 0]


def rounded(pixels: np.ndarray) -> np.ndarray:
    """Returns pixels as uint8: rounded and limited to 0 to 255, unless they are of that type."""
    return pixels if pixels.dtype == np.uint8 else np.clip(np.rint(pixels), 0, 255).astype(np.uint8)


def _as_bytes(label: np.ndarray, normalize_to_unit_values: bool, scale_values: bool) -> np.ndarray:
    """Converts values to uint8; raises `DataError` for values that would overflow."""
    values = np.asarray(label)
    if normalize_to_unit_values:
        low, high = values.min(initial=np.inf), values.max(initial=-np.inf)
        values = (values - low) / (high - low) if high > low else np.zeros(values.shape)
    if scale_values:
        values = 255.0 * values
    if values.dtype != np.uint8 and values.size and not (values.min() >= 0 and values.max() <= 255):
        raise DataError(
            f'The label image has values from {values.min()} to {values.max()}, but a PNG can only have 0 to 255.'
        )
    return values.astype(np.uint8)
