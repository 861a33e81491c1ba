"""IoU of categories of classes. Covers core/metrics/confusion_matrix.py."""

import numpy as np
import pytest

from deeplab.errors import OptionError
from tests.helpers import metric_batches


def test_against_labels_and_predictions_mapped_to_categories():
    rng = np.random.default_rng(0)
    labels, predictions, inputs = metric_batches.batch(rng, 5, [(16, 16)] * 2, (17, 17))
    metric = metric_batches.create(
        'category_iou', metric_batches.context(5, categories=('sky', 'flat', 'human', 'flat', 'sky'))
    )
    metric_batches.update(metric, 'category_iou', labels, predictions, inputs)
    category = np.array([0, 1, 2, 1, 0])
    keep = labels != 255
    truth, guess = category[labels[keep]], category[predictions[keep]]
    expected = [((truth == c) & (guess == c)).sum() / ((truth == c) | (guess == c)).sum() for c in range(3)]
    names = ('sky', 'flat', 'human')
    assert metric.result() == {'mean': pytest.approx(np.mean(expected))} | dict(zip(names, expected, strict=True))


def test_a_data_set_without_categories_is_told_how_to_get_them():
    with pytest.raises(OptionError, match='`categories`'):
        metric_batches.create('category_iou', metric_batches.context(3))
