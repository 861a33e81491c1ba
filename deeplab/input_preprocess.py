"""Preprocessing of samples between record and network, as a list of small steps.

A sample is a dict keyed by the names in `common`; a step takes a sample and returns a new one. Image and label move
together; a sample without a label passes through every step. Random steps draw from the sample's own seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import tensorflow as tf

from deeplab import common
from deeplab.core import augmentations, preprocess_utils
from deeplab.options import AugmentOptions, ResizeOptions

Sample = dict[str, tf.Tensor]
Step = Callable[[Sample], Sample]

# Names of the steps of training.
RESIZE = 'resize_to_range'
COLORS = 'colors'
ROTATION = 'rotation'
CROP = 'scale_and_crop'
NUMBERS = 'to_numbers'
BLUR = 'blur'
CUTOUT = 'cutout'
PAD = 'pad'
FLIP = 'flip'


def train_steps(
    crop_size: tuple[int, int],
    resize: ResizeOptions,
    augment: AugmentOptions,
    mean_pixel: Sequence[float],
    ignore_label: int,
    class_pixels: Sequence[int] | None = None,
) -> dict[str, Step]:
    """Returns the steps of training by name, in order: resize, scale, pad, crop, flip; more if `augment` enables them.

    Only sides smaller than the crop are padded, and only larger ones are cropped, so the two commute: cropping comes
    first, while there is less to copy. For the same reason types are changed after it. Colours change before anything
    puts the mean pixel into the image, and rotation comes before the crop, which then shows what was around it.

    Args:
      crop_size: rows and columns of the network's input.
      resize: range of the sides after resizing.
      augment: the random changes.
      mean_pixel: RGB, 0 to 255; the pixel that the network normalises to zero.
      ignore_label: label of padded pixels.
      class_pixels: pixels of each class in the split, for crops at rare classes; None to count those of each image.

    Source: arXiv:1706.05587, section 4 (data augmentation).
    """
    crop = scale_and_crop_randomly(augment, crop_size)
    if augment.rare_class_sampling:
        crop = scale_and_crop_at_rare_classes(augment, crop_size, ignore_label, class_pixels)
    steps = {
        RESIZE: resize_to_range(resize),
        COLORS: change_colors_randomly(augment) if augment.changes_colors else None,
        ROTATION: rotate_randomly(augment, mean_pixel, ignore_label) if augment.rotation_degrees else None,
        CROP: crop,
        NUMBERS: to_numbers,
        BLUR: blur_randomly(augment) if augment.blur_sigma else None,
        CUTOUT: cut_out_randomly(augment, mean_pixel, ignore_label) if augment.cutout_size else None,
        PAD: pad_to(crop_size, mean_pixel, ignore_label),
        FLIP: flip_randomly(augment.flip_probability),
    }
    return {name: step for name, step in steps.items() if step is not None}


def eval_steps(
    crop_size: tuple[int, int],
    resize: ResizeOptions,
    mean_pixel: Sequence[float],
    ignore_label: int,
    keep_original: bool = False,
) -> list[Step]:
    """Returns the steps of evaluation and visualisation: resize, note the size, pad, without a crop.

    Args:
      crop_size: rows and columns of the network's input; no image may be larger (after resizing).
      resize: range of the sides after resizing.
      mean_pixel: RGB, 0 to 255; the pixel that the network normalises to zero.
      ignore_label: label of padded pixels.
      keep_original: whether the sample also contains the image as decoded, with its size.
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
    """Converts the image to float32 (still 0 to 255) and the label to int32."""
    image = tf.cast(sample[common.IMAGE], tf.float32)
    label = sample.get(common.LABEL)
    return _with_both(sample, image, None if label is None else tf.cast(label, tf.int32))


def note_original(sample: Sample) -> Sample:
    """Stores the image as decoded, and its size."""
    image = sample[common.IMAGE]
    height, width = preprocess_utils.size_of(image)
    return {
        **sample,
        common.ORIGINAL_IMAGE: image,
        common.ORIGINAL_HEIGHT: tf.convert_to_tensor(height, tf.int32),
        common.ORIGINAL_WIDTH: tf.convert_to_tensor(width, tf.int32),
    }


def note_size(sample: Sample) -> Sample:
    """Stores the current rows and columns of the image, before padding."""
    height, width = preprocess_utils.size_of(sample[common.IMAGE])
    return {
        **sample,
        common.HEIGHT: tf.convert_to_tensor(height, tf.int32),
        common.WIDTH: tf.convert_to_tensor(width, tf.int32),
    }


def resize_to_range(resize: ResizeOptions) -> Step:
    """Resizes the sides of the image into a range; does nothing if neither bound is set."""

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
        size = _random_size(sample, augment)
        both = preprocess_utils.resize_and_crop_randomly(*_both(sample), size, crop_size, _seed_of(sample, 1))
        return _with_both(sample, *both)

    return step


def scale_and_crop_at_rare_classes(
    augment: AugmentOptions, crop_size: tuple[int, int], ignore_label: int, class_pixels: Sequence[int] | None
) -> Step:
    """As `scale_and_crop_randomly`, but for a share of the samples the window contains a pixel of a rare class.

    Args:
      augment: scale, and the share.
      crop_size: rows and columns of the window.
      ignore_label: id that is not a class.
      class_pixels: pixels of each class in the split; None to count those of each image.
    """
    plain = scale_and_crop_randomly(augment, crop_size)

    def step(sample: Sample) -> Sample:
        image, label = _both(sample)
        if label is None:
            return plain(sample)
        size = _random_size(sample, augment)
        window = preprocess_utils.window_in(size, crop_size)
        chance_seed, seed = tf.unstack(tf.random.experimental.stateless_split(_seed_of(sample, 7), 2))
        corner = tf.cond(
            tf.random.stateless_uniform([], chance_seed) < augment.rare_class_sampling,
            lambda: augmentations.rare_class_window(
                preprocess_utils.resize_label(label, size), window, class_pixels, ignore_label, seed
            ),
            lambda: preprocess_utils.random_window(*size, window, _seed_of(sample, 1)),
        )
        return _with_both(sample, *preprocess_utils.resize_and_crop(image, label, size, corner, window))

    return step


def change_colors_randomly(augment: AugmentOptions) -> Step:
    """Changes brightness, contrast, saturation and hue of the image; it becomes float32."""

    def step(sample: Sample) -> Sample:
        image, label = _both(sample)
        factors = augmentations.random_color_factors(
            augment.jitter_brightness,
            augment.jitter_contrast,
            augment.jitter_saturation,
            augment.jitter_hue,
            _seed_of(sample, 3),
        )
        return _with_both(sample, augmentations.change_colors(image, *factors), label)

    return step


def rotate_randomly(augment: AugmentOptions, mean_pixel: Sequence[float], ignore_label: int) -> Step:
    """Rotates around the centre by a random angle; the image becomes float32."""

    def step(sample: Sample) -> Sample:
        angle = augmentations.random_angle(augment.rotation_degrees, _seed_of(sample, 4))
        return _with_both(sample, *augmentations.rotate(*_both(sample), angle, mean_pixel, ignore_label))

    return step


def blur_randomly(augment: AugmentOptions) -> Step:
    """Blurs a share of the images; after `to_numbers`."""

    def step(sample: Sample) -> Sample:
        image, label = _both(sample)
        seed = _seed_of(sample, 5)
        return _with_both(
            sample, augmentations.random_blur(image, augment.blur_sigma, augment.blur_probability, seed), label
        )

    return step


def cut_out_randomly(augment: AugmentOptions, mean_pixel: Sequence[float], ignore_label: int) -> Step:
    """Hides random squares of image and label; after `to_numbers`."""

    def step(sample: Sample) -> Sample:
        both = augmentations.random_cutout(
            *_both(sample), augment.cutout_size, augment.cutout_count, mean_pixel, ignore_label, _seed_of(sample, 6)
        )
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
    """Returns image and label; None if there is no label."""
    return sample[common.IMAGE], sample.get(common.LABEL)


def _random_size(sample: Sample, augment: AugmentOptions) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns rows and columns of the image after scaling by a random factor."""
    scale = preprocess_utils.random_scale_value(
        augment.min_scale_factor, augment.max_scale_factor, augment.scale_factor_step_size, _seed_of(sample, 0)
    )
    return preprocess_utils.scaled_size(*preprocess_utils.size_of(sample[common.IMAGE]), scale)


def _with_both(sample: Sample, image: tf.Tensor, label: tf.Tensor | None) -> Sample:
    """Returns the sample with another image and label."""
    return {**sample, common.IMAGE: image} | ({} if label is None else {common.LABEL: label})


def _seed_of(sample: Sample, purpose: int) -> tf.Tensor:
    """Returns a seed for one random choice: without the purpose, scale, crop and flip would be correlated.

    These numbers must not change: 0 scale, 1 crop, 2 flip, 3 colours, 4 rotation, 5 blur, 6 cutout, 7 rare classes.
    """
    return tf.random.experimental.stateless_fold_in(sample[common.SEED], purpose)
