"""The task `classification`: targets, loss, result, metric, files, and what a network of vectors refuses.

Covers registry/preprocessings.py.
"""

import csv
import json

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from deeplab import common
from deeplab.core.metrics import ConfusionMatrix
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.errors import OptionError
from deeplab.inference.prediction import Prediction
from deeplab.inference.task_decoding import TaskDecoder, TaskPrediction
from deeplab.model import multi_scale_logits
from deeplab.options import DatasetOptions, LossOptions, ModelOptions, OptimizerOptions, TrainOptions
from deeplab.registry import TASKS, TaskContext
from deeplab.tasks import classification
from deeplab.utils import train_utils

TASK = TASKS.get('classification')
SETTINGS = {parameter.name: parameter.default for parameter in TASK.parameters}
NAMES = ('cat', 'dog', 'a "bird", flying', 'fish', 'fox', 'frog', 'elk')
CONTEXT = TaskContext(len(NAMES), class_names=NAMES, settings=SETTINGS, loss=LossOptions())
SEVERAL = CONTEXT._replace(settings=SETTINGS | {'several_labels': True})
LOGITS = np.float32([[3, 1, 0, -1, 2, 0.5, -2], [0, 0, 1, 5, 2, 3, 4], [1, 2, 3, 4, 5, 6, 7]])
LABELS = ([0], [6], [0])


def batch(labels=LABELS):
    made = [classification.targets({common.CLASS_LABEL: tf.constant(ids, tf.int64)}, CONTEXT) for ids in labels]
    return {key: tf.stack([each[key] for each in made]) for key in made[0]}


def loss(context, made):
    maps = {'classification': tf.constant(LOGITS[:, None, None])}
    return float(classification.losses(maps, made, context)['loss'].value)


def probabilities():
    exponentials = np.exp(LOGITS)
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def results():
    return [classification.decode({'classification': row[None, None]}, CONTEXT) for row in probabilities()]


def model(**changes):
    return ModelOptions({common.OUTPUT_TYPE: 3}, **{'task': 'classification', **changes})


def test_the_loss_is_cross_entropy_with_label_smoothing():
    logs = np.log(probabilities())
    wanted = np.array([logs[i, ids[0]] for i, ids in enumerate(LABELS)])
    assert loss(CONTEXT, batch()) == pytest.approx(-wanted.mean(), rel=1e-5)
    smooth = CONTEXT._replace(loss=LossOptions(settings={'label_smoothing': 0.1}))
    assert loss(smooth, batch()) == pytest.approx(-(0.9 * wanted + 0.1 * logs.mean(axis=1)).mean(), rel=1e-5)


def test_several_labels_have_a_sigmoid_each():
    made = batch(([0, 4], [3, 5, 6], [6]))
    truth = np.zeros_like(LOGITS)
    for row, ids in zip(truth, ([0, 4], [3, 5, 6], [6]), strict=True):
        row[ids] = 1
    expected = np.mean(np.logaddexp(0, LOGITS) - truth * LOGITS)
    assert loss(SEVERAL, made) == pytest.approx(expected, rel=1e-5)
    (output,) = TASK.outputs(model(settings={'several_labels': True}))
    assert output.activation(tf.zeros([1])).numpy().tolist() == [0.5]


def test_the_last_layer_is_the_classifier_s_own(tmp_path):
    """All layers before it are of the backbone; biases learn as fast as all else, as in TF-Slim."""
    data = DatasetOptions('train', str(tmp_path), 'flowers')
    optimizer = OptimizerOptions(last_layer_gradient_multiplier=10.0)
    scopes = TrainOptions(model(model_variant='lenet'), data, 'logs', optimizer=optimizer).last_layer_scopes
    assert scopes == ('LeNet/fc4',)
    with tf.Graph().as_default():
        multi_scale_logits(tf.zeros([1, 28, 28, 3]), model(model_variant='lenet'))
        multipliers = train_utils.get_model_gradient_multipliers(scopes, 10.0, bias_multiplier=1.0)
    assert multipliers == {'LeNet/fc4/weights': 10.0, 'LeNet/fc4/biases': 10.0}
    maps = TrainOptions(ModelOptions({common.OUTPUT_TYPE: 3}, crop_size=(33, 33)), data, 'logs', optimizer=optimizer)
    assert maps.last_layer_scopes == optimizer.last_layer_scopes


def test_gray_images_for_the_network():
    with tf.Graph().as_default():
        gray = model(model_variant='lenet', settings={'use_grayscale': True})
        multi_scale_logits(tf.zeros([1, 28, 28, 3]), gray)
        shapes = {variable.op.name: variable.shape for variable in tf.compat.v1.global_variables()}
    assert shapes['LeNet/conv1/weights'] == (5, 5, 1, 32)


def test_figures_of_images():
    metric, other = (classification.ClassificationMetric(CONTEXT) for _ in range(2))
    for i, (ids, result) in enumerate(zip(LABELS, results(), strict=True)):
        (metric, other)[i % 2].update({common.CLASS_LABEL: np.array(ids)}, result)
    metric.merge(other)
    figures = metric.result()
    assert figures['accuracy'] == pytest.approx(1 / 3) and figures['recall_5'] == pytest.approx(2 / 3)
    assert figures['mean_class_accuracy'] == pytest.approx((1 / 2 + 0) / 2)
    # Wilson's interval of 1 of 3, worked out by hand.
    assert figures['accuracy_low'] == pytest.approx(0.0615, abs=1e-4)
    assert figures['accuracy_high'] == pytest.approx(0.7923, abs=1e-4)
    first, *others = probabilities().max(axis=1)
    assert np.ceil([first, *others] * np.array(15)).tolist() == [10, 10, 10]  # all in one of the 15 bins
    assert figures['calibration_error'] == pytest.approx(abs(first + sum(others) - 1) / 3, abs=1e-6)
    of_classes = metric.class_figures()
    assert of_classes['accuracy'][:2] == (0.5, None) and of_classes['precision'][0] == 1.0
    rows = list(csv.reader(metric.documents()['classification_confusion.csv'].splitlines()))
    assert rows[0] == ['', *NAMES] and rows[1] == ['cat', '1', *['0'] * 5, '1']


def test_figures_of_several_labels():
    metric = classification.ClassificationMetric(SEVERAL)
    sigmoids = 1 / (1 + np.exp(-LOGITS))
    for ids, row in zip(([0, 4], [3, 5, 6], [0, 6]), sigmoids, strict=True):
        result = classification.decode({'classification': row[None, None]}, SEVERAL)
        metric.update({common.CLASS_LABEL: np.array(ids)}, result)
    figures = metric.result()
    assert figures['accuracy'] == 1.0 and figures['recall_5'] == pytest.approx(6 / 7)
    assert metric.documents() == {}
    # Of the five classes that occur, worked out by hand; a logit of at least 0 is a prediction of the class.
    assert figures['average_precision'] == pytest.approx((1 + 1 + 1 / 3 + 1 / 2 + 1) / 5)
    assert figures['iou'] == pytest.approx((2 / 3 + 1 / 2 + 1 / 3 + 1 / 3 + 1) / 5)
    assert figures['best_iou'] == pytest.approx((1 + 1 + 1 / 3 + 1 / 2 + 1) / 5)
    of_classes = metric.class_figures()['average_precision']
    assert of_classes == pytest.approx((1.0, None, None, 1.0, 1 / 3, 1 / 2, 1.0))


def test_thousands_of_classes_take_no_time_for_each_image(monkeypatch):
    """Neither the counts nor the figures of an image need a table of all pairs of classes in Python."""
    for name in ('_counts_of', 'result'):
        monkeypatch.setattr(ConfusionMatrix, name, None)
    context = TaskContext(1001, class_names=tuple(map(str, range(1001))), settings=SETTINGS)
    metric = classification.ClassificationMetric(context)
    row = np.full(1001, 1e-4, np.float32)
    row[998] = 0.9
    for label in (998, 5):
        metric.update(
            {common.CLASS_LABEL: np.array([label])}, classification.decode({'classification': row[None, None]}, context)
        )
    assert metric.result()['mean_class_accuracy'] == 0.5
    assert metric.class_figures()['precision'][998] == 0.5


def test_no_image_has_no_figures():
    assert classification.ClassificationMetric(CONTEXT).result() == {'accuracy': None, 'recall_5': None}


def test_the_most_probable_classes_in_files_and_pictures(tmp_path):
    result = results()[0]
    assert result['top'].tolist() == [0, 4, 1, 5, 2]
    file = TASK.files['top']
    top = json.loads(file.content(result, None, CONTEXT))
    assert [each['name'] for each in top] == ['cat', 'fox', 'dog', 'frog', 'a "bird", flying']
    assert top[0]['probability'] == pytest.approx(probabilities()[0, 0], abs=1e-6)
    assert file.entry(result, 'one.json', CONTEXT)['top'] == top
    image = np.full((20, 30, 3), 200, np.uint8)
    drawn = TASK.overlay(result, image, CONTEXT)
    compared = TASK.comparison(
        {common.CLASS_LABEL: np.array([2])}, result, np.full((20, 30, 3), 200, np.uint8), CONTEXT
    )
    assert compared.picture.shape[0] == drawn.shape[0] + 15 and compared.legend == {}
    assert drawn.shape[1] == 180 and drawn.shape[0] > 120 and (drawn[:120] == 200).all() and (drawn[120:] < 99).any()
    decoder = TaskDecoder(model(), CONTEXT)
    prediction = Prediction(
        image, np.zeros((20, 30), np.uint8), DatasetDescriptor('', 300, has_masks=False), np.ones(256, bool),
        (None, None), lambda: None, TaskPrediction({'classification': result}, decoder),
    )  # fmt: skip
    prediction.save(tmp_path / 'overlay.png', 'overlay', legend='all')
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / 'overlay.png')), drawn)
    np.testing.assert_array_equal(prediction.overlay_picture(), drawn)
    assert prediction._repr_png_()


def test_size_and_preprocessing_follow_from_the_backbone():
    assert model().crop_size == (224, 224) and model().output_stride == 32
    assert (model().preprocessing_name, model(model_variant='resnet_v1_50').preprocessing_name) == ('inception', 'vgg')
    chosen = model(crop_size=(513, 513), settings={'train_image_size': 64, 'preprocessing_name': 'lenet'})
    assert (chosen.crop_size, chosen.preprocessing_name) == ((64, 64), 'lenet')
    with pytest.raises(OptionError, match='Known: cifarnet, inception, lenet, vgg'):
        model(settings={'preprocessing_name': 'inceptoin'})


def test_another_task_beside_it_is_refused():
    with pytest.raises(OptionError, match="'classification' has a result for the whole image"):
        TASKS.chosen(model(task='semantic+classification'))
