"""Replicas of a distributed training: when they start, and how one of them may differ from task 0."""

import dataclasses
import json
import types

import pytest
import tensorflow as tf

from deeplab import common
from deeplab.core import sessions
from deeplab.errors import OptionError
from deeplab.options import CloneOptions, DatasetOptions
from deeplab.training import replicas, training_step
from tests.helpers import servers, training_setup

CLONES = CloneOptions(num_replicas=2, num_ps_tasks=1, master='grpc://one:1')
OPTIONS = training_setup.options(DatasetOptions('train', 'records', 'here/streets.json'), 'log', clones=CLONES)
OTHER_CLASSES = dataclasses.replace(OPTIONS.model, outputs_to_num_classes={common.OUTPUT_TYPE: 5})


def several(task=0, ps=1, replicas=2, master='grpc://here:1', **more):
    return CloneOptions(task=task, num_replicas=replicas, num_ps_tasks=ps, master=master, **more)


def split(digest='d', images=7):
    index = types.SimpleNamespace(facts=lambda: {'digest': digest, 'shards': {}})
    return types.SimpleNamespace(reader=types.SimpleNamespace(index=index), records=range(images))


def new_group(clones, train_step, steps=100):
    options = training_setup.options(DatasetOptions('train', 'records', 'd.json'), 'log', steps, clones=clones)
    return replicas.Group(options, split(), train_step)


class TestGroup:
    def test_the_others_wait_for_the_sign_and_their_step(self, caplog):
        (master,) = servers.start()
        with (
            tf.Graph().as_default(),
            sessions.open_session(server=sessions.Server(master)) as running,
            caplog.at_level('INFO'),
        ):
            step = tf.compat.v1.train.get_or_create_global_step()
            applied = tf.constant(True)
            train_step = training_step.TrainStep(applied, applied, applied, applied, step)
            chief = new_group(several(replicas=3), train_step)
            with tf.compat.v1.variable_scope('', reuse=True):
                third = several(task=2, replicas=3, startup_delay_steps=15)
                other = new_group(third, train_step)
            assert chief.is_ready(running)
            assert not other.is_ready(running)  # no variable has a value yet
            assert 'Task 2 waits for task 0, and for step 30.' in caplog.text
            other.initialize(lambda running: pytest.fail('not for this one to do'), running)
            seen = []

            def first_values(running):
                running.run(step.initializer)
                seen.append(other.is_ready(running))

            chief.initialize(first_values, running)
            caplog.clear()
            assert not other.is_ready(running)  # 15 steps for each task
            assert 'other settings' not in caplog.text
            running.run(step.assign(29))
            assert not other.is_ready(running)
            running.run(step.assign(30))
            assert other.is_ready(running)
            chief.initialize(first_values, running)
            assert seen == [False, False]
        assert not caplog.text  # it says once that it waits
        assert replicas.READY not in {v.op.name for v in tf.compat.v1.global_variables()}

    def test_another_network_ends_before_its_first_step(self):
        (master,) = servers.start()
        for classes, task in ((3, 0), (4, 1)):
            with tf.Graph().as_default(), sessions.open_session(server=sessions.Server(master)) as running:
                step = tf.compat.v1.train.get_or_create_global_step()
                tf.compat.v1.get_variable('logits', [1, classes])
                applied = tf.constant(True)
                train_step = training_step.TrainStep(applied, applied, applied, applied, step)
                group = new_group(several(task), train_step)
                if task == 0:
                    group.initialize(lambda running: running.run(step.initializer), running)  # noqa: B023
                    continue
                with pytest.raises(OptionError, match=r'1 variables: logits \[1, 3\] -> \[1, 4\]'):
                    group.is_ready(running)

    def test_nobody_waits_for_a_step_that_does_not_come(self):
        (master,) = servers.start()
        with tf.Graph().as_default(), sessions.open_session(server=sessions.Server(master)) as running:
            step = tf.compat.v1.train.get_or_create_global_step()
            applied = tf.constant(True)
            train_step = training_step.TrainStep(applied, applied, applied, applied, step)
            other = new_group(several(task=1), train_step, steps=3)
            running.run(step.assign(3))
            running.run(other._give, {other._text: json.dumps(replicas.facts(other._options, other._data))})
            assert other.is_ready(running)

    def test_one_process_has_nothing_to_do_with_it(self):
        with tf.Graph().as_default() as graph:
            step = tf.compat.v1.train.get_or_create_global_step()
            applied = tf.constant(True)
            train_step = training_step.TrainStep(applied, applied, applied, applied, step)
            before = len(graph.get_operations())
            group = new_group(CloneOptions(), train_step)
            assert group.step is train_step and group.is_ready(None)
            assert len(graph.get_operations()) == before


def _facts(options=OPTIONS, digest='sha256:1', images=7, **shapes):
    with tf.Graph().as_default():
        for name, shape in ({'weights': [2, 3]} | shapes).items():
            tf.compat.v1.get_variable(name, shape)
        return json.loads(json.dumps(replicas.facts(options, split(digest, images))))


def _compare(options=OPTIONS, digest='sha256:1', images=7, **shapes):
    """Compares a worker with task 0, which has `OPTIONS`."""
    replicas.require_agreement(options, _facts(), _facts(options, digest, images, **shapes))


def _second(**changes):
    clones = dataclasses.replace(CLONES, task=1, master='grpc://two:1')
    return dataclasses.replace(OPTIONS, **{'clones': clones} | changes)


def test_what_differs_between_machines_is_no_difference(caplog):
    there = DatasetOptions('train', 'elsewhere', 'there/streets.json')
    _compare(_second(dataset=there, train_logdir='other', log_steps=9))
    assert not caplog.text


@pytest.mark.parametrize(
    ('changes', 'shapes', 'parts'),
    [
        ({'model': OTHER_CLASSES}, {}, ('number of classes: 3 -> 5',)),
        ({'dataset': DatasetOptions('train', 'records', 'camvid')}, {}, ('name: here/streets.json -> camvid',)),
        ({}, {'weights': [2, 4]}, ('1 variables: weights [2, 3] -> [2, 4]',)),
        ({}, {'more': [1]}, ('1 variables: more none -> [1]',)),
        (
            {'clones': dataclasses.replace(CLONES, task=1, num_ps_tasks=2)},
            {},
            ('num_ps_tasks: 1 -> 2', 'task=1 cannot train with task 0', 'another master and task only'),
        ),
    ],
)
def test_another_network_or_data_set(changes, shapes, parts):
    with pytest.raises(OptionError) as caught:
        _compare(_second(**changes), **shapes)
    assert not [part for part in parts if part not in str(caught.value)], str(caught.value)


def test_other_settings_are_a_warning(caplog):
    _compare(_second(batch_size=4), digest='sha256:2', images=6)
    assert 'task=1 has other settings than task 0' in caplog.text
    assert 'batch_size: 2 -> 4; records of split train: 7 images -> 6 images' in caplog.text
