"""Copy-paste: objects of another training image on top of the image.

`input_preprocess.Mixing` says where the other image comes from. Its objects keep their place; scaling, crop and flip
move both images as they move any.
"""

from __future__ import annotations

from collections.abc import Sequence

from deeplab.core import preprocess_utils
from deeplab.core.augmentations.cutmix import paste
from deeplab.core.lazy import tf
from deeplab.errors import OptionError
from deeplab.registry import MIX, Augmentation, AugmentContext, Parameter, register
from deeplab.registry.augmentations import percent

_SHARE = 0.5  # of the objects that are pasted, in the mean


def paste_objects(
    images: Sequence[tf.Tensor],
    labels: Sequence[tf.Tensor] | None,
    seed: tf.Tensor,
    context: AugmentContext,
    copy_paste_probability: float,
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Pastes a random half of the objects of another image; for arguments and result see `registry.Augmentation`.

    Objects are the instances of the other image, if the task reads instances; else all pixels of a class are one.

    Source: arXiv:2012.07177, section 3; arXiv:2007.07936, section 3.1 (classes).
    """
    if labels is None or (not context.id_planes and not any(context.class_pixels or [1])):
        raise OptionError(
            "The augmentation 'copy_paste' pastes objects, and this task reads neither class ids nor instances. "
            'Switch it off.'
        )
    size = preprocess_utils.size_of(images[0])
    image, label = preprocess_utils.fit(images[1], labels[1], size, context.mean_pixel, context.label_fill)
    assert label is not None
    ids = label[..., context.id_planes[0] if context.id_planes else 0]  # [h, w]
    is_object = ids > 0 if context.id_planes else ids != context.ignore_label
    is_chosen = tf.random.stateless_uniform([tf.reduce_max(ids) + 1], seed) < _SHARE
    return paste((images[0], labels[0]), (image, label), is_object & tf.gather(is_chosen, ids))


register(
    Augmentation(
        name='copy_paste',
        summary='Objects pasted from another image (copy-paste).',
        function=paste_objects,
        stage=MIX,
        order=3,
        others=1,
        parameters=(
            Parameter(
                'copy_paste_probability',
                0.0,
                'Fraction of the images onto which objects from another image are pasted: instances, or pixels of '
                'classes for tasks without instances; such as 0.5.',
                range='[0, 1]',
            ),
        ),
        source='arXiv:2012.07177, section 3; arXiv:2007.07936, section 3.1',
        title='Copy-paste',
        details=lambda values: f'on {percent(values["copy_paste_probability"])} of the images',
        preview={'copy_paste_probability': 1.0},
        takes_planes=True,
        not_per_image=lambda size: 'image classification has no objects with masks',
    )
)
