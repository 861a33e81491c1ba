"""The task `panoptic`: a class for each pixel, and the instances of classes of things (Panoptic-DeepLab).

Three outputs: classes, a heatmap of instance centers, and offsets from each pixel to the center of its instance.

Source: arXiv:1911.10194.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from deeplab import common
from deeplab.core import panoptic_merge, panoptic_targets, segment_overlaps
from deeplab.core.instance_precision import InstancePrecision
from deeplab.core.lazy import channels_first, scale_losses, tf
from deeplab.core.panoptic_quality import PanopticQuality, matches
from deeplab.core.segment_overlaps import PanopticClasses, Segmentation
from deeplab.datasets import coco_segments, planes
from deeplab.errors import OptionError
from deeplab.options import ModelOptions
from deeplab.registry import (
    LOSSES,
    Branch,
    Comparison,
    Output,
    Parameter,
    ResultFile,
    Task,
    TaskContext,
    Term,
    register,
)
from deeplab.wording import option

CENTER, OFFSET = 'center', 'offset'
# Parts of checkpoints: the scopes must not change.
SEMANTIC_BRANCH = Branch('semantic_branch', filters=256, skip_filters=((8, 64), (4, 32)))
INSTANCE_BRANCH = Branch('instance_branch', filters=128, skip_filters=((8, 32), (4, 16)))


def outputs(options: ModelOptions) -> list[Output]:
    """Returns the three outputs; offsets are rows, then columns, in pixels.

    Source: arXiv:1911.10194, section 3.1 and figure 2.
    """
    return [
        Output(common.OUTPUT_TYPE, options.num_classes, lambda x: tf.nn.softmax(x), SEMANTIC_BRANCH, filters=256),
        Output(CENTER, 1, branch=INSTANCE_BRANCH, filters=32),
        Output(OFFSET, 2, branch=INSTANCE_BRANCH, filters=32, axes=('y', 'x'), mirrored=lambda x: x * [1.0, -1.0]),
    ]


def check(options: ModelOptions) -> None:
    """Raises `OptionError` if the square in which a center is the maximum has no middle."""
    if options.nms_kernel % 2 == 0:
        raise OptionError(
            f'{option("ModelOptions.nms_kernel", options.nms_kernel)} is not allowed: it must be odd, such as '
            f'{options.nms_kernel + 1}.'
        )


def targets(sample: Mapping[str, tf.Tensor], context: TaskContext) -> dict[str, tf.Tensor]:
    """Makes heatmap, offsets and the weights of pixels of a sample; see `panoptic_targets.PanopticTargets`.

    Pixels of crowds are ignored in the loss of the classes, too.
    """
    settings = context.settings
    assert context.things is not None
    rule = panoptic_targets.TargetRule(
        context.things,
        context.ignore_label,
        settings['center_sigma'],
        settings['small_instance_area'],
        settings['small_instance_weight'],
    )
    class_ids, instance_ids = sample[common.LABEL][..., 0], sample[common.INSTANCE][..., 0]  # [h, w]
    made = panoptic_targets.build_targets(class_ids, instance_ids, rule)
    return {
        common.OUTPUT_TYPE: sample[common.LABEL],
        CENTER: made.heatmap,
        OFFSET: made.offsets,
        'center_weight': made.center_weight,
        'offset_weight': made.offset_weight,
        'semantic_weight': made.semantic_weight * made.center_weight,
    }


def losses(maps: Mapping[str, tf.Tensor], made: Mapping[str, tf.Tensor], context: TaskContext) -> dict[str, Term]:
    """Returns the cross entropy of the classes, the squared error of the heatmap and the absolute one of the offsets.

    Args:
      maps: outputs at the size of the targets, [n, h, w, channels].
      made: targets of the batch.
      context: what the task knows.

    Source: arXiv:1911.10194, section 3.1 (loss functions) and equation 1.
    """
    settings = context.settings
    labels = made[common.OUTPUT_TYPE]  # [n, h, w, 1]
    labeled = channels_first.with_labels(maps[common.OUTPUT_TYPE], labels, context.ignore_label)
    entropy = scale_losses.pixel_losses(LOSSES.get('softmax'), labeled).values  # [pixels], 0 where ignored
    entropy = tf.reshape(entropy, tf.shape(labels)) * made['semantic_weight']  # [n, h, w, 1]
    center = tf.math.squared_difference(maps[CENTER], made[CENTER]) * made['center_weight']  # [n, h, w, 1]
    offset = tf.abs(maps[OFFSET] - made[OFFSET]) * made['offset_weight']  # [n, h, w, 2]
    return {
        common.OUTPUT_TYPE: Term(
            mean_of_images(entropy, settings['semantic_top_k_percent']), settings['semantic_loss_weight']
        ),
        CENTER: Term(mean_of_images(center), settings['center_loss_weight']),
        OFFSET: Term(mean_of_images(tf.reduce_mean(offset, axis=3)), settings['offset_loss_weight']),
    }


def mean_of_images(values: tf.Tensor, fraction: float = 1.0) -> tf.Tensor:
    """Returns the mean over images of the mean loss of their pixels.

    In each image, the sum of the largest losses is divided by the number of them that are not 0.

    Args:
      values: losses, [n, ...].
      fraction: fraction of the losses of each image that is kept, the largest ones.

    Returns:
      scalar float32.
    """
    flat = tf.reshape(values, [tf.shape(values)[0], -1])  # [n, pixels]
    if fraction < 1.0:
        kept = tf.cast(tf.cast(tf.shape(flat)[1], tf.float32) * fraction, tf.int32)
        flat, _ = tf.nn.top_k(flat, kept, sorted=False)
    counted = tf.reduce_sum(tf.cast(flat > 0.0, tf.float32), axis=1)  # [n]
    return tf.reduce_mean(tf.math.divide_no_nan(tf.reduce_sum(flat, axis=1), counted))


def decode(maps: Mapping[str, np.ndarray], context: TaskContext) -> dict[str, Any]:
    """Merges the outputs of an image into segments.

    Returns:
      'class_ids' [h, w] uint8, with the ignore label where a pixel is void; 'instance_ids' [h, w] uint16, within a
      class from 1, and 0 on stuff; 'instances', a list of `panoptic_merge.Instance`.
    """
    probabilities = maps[common.OUTPUT_TYPE]
    merged = panoptic_merge.merge(
        probabilities.argmax(axis=2), maps[CENTER][..., 0], maps[OFFSET], merge_rule(context), probabilities
    )
    return merged._asdict()


def keep(result: Mapping[str, Any], is_kept: np.ndarray, context: TaskContext) -> dict[str, Any]:
    """Returns a result in which the pixels of classes that are not kept are void, without their instances."""
    class_ids = result['class_ids']
    is_shown = is_kept[class_ids]
    return {
        'class_ids': np.where(is_shown, class_ids, context.ignore_label).astype(class_ids.dtype),
        'instance_ids': result['instance_ids'] * is_shown,
        'instances': [each for each in result['instances'] if is_kept[each.class_id]],
    }


def overlay(result: Mapping[str, Any], image: np.ndarray, context: TaskContext) -> np.ndarray:
    """Returns the image with the classes and instances of a result in colors, [h, w, 3] uint8."""
    from deeplab.pictures import instance_overlay  # here, so that help does without Pillow

    is_shown = np.arange(256) != context.ignore_label
    return instance_overlay.drawn(
        image, result['class_ids'], result['instance_ids'], context.palette, context.overlay_alpha, is_shown
    )


def _segment_ids(result: Mapping[str, Any], context: TaskContext) -> np.ndarray:
    return coco_segments.segment_ids(result['class_ids'], result['instance_ids'], context.ignore_label)


def coco_entry(result: Mapping[str, Any], path: str, context: TaskContext) -> Mapping[str, Any]:
    """Returns the entry of an image in the JSON file of COCO's panoptic format."""
    scores = {(each.class_id, each.instance_id): each.score for each in result['instances']}
    return coco_segments.annotation(_segment_ids(result, context), path, context.eval_ids, scores)


FILES = {
    'class_ids': ResultFile('.png', lambda result, image, context: result['class_ids']),
    'instances': ResultFile('.png', lambda result, image, context: result['instance_ids']),
    'panoptic': ResultFile(
        '.png',
        lambda result, image, context: coco_segments.as_colors(_segment_ids(result, context)),
        coco_entry,
        lambda entries, context: coco_segments.document(
            entries, context.class_names, context.things or (), context.eval_ids
        ),
    ),
}


def merge_rule(context: TaskContext) -> panoptic_merge.MergeRule:
    """Returns how outputs become segments."""
    assert context.things is not None
    settings = {name: context.settings[name] for name in ('center_threshold', 'nms_kernel', 'stuff_area')}
    return panoptic_merge.MergeRule(
        context.things, context.ignore_label, **settings, top_k=context.settings['most_centers']
    )


def segmentations(
    sample: Mapping[str, Any], result: Mapping[str, Any], context: TaskContext
) -> tuple[Segmentation, Segmentation]:
    """Returns the true and the predicted segments of an image; see `PanopticMetric.update` for the arguments."""
    assert context.things is not None
    classes = PanopticClasses(context.num_classes, context.things, context.ignore_label)
    truth = classes.truth(sample[common.LABEL][..., 0], sample[common.INSTANCE][..., 0])
    return truth, classes.prediction(result['class_ids'], result['instance_ids'])


def comparison(
    sample: Mapping[str, Any], result: Mapping[str, Any], image: np.ndarray, context: TaskContext
) -> Comparison:
    """Draws which instances match, without stuff; see `panoptic_quality.matches`."""
    from deeplab.pictures import instance_matches  # here, so that help does without Pillow

    truth, predicted = segmentations(sample, result, context)
    pairs = matches(segment_overlaps.overlaps(truth, predicted))
    return instance_matches.drawn(
        image,
        instance_matches.Outlines(predicted.index, _of_things(pairs.prediction, predicted, context)),
        instance_matches.Outlines(predicted.index, _of_things(pairs.wrong, predicted, context)),
        instance_matches.Outlines(truth.index, _of_things(pairs.missed, truth, context)),
    )


def _of_things(segments: np.ndarray, segmentation: Segmentation, context: TaskContext) -> np.ndarray:
    """Returns the numbers, out of `segments`, whose segments are instances of things."""
    return segments[np.isin(segmentation.categories[segments], context.things or ())]


class PanopticMetric:
    """Panoptic quality, and the average precision of instances, over images; see `registry.metrics.Accumulator`."""

    accumulated = ('quality', 'precision')

    def __init__(self, context: TaskContext) -> None:
        """Begins without an image."""
        assert context.things is not None
        self._context = context
        self.quality = PanopticQuality(context.num_classes, context.things)
        self.precision = InstancePrecision(context.num_classes, context.things)

    def update(self, sample: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Adds an image: its class ids and instance ids [h, w, 1], and the result of `decode`."""
        overlaps = segment_overlaps.overlaps(*segmentations(sample, result, self._context))
        self.quality.update(overlaps)
        self.precision.update(overlaps, {(each.class_id, each.instance_id): each.score for each in result['instances']})

    def merge(self, other: PanopticMetric) -> None:
        """Adds the images of `other`."""
        self.quality.merge(other.quality)
        self.precision.merge(other.precision)

    def result(self) -> dict[str, float | None]:
        """Returns the figures of all images by name."""
        return {**self.quality.result(), **self.precision.result()}

    def class_figures(self) -> dict[str, tuple[float | None, ...]]:
        """Returns the figures of each class by name."""
        return {**self.quality.class_figures(), **self.precision.class_figures()}


_PARAMETERS = (
    Parameter('center_sigma', 8.0, 'Standard deviation of peaks in the center heatmap, in pixels.', range='(0, inf)'),
    Parameter('small_instance_area', 4096, 'Instances with fewer pixels count as small.', range='[0, inf)'),
    Parameter(
        'small_instance_weight', 3.0, 'Weight of the pixels of small instances in the semantic loss.',
        range='(0, inf)',
    ),
    Parameter(
        'semantic_top_k_percent', 0.2,
        'Hard example mining: fraction of the pixels, those with the highest loss, in the semantic loss.',
        range='(0, 1]',
    ),
    Parameter('semantic_loss_weight', 1.0, 'Weight of the semantic loss.', range='[0, inf)'),
    Parameter('center_loss_weight', 200.0, 'Weight of the loss of the center heatmap.', range='[0, inf)'),
    Parameter('offset_loss_weight', 0.01, 'Weight of the offset loss.', range='[0, inf)'),
    Parameter('center_threshold', 0.1, 'Threshold of the heatmap: centers are where it is larger.', range='[0, 1)'),
    Parameter(
        'nms_kernel', 7, 'Side, in pixels, of the square in which a center must be the maximum of the heatmap; odd.',
        range='[1, inf)',
    ),
    Parameter('most_centers', 200, 'Largest number of centers in an image.', range='[2, 65535]'),
    Parameter(
        'stuff_area', 2048, 'Classes without instances that have fewer pixels in an image become void.',
        range='[0, inf)',
    ),
)  # fmt: skip


register(
    Task(
        name='panoptic',
        summary='Classes, and the instances of things (Panoptic-DeepLab).',
        outputs=outputs,
        scopes=(SEMANTIC_BRANCH.scope, INSTANCE_BRANCH.scope),
        check=check,
        planes=(planes.INSTANCE,),
        requires=('things',),
        targets=targets,
        losses=losses,
        unfit_optimizers=('momentum',),  # because of the large weight of the heatmap
        decode=decode,
        metric=PanopticMetric,
        comparison=comparison,
        headline='pq',
        files=FILES,
        keep=keep,
        overlay=overlay,
        parameters=_PARAMETERS,
        source='arXiv:1911.10194',
    )
)
