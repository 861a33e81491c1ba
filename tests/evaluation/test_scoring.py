"""Metrics of batches, and the thread that computes them beside the network."""

import numpy as np
import pytest

from deeplab import common
from deeplab.core.metrics import ConfusionMatrix
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.errors import DataError, OptionError
from deeplab.evaluation import runner, scoring
from deeplab.registry import METRICS

PLAIN = DatasetDescriptor('plain', 3)
GROUPED = DatasetDescriptor('grouped', 3, categories=('ground', 'ground', 'sky'))


def parameters(*names):
    return {name: {p.name: p.default for p in METRICS.get(name).parameters} for name in names}


def batch(labels, predictions):
    labels = np.array(labels)
    return {
        common.LABEL: labels[..., None],
        runner.PREDICTION: np.array(predictions),
        runner.CONFIDENCE: np.full(labels.shape, 0.5, np.float32),
        common.HEIGHT: np.full(len(labels), labels.shape[1]),
        common.WIDTH: np.full(len(labels), labels.shape[2]),
        common.IMAGE_NAME: np.array([b'caf\xe9'] * len(labels), object),
    }


def test_batches_have_what_the_metrics_ask_for():
    assert scoring.Scores(PLAIN, {}).keys == (common.LABEL,)
    scores = scoring.Scores(PLAIN, parameters('per_image', 'boundary_f'))
    assert scores.keys == (common.LABEL, common.HEIGHT, common.WIDTH, common.IMAGE_NAME)
    assert not scores.needs_confidence
    assert scoring.Scores(PLAIN, parameters('calibration')).needs_confidence


def test_all_metrics_that_a_data_set_allows():
    names = set(METRICS.names()) - {'confusion_matrix', 'instance_iou'}
    assert set(scoring.available(PLAIN, parameters('instance_iou', *names))) == names - {'category_iou'}
    with pytest.raises(OptionError, match='category'):
        scoring.Scores(PLAIN, parameters('category_iou'))
    scores = scoring.Scores(GROUPED, scoring.available(GROUPED, parameters(*names)))
    labels, predictions = [[[0, 1, 2, 255]], [[2, 2, 1, 1]]], [[[1, 1, 2, 0]], [[2, 0, 1, 1]]]
    scores.update(batch(labels, predictions))
    found = scores.results()
    matrix = ConfusionMatrix(3, 255)
    matrix.update(labels, predictions)
    assert found.metrics == matrix.result()
    assert found.further.keys() == names
    assert found.further['category_iou'] == {'mean': pytest.approx(11 / 15), 'ground': 0.8, 'sky': 2 / 3}
    assert found.further['calibration']['ece'] == pytest.approx(5 / 7 - 0.5)
    assert found.of_classes.keys() == {'boundary_iou', 'boundary_f', 'intervals'}
    assert found.documents.keys() == {'per_image.csv', 'calibration.json'}
    assert 'caf\ufffd,1,4,3,' in found.documents['per_image.csv']


def test_an_id_that_is_no_class_is_refused():
    with pytest.raises(DataError, match='A label has the id 3'):
        scoring.Scores(PLAIN, {}).update(batch([[[3]]], [[[0]]]))


def test_figures_that_are_not_finite_are_none():
    assert [scoring._finite(x) for x in (np.float32(0.5), float('nan'), np.inf, None)] == [0.5, None, None, None]
