"""Reader of encoded images and writer of examples, for scripts that import them from the original's `build_data`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from deeplab.datasets import example, images
from deeplab.errors import DataError, OptionError

if TYPE_CHECKING:
    import tensorflow as tf

_FORMATS = ('jpeg', 'jpg', 'png')
_CHANNELS = (1, 3)


class ImageReader:
    """Reads the size and the pixels of encoded images, inside or outside of a TensorFlow session."""

    def __init__(self, image_format: str = 'jpeg', channels: int = 3) -> None:
        """Creates it.

        Args:
          image_format: 'jpeg', 'jpg' or 'png'. The content decides how an image is decoded.
          channels: channels of decoded images: 1, 3, or 0 for as many as the file has.

        Raises:
          OptionError: The format or the number of channels is another one.
        """
        if image_format not in _FORMATS:
            raise OptionError(f'image_format={image_format!r} is not allowed: it must be one of {", ".join(_FORMATS)}.')
        if channels not in (0, *_CHANNELS):
            raise OptionError(f'channels={channels!r} is not allowed: it must be 0, 1 or 3.')
        self._channels = channels

    def read_image_dims(self, image_data: bytes) -> tuple[int, int]:
        """Returns height and width as they are stored, without EXIF rotation; the pixels are not decoded.

        Raises:
          DataError: It is neither JPEG nor PNG, or its header is damaged.
        """
        header = images.read_header(image_data)
        return header.height, header.width

    def decode_image(self, image_data: bytes) -> np.ndarray:
        """Returns the pixels, as TensorFlow decodes them.

        Args:
          image_data: a JPEG or PNG file.

        Returns:
          [height, width, channels] uint8.

        Raises:
          DataError: It cannot be decoded, or has neither 1 nor 3 channels.
        """
        import tensorflow as tf

        # The scripts may have switched eager execution off, or be inside a graph that must not grow.
        with tf.__internal__.eager_context.eager_mode():
            try:
                pixels: np.ndarray = tf.io.decode_png(image_data, channels=self._channels).numpy()
            except tf.errors.InvalidArgumentError as error:
                raise DataError(f'The image cannot be decoded: {error.message}') from None
        if pixels.shape[2] not in _CHANNELS:
            raise DataError(f'The image has {pixels.shape[2]} channels; 1 or 3 are allowed.')
        return pixels


def int64_list_feature(values: int | Iterable[int]) -> tf.train.Feature:
    """Returns a feature of one integer or of several."""
    import tensorflow as tf

    listed = values if isinstance(values, Iterable) else [values]
    return tf.train.Feature(int64_list=tf.train.Int64List(value=listed))


def bytes_list_feature(values: bytes | str) -> tf.train.Feature:
    """Returns a feature of one text or of the content of one file."""
    import tensorflow as tf

    content = values.encode() if isinstance(values, str) else values
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[content]))


def image_seg_to_tfexample(
    image_data: bytes, filename: str | bytes, height: Any, width: Any, seg_data: bytes
) -> tf.train.Example:
    """Returns the record of one image and its mask.

    Args:
      image_data: the image's file, a JPEG or PNG. Its content determines `image/format`, which was a flag in the
        original.
      filename: name of the image in the record.
      height: rows of the image.
      width: columns of the image.
      seg_data: the mask's file: a PNG of class ids, of the same height and width.

    Raises:
      DataError: The image is neither JPEG nor PNG.
    """
    import tensorflow as tf

    name = filename.decode('utf-8', 'surrogateescape') if isinstance(filename, bytes) else filename
    image_format = images.content_format(image_data)
    serialized = example.encode(image_data, image_format, name, int(height), int(width), label_bytes=seg_data)
    return tf.train.Example.FromString(serialized)
