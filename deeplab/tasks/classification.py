"""The task `classification`: the class of each image, or several of them.

The backbone runs at its last stride, followed by the layers of its published classifiers (`core.classifier`). Records
have the classes of an image as `image/class/label`, as TF-Slim wrote them. The loss is the formula of --loss, as if the
image were a single pixel.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from deeplab import common
from deeplab.core.lazy import scale_losses, tf
from deeplab.core.metrics import confusion_matrix
from deeplab.core.metrics.calibration import Calibration
from deeplab.datasets import planes
from deeplab.files import documents
from deeplab.options import ModelOptions
from deeplab.registry import (
    Comparison,
    MetricContext,
    Output,
    Parameter,
    ResultFile,
    Task,
    TaskContext,
    Term,
    register,
)
from deeplab.tasks import multilabel

_NAME = 'classification'
_SHOWN = 5  # most probable classes in files and pictures
_SEVERAL = 'several_labels'
_NO_LABEL = -1
_QUANTILE = 1.96  # of the normal distribution, for intervals of 95 %


def outputs(options: ModelOptions) -> list[Output]:
    """Returns the output, a probability for each class."""
    several = getattr(options, _SEVERAL)
    return [Output(_NAME, options.num_classes, lambda logits: (tf.sigmoid if several else tf.nn.softmax)(logits))]


def targets(sample: Mapping[str, tf.Tensor], context: TaskContext) -> dict[str, tf.Tensor]:
    """Returns which classes the image has, as a mask of one pixel: [1, 1, classes] bool."""
    rows = tf.one_hot(sample[common.CLASS_LABEL], context.num_classes, True, False)  # [n, classes]
    return {'masks': tf.reshape(tf.reduce_any(rows, axis=0), [1, 1, context.num_classes])}


def losses(maps: Mapping[str, tf.Tensor], made: Mapping[str, tf.Tensor], context: TaskContext) -> dict[str, Term]:
    """Returns the loss of --loss."""
    logits, masks = maps[_NAME], made['masks']  # [n, 1, 1, classes]
    if context.settings[_SEVERAL]:
        counted = tf.ones(masks.shape[:3], tf.bool)
        built = multilabel.loss(logits, masks, counted, context.loss, context.global_step)
    else:
        labels = tf.argmax(tf.cast(masks, tf.int32), axis=3, output_type=tf.int32)[..., tf.newaxis]
        scales = {common.MERGED_LOGITS: logits}
        built = scale_losses.losses_of_scales(
            scales, labels, _NO_LABEL, context.loss, context.global_step, scope=_NAME
        )[common.MERGED_LOGITS]
    return {'loss': Term(built.value)}


def decode(maps: Mapping[str, np.ndarray], context: TaskContext) -> dict[str, Any]:
    """Returns 'class_probabilities' [classes] float32, and 'top' [5 or less], the most probable classes in order."""
    probabilities = maps[_NAME][0, 0]
    return {'class_probabilities': probabilities, 'top': np.argsort(-probabilities, kind='stable')[:_SHOWN]}


class ClassificationMetric:
    """Accuracies over images; see `registry.metrics.Accumulator`.

    `accuracy` is the share of images whose most probable class is one of their classes, `recall_5` the share of the
    classes of images that are among the five most probable ones. The interval of the accuracy is Wilson's, for 95 %.
    With several labels for an image there are the figures of the task `multilabel`; else the confusion
    matrix and the expected calibration error.

    Source: E. B. Wilson, Probable Inference, 1927 (interval); arXiv:1706.04599, section 2 (calibration).
    """

    accumulated = ('_counts', '_matrix', '_calibration', '_several')

    def __init__(self, context: TaskContext) -> None:
        """Begins without an image."""
        self._names = context.class_names
        # Images, and those whose most probable class is right; classes of images, and those among the first five.
        self._counts = np.zeros(4, np.int64)
        self._matrix = confusion_matrix.ConfusionMatrix(context.num_classes)
        described = MetricContext(context.num_classes, _NO_LABEL, context.class_names)
        self._calibration = Calibration(described, calibration_bins=15)
        self._several = multilabel.MultilabelMetric(context) if context.settings[_SEVERAL] else None

    def update(self, sample: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Adds an image: its class ids [n], and the result of `decode`."""
        class_ids, probabilities, top = sample[common.CLASS_LABEL], result['class_probabilities'], result['top']
        self._counts += [1, top[0] in class_ids, len(class_ids), np.isin(class_ids, top).sum()]
        if self._several is not None:
            truth = np.isin(np.arange(len(probabilities)), class_ids)
            self._several.add(truth[None, None], probabilities[None, None], np.ones((1, 1), bool))
            return
        label, predicted = class_ids[:1].reshape(1, 1, 1), top[:1].reshape(1, 1, 1)
        self._matrix.update(label, predicted)
        self._calibration.update(label, predicted, confidence=probabilities[predicted])

    def merge(self, other: ClassificationMetric) -> None:
        """Adds the images of `other`."""
        self._counts += other._counts
        self._matrix.merge(other._matrix)
        self._calibration.merge(other._calibration)
        if self._several is not None and other._several is not None:
            self._several.merge(other._several)

    def result(self) -> dict[str, float | None]:
        """Returns the figures of all images by name."""
        images, right, labels, within_five = (int(count) for count in self._counts)
        if not images:
            return {'accuracy': None, 'recall_5': None}
        low, high = _interval(right, images)
        figures = {
            'accuracy': right / images,
            'recall_5': within_five / labels,
            'accuracy_low': low,
            'accuracy_high': high,
        }
        if self._several is not None:
            return figures | self._several.result()
        return figures | {
            'mean_class_accuracy': self._matrix.mean_accuracy,
            'calibration_error': self._calibration.result()['ece'],
        }

    def class_figures(self) -> dict[str, tuple[float | None, ...]]:
        """Returns the figures of each class by name."""
        if self._several is not None:
            return self._several.class_figures()
        return {'accuracy': self._matrix.class_accuracy, 'precision': self._matrix.class_precision}

    def documents(self) -> dict[str, str]:
        """Returns the confusion matrix as CSV: a row for each true class, a column for each predicted one."""
        if self._several is not None:
            return {}
        rows = [[name, *row] for name, row in zip(self._names, self._matrix.counts.tolist(), strict=True)]
        return {'classification_confusion.csv': documents.csv_text([['', *self._names], *rows])}


def _interval(right: int, images: int) -> tuple[float, float]:
    """Returns the ends of Wilson's interval of a share."""
    share, square = right / images, _QUANTILE**2
    middle = (share + square / (2 * images)) / (1 + square / images)
    half = _QUANTILE / (1 + square / images) * math.sqrt(share * (1 - share) / images + square / (4 * images**2))
    return max(middle - half, 0.0), min(middle + half, 1.0)


def _top(result: Mapping[str, Any], context: TaskContext) -> list[dict[str, Any]]:
    """Returns id, name and probability of the most probable classes."""
    probabilities = result['class_probabilities']
    return [
        {'id': int(number), 'name': context.class_names[number], 'probability': round(float(probabilities[number]), 6)}
        for number in result['top']
    ]


def overlay(result: Mapping[str, Any], image: np.ndarray, context: TaskContext) -> np.ndarray:
    """Returns the image with its most probable classes below it: [h', w, 3] uint8."""
    from deeplab.pictures import plane_pictures  # here, so that help does without Pillow

    return plane_pictures.captioned(image, _lines(result, context))


def comparison(
    sample: Mapping[str, Any], result: Mapping[str, Any], image: np.ndarray, context: TaskContext
) -> Comparison:
    """Returns the image with its classes and its most probable classes below it."""
    from deeplab.pictures import plane_pictures  # here, so that help does without Pillow

    names = [context.class_names[number] for number in sample[common.CLASS_LABEL]]
    return Comparison(plane_pictures.captioned(image, [f'true: {", ".join(names)}', *_lines(result, context)]))


def _lines(result: Mapping[str, Any], context: TaskContext) -> list[str]:
    return [f'{each["name"]} {each["probability"]:.1%}' for each in _top(result, context)]


register(
    Task(
        name=_NAME,
        summary='The class of the whole image.',
        outputs=outputs,
        needs_labels=False,
        planes=(planes.CLASS_LABEL._replace(several=_SEVERAL),),
        targets=targets,
        losses=losses,
        per_image=True,
        takes_loss_options=True,
        upsamples=False,
        decode=decode,
        metric=ClassificationMetric,
        headline='accuracy',
        files={
            'top': ResultFile(
                '.json',
                lambda result, image, context: json.dumps(_top(result, context), indent=2) + '\n',
                entry=lambda result, path, context: {'file': path, 'top': _top(result, context)},
            )
        },
        overlay=overlay,
        comparison=comparison,
        parameters=(
            Parameter(
                'preprocessing_name',
                '',
                'Preprocessing of images for a classifier: inception, vgg, cifarnet or lenet. Empty: as for the '
                'published classifiers of the backbone.',
            ),
            Parameter(
                'train_image_size',
                0,
                'Height and width of the input of a classifier, in pixels. 0: the usual size for the backbone, mostly '
                '224.',
                range='[0, inf)',
            ),
            Parameter(
                'labels_offset',
                0,
                'Number of leading classes that a classifier omits: 1 for a data set with a background class and a '
                'network without one. It is subtracted from the labels.',
                range='[0, inf)',
            ),
            Parameter(
                'use_grayscale',
                False,
                'Convert images to grayscale for a classifier, whose first layer then has one channel.',
            ),
            Parameter(
                _SEVERAL, False, 'Images may have several classes: a sigmoid for each class instead of a softmax.'
            ),
        ),
        source='research/slim of tensorflow/models at 0e2d1f0f3',
    )
)
