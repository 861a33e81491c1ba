"""CutMix: a box of another training image in the place of the image's own pixels.

`input_preprocess.Mixing` says where the other image comes from.
"""

from __future__ import annotations

from collections.abc import Sequence

from deeplab.core import preprocess_utils
from deeplab.core.lazy import tf
from deeplab.registry import MIX, Augmentation, AugmentContext, Parameter, register
from deeplab.registry.augmentations import percent


def mix(
    images: Sequence[tf.Tensor],
    labels: Sequence[tf.Tensor] | None,
    seed: tf.Tensor,
    context: AugmentContext,
    cutmix_probability: float,
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Replaces a box by what another image has there; for arguments and result see `registry.Augmentation`.

    Source: arXiv:1905.04899, section 3.1; arXiv:1906.01916, section 3 (for segmentation).
    """
    size = preprocess_utils.size_of(images[0])
    inside = box(size, seed)
    other = labels[1] if labels is not None else None
    pasted = preprocess_utils.fit(images[1], other, size, context.mean_pixel, context.label_fill)
    return paste((images[0], None if labels is None else labels[0]), pasted, inside)


def box(size: Sequence[preprocess_utils.Side], seed: tf.Tensor) -> tf.Tensor:
    """Draws a box with the proportions of the image, an area in [0, 1) of the image, and its middle anywhere.

    Args:
      size: rows and columns of the image.
      seed: two integers.

    Returns:
      [h, w] bool, true inside.

    Source: arXiv:1905.04899, equation 2, with alpha 1.
    """
    area, *middles = tf.unstack(tf.random.stateless_uniform([3], seed))
    rows, columns = (_interval(side, middle, tf.sqrt(area)) for side, middle in zip(size, middles, strict=True))
    return rows[:, tf.newaxis] & columns


def _interval(side: preprocess_utils.Side, middle: tf.Tensor, share: tf.Tensor) -> tf.Tensor:
    """Returns which of `side` pixels lie in an interval, whose middle and length are shares: [side] bool."""
    places = (tf.range(tf.cast(side, tf.float32)) + 0.5) / tf.cast(side, tf.float32)
    return tf.abs(places - middle) < share / 2.0


def paste(
    own: tuple[tf.Tensor, tf.Tensor | None], other: tuple[tf.Tensor, tf.Tensor | None], is_other: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Returns an image and its label, or None, with the pixels of another where `is_other`, [h, w] bool."""

    def chosen(values: tf.Tensor, others: tf.Tensor) -> tf.Tensor:
        # Choosing among arrays of one shape is faster than repeating one's values.
        mixed = tf.where(tf.repeat(is_other[..., tf.newaxis], values.shape[-1], axis=2), others, values)
        mixed.set_shape(values.shape)
        return mixed

    (image, label), (other_image, other_label) = own, other
    return chosen(image, other_image), None if label is None else chosen(label, other_label)


register(
    Augmentation(
        name='cutmix',
        summary='A box from another image (CutMix).',
        function=mix,
        stage=MIX,
        order=2,
        others=1,
        parameters=(
            Parameter(
                'cutmix_probability',
                0.0,
                'Fraction of the images in which a box shows another image (CutMix), such as 0.5.',
                range='[0, 1]',
            ),
        ),
        source='arXiv:1905.04899, section 3.1; arXiv:1906.01916, section 3',
        title='CutMix',
        details=lambda values: f'on {percent(values["cutmix_probability"])} of the images',
        preview={'cutmix_probability': 1.0},
        takes_planes=True,
    )
)
