"""Crops that are placed at rare classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deeplab.core import preprocess_utils
from deeplab.core.lazy import tf
from deeplab.registry import CROP, Augmentation, AugmentContext, Parameter, register
from deeplab.registry.augmentations import percent


def crop_at_rare_classes(
    image: tf.Tensor, label: tf.Tensor | None, seed: tf.Tensor, context: AugmentContext, rare_class_sampling: float
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Scales and crops at random; in a fraction of the samples, the window contains a pixel of a rare class.

    For arguments and result see `registry.Augmentation`.
    """
    assert context.scaled_size is not None
    corner = corner_of_window(label, seed, context, rare_class_sampling)
    window = preprocess_utils.window_in(context.scaled_size, context.crop_size)
    return preprocess_utils.resize_and_crop(image, label, context.scaled_size, corner, window)


def corner_of_window(
    label: tf.Tensor | None, seed: tf.Tensor, context: AugmentContext, rare_class_sampling: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns row and column of the window of `crop_at_rare_classes`; see `registry.Augmentation`."""
    assert context.scaled_size is not None
    size = context.scaled_size
    window = preprocess_utils.window_in(size, context.crop_size)
    if label is None:
        return preprocess_utils.random_window(size, window, context.crop_seed)
    chance_seed, place_seed = tf.unstack(tf.random.experimental.stateless_split(seed, 2))
    corner: tuple[tf.Tensor, tf.Tensor] = tf.cond(
        tf.random.stateless_uniform([], chance_seed) < rare_class_sampling,
        lambda: rare_class_window(label, size, window, context.class_pixels, context.ignore_label, place_seed),
        lambda: preprocess_utils.random_window(size, window, context.crop_seed),
    )
    return corner


def rare_class_window(
    label: tf.Tensor,
    size: Sequence[tf.Tensor | int],
    window: Sequence[tf.Tensor | int],
    class_pixels: Sequence[int] | None,
    ignore_label: int,
    seed: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Draws the upper left corner of a window that contains a pixel of a class, rare classes more often.

    One of the classes in the label is drawn with a probability inverse to its number of pixels in the data set, then
    one of its pixels, and one of the windows around that pixel, each with equal chances.

    The pixel is drawn before the label is resized, which is faster than resizing all of it. If the resized label is
    smaller and has lost this pixel, the window contains the nearest one that is left.

    Args:
      label: [h, w, planes] integer, class ids in the first plane.
      size: rows and columns that the label is resized to before the window is cut.
      window: rows and columns of the window, at most `size`.
      class_pixels: number of pixels of each class in the data set; None to count the pixels of this label.
      ignore_label: label that is never drawn, even if it is a class.
      seed: two integers.

    Returns:
      Row and column in the resized label, int32 scalars; any window if the label contains no class.

    Source: arXiv:2111.14887, section 3.3 (with a softmax over frequencies instead of the inverse).
    """
    seeds = tf.unstack(tf.random.experimental.stateless_split(seed, 4))
    ids = label[..., 0]  # [h, w]
    present = tf.math.bincount(tf.cast(ids, tf.int32), minlength=256, maxlength=256)  # [256]
    weights = _inverse_frequencies(present, class_pixels, ignore_label)

    def around_a_pixel() -> tuple[tf.Tensor, tf.Tensor]:
        chosen = tf.random.stateless_categorical(tf.math.log(weights)[tf.newaxis], 1, seeds[0], tf.int32)[0, 0]
        places = tf.where(tf.equal(ids, tf.cast(chosen, ids.dtype)))  # [n, 2]
        drawn = places[tf.random.stateless_uniform([], seeds[1], 0, tf.shape(places)[0], tf.int32)]
        pixel = _resized_place(drawn, preprocess_utils.size_of(label), size)
        row, column = (
            tf.random.stateless_uniform(
                [], side_seed, tf.maximum(place - length + 1, 0), tf.minimum(place, side - length) + 1, tf.int32
            )
            for side_seed, place, length, side in zip(seeds[2:], tf.unstack(pixel), window, size, strict=True)
        )
        return row, column

    corner: tuple[tf.Tensor, tf.Tensor] = tf.cond(
        tf.reduce_sum(weights) > 0.0,
        around_a_pixel,
        lambda: preprocess_utils.random_window(size, window, seed),
    )
    return corner


def _resized_place(
    place: tf.Tensor, old_size: Sequence[tf.Tensor | int], new_size: Sequence[tf.Tensor | int]
) -> tf.Tensor:
    """Returns the position of a row and a column, [2], after resizing with aligned corners: [2] int32."""
    old, new = tf.stack(old_size), tf.stack(new_size)
    return tf.cast(tf.round(place * tf.cast(new - 1, tf.int64) / tf.cast(tf.maximum(old - 1, 1), tf.int64)), tf.int32)


def _inverse_frequencies(present: tf.Tensor, class_pixels: Sequence[int] | None, ignore_label: int) -> tf.Tensor:
    """Returns one over the number of pixels for classes that are `present` ([256]), else 0: [256] float32."""
    pixels = tf.cast(present, tf.float32)
    if class_pixels is not None:
        in_data_set = np.zeros(256, np.float32)
        in_data_set[: len(class_pixels)] = class_pixels
        pixels = tf.where(present > 0, in_data_set, 0.0)
    is_class = (pixels > 0.0) & (tf.range(256) != ignore_label)
    return tf.where(is_class, 1.0 / tf.maximum(pixels, 1.0), 0.0)


register(
    Augmentation(
        name='rare_classes',
        summary='Crops placed on a pixel of a random class, with rare classes drawn more often.',
        function=crop_at_rare_classes,
        stage=CROP,
        parameters=(
            Parameter(
                'rare_class_sampling',
                0.0,
                'Fraction of the crops that are placed on a pixel of a random class, with rare classes drawn more '
                'often, such as 0.5.',
                range='[0, 1]',
            ),
        ),
        source='arXiv:2111.14887, section 3.3',
        title='Crop at a rare class',
        details=lambda values: f'on {percent(values["rare_class_sampling"])} of the images',
        preview={'rare_class_sampling': 1.0},
        takes_planes=True,
        corner=corner_of_window,
        seed_number=7,
    )
)
