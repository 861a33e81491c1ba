"""What happens to a sample between its record and the network, as a list of small steps.

A sample is a dict keyed by the names in `common`; a step takes a sample and returns a new one. Image and label move
together; a sample without a label passes through every step. Random steps draw from the sample's own seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import tensorflow as tf

from deeplab import common
from deeplab.core import preprocess_utils
from deeplab.options import AugmentOptions, ResizeOptions

Sample = dict[str, tf.Tensor]
Step = Callable[[Sample], Sample]


def train_steps(
    crop_size: tuple[int, int],
    resize: ResizeOptions,
    augment: AugmentOptions,
    mean_pixel: Sequence[float],
    ignore_label: int,
) -> list[Step]:
    """Returns the steps of training: resize to range, scale, pad, crop, flip.

    Only sides smaller than the crop are padded, and only larger ones are cropped, so the two commute: cropping comes
    first, while there is less to copy. For the same reason types are changed after it.

    Args:
      crop_size: rows and columns that the network sees.
      resize: range that the sides are brought into first.
      augment: random scale and flip.
      mean_pixel: RGB, 0 to 255; what the network's normalisation turns into zero.
      ignore_label: what padded pixels of the label get.

    Source: arXiv:1706.05587, section 4 (data augmentation).
    """
    return [
        resize_to_range(resize),
        scale_and_crop_randomly(augment, crop_size),
        to_numbers,
        pad_to(crop_size, mean_pixel, ignore_label),
        flip_randomly(augment.flip_probability),
    ]


def eval_steps(
    crop_size: tuple[int, int],
    resize: ResizeOptions,
    mean_pixel: Sequence[float],
    ignore_label: int,
    keep_original: bool = False,
) -> list[Step]:
    """Returns the steps of evaluation and visualisation: resize to range, note the size, pad; never a crop.

    Args:
      crop_size: rows and columns that the network sees; no image may be larger (after resizing).
      resize: range that the sides are brought into first.
      mean_pixel: RGB, 0 to 255; what the network's normalisation turns into zero.
      ignore_label: what padded pixels of the label get.
      keep_original: whether the sample carries the image as decoded too, with its size.
    """
    return [
        *([note_original] if keep_original else []),
        resize_to_range(resize),
        note_size,
        to_numbers,
        pad_to(crop_size, mean_pixel, ignore_label),
    ]


def apply_steps(sample: Sample, steps: Iterable[Step]) -> Sample:
    """Runs a sample through steps, one after the other."""
    for step in steps:
        sample = step(sample)
    return sample


def to_numbers(sample: Sample) -> Sample:
    """Makes the image float32 (still 0 to 255) and the label int32."""
    image = tf.cast(sample[common.IMAGE], tf.float32)
    label = sample.get(common.LABEL)
    return _with_both(sample, image, None if label is None else tf.cast(label, tf.int32))


def note_original(sample: Sample) -> Sample:
    """Keeps the image as it is, and its size."""
    image = sample[common.IMAGE]
    height, width = preprocess_utils.size_of(image)
    return {
        **sample,
        common.ORIGINAL_IMAGE: image,
        common.ORIGINAL_HEIGHT: tf.convert_to_tensor(height, tf.int32),
        common.ORIGINAL_WIDTH: tf.convert_to_tensor(width, tf.int32),
    }


def note_size(sample: Sample) -> Sample:
    """Keeps the image's present rows and columns; what comes after them is padding."""
    height, width = preprocess_utils.size_of(sample[common.IMAGE])
    return {
        **sample,
        common.HEIGHT: tf.convert_to_tensor(height, tf.int32),
        common.WIDTH: tf.convert_to_tensor(width, tf.int32),
    }


def resize_to_range(resize: ResizeOptions) -> Step:
    """Brings the image's sides into a range; does nothing where neither bound is set."""

    def step(sample: Sample) -> Sample:
        if resize.min_value is None and resize.max_value is None:
            return sample
        height, width = preprocess_utils.size_of(sample[common.IMAGE])
        size = preprocess_utils.size_in_range(height, width, resize.min_value, resize.max_value, resize.factor)
        return _with_both(sample, *preprocess_utils.resize_both(*_both(sample), size))

    return step


def scale_and_crop_randomly(augment: AugmentOptions, crop_size: tuple[int, int]) -> Step:
    """Scales by a random factor and cuts a random window of the crop size; a side that is smaller stays whole."""

    def step(sample: Sample) -> Sample:
        scale = preprocess_utils.random_scale_value(
            augment.min_scale_factor, augment.max_scale_factor, augment.scale_factor_step_size, _seed_of(sample, 0)
        )
        size = preprocess_utils.scaled_size(*preprocess_utils.size_of(sample[common.IMAGE]), scale)
        both = preprocess_utils.resize_and_crop_randomly(*_both(sample), size, crop_size, _seed_of(sample, 1))
        return _with_both(sample, *both)

    return step


def pad_to(crop_size: tuple[int, int], mean_pixel: Sequence[float], ignore_label: int) -> Step:
    """Pads at the bottom and right to the crop size; a larger image is an error."""

    def step(sample: Sample) -> Sample:
        return _with_both(sample, *preprocess_utils.pad_both(*_both(sample), *crop_size, mean_pixel, ignore_label))

    return step


def flip_randomly(probability: float) -> Step:
    """Mirrors left to right with a probability."""

    def step(sample: Sample) -> Sample:
        return _with_both(sample, *preprocess_utils.random_flip(*_both(sample), probability, _seed_of(sample, 2)))

    return step


def _both(sample: Sample) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Image and label; None for a label that is not there."""
    return sample[common.IMAGE], sample.get(common.LABEL)


def _with_both(sample: Sample, image: tf.Tensor, label: tf.Tensor | None) -> Sample:
    """The sample with another image and label."""
    return {**sample, common.IMAGE: image} | ({} if label is None else {common.LABEL: label})


def _seed_of(sample: Sample, purpose: int) -> tf.Tensor:
    """A seed for one random choice: without the purpose, scale, crop and flip would go hand in hand."""
    return tf.random.experimental.stateless_fold_in(sample[common.SEED], purpose)
