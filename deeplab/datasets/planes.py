"""Planes: what a sample has beside its image and its class ids, and the features of a record that hold it.

A plugin may declare planes of the same kinds under features of its own.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from deeplab import common
from deeplab.datasets import wire
from deeplab.errors import DataError
from deeplab.wording import option

if TYPE_CHECKING:
    from deeplab.datasets.descriptor import DatasetDescriptor

IDS: Literal['ids'] = 'ids'
DEPTHS: Literal['depth'] = 'depth'
MASKS: Literal['masks'] = 'masks'
FLOATS: Literal['floats'] = 'floats'
BYTES: Literal['bytes'] = 'bytes'
INTEGERS: Literal['integers'] = 'integers'
# What to do about records without a plane.
FIX = (
    'Build the records again with the plane, or choose another task. Builders add instances with --instances; '
    'build_folder_data also takes --instance_folder, --depth_folder and --multilabel_folder; build_classification_data '
    'writes classes of images'
)
_LISTS = (FLOATS, BYTES, INTEGERS)
_NO_TEXT = b'\xff'  # never in UTF-8
_BITS = 24  # place of the byte of a PNG with the bits of a sample


class Plane(NamedTuple):
    """Something that a sample has beside its image.

    | kind | feature | sample |
    |---|---|---|
    | ids | gray PNG of up to 16 bits | [h, w, 1] int32 |
    | depth | gray PNG of up to 16 bits: depth in units of `scale`; or .npy of floats | [h, w, 1] float32, 0: invalid |
    | masks | gray PNG, such as 1 bit: the masks of all classes below each other | [h, w, channels] uint8, 0 or 1 |
    | floats | list of n * channels numbers; a record without them has none | [n, channels] float32 |
    | bytes | list of texts or files; a record without them has none | [n] string |
    | integers | list of class ids, which must not be empty | [n] int64 |

    Floats are points if their key begins with `common.POINTS_PREFIX`: [n, channels / 2, 2], rows and columns in pixels
    of the image, 0 at the middle of the first pixel. They move with the image.

    Attributes:
      key: key in a sample.
      feature: name of the feature in a record.
      kind: one of the kinds above.
      channels: number of classes (of `integers`, the allowed ones), or of numbers in a row of floats.
      scale: unit of depth in a PNG; None if it is not known, so that there must not be such a PNG.
      first: integer in a record that is class 0.
      several: setting of the network without which a record has one class id only; empty for any number of them.
    """

    key: str
    feature: str
    kind: Literal['ids', 'depth', 'masks', 'floats', 'bytes', 'integers']
    channels: int = 1
    scale: float | None = None
    first: int = 0
    several: str = ''

    @property
    def is_list(self) -> bool:
        """Whether it has any number of items instead of the size of the image."""
        return self.kind in _LISTS

    @property
    def item_shape(self) -> tuple[int, ...]:
        """The shape of an item of a list."""
        if self.kind in (BYTES, INTEGERS):
            return ()
        return (self.channels // 2, 2) if self.key.startswith(common.POINTS_PREFIX) else (self.channels,)

    @property
    def fill(self) -> int:
        """What its pixels are beyond the image: no instance, no depth, or 255 for an unknown mask."""
        return 255 if self.kind == MASKS else 0

    @property
    def padding(self) -> Any:
        """What fills the list of a sample up to the longest of a batch: no number, no text, and no class."""
        return {BYTES: _NO_TEXT, INTEGERS: np.int64(-1)}.get(self.kind, np.float32(np.nan))


INSTANCE = Plane(common.INSTANCE, 'image/segmentation/instance/encoded', IDS)
DEPTH = Plane(common.DEPTH, 'image/depth/encoded', DEPTHS)
CLASS_LABEL = Plane(common.CLASS_LABEL, 'image/class/label', INTEGERS)
MULTILABEL = Plane(common.MULTILABEL, 'image/segmentation/multilabel/encoded', MASKS)
BUILT = (INSTANCE, DEPTH, MULTILABEL)  # by the builders of this package


def of_dataset(planes: Iterable[Plane], dataset: DatasetDescriptor) -> tuple[Plane, ...]:
    """Returns planes with what a data set says about them: the number of classes, the scale of depth."""
    values: dict[str, dict[str, Any]] = {
        MASKS: {'channels': dataset.num_classes},
        INTEGERS: {'channels': dataset.num_classes, 'first': dataset.labels_offset},
        DEPTHS: {'scale': dataset.depth_scale},
    }
    return tuple(plane._replace(**values.get(plane.kind, {})) for plane in planes)


def missing(planes: Iterable[Plane], features: Mapping[str, wire.Value]) -> str | None:
    """Returns a text about the first plane that a record lacks, which follows "it"; None if it has all.

    Args:
      planes: the planes that are needed.
      features: the features of the record.
    """
    for plane in planes:
        if plane.kind not in (FLOATS, BYTES) and plane.feature not in features:
            return f"has no plane '{plane.key}' (the key '{plane.feature}')"
    return None


def read(plane: Plane, features: Mapping[str, wire.Value], size: tuple[int, int]) -> np.ndarray:
    """Reads a plane without TensorFlow.

    Args:
      plane: the plane.
      features: the features of the record.
      size: height and width of its image.

    Returns:
      The array in the table of `Plane`; texts are an array of objects.

    Raises:
      DataError: The record lacks it, or it is broken, of another kind or of another size.
    """
    if text := missing([plane], features):
        raise DataError(f'it {text}')
    value = features.get(plane.feature)
    if plane.kind == INTEGERS:
        class_ids = np.atleast_1d(np.asarray(value))
        if class_ids.dtype.kind != 'i' or not class_ids.size:
            raise DataError(f"'{plane.feature}' is {value!r}, not a class id")
        allowed = range(plane.first, plane.first + plane.channels)
        if wrong := [number for number in class_ids.tolist() if number not in allowed]:
            raise DataError(f"'{plane.feature}' is {wrong[0]}; class ids are {allowed[0]} to {allowed[-1]}")
        if plane.several and (number := len(np.unique(class_ids))) > 1:
            needed = option(f'ModelOptions.{plane.several}', True)
            raise DataError(f"'{plane.feature}' has {number} class ids, which needs {needed}")
        return class_ids.astype(np.int64) - plane.first
    if plane.kind == BYTES:
        texts = [] if value is None else [value] if isinstance(value, bytes) else value
        return np.array(texts, object)
    if plane.kind == FLOATS:
        numbers = np.zeros(0, np.float32) if value is None else np.asarray(value, np.float32)
        if numbers.size % plane.channels:
            raise DataError(f"'{plane.feature}' has {numbers.size} numbers, not a multiple of {plane.channels}")
        return numbers.reshape(-1, *plane.item_shape)
    if not isinstance(value, bytes):
        raise DataError(f"'{plane.feature}' is not a file")
    try:
        array = _array(plane, value)  # [rows, columns]
    except DataError as error:
        raise DataError(f"plane '{plane.key}': {error}") from None
    rows, columns = array.shape
    if (rows, columns) != (size[0] * (plane.channels if plane.kind == MASKS else 1), size[1]):
        of_classes = f' for {plane.channels} classes' if plane.kind == MASKS else ''
        raise DataError(
            f"plane '{plane.key}': it is {rows} x {columns} pixels (height x width){of_classes}, its image "
            f'{size[0]} x {size[1]}'
        )
    stacked = array.reshape(-1, *size)  # [channels, h, w]
    return np.ascontiguousarray(np.moveaxis(stacked, 0, -1))  # [h, w, channels]


def _array(plane: Plane, content: bytes) -> np.ndarray:
    """Returns the values of a plane of pixels as they lie in its file: [rows, columns]."""
    from deeplab.datasets import images  # here, so that help does without Pillow

    if plane.kind == DEPTHS and content.startswith(images.ARRAY_MAGIC):
        return read_depth_array(content)
    samples = images.read_ids(content)
    if plane.kind == IDS:
        return samples
    if plane.kind == MASKS:
        return (samples > 0).astype(np.uint8)
    if plane.scale is None:
        raise DataError('it is a PNG, but the description of the data set has no depth_scale, the unit of its values')
    return samples.astype(np.float32) * np.float32(plane.scale)


def read_depth_array(content: bytes) -> np.ndarray:
    """Returns depth in a file of NumPy's format.

    Args:
      content: [h, w] or [h, w, 1] of floats.

    Returns:
      [h, w] float32; 0 where the depth is not finite or not positive.

    Raises:
      DataError: It is something else, or broken.
    """
    try:
        values = np.load(io.BytesIO(content), allow_pickle=False)
    except Exception as error:  # damaged files make NumPy raise nearly anything
        raise DataError(f'it cannot be decoded ({error})') from None
    if values.dtype.kind != 'f' or values.ndim not in (2, 3) or values.shape[2:] not in ((), (1,)):
        raise DataError(f'it is an array of {values.dtype.name} {list(values.shape)}; depth is [h, w] of floats')
    depth = values.reshape(values.shape[:2])
    return np.where(np.isfinite(depth) & (depth > 0), depth, 0).astype(np.float32)


def without_padding(plane: Plane, values: np.ndarray) -> np.ndarray:
    """Returns the items of a list in a batch, [n, ...], without `Plane.padding` at the end."""
    is_padding = np.isnan(values) if plane.kind == FLOATS else values == plane.padding
    items: np.ndarray = values[~is_padding.all(axis=tuple(range(1, values.ndim)))]
    return items


def without_class(instance_ids: np.ndarray, class_ids: np.ndarray, ignore_label: int) -> list[int]:
    """Returns the ids of the instances of which every pixel is ignored.

    Args:
      instance_ids: [h, w] integers from 0; 0 is no instance.
      class_ids: [h, w], the classes of these pixels.
      ignore_label: id of the pixels without a class.
    """
    total = np.bincount(instance_ids.reshape(-1))
    labeled = np.bincount(instance_ids[class_ids != ignore_label], minlength=len(total))
    lost: list[int] = np.flatnonzero((total > 0) & (labeled == 0)).tolist()
    return [instance for instance in lost if instance]


def feature_spec(plane: Plane) -> Any:
    """Returns what `tf.io.parse_single_example` is told about a plane."""
    import tensorflow as tf

    if plane.kind == FLOATS:
        return tf.io.FixedLenSequenceFeature([plane.channels], tf.float32, allow_missing=True)
    if plane.kind in (BYTES, INTEGERS):
        kind = tf.string if plane.kind == BYTES else tf.int64
        return tf.io.FixedLenSequenceFeature([], kind, allow_missing=True)
    return tf.io.FixedLenFeature([], tf.string)


def decode(plane: Plane, value: Any, size: Any) -> Any:
    """Returns a plane as TensorFlow operations decode it; `read` gives the same.

    Args:
      plane: the plane.
      value: its feature, as `feature_spec` parses it.
      size: [2] int32, height and width of the image.

    Raises:
      tf.errors.InvalidArgumentError: (when run) it cannot be decoded, or has another size than the image.
    """
    import tensorflow as tf

    from deeplab.datasets import images

    if plane.is_list:
        return tf.reshape(value - plane.first if plane.first else value, [-1, *plane.item_shape])
    if plane.kind == DEPTHS:
        is_array = tf.equal(tf.strings.substr(value, 0, len(images.ARRAY_MAGIC)), images.ARRAY_MAGIC)
        scale = 1.0 if plane.scale is None else plane.scale
        values = tf.cond(
            is_array,
            lambda: tf.numpy_function(_depth_of_array, [value], tf.float32),
            lambda: tf.cast(_samples(value), tf.float32) * scale,
        )
    elif plane.kind == IDS:
        values = _samples(value)
    else:
        values = tf.cast(_samples(value) > 0, tf.uint8)
    height, width = size[0], size[1]
    rows = height * plane.channels if plane.kind == MASKS else height
    message = f"the plane '{plane.key}' has another size than its image"
    with tf.control_dependencies([tf.debugging.assert_equal(tf.shape(values)[:2], [rows, width], message)]):
        values = tf.identity(values)
    if plane.kind == MASKS:
        values = tf.transpose(tf.reshape(values, [-1, height, width]), [1, 2, 0])  # [h, w, channels]
    values.set_shape([None, None, plane.channels])
    return values


def _samples(content: Any) -> Any:
    """Returns the samples of a gray PNG of up to 16 bits: [h, w, 1] int32."""
    import tensorflow as tf

    values = tf.io.decode_png(content, channels=1, dtype=tf.uint16)
    # The operation repeats the bits of a sample until they fill 16; the first bits are the sample.
    bits = tf.cast(tf.io.decode_raw(tf.strings.substr(content, _BITS, 1), tf.uint8)[0], tf.uint16)
    return tf.cast(tf.bitwise.right_shift(values, 16 - bits), tf.int32)


def _depth_of_array(content: Any) -> np.ndarray:
    """Returns `read_depth_array` as [h, w, 1]."""
    # Outside of a graph, TensorFlow hands over an array of one object.
    return read_depth_array(content if isinstance(content, bytes) else content.item())[..., np.newaxis]
