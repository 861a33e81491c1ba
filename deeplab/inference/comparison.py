"""Comparison of the predictions of two forms of a network on the same images."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np

from deeplab.registry import Outputs

# Fraction of the pixels that must have the label of the original network, for forms that only round, by their type.
LEAST_AGREEMENT = {'float32': 0.999, 'bfloat16': 0.98, 'float16': 0.98}
# The same in 8 bits, whose errors are larger than rounding: the accuracy of the pixels falls by at most 5 points.
LEAST_AGREEMENT_IN_INT8 = 0.95
# Largest difference of the maps of further tasks, for the same types; see `Comparison.difference`.
MOST_DIFFERENCE = {'float32': 2e-3, 'bfloat16': 0.05, 'float16': 0.05}


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Predictions of a converted or exported network and of the original one on the same images.

    Attributes:
      images: number of images.
      agreement: fraction of the pixels with the same label.
      difference: largest difference of probabilities; None for a network without. Of other tasks than `semantic`, the
        largest one of all outputs, relative to the largest value of the output if it is larger than 1, such as the
        largest offset in pixels.
      differences: largest absolute difference of each output, by name; empty for `semantic`.
    """

    images: int
    agreement: float
    difference: float | None
    differences: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def flaw(self, least: float, most: float | None, whose: str, images: str) -> str:
        """Returns how the predictions differ from the original ones, for a message; empty if they are close enough.

        Args:
          least: smallest allowed agreement.
          most: largest allowed difference of the outputs of other tasks than `semantic`; None for any.
          whose: whose the original predictions are, such as "TensorFlow's".
          images: the images, such as 'a test image'.
        """
        if self.differences and most is not None and not (self.difference or 0.0) <= most:
            shown = ', '.join(f'{name} {value:.1g}' for name, value in self.differences.items())
            return f'its outputs differ from {whose} on {images} by up to {shown}'
        if self.agreement < least:
            share = f'{self.agreement:.2%} of the pixels of {images}'
            return f'its labels equal {whose} on only {share}, and {least:.1%} are required'
        return ''


def compared(predictions: Iterable[tuple[Outputs, Outputs]], channels: Mapping[str, int]) -> Comparison:
    """Compares what a converted or exported network predicts with what the original one predicts.

    Args:
      predictions: pairs of both, batch by batch.
      channels: channels of each output by name, in order; see `task_decoding.channels_of`.
    """
    images = equal = pixels = 0
    most: float | None = None
    of_outputs = dict.fromkeys(channels, 0.0)
    for outputs, expected in predictions:
        images += 1
        equal += int(np.sum(outputs.labels == expected.labels))
        pixels += expected.labels.size
        end = 0
        for name, number in channels.items():
            part = (..., slice(end, end := end + number))
            difference = float(np.max(np.abs(outputs.probabilities[part] - expected.probabilities[part])))
            largest = max(1.0, float(np.max(np.abs(expected.probabilities[part]))))
            of_outputs[name] = float(np.maximum(of_outputs[name], difference))  # keeps a difference that is no number
            most = float(np.maximum(most or 0.0, difference / largest))
        if not channels and outputs.probabilities is not None:
            difference = float(np.max(np.abs(outputs.probabilities - expected.probabilities)))
            most = float(np.maximum(most or 0.0, difference))
    return Comparison(images, equal / pixels, most, of_outputs)
