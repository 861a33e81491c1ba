"""TensorBoard summaries of training, under the tags that the original wrote."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tf_slim as slim

from deeplab import common
from deeplab.core import conditional, shapes
from deeplab.datasets import task_data
from deeplab.deployment import model_deploy
from deeplab.errors import OptionError
from deeplab.options import TrainOptions
from deeplab.registry import TASKS
from deeplab.training import network_clone, output_pictures, training_step
from deeplab.wording import option

MOST_IMAGES = 3


class MergedSummaries(NamedTuple):
    """All summaries of a step.

    The histograms of variables are not in the graph: with three operations for each variable, the first step would
    take much longer.

    Attributes:
      values: scalar string, a serialized `Summary`; empty unless `is_due`.
      is_due: scalar bool to feed, whether this step computes them. Every step can thus fetch `values`: a session
        prepares the graph again for other fetches, which takes seconds.
      variables: values that get a histogram, by name.
    """

    values: tf.Tensor
    is_due: tf.Tensor
    variables: Mapping[str, tf.Tensor] = {}


def check(options: TrainOptions) -> None:
    """Raises `OptionError` if there is to be the mIoU of batches, but the network predicts no classes."""
    outputs = [output.name for output in TASKS.outputs(options.model)]
    has_classes = common.OUTPUT_TYPE in outputs and task_data.needs_labels(options.model)
    if options.save_summaries_miou and not has_classes:
        raise OptionError(
            f'{option("TrainOptions.save_summaries_miou", True)} needs a class for each pixel, which '
            f'{option("ModelOptions.task", options.model.task)} does not predict. Omit it.'
        )


def merged(
    clone: model_deploy.Clone, step: training_step.TrainStep, options: TrainOptions, ignore_label: int
) -> MergedSummaries:
    """Merges the summaries of losses, learning rate, images and mIoU of the first clone into one tensor."""
    outputs: network_clone.CloneOutputs = clone.outputs

    def serialized() -> tf.Tensor:
        parts = scalar_summaries(step.loss, step.learning_rate, outputs.losses, clone.scope, outputs.terms)
        if options.save_summaries_images:
            parts += _images(outputs, options)
        if options.save_summaries_miou:
            value = miou(outputs.batch[common.LABEL], _predictions(outputs), options.model.num_classes, ignore_label)
            parts.append(tf.raw_ops.ScalarSummary(tags=f'miou/{common.OUTPUT_TYPE}', values=value))
        return tf.raw_ops.MergeSummary(inputs=parts)

    is_due = tf.compat.v1.placeholder_with_default(False, [], 'summaries_are_due')
    variables = {variable.op.name: variable.graph.as_graph_element(variable) for variable in slim.get_model_variables()}
    with tf.device(clone.device):  # otherwise images and logits of a GPU are copied in every step
        values = conditional.choose(is_due, serialized, lambda: tf.constant(b''))
    return MergedSummaries(values, is_due, variables)


def _predictions(outputs: network_clone.CloneOutputs, images: int | None = None) -> tf.Tensor:
    """Returns the predicted classes of the first images, or of all, at the size of the labels: [n, h, w, 1] int64."""
    size = shapes.spatial_size(outputs.batch[common.LABEL])
    assert outputs.logits is not None
    return tf.argmax(shapes.resize_bilinear(outputs.logits[:images], size), axis=3)[..., tf.newaxis]


def _images(outputs: network_clone.CloneOutputs, options: TrainOptions) -> list[tf.Tensor]:
    """Returns the summaries of the first images, with the outputs of the network and what they should be."""
    batch, num_classes = outputs.batch, options.model.num_classes
    labels = predictions = None
    if outputs.logits is not None and common.LABEL in batch:
        labels, predictions = batch[common.LABEL], _predictions(outputs, MOST_IMAGES)
    further = {}
    if not options.model.is_semantic:
        maps, samples = (
            {key: values[:MOST_IMAGES] for key, values in each.items()} for each in (outputs.outputs, batch)
        )
        further = output_pictures.pictures(maps, samples, options.model)
    return image_summaries(batch[common.IMAGE], labels, predictions, num_classes, further)


def miou(labels: tf.Tensor, predictions: tf.Tensor, num_classes: int, ignore_label: int) -> tf.Tensor:
    """Returns the mean IoU of a batch over the classes in its labels or predictions; 0 without labels.

    Args:
      labels: [n, h, w, 1] integer class ids, or the ignore label.
      predictions: [n, h, w, 1] integer class ids.
      num_classes: number of classes.
      ignore_label: label of the pixels that are left out.

    Returns:
      scalar float32.
    """
    labels, predictions = (tf.cast(tf.reshape(ids, [-1]), tf.int32) for ids in (labels, predictions))  # [pixels]
    is_counted = tf.not_equal(labels, ignore_label)
    pairs = tf.where(is_counted, labels * num_classes + predictions, num_classes**2)
    counts = tf.math.bincount(pairs, minlength=num_classes**2 + 1, maxlength=num_classes**2 + 1)[:-1]
    matrix = tf.cast(tf.reshape(counts, [num_classes, num_classes]), tf.float32)
    hits = tf.linalg.diag_part(matrix)
    unions = tf.reduce_sum(matrix, axis=0) + tf.reduce_sum(matrix, axis=1) - hits
    present = tf.reduce_sum(tf.cast(unions > 0.0, tf.float32))
    return tf.math.divide_no_nan(tf.reduce_sum(tf.math.divide_no_nan(hits, unions)), present)


# Raw operations, because tf.compat.v1.summary makes a tag unique among the names of all operations: the summary of a
# loss or variable would be its name with the suffix _1.


def scalar_summaries(
    total_loss: tf.Tensor,
    learning_rate: tf.Tensor,
    losses: Mapping[str, tf.Tensor],
    clone_scope: str = '',
    terms: Mapping[str, tf.Tensor] = {},
) -> list[tf.Tensor]:
    """Returns summaries `total_loss`, `learning_rate` and `losses/NAME` for each loss and term of the first clone.

    The name scope of the clone is removed from the tags. All values are scalars.
    """
    values = {'total_loss': total_loss, 'learning_rate': learning_rate}
    values |= {f'losses/{loss.op.name.removeprefix(f"{clone_scope}/")}': loss for loss in losses.values()}
    values |= {f'losses/{key}': value for key, value in terms.items()}
    return [tf.raw_ops.ScalarSummary(tags=tag, values=value) for tag, value in values.items()]


def histograms(values: Mapping[str, np.ndarray]) -> list[bytes]:
    """Returns a histogram of each array, under its name, as serialized summaries.

    An array with a value that is not finite, as a restored checkpoint may have, is left out: it has no histogram.
    """
    finite = {name: array for name, array in values.items() if np.isfinite(array).all()}

    def computed() -> list[bytes]:
        return [tf.raw_ops.HistogramSummary(tag=name, values=array).numpy() for name, array in finite.items()]

    # In a thread that has no default graph, TensorFlow computes at once.
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        return thread.submit(computed).result()


def joined(merged: bytes, of_variables: Sequence[bytes]) -> tf.compat.v1.Summary:
    """Returns one summary: the scalars of `merged`, the histograms `of_variables`, the images of `merged`."""
    values = tf.compat.v1.Summary.FromString(merged).value
    result = tf.compat.v1.Summary(value=[value for value in values if not value.HasField('image')])
    for histogram in of_variables:
        result.MergeFromString(histogram)
    result.value.extend(value for value in values if value.HasField('image'))
    return result


def image_summaries(
    images: tf.Tensor,
    labels: tf.Tensor | None,
    predictions: tf.Tensor | None,
    num_classes: int,
    further: Mapping[str, tf.Tensor] = {},
) -> list[tf.Tensor]:
    """Returns summaries `samples/image`, `samples/label` and `samples/semantic` of the first few samples.

    Args:
      images: [n, h, w, channels], 0 to 255; the first three channels are shown, or only the first if there are fewer.
      labels: [n, h, w, 1] integer; None if there are no classes.
      predictions: [n, h, w, 1] integer; None if there are no classes.
      num_classes: ids are multiplied by max(1, 255 // num_classes), so that they can be told apart.
      further: pictures by the rest of their tags, [n, h, w, 1 or 3], 0 to 255.
    """
    factor, channels = max(1, 255 // num_classes), int(images.shape[-1])

    def image(tag: str, values: tf.Tensor) -> tf.Tensor:
        pixels = tf.cast(tf.clip_by_value(tf.cast(values[:MOST_IMAGES], tf.int32), 0, 255), tf.uint8)
        return tf.raw_ops.ImageSummary(tag=f'samples/{tag}', tensor=pixels, max_images=MOST_IMAGES)

    shown = [image(common.IMAGE, images if channels in (1, 3) else images[..., : 3 if channels > 3 else 1])]
    if labels is not None and predictions is not None:
        shown.append(image(common.LABEL, tf.cast(labels, tf.int32) * factor))
        shown.append(image(common.OUTPUT_TYPE, tf.cast(predictions, tf.int32) * factor))
    return shown + [image(tag, values) for tag, values in further.items()]
