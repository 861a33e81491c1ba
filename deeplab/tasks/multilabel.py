"""The task `multilabel`: classes that may overlap, a sigmoid and a mask for each.

The loss is the formula of --loss, with a problem of two classes for each class. All pixels of an image count: the
ignore label of class ids, which need not exist, has no effect. An evaluation on a split whose name begins with "val"
chooses the threshold of each class, and writes them beside the checkpoint for predictions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from deeplab import common
from deeplab.core import multilabel
from deeplab.core.lazy import tf
from deeplab.datasets import planes
from deeplab.errors import DataError
from deeplab.options import ModelOptions
from deeplab.pictures import plane_pictures
from deeplab.registry import Output, Parameter, ResultFile, Task, TaskContext, Term, register

_NAME = 'multilabel'


def outputs(options: ModelOptions) -> list[Output]:
    """Returns an output with a channel for each class."""
    return [Output(_NAME, options.num_classes, lambda logits: tf.sigmoid(logits))]


def targets(sample: Mapping[str, tf.Tensor], context: TaskContext) -> dict[str, tf.Tensor]:
    """Returns the masks, [h, w, classes] bool, and which pixels are in the image, [h, w] bool."""
    masks = sample[common.MULTILABEL]  # 255 beyond the image
    return {'masks': tf.equal(masks, 1), 'valid': masks[..., 0] <= 1}


def losses(maps: Mapping[str, tf.Tensor], made: Mapping[str, tf.Tensor], context: TaskContext) -> dict[str, Term]:
    """Returns the loss of the classes."""
    built = multilabel.loss(maps[_NAME], made['masks'], made['valid'], context.loss, context.global_step)
    return {'loss': Term(built.value, context.settings['multilabel_loss_weight'])}


def thresholds(context: TaskContext) -> tuple[float, ...]:
    """Returns the threshold of each class: the one that was chosen for the checkpoint, else 0.5.

    Raises:
      DataError: the chosen ones are not one number between 0 and 1 for each class.
    """
    if _NAME not in context.calibration:
        return (multilabel.DEFAULT_THRESHOLD,) * context.num_classes
    document = context.calibration[_NAME]
    given: Any = document.get('thresholds') if isinstance(document, Mapping) else None
    chosen = [each for each in given if type(each) in (int, float)] if isinstance(given, list) else []
    if chosen != given or len(chosen) != context.num_classes or not all(0 < each <= 1 for each in chosen):
        raise DataError(
            f"'thresholds' is {given!r}; it must be a list of {context.num_classes} numbers in (0, 1], one for "
            'each class. Choose the thresholds again, with an evaluation of the split val.'
        )
    return tuple(float(each) for each in chosen)


def decode(maps: Mapping[str, np.ndarray], context: TaskContext) -> dict[str, Any]:
    """Returns 'probabilities' [h, w, classes] float32, and 'masks' [h, w, classes] bool."""
    probabilities = maps[_NAME]
    return {'probabilities': probabilities, 'masks': probabilities >= np.array(thresholds(context), np.float32)}


class MultilabelMetric(multilabel.OverlappingClasses):
    """IoU and average precision of each class; see `registry.metrics.Accumulator`."""

    def __init__(self, context: TaskContext) -> None:
        """Begins without an image."""
        super().__init__(context.num_classes, thresholds(context))
        self._names = context.class_names

    def update(self, sample: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Adds an image: its masks [h, w, classes], and the result of `decode`."""
        masks = sample[common.MULTILABEL]
        self.add(masks == 1, result['probabilities'], masks[..., 0] <= 1)

    def calibration(self) -> dict[str, Any]:
        """Returns the best thresholds, for `thresholds`; 0.5 for classes without a pixel."""
        figures = self.class_figures()
        return {
            'classes': list(self._names),
            'thresholds': [multilabel.DEFAULT_THRESHOLD if each is None else each for each in figures['threshold']],
            'iou': list(figures['best_iou']),
        }


def stacked(result: Mapping[str, Any], image: np.ndarray, context: TaskContext) -> np.ndarray:
    """Returns the masks below each other, as records have them: [classes * h, w] bool."""
    masks: np.ndarray = np.moveaxis(result['masks'], -1, 0)
    return masks.reshape(-1, masks.shape[2])


def overlay(result: Mapping[str, Any], image: np.ndarray, context: TaskContext) -> np.ndarray:
    """Returns the image, covered by the mean color of the classes of each pixel: [h, w, 3] uint8."""
    return plane_pictures.masks(image, result['masks'], context.palette, context.overlay_alpha)


register(
    Task(
        name=_NAME,
        summary='Classes that may overlap.',
        outputs=outputs,
        needs_labels=False,
        planes=(planes.MULTILABEL,),
        targets=targets,
        losses=losses,
        takes_loss_options=True,
        upsamples=False,  # `multilabel.loss` does, as LossOptions say
        decode=decode,
        metric=MultilabelMetric,
        headline='average_precision',
        files={'masks': ResultFile('.png', stacked)},
        overlay=overlay,
        parameters=(
            Parameter(
                'multilabel_loss_weight', 1.0, 'Weight of the loss of classes that may overlap.', range='[0, inf)'
            ),
        ),
        source='arXiv:1708.02002, section 3',
    )
)
