"""The layout in which losses are computed."""

import numpy as np
import tensorflow as tf

from deeplab.core import class_planes

IGNORE = 255


def test_pixels_lie_side_by_side_for_each_class():
    logits = np.arange(12, dtype=np.float32).reshape(1, 2, 2, 3)
    planes = class_planes.planes_of(tf.constant(logits), tf.constant([[[[2], [IGNORE]], [[0], [1]]]]), IGNORE)
    np.testing.assert_array_equal(planes.logits, [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]])
    np.testing.assert_array_equal(planes.labels, [2, 0, 0, 1])
    np.testing.assert_array_equal(planes.is_counted, [True, False, True, True])
    assert planes.classes == 3


def test_resized_planes_are_those_of_resized_logits():
    rng = np.random.default_rng(0)
    logits = tf.constant(rng.normal(size=(2, 3, 4, 5)), tf.float32)
    labels = tf.constant(rng.integers(0, 5, (2, 9, 10, 1)), tf.int32)
    resized = tf.raw_ops.ResizeBilinear(images=logits, size=(9, 10), align_corners=True)
    expected = class_planes.planes_of(resized, labels, IGNORE)
    found = class_planes.resized_planes_of(logits, labels, IGNORE)
    np.testing.assert_allclose(found.logits, expected.logits, atol=2e-6)
    np.testing.assert_array_equal(found.labels, expected.labels)


def test_a_stride_takes_logits_and_labels_of_the_same_pixels():
    rng = np.random.default_rng(1)
    logits, labels = tf.constant(rng.normal(size=(2, 3, 4, 5)), tf.float32), rng.integers(0, 5, (2, 9, 10, 1))
    labels[1, 4:] = IGNORE
    whole = class_planes.resized_planes_of(logits, tf.constant(labels, tf.int32), IGNORE)
    found = class_planes.resized_planes_of(logits, tf.constant(labels, tf.int32), IGNORE, stride=2)
    for part, all_pixels in zip(found, whole, strict=True):
        expected = np.reshape(all_pixels, [-1, 2, 9, 10])[:, :, ::2, ::2]
        np.testing.assert_allclose(np.reshape(part, [-1, 2, 5, 5]), expected, atol=1e-6)
