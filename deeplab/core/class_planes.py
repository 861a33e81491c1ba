"""Logits and labels of a batch in the layout in which losses are computed: one plane of pixels for each class.

Sums and maxima over the classes then run over contiguous memory, which is faster on a CPU than many rows of few
classes. Logits are brought into this layout while they are small, before they are resized.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from deeplab.core import resize


class ClassPlanes(NamedTuple):
    """The pixels of a batch, image by image and row by row.

    Attributes:
      logits: [classes, pixels] float32.
      labels: [pixels] int32, class ids; 0 for ignored pixels.
      is_counted: [pixels] bool, False for ignored pixels.
    """

    logits: tf.Tensor
    labels: tf.Tensor
    is_counted: tf.Tensor

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.logits.shape[0])


def planes_of(logits: tf.Tensor, labels: tf.Tensor, ignore_label: int) -> ClassPlanes:
    """Returns the pixels of logits that have the size of the labels.

    Args:
      logits: [..., classes] float.
      labels: [...] (or [..., 1]) int32, of as many pixels; class ids or `ignore_label`.
      ignore_label: label of the ignored pixels.
    """
    classes = logits.shape.as_list()[-1]
    planes = tf.transpose(tf.cast(tf.reshape(logits, [-1, classes]), tf.float32))  # [classes, pixels]
    return _with_labels(planes, labels, ignore_label)


def resized_planes_of(logits: tf.Tensor, labels: tf.Tensor, ignore_label: int, stride: int = 1) -> ClassPlanes:
    """Returns the pixels of logits that are resized bilinearly to the size of the labels.

    Args:
      logits: [n, h', w', classes] float, of known size.
      labels: [n, h, w, 1] int32, of known size; class ids or `ignore_label`.
      ignore_label: label of the ignored pixels.
      stride: of the rows and columns that are returned; 1 for all.
    """
    height, width = (int(side) for side in labels.shape[1:3])
    planes = resize.bilinear_planes(tf.cast(logits, tf.float32), (height, width), stride)  # [classes, n, h', w']
    if stride > 1:
        labels = labels[:, ::stride, ::stride]
    return _with_labels(tf.reshape(planes, [logits.shape[-1], -1]), labels, ignore_label)


def _with_labels(planes: tf.Tensor, labels: tf.Tensor, ignore_label: int) -> ClassPlanes:
    """Returns logits [classes, pixels] with their labels, as `ClassPlanes` has them."""
    flat_labels = tf.reshape(labels, [-1])  # [pixels]
    is_counted = tf.not_equal(flat_labels, ignore_label)
    return ClassPlanes(planes, tf.where(is_counted, flat_labels, tf.zeros_like(flat_labels)), is_counted)
