"""Networks in other engines beside the input pipeline: order, overlap, errors, the share of labels that change."""

import threading

import numpy as np
import pytest

from deeplab import common
from deeplab.evaluation import runner
from deeplab.evaluation.engine_run import EngineNetwork, EngineReport
from deeplab.options import EngineOptions
from deeplab.registry import Outputs

BFLOAT16 = EngineOptions('openvino', 'bfloat16')


def _batches():
    """A function that reads batches of two images, whose pixels are the number of the batch."""
    numbers = iter(range(100))
    return lambda: {common.IMAGE: np.full([2, 3, 4, 1], float(next(numbers)))}


def _labels(images):
    return Outputs(images[..., 0].astype(np.int32))


def test_batches_keep_their_order_and_few_are_read_ahead():
    read, most_ahead, done = _batches(), [], 0
    count = 0

    def counted():
        nonlocal count
        count += 1
        return read()

    network = EngineNetwork(EngineReport(EngineOptions('tflite')), _labels)
    for batch in runner._predicted(network, counted, 5, 2):
        assert (batch[common.IMAGE][..., 0] == done).all() and (batch[runner.PREDICTION] == done).all()
        done += 1
        most_ahead.append(count - done)
    assert done == count == 5 and max(most_ahead) <= 2
    assert network.report.changed_labels is None


def test_an_error_of_reading_arrives_and_stops_the_thread():
    def read():
        raise ValueError('damaged')

    network = EngineNetwork(EngineReport(EngineOptions('tflite')), _labels)
    before = threading.active_count()
    with pytest.raises(ValueError, match='damaged'):
        list(runner._predicted(network, read, 3, 2))
    assert threading.active_count() == before


def test_labels_of_the_first_images_are_compared_with_those_in_float32():
    calls = []

    def rounded(images):
        labels = _labels(images).labels.copy()
        labels[:, 0, 0] += 1  # 1 of 12 pixels
        return Outputs(labels)

    def exact(images):
        calls.append(len(images))
        return _labels(images)

    report = EngineReport(BFLOAT16)
    list(runner._predicted(EngineNetwork(report, rounded, exact), _batches(), 5, 2))
    assert calls == [2, 2]
    assert report.compared_images == 4 and report.changed_labels == pytest.approx(1 / 12)
    assert '8.333%' in report.text() and 'first 4 images' in report.text() and 'bfloat16' in report.text()
    assert report.as_json()['changed_labels'] == report.changed_labels
