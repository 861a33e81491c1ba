"""Encoding and decoding of an image and its mask as a `tf.train.Example`.

The keys are the contract with every record that exists (docs/architecture.md, Data).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from deeplab import common
from deeplab.datasets import images, wire
from deeplab.errors import DataError

ENCODED_KEY = 'image/encoded'
FILENAME_KEY = 'image/filename'
FORMAT_KEY = 'image/format'
HEIGHT_KEY = 'image/height'
WIDTH_KEY = 'image/width'
CHANNELS_KEY = 'image/channels'
LABEL_ENCODED_KEY = 'image/segmentation/class/encoded'
LABEL_FORMAT_KEY = 'image/segmentation/class/format'

_SIXTEEN_BIT_SCALE = 257.0  # 65535 / 255: what a value of 16 bits is divided by


@dataclasses.dataclass(frozen=True)
class Example:
    """The files in one record, still encoded.

    Attributes:
      image_bytes: the image's file.
      image_name: name of the image in the record.
      label_bytes: the mask's file; None if there is none.
    """

    image_bytes: bytes
    image_name: str
    label_bytes: bytes | None


def encode(
    image_bytes: bytes,
    image_format: str,
    filename: str,
    height: int,
    width: int,
    channels: int = 3,
    label_bytes: bytes | None = None,
) -> bytes:
    """Serializes one image with its mask.

    Args:
      image_bytes: the image's file.
      image_format: 'jpeg', 'png' or 'npy'.
      filename: name of the image in the record.
      height: rows of the image.
      width: columns of the image.
      channels: channels of the image.
      label_bytes: the mask's PNG file, single-channel ids of the same height and width; None for no mask.

    Returns:
      The serialized `tf.train.Example`; the same arguments give the same bytes.
    """
    features: dict[str, wire.Value] = {
        ENCODED_KEY: image_bytes,
        FILENAME_KEY: filename.encode('utf-8', 'surrogateescape'),  # a file's name may be any bytes
        FORMAT_KEY: image_format.encode(),
        HEIGHT_KEY: height,
        WIDTH_KEY: width,
        CHANNELS_KEY: channels,
    }
    if label_bytes is not None:
        features[LABEL_ENCODED_KEY] = label_bytes
        features[LABEL_FORMAT_KEY] = b'png'
    return wire.write_features(features)


def parse(serialized: bytes) -> Example:
    """Reads a record without TensorFlow and without decoding its files.

    Args:
      serialized: the serialized `tf.train.Example`.

    Returns:
      What it holds.

    Raises:
      DataError: It is not a `tf.train.Example`, or has no image.
    """
    try:
        features = wire.read_features(serialized)
    except ValueError as error:
        raise DataError(f'it is {error}') from None
    image, name, label = (features.get(key, b'') for key in (ENCODED_KEY, FILENAME_KEY, LABEL_ENCODED_KEY))
    if not isinstance(image, bytes) or not image:
        raise DataError(f"it has no image (the key '{ENCODED_KEY}')")
    return Example(
        image,
        name.decode('utf-8', 'replace') if isinstance(name, bytes) else str(name),
        label if isinstance(label, bytes) and label else None,
    )


def decode(serialized: Any, with_label: bool = True, channels: int = 3, bits: int = 8) -> dict[str, Any]:
    """Reads a record with TensorFlow operations.

    The formats of images and masks are detected from their content; `image/format` is ignored. Of three channels and 8
    bits an image is a JPEG or PNG, and gray gets three equal channels; else it may be an array as well (`images.Header.
    reads_as` says which file gives how many channels). JPEG is decoded as `tf.image.decode_jpeg` does it by default.

    Args:
      serialized: string tensor, [] one serialized `tf.train.Example`.
      with_label: whether to decode the mask, which must be there then.
      channels: channels of the image.
      bits: 8, or 16 to keep all bits of 16-bit files. 8-bit files are accepted for both.

    Returns:
      By the keys of `common`: IMAGE [h, w, channels] uint8 (float32 with 16 bits, brought to 0 to 255 without
      rounding), IMAGE_NAME [] string, HEIGHT and WIDTH [] int32, and with `with_label` LABEL [h, w, 1] uint8.

    Raises:
      tf.errors.InvalidArgumentError: (when run) an image or mask cannot be decoded.
    """
    import tensorflow as tf  # here, so that builders and checks do without it

    features = {
        ENCODED_KEY: tf.io.FixedLenFeature([], tf.string),
        FILENAME_KEY: tf.io.FixedLenFeature([], tf.string, ''),
    }
    if with_label:
        features[LABEL_ENCODED_KEY] = tf.io.FixedLenFeature([], tf.string)
    parsed = tf.io.parse_single_example(serialized, features)
    image = decode_image(parsed[ENCODED_KEY], channels, bits)  # [h, w, channels]
    size = tf.shape(image)
    sample = {
        common.IMAGE: image,
        common.IMAGE_NAME: parsed[FILENAME_KEY],
        common.HEIGHT: size[0],
        common.WIDTH: size[1],
    }
    if with_label:
        sample[common.LABEL] = _decode_label(parsed[LABEL_ENCODED_KEY])  # [h, w, 1]
    return sample


def _decode_label(content: Any) -> Any:
    """Returns a mask as [h, w, 1] uint8 ids: the samples as they are stored, also if they have 1, 2 or 4 bits."""
    import tensorflow as tf

    label = tf.io.decode_png(content, channels=1)
    # The operation repeats the bits of gray samples of 1, 2 or 4 bits until they fill 8; the first bits are the sample.
    head = tf.io.decode_raw(tf.strings.substr(content, 0, 26), tf.uint8)
    is_png, bits, is_gray = tf.equal(head[0], 0x89), head[24], tf.equal(head[25], 0)
    surplus = tf.where(is_png & is_gray & (bits < 8), 8 - bits, tf.zeros_like(bits))
    return tf.bitwise.right_shift(label, surplus)


def decode_image(content: Any, channels: int, bits: int) -> Any:
    """Returns the image in the content of a file, a string tensor: [h, w, channels], see `decode`."""
    import tensorflow as tf

    if (channels, bits) == (3, 8):
        # In spite of its name, the operation reads the content: PNG too.
        return tf.io.decode_jpeg(content, channels=3)
    kind = tf.uint8 if bits == 8 else tf.float32

    def array() -> tf.Tensor:
        return tf.numpy_function(lambda text: _read_array(text, channels, bits), [content], kind)

    def picture() -> tf.Tensor:
        if bits == 8:
            return _decode_picture(content, channels, tf.uint8)
        return tf.cond(
            tf.io.is_jpeg(content),
            # Asked for 16 bits, the operation gives a JPEG's values 256 times, not 257.
            lambda: tf.cast(_decode_picture(content, channels, tf.uint8), tf.float32),
            lambda: tf.cast(_decode_picture(content, channels, tf.uint16), tf.float32) / _SIXTEEN_BIT_SCALE,
        )

    if channels > 4:
        image = array()
    else:
        is_array = tf.equal(tf.strings.substr(content, 0, len(images.ARRAY_MAGIC)), images.ARRAY_MAGIC)
        image = tf.cond(is_array, array, picture)
    image.set_shape([None, None, channels])
    return image


def _decode_picture(content: Any, channels: int, kind: Any) -> Any:
    """Returns a JPEG or PNG of up to four channels: [h, w, channels] uint8 or uint16."""
    import tensorflow as tf

    if channels != 2:
        return tf.io.decode_png(content, channels=channels, dtype=kind)
    gray_and_alpha = tf.io.decode_png(content, channels=4, dtype=kind)  # gray three times, then alpha
    return gray_and_alpha[..., 2:]


def _read_array(content: bytes, channels: int, bits: int) -> np.ndarray:
    """Returns `images.read_array` with that many channels, uint8 for 8 bits, float32 in 0 to 255 for 16."""
    # Outside of a graph, TensorFlow hands over an array of one object.
    values = images.read_array(content if isinstance(content, bytes) else content.item())
    if values.shape[2] != channels or values.dtype.itemsize * 8 > bits:
        raise DataError(f'it has {values.shape[2]} channels of {values.dtype.name}, not {channels} of {bits} bits')
    if bits == 8:
        return values
    return values.astype(np.float32) / np.float32(_SIXTEEN_BIT_SCALE if values.dtype == np.uint16 else 1.0)
