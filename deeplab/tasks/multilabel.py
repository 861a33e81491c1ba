"""The task `multilabel`: classes that may overlap, a sigmoid and a mask for each.

The loss is the formula of --loss, with a problem of two classes for each class. All pixels of an image count: the
ignore label of class ids, which need not exist, has no effect. An evaluation on a split whose name begins with "val"
chooses the threshold of each class, and writes them beside the checkpoint for predictions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from deeplab import common
from deeplab.core.lazy import channels_first, scale_losses, shapes, tf
from deeplab.core.metrics import _image_counts, _thresholds
from deeplab.datasets import planes
from deeplab.errors import DataError, OptionError
from deeplab.options import LossOptions, ModelOptions
from deeplab.registry import LOSSES, REGIONS, Output, Parameter, ResultFile, Task, TaskContext, Term, register
from deeplab.wording import option

_NAME = 'multilabel'
_DEFAULT_THRESHOLD = 0.5

Fractions = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


def outputs(options: ModelOptions) -> list[Output]:
    """Returns an output with a channel for each class."""
    return [Output(_NAME, options.num_classes, lambda logits: tf.sigmoid(logits))]


def targets(sample: Mapping[str, tf.Tensor], context: TaskContext) -> dict[str, tf.Tensor]:
    """Returns the masks, [h, w, classes] bool, and which pixels are in the image, [h, w] bool."""
    masks = sample[common.MULTILABEL]  # 255 beyond the image
    return {'masks': tf.equal(masks, 1), 'valid': masks[..., 0] <= 1}


def losses(maps: Mapping[str, tf.Tensor], made: Mapping[str, tf.Tensor], context: TaskContext) -> dict[str, Term]:
    """Returns the loss of the classes."""
    built = loss(maps[_NAME], made['masks'], made['valid'], context.loss, context.global_step)
    return {'loss': Term(built.value, context.settings['multilabel_loss_weight'])}


def thresholds(context: TaskContext) -> tuple[float, ...]:
    """Returns the threshold of each class: the one that was chosen for the checkpoint, else 0.5.

    Raises:
      DataError: the chosen ones are not one number between 0 and 1 for each class.
    """
    if _NAME not in context.calibration:
        return (_DEFAULT_THRESHOLD,) * context.num_classes
    document = context.calibration[_NAME]
    given: Any = document.get('thresholds') if isinstance(document, Mapping) else None
    chosen = [each for each in given if type(each) in (int, float)] if isinstance(given, list) else []
    if chosen != given or len(chosen) != context.num_classes or not all(0 < each <= 1 for each in chosen):
        from deeplab.core.checkpoints import CALIBRATION  # here, because it imports TensorFlow

        raise DataError(
            f"'thresholds' is {given!r}; it must be a list of {context.num_classes} numbers in (0, 1], one for "
            f'each class. Remove the file beside the checkpoint that ends in {CALIBRATION}, and evaluate the split val '
            'again; for an export, then export the checkpoint again.'
        )
    return tuple(float(each) for each in chosen)


def decode(maps: Mapping[str, np.ndarray], context: TaskContext) -> dict[str, Any]:
    """Returns 'probabilities' [h, w, classes] float32, and 'masks' [h, w, classes] bool."""
    probabilities = maps[_NAME]
    return {'probabilities': probabilities, 'masks': probabilities >= np.array(thresholds(context), np.float32)}


def loss(
    logits: tf.Tensor, truth: tf.Tensor, valid: tf.Tensor, options: LossOptions, global_step: tf.Tensor | None = None
) -> scale_losses.ScaleLoss:
    """Builds the training loss of classes that may overlap, from the registered losses.

    Each class is a problem of two classes with the logits 0 and x, whose softmax is the sigmoid of x. So 'softmax' is
    binary cross entropy, 'focal' the binary focal loss, and each pixel has one loss for each class. Losses of regions,
    such as 'dice', take the sigmoids; they are averaged over the classes that occur in the batch.

    Args:
      logits: [n, h', w', classes] float, of known height and width.
      truth: [n, h, w, classes] bool or numbers 0 and 1, of known height and width.
      valid: [n, h, w] bool, whether a pixel has an effect on the loss.
      options: the formula, its settings, upsampling, stride, weights of the classes, hard example mining.
      global_step: scalar integer, for the schedule of hard example mining; None for the graph's own.

    Returns:
      the weighted sum and each term by its name in the formula; all are 0 without valid pixels.

    Raises:
      OptionError: if a loss takes class ids, or the number of label weights fits neither one nor the classes.

    Source: arXiv:1708.02002, section 3 (binary focal loss); arXiv:1606.04797, section 3 (dice of sigmoids).
    """
    classes = int(logits.shape[-1])
    scale_losses.check_label_weights(options.label_weights, classes)
    if not options.upsample_logits:
        size = shapes.spatial_size(logits)
        valid = shapes.resize_nearest(tf.cast(valid, tf.int32)[..., tf.newaxis], size)[..., 0] > 0  # [n, h', w']
        truth = shapes.resize_nearest(tf.cast(truth, tf.int32), size)  # [n, h', w', classes]
    step = options.stride
    counted = tf.reshape(valid[:, ::step, ::step], [-1])  # [pixels]
    height, width = (int(side) for side in truth.shape[1:3])
    values = channels_first.resize_bilinear(tf.cast(logits, tf.float32), (height, width), step)  # [classes, n, h, w]
    values = tf.reshape(values, [classes, -1])  # [classes, pixels]
    masks = tf.transpose(tf.cast(truth[:, ::step, ::step], tf.float32), [3, 0, 1, 2])  # [classes, n, h, w]
    masks = tf.reshape(masks, [classes, -1])  # [classes, pixels]
    terms = _terms(values, masks, counted, options, global_step)
    return scale_losses.ScaleLoss(scale_losses.weighted_sum(terms, options), terms)


def _terms(
    values: tf.Tensor, masks: tf.Tensor, counted: tf.Tensor, options: LossOptions, global_step: tf.Tensor | None
) -> dict[str, tf.Tensor]:
    """Returns the terms by name, scalars; of logits and masks [classes, pixels], and [pixels] bool."""
    classes = int(values.shape[0])
    terms = {}
    for record in (LOSSES.get(term.name) for term in options.terms):
        parameters = options.settings_of(record)
        if record.is_of_pixels:
            labeled = channels_first.LabeledLogits(
                logits=tf.stack([tf.zeros_like(values), values]),  # [2, classes, pixels]
                labels=tf.cast(masks, tf.int32),
                is_counted=tf.broadcast_to(counted, tf.shape(masks)),
            )
            pixels = scale_losses.pixel_losses(record, _flat(labeled), **parameters)  # [classes * pixels]
            by_class = tf.reshape(pixels.values, [classes, -1])
            weights = tf.constant(tuple(options.label_weights or (1.0,)), tf.float32)[:, tf.newaxis]
            weighted = pixels._replace(values=tf.reshape(by_class * weights, [-1]))
            terms[record.name] = scale_losses.mean_of_pixels(weighted, options, global_step)
        elif record.of == REGIONS:
            weight = tf.cast(counted, tf.float32)
            regions = scale_losses.Regions(tf.sigmoid(values) * weight, masks * weight)
            of_classes = scale_losses.class_losses(regions, record.function, **parameters)
            terms[record.name] = scale_losses.mean_of_classes(of_classes, options.label_weights)
        else:
            raise OptionError(
                f'{option("LossOptions.formula", options.formula)}: {record.name} takes one class id for each pixel, '
                'but these classes may overlap. Take a loss of pixels or of regions, such as softmax+0.5*dice'
            )
    return terms


def _flat(labeled: channels_first.LabeledLogits) -> channels_first.LabeledLogits:
    """Returns logits [2, classes, pixels] and labels [classes, pixels] with classes and pixels in one axis."""
    return channels_first.LabeledLogits(
        tf.reshape(labeled.logits, [2, -1]), tf.reshape(labeled.labels, [-1]), tf.reshape(labeled.is_counted, [-1])
    )


class MultilabelMetric:
    """IoU and average precision of classes that may overlap, over all valid pixels of all images.

    A pixel has a class if its probability is at least the threshold. Probabilities are counted in `_thresholds.BINS`
    bins of equal width, so a threshold is rounded up to a multiple of 1 / 1024. The best threshold of a class has the
    highest IoU, and hence the highest F1 score. Average precision is the sum, over the bins, of the increase in recall
    times the precision: pixels of one bin count as equally probable. `average_precision_error` is how far the average
    precision of the exact probabilities can be from it.

    Source: average precision is as in Everingham et al., IJCV 2015, section 4.2, without interpolation.
    """

    accumulated = ('_counts',)

    def __init__(self, context: TaskContext) -> None:
        """Begins without an image."""
        self._thresholds = np.array(thresholds(context))
        self._names = context.class_names
        self._counts = np.zeros((2, context.num_classes, _thresholds.BINS), np.int64)  # without the class, with it

    def update(self, sample: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Adds an image: its masks [h, w, classes], and the result of `decode`; see `registry.metrics.Accumulator`."""
        masks = sample[common.MULTILABEL]
        self.add(masks == 1, result['probabilities'], masks[..., 0] <= 1)

    def add(self, truth: Mask, probabilities: npt.NDArray[np.floating[Any]], valid: Mask) -> None:
        """Adds an image.

        Args:
          truth: [h, w, classes] bool, the masks of the classes.
          probabilities: [h, w, classes] float, 0 to 1.
          valid: [h, w] bool, whether a pixel has an effect.

        Raises:
          DataError: A probability is not a number.
        """
        for number in range(self._counts.shape[1]):
            places = _thresholds.bins(probabilities[..., number][valid])
            has_class = truth[..., number][valid].astype(bool)
            self._counts[0, number] += _thresholds.histogram(places[~has_class])
            self._counts[1, number] += _thresholds.histogram(places[has_class])

    def merge(self, other: MultilabelMetric) -> None:
        """Adds the images of `other`."""
        self._counts += other._counts

    def result(self) -> dict[str, float | None]:
        """Returns the means over the classes that occur: 'iou', 'best_iou' (at the best thresholds) and the rest."""
        figures = self._figures()
        return {name: _image_counts.mean_number(figures[name]) for name in ('iou', 'best_iou', 'average_precision')}

    def class_figures(self) -> dict[str, tuple[float | None, ...]]:
        """Returns the figures of each class, None for a class without a pixel; 'threshold' is the best one."""
        return {name: _image_counts.to_numbers(values) for name, values in self._figures().items()}

    def _figures(self) -> dict[str, Fractions]:
        """Returns the figures of each class by name, [classes]; NaN for a class without a pixel."""
        false_positives, true_positives = _thresholds.at_least(self._counts)  # [classes, bins]
        labeled = true_positives[:, :1]
        ious = _image_counts.fraction(true_positives, labeled + false_positives)
        ious[labeled[:, 0] == 0] = np.nan
        rows = np.arange(len(ious))
        at_threshold = np.ceil(self._thresholds * _thresholds.BINS).astype(int).clip(0, _thresholds.BINS - 1)
        best = [_thresholds.best(row) for row in ious]
        precision, error = self._average_precision(true_positives, false_positives)
        return {
            'iou': ious[rows, at_threshold],
            'threshold': np.array([np.nan if k is None else k / _thresholds.BINS for k in best]),
            'best_iou': ious[rows, [k or 0 for k in best]],
            'average_precision': precision,
            'average_precision_error': error,
        }

    def _average_precision(
        self, true_positives: npt.NDArray[np.int64], false_positives: npt.NDArray[np.int64]
    ) -> tuple[Fractions, Fractions]:
        """Returns the average precision, and how far the exact one can be from it: [classes], [classes].

        The pixels of a bin with p pixels of the class may have any order. With T pixels of the class down to the bin's
        end, of the j-th at least `T - p + j` stand above it, and between G and F others: those above the bin, and those
        down to its end. Its precision is thus at most `T / (T + G)` and at least `1 - F / (T - p + F + j)`, whose sum
        over j follows from an integral.
        """
        others, members = self._counts
        above = false_positives - others  # G
        precision = _image_counts.fraction(true_positives, true_positives + false_positives)
        highest = _image_counts.fraction(true_positives, true_positives + above)
        first = true_positives - members + false_positives
        growth = np.log(_image_counts.fraction(first + members, first))  # NaN without others: the precision is 1
        lowest = members - np.nan_to_num(false_positives * growth)
        labeled = true_positives[:, 0]
        mean, upper, lower = (
            _image_counts.fraction(np.nan_to_num(values).sum(axis=1), labeled)
            for values in (members * precision, members * highest, lowest)
        )
        return mean, np.maximum(upper - mean, mean - lower)

    def calibration(self) -> dict[str, Any]:
        """Returns the best thresholds, for `thresholds`; 0.5 for classes without a pixel."""
        figures = self.class_figures()
        return {
            'classes': list(self._names),
            'thresholds': [_DEFAULT_THRESHOLD if each is None else each for each in figures['threshold']],
            'iou': list(figures['best_iou']),
        }


def stacked(result: Mapping[str, Any], image: np.ndarray, context: TaskContext) -> np.ndarray:
    """Returns the masks below each other, as records have them: [classes * h, w] bool."""
    masks: np.ndarray = np.moveaxis(result['masks'], -1, 0)
    return masks.reshape(-1, masks.shape[2])


def overlay(result: Mapping[str, Any], image: np.ndarray, context: TaskContext) -> np.ndarray:
    """Returns the image, covered by the mean color of the classes of each pixel: [h, w, 3] uint8."""
    from deeplab.pictures import plane_pictures  # here, so that help does without Pillow

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
        upsamples=False,  # `loss` does, as LossOptions say
        decode=decode,
        metric=MultilabelMetric,
        headline='average_precision',
        files={'masks': ResultFile('.png', stacked)},
        overlay=overlay,
        drawn_parts=('masks',),
        parameters=(
            Parameter(
                'multilabel_loss_weight', 1.0, 'Weight of the loss for classes that may overlap.', range='[0, inf)'
            ),
        ),
        source='arXiv:1708.02002, section 3',
    )
)
