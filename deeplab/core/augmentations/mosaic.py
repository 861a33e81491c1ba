"""Mosaics of four training images, which meet at a random point.

Objects appear in smaller pieces and beside others than in any image of the split. `input_preprocess.Mixing` says where
the other three images come from.
"""

from __future__ import annotations

from collections.abc import Sequence

from deeplab.core import preprocess_utils
from deeplab.core.lazy import tf
from deeplab.registry import MIX, Augmentation, AugmentContext, Parameter, register
from deeplab.registry.augmentations import percent

_LEAST_SHARE = 0.25  # of a side, for each of the two images along it


def join(
    images: Sequence[tf.Tensor],
    labels: Sequence[tf.Tensor] | None,
    seed: tf.Tensor,
    context: AugmentContext,
    mosaic_probability: float,
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Returns a mosaic of the size of the crop; for arguments and result see `registry.Augmentation`.

    Each of the four parts is a random window of its image. Of an image that is smaller than its part, all is seen, at
    the corner where the four meet.

    Source: arXiv:2004.10934, section 3.3.
    """
    of_point, *of_windows = tf.unstack(tf.random.experimental.stateless_split(seed, 5))
    shares = tf.random.stateless_uniform([2], of_point, _LEAST_SHARE, 1.0 - _LEAST_SHARE)
    point = tf.unstack(tf.maximum(tf.cast(shares * tf.cast(context.crop_size, tf.float32), tf.int32), 1))
    sides = [(start, side - start) for start, side in zip(point, context.crop_size, strict=True)]
    parts, label_parts = [], []
    for number, (image, window_seed) in enumerate(zip(images, of_windows, strict=True)):
        down, across = divmod(number, 2)
        size = sides[0][down], sides[1][across]
        image_size = preprocess_utils.size_of(image)
        window = preprocess_utils.window_in(image_size, size)
        corner = preprocess_utils.random_window(image_size, window, window_seed)
        # The parts on the right and at the bottom begin at the point.
        above, left = (0 if down else size[0] - window[0]), (0 if across else size[1] - window[1])

        def cut(values: tf.Tensor, fill: Sequence[float]) -> tf.Tensor:
            part = preprocess_utils.crop(values, *corner, *window)  # noqa: B023
            return preprocess_utils.pad_to_bounding_box(part, above, left, *size, fill)  # noqa: B023

        parts.append(cut(image, context.mean_pixel))
        label_parts += [] if labels is None else [cut(labels[number], context.label_fill)]
    return _joined(parts, context), _joined(label_parts, context) if label_parts else None


def _joined(parts: Sequence[tf.Tensor], context: AugmentContext) -> tf.Tensor:
    """Joins four parts, row by row."""
    rows = [tf.concat(parts[start : start + 2], axis=1) for start in (0, 2)]
    return tf.ensure_shape(tf.concat(rows, axis=0), [*context.crop_size, parts[0].shape[-1]])


register(
    Augmentation(
        name='mosaic',
        summary='Parts of four images that meet at a random point (mosaic).',
        function=join,
        stage=MIX,
        order=1,
        others=3,
        parameters=(
            Parameter(
                'mosaic_probability',
                0.0,
                'Fraction of the images that become a mosaic of parts of four images, such as 0.5.',
                range='[0, 1]',
            ),
        ),
        source='arXiv:2004.10934, section 3.3',
        title='Mosaic',
        details=lambda values: f'on {percent(values["mosaic_probability"])} of the images',
        preview={'mosaic_probability': 1.0},
        takes_planes=True,
        not_per_image=lambda size: 'parts of four images have no class in common',
    )
)
