"""Pictures of outputs and targets, by hand."""

import numpy as np
import tensorflow as tf

from deeplab import common
from deeplab.options import ModelOptions
from deeplab.registry import TASKS, Output, Task
from deeplab.training import output_pictures
from tests.helpers.registries import changes_undone


def draw(values, scale, output, num_classes=3):
    return output_pictures.draw(
        tf.constant(values, tf.float32), tf.constant(scale, tf.float32), output, num_classes
    ).numpy()


def test_one_channel_is_gray_between_the_extremes_of_the_target():
    drawn = draw([[[[-4.0], [1.0]], [[2.0], [9.0]]]], [[[[0.0], [4.0]], [[1.0], [2.0]]]], Output('height', 1))
    np.testing.assert_array_equal(drawn[0, ..., 0], [[0, 63.75], [127.5, 255]])
    assert not draw(np.ones((1, 2, 2, 1)), np.ones((1, 2, 2, 1)), Output('height', 1)).any()


def test_two_channels_are_a_color():
    values = [[[[0.0, 0.0], [0.0, 2.0]], [[0.0, -2.0], [0.0, -1.0]]]]
    drawn = draw(values, values, Output('offset', 2, axes=('y', 'x')))[0]
    assert not drawn[0, 0].any()
    assert drawn[0, 1].max() == drawn[1, 0].max() == 255 and np.argmax(drawn[0, 1]) != np.argmax(drawn[1, 0])
    np.testing.assert_allclose(drawn[1, 1] * 2, drawn[1, 0], atol=1e-3)  # half as long


def test_a_channel_for_each_class_shows_the_class():
    scores = np.float32([[[[0, 3, 1], [5, 3, 1]]]])
    np.testing.assert_array_equal(draw(scores, scores, Output('kinds', 3))[0, ..., 0], [[85, 0]])
    ids = np.float32([[[[2], [1]]]])
    np.testing.assert_array_equal(draw(ids, ids, Output('kinds', 3))[0, ..., 0], [[170, 85]])


def test_the_mean_of_other_channels_is_gray():
    values = np.float32([[[[0, 0, 0, 0], [1, 2, 3, 2]]]])
    np.testing.assert_array_equal(draw(values, values, Output('sides', 4))[0, ..., 0], [[0, 255]])


def test_outputs_are_drawn_beside_their_targets():
    with changes_undone(TASKS):
        TASKS.add(
            Task(
                name='height',
                outputs=lambda options: [Output('height', 1, activation=lambda values: 2.0 * values)],
                losses=lambda *arguments: {},
                decode=lambda *arguments: {},
            )
        )
        batch = {
            common.IMAGE: np.zeros((1, 4, 6, 3), np.float32),
            f'{common.TARGET_PREFIX}height/truth': np.float32([[[0] * 6, [4] * 6, [4] * 6, [4] * 6]])[..., np.newaxis],
        }
        options = ModelOptions({common.OUTPUT_TYPE: 3}, task='semantic+height')
        batch = {key: tf.constant(values) for key, values in batch.items()}
        maps = {'height': np.ones((1, 2, 3, 1), np.float32), common.OUTPUT_TYPE: np.zeros((1, 2, 3, 3), np.float32)}
        drawn = output_pictures.pictures(maps, batch, options)
    assert {name: tuple(values.shape) for name, values in drawn.items()} == {
        'height': (1, 4, 6, 1), 'height_target': (1, 4, 6, 1)
    }  # fmt: skip
    np.testing.assert_array_equal(drawn['height'], np.full((1, 4, 6, 1), 127.5))
