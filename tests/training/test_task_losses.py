"""The losses of tasks, and what tasks need of a data set; covers datasets/task_data.py."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from deeplab import common
from deeplab.datasets import planes, task_data
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.errors import OptionError
from deeplab.options import DatasetOptions, LossOptions, ModelOptions, TrainOptions
from deeplab.registry import TASKS, Output, Task, TaskContext, Term
from deeplab.training import task_losses
from tests.helpers.registries import changes_undone

MODEL = ModelOptions({common.OUTPUT_TYPE: 2}, task='height')
TARGET = f'{common.TARGET_PREFIX}height/height'


def squares(maps, targets, context):
    return {'square': Term(tf.reduce_mean(tf.square(maps['height'] - targets['height'])), 0.5)}


@pytest.fixture
def height():
    """A task with one output of lengths along the rows."""
    with changes_undone(TASKS):
        TASKS.add(
            Task(
                name='height',
                outputs=lambda options: [Output('height', 1, axes=('y',))],
                losses=squares,
                decode=lambda maps, context: dict(maps),
            )
        )
        yield


def options_of(**changes):
    return TrainOptions(
        train_logdir='', model=MODEL, dataset=DatasetOptions(name='toy', split='train', directory=''), **changes
    )


def built(target, upsamples=True):
    logits = {'height': {common.MERGED_LOGITS: tf.ones([2, 3, 3, 1])}}
    batch = {common.IMAGE: tf.zeros([2, 9, 9, 3]), TARGET: target}
    return task_losses.build(logits, batch, options_of(), TaskContext(2), None)


def test_outputs_are_resized_with_their_lengths(height):
    losses, terms = built(tf.fill([2, 9, 9, 1], 4.0))  # 1 of 2 steps becomes 4 of 8
    assert float(terms['height/square']) == 0.0
    losses, terms = built(tf.fill([2, 9, 9, 1], 6.0))
    assert float(terms['height/square']) == pytest.approx(4.0)
    assert float(losses['height_square']) == pytest.approx(2.0)  # the weight


def test_a_target_of_another_size_than_its_output_is_refused(height):
    with pytest.raises(OptionError, match=r"target 'height' of the task 'height'.*\[2, 5, 5, 1\].*\[2, 9, 9, 1\]"):
        built(tf.zeros([2, 5, 5, 1]))


def test_options_of_the_loss_need_a_task_that_takes_them(height):
    task_losses.check(options_of())
    with pytest.raises(OptionError, match='height.*uses its own losses'):
        task_losses.check(options_of(loss=LossOptions(formula='dice')))
    both = dataclasses.replace(MODEL, task='semantic+height')
    task_losses.check(dataclasses.replace(options_of(loss=LossOptions(formula='dice')), model=both))


def test_a_task_states_what_the_description_must_have():
    descriptor = DatasetDescriptor('toy', 3)
    options = ModelOptions({common.OUTPUT_TYPE: 3}, task='panoptic')
    with pytest.raises(OptionError, match="'things'.*'toy'"):
        task_data.context_of(descriptor, options)
    context = task_data.context_of(dataclasses.replace(descriptor, things=[1]), options)
    assert context.things == (1,)
    assert context.settings['center_sigma'] == 8.0
    assert task_data.planes_of(descriptor, options) == (planes.INSTANCE,)
    assert task_data.needs_labels(options)
    assert np.isclose(context.settings['offset_loss_weight'], 0.01)
