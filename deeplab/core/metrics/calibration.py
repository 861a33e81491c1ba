"""Expected calibration error: how far the probability of the predicted class is from the fraction that is right."""

from __future__ import annotations

import json

import numpy as np
import numpy.typing as npt

from deeplab.core.metrics import _image_counts, _thresholds
from deeplab.registry import Metric, MetricContext, Parameter, register
from deeplab.registry.metrics import CONFIDENCE, Ids

_ONE = 2**24  # probabilities are summed as integers, so that the sum does not depend on the order of the images


class Calibration:
    """Counts pixels by the probability of their predicted class, in bins of equal width (a, b]."""

    accumulated = ('_sums',)

    def __init__(self, context: MetricContext, calibration_bins: int) -> None:
        self._context = context
        self._bins = calibration_bins
        # Of each bin: pixels, pixels that are right, sum of the probabilities in units of 1 / _ONE.
        self._sums = np.zeros((3, calibration_bins), np.int64)

    def update(self, labels: Ids, predictions: Ids, *, confidence: npt.NDArray[np.float32]) -> None:
        """Adds a batch of images, see `deeplab.registry.metrics.Accumulator`.

        Raises:
          DataError: A probability is not a number.
        """
        for image_labels, image_predictions, image_confidence in zip(labels, predictions, confidence, strict=True):
            self._add(image_labels, image_predictions, image_confidence)

    def _add(self, labels: Ids, predictions: Ids, confidence: npt.NDArray[np.float32]) -> None:
        # One place more than bins, for probabilities of 0, which belong to the first bin. Right pixels have places of
        # their own, so that two passes give all three sums; ignored pixels have the last place.
        length = self._bins + 1
        total, number = np.zeros(2 * length + 1), np.zeros(2 * length + 1, np.int64)
        labels, predictions, confidence = labels.reshape(-1), predictions.reshape(-1), confidence.reshape(-1)
        for block in _image_counts.blocks(labels.size):
            # Some engines round a probability, or the mean of several, to a little more than 1.
            probabilities, ids = np.minimum(confidence[block], np.float32(1)), labels[block]
            _thresholds.require_numbers(probabilities)
            places = np.ceil(probabilities * np.float32(self._bins)).astype(np.intp)
            places += length * (ids == predictions[block])
            places[ids == self._context.ignore_label] = 2 * length
            weights = np.rint(probabilities * np.float32(_ONE))  # sums are exact: integers
            total += np.bincount(places, weights=weights, minlength=len(total))
            number += np.bincount(places, minlength=len(number))
        wrong, right = number[:length], number[length:-1]
        added = np.array([wrong + right, right, (total[:length] + total[length:-1]).astype(np.int64)])
        self._sums += added[:, 1:]
        self._sums[:, 0] += added[:, 0]

    def merge(self, other: Calibration) -> None:
        """Adds the images of `other`."""
        self._sums += other._sums

    def result(self) -> dict[str, float | None]:
        """Returns the expected and the largest error, and the mean confidence."""
        pixels, right, confidence = self._sums
        total = int(pixels.sum())
        if not total:
            return {'ece': None, 'largest': None, 'confidence': None}
        gaps = np.abs(right - confidence / _ONE)  # in pixels
        occurring = pixels > 0
        return {
            'ece': float(gaps.sum()) / total,
            'largest': float((gaps[occurring] / pixels[occurring]).max()),
            'confidence': int(confidence.sum()) / _ONE / total,
        }

    def documents(self) -> dict[str, str]:
        """Returns the bins, for a calibration plot: edges, pixels, mean confidence, accuracy."""
        bins = [
            {
                'from': number / self._bins,
                'to': (number + 1) / self._bins,
                'pixels': pixels,
                'confidence': confidence / _ONE / pixels if pixels else None,
                'accuracy': right / pixels if pixels else None,
            }
            for number, (pixels, right, confidence) in enumerate(self._sums.T.tolist())
        ]
        return {'calibration.json': json.dumps({'bins': bins})}


register(
    Metric(
        name='calibration',
        summary='Expected calibration error of the probability of the predicted class.',
        create=Calibration,
        inputs=(CONFIDENCE,),
        parameters=(
            Parameter('calibration_bins', 15, 'Number of equal-width bins for calibration.', range='[1, 1000]'),
        ),
        source='arXiv:1706.04599, section 2',
    )
)
