"""The registry of tasks, and the task `semantic`; covers tasks/semantic.py."""

import dataclasses

import pytest

from deeplab import common
from deeplab.errors import OptionError
from deeplab.options import ModelOptions
from deeplab.registry import HEADS, TASKS, Output, Task
from tests.helpers.registries import changes_undone

OPTIONS = ModelOptions({common.OUTPUT_TYPE: 5})


def toy(name, *outputs, **more):
    return Task(name=name, outputs=lambda options: list(outputs), **more)


def test_networks_predict_classes_unless_a_task_is_named():
    assert (OPTIONS.task, OPTIONS.is_semantic) == ('semantic', True)
    (output,) = TASKS.outputs(OPTIONS)
    assert (output.name, output.channels, output.branch) == ('semantic', 5, None)


def test_tasks_are_joined_and_the_classes_come_first():
    with changes_undone(TASKS):
        TASKS.add(toy('height', Output('height', 1)))
        options = dataclasses.replace(OPTIONS, task='height+semantic')
        assert [output.name for output in TASKS.outputs(options)] == ['semantic', 'height']
        assert TASKS.channels(options) == 6
        assert not options.is_semantic


@pytest.mark.parametrize(
    ('task', 'message'),
    [
        ('panoptik', 'Did you mean panoptic'),
        ('semantic+semantic', "'semantic' appears twice"),
        ('semantic+panoptic', "two of its tasks have an output 'semantic'"),
    ],
)
def test_bad_names_are_refused(task, message):
    with pytest.raises(OptionError, match=message):
        TASKS.outputs(dataclasses.replace(OPTIONS, task=task))


def test_a_task_has_losses_and_decode_or_neither():
    with pytest.raises(ValueError, match="'height' has either losses or decode"):
        toy('height', losses=lambda maps, targets, context: {})


def test_scopes_of_branches_are_last_layers():
    assert {'semantic_branch', 'instance_branch'} <= set(HEADS.last_layer_scopes())
