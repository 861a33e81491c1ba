"""Encoding and decoding of an image, its mask and further planes as a `tf.train.Example`.

The keys are the contract with every record that exists (docs/architecture.md, Data).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from deeplab import common
from deeplab.datasets import images, planes, wire
from deeplab.errors import DataError

ENCODED_KEY = 'image/encoded'
FILENAME_KEY = 'image/filename'
FORMAT_KEY = 'image/format'
HEIGHT_KEY = 'image/height'
WIDTH_KEY = 'image/width'
CHANNELS_KEY = 'image/channels'
LABEL_ENCODED_KEY = 'image/segmentation/class/encoded'
LABEL_FORMAT_KEY = 'image/segmentation/class/format'

_ENCODED, _FORMAT = 'encoded', 'format'  # ends of the keys of a file and of its format
_RAW = b'raw'  # format of the labels in records of deeplab2
_LARGEST_ID = 255  # of a class

_SIXTEEN_BIT_SCALE = 257.0  # 65535 / 255: what a value of 16 bits is divided by


@dataclasses.dataclass(frozen=True)
class Example:
    """The files in one record, still encoded.

    Attributes:
      image_bytes: the image's file.
      image_name: name of the image in the record.
      label_bytes: the mask's file; None if there is none.
      features: all features of the record.
    """

    image_bytes: bytes
    image_name: str
    label_bytes: bytes | None
    features: Mapping[str, wire.Value] = dataclasses.field(default_factory=dict, compare=False)


def encode(
    image_bytes: bytes,
    image_format: str,
    filename: str,
    height: int,
    width: int,
    channels: int = 3,
    label_bytes: bytes | None = None,
    features: Mapping[str, wire.Value] | None = None,
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
      features: further features, such as the file of a plane by `planes.INSTANCE.feature`. A file whose key ends in
        "encoded" gets its format under the key that ends in "format".

    Returns:
      The serialized `tf.train.Example`; the same arguments give the same bytes.
    """
    record: dict[str, wire.Value] = {
        ENCODED_KEY: image_bytes,
        FILENAME_KEY: filename.encode('utf-8', 'surrogateescape'),  # a file's name may be any bytes
        FORMAT_KEY: image_format.encode(),
        HEIGHT_KEY: height,
        WIDTH_KEY: width,
        CHANNELS_KEY: channels,
    }
    if label_bytes is not None:
        record |= {LABEL_ENCODED_KEY: label_bytes, LABEL_FORMAT_KEY: b'png'}
    for key, value in (features or {}).items():
        record[key] = value
        if key.endswith(_ENCODED) and isinstance(value, bytes):
            record[key.removesuffix(_ENCODED) + _FORMAT] = images.content_format(value).encode()
    return wire.write_features(record)


def with_png_labels(serialized: bytes, label_divisor: int) -> bytes:
    """Returns a record of deeplab2 with its labels as PNG files; another record as it is.

    Such a record has one little-endian int32 for each pixel: class id * label_divisor + instance id.

    Args:
      serialized: the serialized `tf.train.Example`.
      label_divisor: the divisor.

    Raises:
      DataError: It is no such record, or a label does not fit.

    Source: google-research/deeplab2 at 64bc1c1, data/data_utils.py and data/dataset_utils.py.
    """
    features = _features(serialized)
    raw: Any = features.get(LABEL_ENCODED_KEY)
    height: Any = features.get(HEIGHT_KEY)
    width: Any = features.get(WIDTH_KEY)
    if features.get(LABEL_FORMAT_KEY) != _RAW:
        return serialized
    has_size = isinstance(height, int) and isinstance(width, int) and min(height, width) > 0
    if not (isinstance(raw, bytes) and has_size and len(raw) == 4 * height * width):
        raise DataError(f'its raw label is not an int32 for each of {height!r} x {width!r} pixels (height x width)')
    labels = np.frombuffer(raw, '<i4').reshape(height, width)
    class_ids = labels // label_divisor
    instance_ids = labels - class_ids * label_divisor  # as np.divmod, in half of its time
    if class_ids.min(initial=0) < 0 or class_ids.max(initial=0) > _LARGEST_ID:
        raise DataError(
            f'its raw label has the class ids {class_ids.min()} to {class_ids.max()}, not 0 to {_LARGEST_ID}: '
            f'label_divisor is {label_divisor}'
        )
    files: dict[str, np.ndarray] = {
        LABEL_ENCODED_KEY: class_ids.astype(np.uint8),
        planes.INSTANCE.feature: instance_ids.astype(np.uint16),
    }
    for key, ids in files.items():
        features[key] = images.encode_png(ids, level=1)  # it is decoded at once
        features[key.removesuffix(_ENCODED) + _FORMAT] = b'png'
    return wire.write_features(features)


def _features(serialized: bytes) -> dict[str, wire.Value]:
    """Returns the features of a record; raises `DataError` if it is no `tf.train.Example`."""
    try:
        return wire.read_features(serialized)
    except ValueError as error:
        raise DataError(f'it is {error}') from None


def parse(serialized: bytes) -> Example:
    """Reads a record without TensorFlow and without decoding its files.

    Args:
      serialized: the serialized `tf.train.Example`.

    Returns:
      What it holds.

    Raises:
      DataError: It is not a `tf.train.Example`, or has no image.
    """
    features = _features(serialized)
    image, name, label = (features.get(key, b'') for key in (ENCODED_KEY, FILENAME_KEY, LABEL_ENCODED_KEY))
    if not isinstance(image, bytes) or not image:
        raise DataError(f"it has no image (the key '{ENCODED_KEY}')")
    return Example(
        image,
        name.decode('utf-8', 'replace') if isinstance(name, bytes) else str(name),
        label if isinstance(label, bytes) and label else None,
        features,
    )


def decode(
    serialized: Any,
    with_label: bool = True,
    channels: int = 3,
    bits: int = 8,
    further: Sequence[planes.Plane] = (),
) -> dict[str, Any]:
    """Reads a record with TensorFlow operations.

    The formats of images and masks are detected from their content; `image/format` is ignored. Of three channels and 8
    bits an image is a JPEG or PNG, and gray gets three equal channels; else it may be an array as well (`images.Header.
    reads_as` says which file gives how many channels). JPEG is decoded as `tf.image.decode_jpeg` does it by default.

    Args:
      serialized: string tensor, [] one serialized `tf.train.Example`.
      with_label: whether to decode the mask, which must be there then.
      channels: channels of the image.
      bits: 8, or 16 to keep all bits of 16-bit files. 8-bit files are accepted for both.
      further: planes to decode, which must be there, with what the data set says about them (`planes.of_dataset`).

    Returns:
      By the keys of `common`: IMAGE [h, w, channels] uint8 (float32 with 16 bits, brought to 0 to 255 without
      rounding), IMAGE_NAME [] string, HEIGHT and WIDTH [] int32, and with `with_label` LABEL [h, w, 1] uint8; further
      planes by their own keys (`planes.Plane`).

    Raises:
      tf.errors.InvalidArgumentError: (when run) an image, mask or plane cannot be decoded, or is not there.
    """
    import tensorflow as tf  # here, so that builders and checks do without it

    features = {
        ENCODED_KEY: tf.io.FixedLenFeature([], tf.string),
        FILENAME_KEY: tf.io.FixedLenFeature([], tf.string, ''),
    }
    if with_label:
        features[LABEL_ENCODED_KEY] = tf.io.FixedLenFeature([], tf.string)
    features |= {plane.feature: planes.feature_spec(plane) for plane in further}
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
    sample |= {plane.key: planes.decode(plane, parsed[plane.feature], size) for plane in further}
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
