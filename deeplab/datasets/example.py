"""One image and its mask as a `tf.train.Example`: encode beside decode.

The keys are the contract with every record that exists (docs/architecture.md, Data).
"""

from __future__ import annotations

import dataclasses
from typing import Any

from deeplab import common
from deeplab.datasets import wire
from deeplab.errors import DataError

ENCODED_KEY = 'image/encoded'
FILENAME_KEY = 'image/filename'
FORMAT_KEY = 'image/format'
HEIGHT_KEY = 'image/height'
WIDTH_KEY = 'image/width'
CHANNELS_KEY = 'image/channels'
LABEL_ENCODED_KEY = 'image/segmentation/class/encoded'
LABEL_FORMAT_KEY = 'image/segmentation/class/format'


@dataclasses.dataclass(frozen=True)
class Example:
    """The files in one record, still encoded.

    Attributes:
      image_bytes: the image's file.
      image_name: what the record calls the image.
      label_bytes: the mask's file; None where there is none.
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
    label_format: str = 'png',
) -> bytes:
    """Serialises one image with its mask.

    Args:
      image_bytes: the image's file.
      image_format: 'jpeg' or 'png'.
      filename: what the record calls the image.
      height: its rows.
      width: its columns.
      channels: its channels.
      label_bytes: the mask's file, single-channel ids of the same height and width; None for no mask.
      label_format: 'png'.

    Returns:
      The serialised `tf.train.Example`; the same arguments give the same bytes.
    """
    features: dict[str, wire.Value] = {
        ENCODED_KEY: image_bytes,
        FILENAME_KEY: filename.encode(),
        FORMAT_KEY: image_format.encode(),
        HEIGHT_KEY: height,
        WIDTH_KEY: width,
        CHANNELS_KEY: channels,
    }
    if label_bytes is not None:
        features[LABEL_ENCODED_KEY] = label_bytes
        features[LABEL_FORMAT_KEY] = label_format.encode()
    return wire.write_features(features)


def parse(serialized: bytes) -> Example:
    """Reads a record without TensorFlow and without decoding its files.

    Args:
      serialized: the serialised `tf.train.Example`.

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


def decode(serialized: Any, with_label: bool = True) -> dict[str, Any]:
    """Reads a record with TensorFlow operations.

    Images and masks are told apart by their content (JPEG or PNG), whatever `image/format` says; grey images get
    three equal channels. JPEG is decoded as `tf.image.decode_jpeg` does it by default.

    Args:
      serialized: string tensor, [] one serialised `tf.train.Example`.
      with_label: whether to decode the mask, which must be there then.

    Returns:
      By the keys of `common`: IMAGE [h, w, 3] uint8, IMAGE_NAME [] string, HEIGHT and WIDTH [] int32, and with
      `with_label` LABEL [h, w, 1] uint8.

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
    # In spite of its name, the operation reads the content: PNG too.
    image = tf.io.decode_jpeg(parsed[ENCODED_KEY], channels=3)  # [h, w, 3]
    size = tf.shape(image)
    sample = {
        common.IMAGE: image,
        common.IMAGE_NAME: parsed[FILENAME_KEY],
        common.HEIGHT: size[0],
        common.WIDTH: size[1],
    }
    if with_label:
        sample[common.LABEL] = tf.io.decode_png(parsed[LABEL_ENCODED_KEY], channels=1)  # [h, w, 1]
    return sample
