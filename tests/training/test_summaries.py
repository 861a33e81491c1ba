"""Tags and values of the summaries."""

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import sessions
from deeplab.training import summaries


def evaluate(build):
    """Tags and values of the summaries that `build` returns."""
    with tf.Graph().as_default(), sessions.open_session() as running:
        merged = tf.compat.v1.summary.merge(build())
        running.run(tf.compat.v1.global_variables_initializer())
        return {value.tag: value for value in tf.compat.v1.Summary.FromString(running.run(merged)).value}


def test_scalars():
    def build():
        with tf.name_scope('clone_0/semantic_merged_logits/'):
            loss = tf.identity(2.0, 'value')
        total = tf.constant(3.0, name='total_loss')  # an operation of the same name takes nothing from the tag
        return summaries.scalar_summaries(total, tf.constant(0.5), {'key': loss}, 'clone_0')

    values = {tag: value.simple_value for tag, value in evaluate(build).items()}
    assert values == {'total_loss': 3.0, 'learning_rate': 0.5, 'losses/semantic_merged_logits/value': 2.0}


def test_histograms_are_those_of_a_graph_and_stand_before_images():
    values = {'net/weights': np.float32([-1.5, 0, 2, 7]), 'net/biases': np.float32([3])}

    def build():
        return [tf.raw_ops.HistogramSummary(tag=name, values=array) for name, array in values.items()]

    with tf.Graph().as_default():
        found = summaries.histograms({**values, 'net/diverged': np.float32([1, np.nan])})  # which has none
    merged = tf.compat.v1.Summary()
    merged.value.add(tag='total_loss', simple_value=2.0)
    merged.value.add(tag='picture').image.width = 1
    joined = summaries.joined(merged.SerializeToString(), found).value
    assert [value.tag for value in joined] == ['total_loss', *values, 'picture']
    assert {value.tag: value for value in joined[1:3]} == evaluate(build)


def test_images():
    images = np.full((4, 2, 3, 3), 300.0, np.float32)
    labels = np.full((4, 2, 3, 1), 2, np.int32)
    labels[:, 0] = 255

    def build():
        return summaries.image_summaries(tf.constant(images), tf.constant(labels), tf.ones([4, 2, 3, 1], tf.int64), 21)

    found = evaluate(build)
    assert set(found) == {f'samples/{name}/image/{i}' for name in ('image', 'label', 'semantic') for i in range(3)}
    decoded = {
        name: tf.io.decode_png(found[f'samples/{name}/image/0'].image.encoded_image_string).numpy()
        for name in ('image', 'label', 'semantic')
    }
    assert (decoded['image'] == 255).all()
    np.testing.assert_array_equal(decoded['label'][..., 0], [[255] * 3, [24] * 3])  # 255 // 21 = 12
    assert (decoded['semantic'] == 12).all()


def test_terms_of_a_sum_have_their_own_tags():
    def build():
        terms = {'semantic_merged_logits/dice': tf.constant(0.25)}
        return summaries.scalar_summaries(tf.constant(1.0), tf.constant(0.5), {}, terms=terms)

    assert evaluate(build)['losses/semantic_merged_logits/dice'].simple_value == 0.25


@pytest.mark.parametrize(('channels', 'shown'), [(1, 1), (2, 1), (3, 3), (4, 3), (6, 3)])
def test_images_of_other_channels_show_the_first(channels, shown):
    images = np.random.RandomState(0).randint(0, 256, (1, 2, 3, channels)).astype(np.float32)
    labels = np.zeros((1, 2, 3, 1), np.int32)
    found = evaluate(lambda: summaries.image_summaries(tf.constant(images), labels, labels, 21))
    decoded = tf.io.decode_png(found['samples/image/image/0'].image.encoded_image_string).numpy()
    np.testing.assert_array_equal(decoded, images[0, ..., :shown])


def test_miou_of_a_batch():
    """Of class 0, one of three pixels; of class 1, one of two; class 2 does not occur."""
    labels = np.int32([[0, 0, 1, 255], [255, 0, 255, 255]])[np.newaxis, ..., np.newaxis]
    predictions = np.int64([[0, 1, 1, 2], [1, 0, 0, 0]])[np.newaxis, ..., np.newaxis]
    assert float(summaries.miou(labels, predictions, 3, 255)) == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert float(summaries.miou(np.full_like(labels, 255), predictions, 3, 255)) == 0.0
