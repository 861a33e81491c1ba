"""Learning rate range test: the loss at growing learning rates, its curve, and the rate that it suggests."""

from __future__ import annotations

import json
import math
import os
from typing import Any, NamedTuple

import numpy as np

from deeplab.files import output_files, writing
from deeplab.options import TrainOptions
from deeplab.pictures import drawing, rate_curve
from deeplab.registry import OPTIMIZERS
from deeplab.training.train_loop import Hook, StepResult
from deeplab.wording import option

FILES = ('learning_rate_range.json', 'learning_rate_range.png')  # in the folder of the training
_DECAY = 0.8  # of the running mean of the loss by which divergence is noticed
_DIVERGED = 4.0  # a running mean of this many times the lowest one
_WIDTH = 0.04  # standard deviation of the smoothing of the curve, as a fraction of its steps
_LEAST_FALL = 0.01  # of the loss, as a fraction of it; less is no fall
_LOGDIR = 'TrainOptions.train_logdir'


class Suggestion(NamedTuple):
    """What a curve says about the learning rate; rates are None if the loss falls nowhere.

    Attributes:
      smoothed: the loss without noise, for each step.
      steepest: learning rate where it falls fastest from step to step: the one to try.
      lowest: learning rate where it is lowest; higher ones are too high.
    """

    smoothed: np.ndarray
    steepest: float | None
    lowest: float | None


def suggest(rates: np.ndarray, losses: np.ndarray) -> Suggestion:
    """Returns the learning rate that a range test suggests.

    Args:
      rates: [steps], growing.
      losses: [steps], the loss before the update with each rate.
    """
    # The losses of a divergence are so large that they would hide the fall before it.
    start = float(np.median(losses[: max(3, len(losses) // 10)]))
    width = max(1.0, _WIDTH * len(losses))
    weights = np.exp(-0.5 * np.square(np.arange(-round(6 * width), round(6 * width) + 1) / width))
    kept = slice(len(weights) // 2, len(weights) // 2 + len(losses))
    sums = np.convolve(np.minimum(losses, start + abs(start)), weights)[kept]
    smoothed = sums / np.convolve(np.ones(len(losses)), weights)[kept]
    end = int(np.argmin(smoothed))
    if end < 2 or smoothed[0] - smoothed[end] < _LEAST_FALL * abs(start):
        return Suggestion(smoothed, None, None)
    slopes = np.gradient(smoothed)  # from step to step: the rates of linear growth lie far apart at its lower end
    return Suggestion(smoothed, float(rates[np.argmin(slopes[:end])]), float(rates[end]))


class RateTest(Hook):
    """Collects the loss of each step of a range test, and ends it when the loss diverges."""

    def __init__(self, options: TrainOptions) -> None:
        """Creates the hook of a training that `options` describe."""
        self._options = options
        self._rates: list[float] = []
        self._losses: list[float] = []
        self._mean, self._weight, self._lowest_mean = 0.0, 0.0, math.inf

    def after_step(self, result: StepResult, fetched: dict[str, Any]) -> None:
        """Adds a step."""
        self._rates.append(result.learning_rate)
        self._losses.append(result.loss)
        self._mean = _DECAY * self._mean + (1 - _DECAY) * result.loss
        self._weight = _DECAY * self._weight + 1 - _DECAY
        self._lowest_mean = min(self._lowest_mean, self._mean / self._weight)

    def stop_reason(self) -> str | None:
        """Returns that the loss diverges, if it does."""
        is_higher = bool(self._rates) and self._mean / self._weight > _DIVERGED * abs(self._lowest_mean)
        return 'the loss diverges' if is_higher else None

    def finish(self, is_diverged: bool) -> str:
        """Writes the curve, as data and as a picture; returns the report.

        Args:
          is_diverged: whether the loss or a gradient was not finite in a step after the last one.

        Raises:
          OptionError: a file cannot be written.
        """
        rates, losses = np.array(self._rates), np.array(self._losses)
        if len(rates) < 3:
            lower = option('RateTestOptions.lowest', self._options.rate_test.lowest / 1000)
            return f'The loss diverges in the first steps. Begin with a lower learning rate: {lower}'
        suggestion = suggest(rates, losses)
        is_diverged |= self.stop_reason() is not None
        paths = [os.path.join(self._options.train_logdir, name) for name in FILES]
        with output_files.writing_to(self._options.train_logdir, _LOGDIR):
            writing.write(paths[0], json.dumps(self._content(suggestion, is_diverged), indent=1) + '\n')
            curve = rate_curve.Curve(
                rates, losses, suggestion.smoothed, suggestion.steepest, suggestion.lowest, self._title()
            )
            drawing.write(paths[1], rate_curve.drawn(curve))
        end = f'diverges at {rates[-1]:.2g}' if is_diverged else f'does not diverge up to {rates[-1]:.2g}'
        lines = [
            f'{len(rates)} steps from a learning rate of {rates[0]:.2g}: the loss {end}.',
            *self._advice(suggestion),
        ]
        return '\n'.join([*lines, f'Curve: {paths[1]}; data: {paths[0]}'])

    def _title(self) -> str:
        return f'{self._options.optimizer.name}, batch size {self._options.batch_size}'

    def _field(self) -> str:
        return OPTIMIZERS.get(self._options.optimizer.name).rate_field

    def _advice(self, suggestion: Suggestion) -> list[str]:
        test = self._options.rate_test
        if suggestion.steepest is None or suggestion.lowest is None:
            ends = f'{option("RateTestOptions.lowest")}, {option("RateTestOptions.highest")}'
            more = option('RateTestOptions.steps', 3 * test.steps)
            return [f'The loss does not fall at any rate, so none is suggested. Try another range ({ends}) or {more}.']
        lines = [
            f'It falls fastest at {suggestion.steepest:.2g} and is lowest at {suggestion.lowest:.2g}; higher rates are '
            'too high.',
            f'Suggestion: {option(self._field(), float(f"{suggestion.steepest:.2g}"))}',
        ]
        if suggestion.lowest == self._rates[-1]:
            higher = option('RateTestOptions.highest', test.highest * 100)
            lines.append(f'It still falls at the highest rate: {higher} shows more.')
        return lines

    def _content(self, suggestion: Suggestion, is_diverged: bool) -> dict[str, Any]:
        options = self._options
        points = zip(self._rates, self._losses, suggestion.smoothed.tolist(), strict=True)
        return {
            'format': 1,
            'optimizer': options.optimizer.name,
            'option': self._field(),
            'batch_size': options.batch_size,
            'growth': options.rate_test.growth,
            'suggestion': suggestion.steepest,
            'lowest_loss': suggestion.lowest,
            'is_diverged': is_diverged,
            'points': [
                {'step': step, 'learning_rate': rate, 'loss': loss, 'smoothed_loss': smoothed}
                for step, (rate, loss, smoothed) in enumerate(points)
            ],
        }
