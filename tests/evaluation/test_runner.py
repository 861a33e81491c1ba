"""Batches that several threads predict, in order; test_eval.py has the rest."""

import logging
import threading

import numpy as np
import pytest

from deeplab import common
from deeplab.evaluation import runner
from deeplab.inference import network_source
from deeplab.options import DatasetOptions, EvalOptions, ModelOptions, PredictionOptions

FIRSTS = np.arange(0, 40, 4)


@pytest.mark.parametrize('at_once', [1, 2, 3])
def test_batches_of_several_threads_keep_their_order(at_once):
    records, lock, now = iter(FIRSTS), threading.Lock(), []
    most = 0

    def read():
        nonlocal most
        with lock:
            record = next(records)
            now.append(record)
            most = max(most, len(now))
            is_slow = record % 8 == 4  # the batch after it is done first
        if is_slow:
            threading.Event().wait(0.005)
        with lock:
            now.remove(record)
        return {common.RECORD: np.array([record])}

    found = [batch[common.RECORD][0] for batch in runner.in_order(read, FIRSTS, at_once)]
    assert found == FIRSTS.tolist()
    assert most <= at_once and next(records, None) is None


def test_the_first_batch_is_predicted_alone_and_threads_end_with_an_error():
    calls = []

    def read():
        calls.append(None)
        if len(calls) == 1:
            threading.Event().wait(0.01)
            assert len(calls) == 1
            return {common.RECORD: FIRSTS[:1]}
        raise ValueError('damaged')

    before = threading.active_count()
    batches = runner.in_order(read, FIRSTS, 2)
    assert next(batches)[common.RECORD] == 0
    with pytest.raises(ValueError, match='damaged'):
        next(batches)
    assert threading.active_count() == before


def test_threads_end_when_the_caller_stops():
    before, records = threading.active_count(), iter(FIRSTS)
    batches = runner.in_order(lambda: {common.RECORD: np.array([next(records)])}, FIRSTS, 2)
    next(batches)
    batches.close()
    assert threading.active_count() == before


@pytest.mark.parametrize(('task', 'shown'), [('semantic', 'no'), ('depth', 'averaged')])
def test_flips_of_a_single_scale_act_on_tasks(task, shown, caplog):
    model, prediction = ModelOptions({common.OUTPUT_TYPE: 3}, task=task), PredictionOptions(add_flipped_images=True)
    with caplog.at_level(logging.WARNING):
        runner.warn_of_flips(prediction, model)
    assert ('has no effect' in caplog.text) == (task == 'semantic')
    options = EvalOptions(model, DatasetOptions('val', 'records'), 'log', 'eval', prediction=prediction)
    assert dict(network_source.at('log').settings(options))['Flipped images'] == shown
