"""How a worker of a distributed training differs from task 0."""

import dataclasses
import json
import types

import pytest
import tensorflow as tf

from deeplab import common
from deeplab.errors import OptionError
from deeplab.options import CloneOptions, DatasetOptions
from deeplab.training import agreement
from tests.helpers import training_setup

CLONES = CloneOptions(num_replicas=2, num_ps_tasks=1, master='grpc://one:1')
OPTIONS = training_setup.options(DatasetOptions('train', 'records', 'here/streets.json'), 'log', clones=CLONES)
OTHER_CLASSES = dataclasses.replace(OPTIONS.model, outputs_to_num_classes={common.OUTPUT_TYPE: 5})


def _facts(options=OPTIONS, digest='sha256:1', images=7, **shapes):
    index = types.SimpleNamespace(facts=lambda: {'digest': digest, 'shards': {}})
    training = agreement.Training(options, index, images)
    with tf.Graph().as_default():
        for name, shape in ({'weights': [2, 3]} | shapes).items():
            tf.compat.v1.get_variable(name, shape)
        return training, json.loads(json.dumps(training.facts()))


def _compare(options=OPTIONS, digest='sha256:1', images=7, **shapes):
    """Compares a worker with task 0, which has `OPTIONS`."""
    _, chief = _facts()
    training, own = _facts(options, digest, images, **shapes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agreement.Training, 'facts', lambda self: own)
        training.require_agreement(chief)


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
