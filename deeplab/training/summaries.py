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
from deeplab.deployment import model_deploy
from deeplab.training import network_clone, training_step

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


def merged(
    clone: model_deploy.Clone, step: training_step.TrainStep, num_classes: int, with_images: bool
) -> MergedSummaries:
    """Merges the summaries of losses, learning rate and images of the first clone into one tensor."""
    outputs: network_clone.CloneOutputs = clone.outputs

    def serialized() -> tf.Tensor:
        parts = scalar_summaries(step.loss, step.learning_rate, outputs.losses, clone.scope, outputs.terms)
        if with_images and outputs.logits is not None:
            labels = outputs.batch[common.LABEL]
            logits = shapes.resize_bilinear(outputs.logits[:MOST_IMAGES], shapes.spatial_size(labels))
            predictions = tf.argmax(logits, axis=3)[..., tf.newaxis]  # [n, h, w, 1]
            parts += image_summaries(outputs.batch[common.IMAGE], labels, predictions, num_classes)
        return tf.raw_ops.MergeSummary(inputs=parts)

    is_due = tf.compat.v1.placeholder_with_default(False, [], 'summaries_are_due')
    variables = {variable.op.name: variable.graph.as_graph_element(variable) for variable in slim.get_model_variables()}
    return MergedSummaries(conditional.choose(is_due, serialized, lambda: tf.constant(b'')), is_due, variables)


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


def image_summaries(images: tf.Tensor, labels: tf.Tensor, predictions: tf.Tensor, num_classes: int) -> list[tf.Tensor]:
    """Returns summaries `samples/image`, `samples/label` and `samples/semantic` of the first few samples.

    Args:
      images: [n, h, w, channels], 0 to 255; the first three channels are shown, or only the first if there are fewer.
      labels: [n, h, w, 1] integer.
      predictions: [n, h, w, 1] integer.
      num_classes: ids are multiplied by max(1, 255 // num_classes), so that they can be told apart.
    """
    factor, channels = max(1, 255 // num_classes), int(images.shape[-1])

    def image(tag: str, values: tf.Tensor) -> tf.Tensor:
        pixels = tf.cast(tf.clip_by_value(tf.cast(values[:MOST_IMAGES], tf.int32), 0, 255), tf.uint8)
        return tf.raw_ops.ImageSummary(tag=f'samples/{tag}', tensor=pixels, max_images=MOST_IMAGES)

    return [
        image(common.IMAGE, images if channels in (1, 3) else images[..., : 3 if channels > 3 else 1]),
        image(common.LABEL, tf.cast(labels, tf.int32) * factor),
        image(common.OUTPUT_TYPE, tf.cast(predictions, tf.int32) * factor),
    ]
