"""The choice of an engine and a precision for a network: what was tried, and why it was taken or not."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from deeplab.options import AUTO_ENGINE, EngineOptions
from deeplab.registry import AUTO_PRECISION
from deeplab.wording import option

SLOWER = 'slower'


@dataclasses.dataclass(frozen=True)
class Candidate:
    """An engine in a precision that could run a network.

    Attributes:
      engine: name of the engine.
      precision: type in which it computes; None if no type could be tried.
      seconds: time of a batch; None if it was not timed.
      agreement: fraction of the pixels of the sample images with TensorFlow's label in float32; None if it was not run.
      difference: largest difference from TensorFlow's probabilities or maps, see `Comparison.difference`.
      reason: why it was not taken; empty for the one that was.
    """

    engine: str
    precision: str | None
    seconds: float | None = None
    agreement: float | None = None
    difference: float | None = None
    reason: str = ''

    @property
    def name(self) -> str:
        """Name for messages."""
        return self.engine if self.precision is None else f'{self.engine} in {self.precision}'

    @property
    def figures(self) -> str:
        """Its time and its differences, for messages."""
        assert self.seconds is not None and self.agreement is not None
        parts = [f'{self.agreement:.2%} of the labels']
        parts += [] if self.difference is None else [f'differences up to {self.difference:.1g}']
        return f'{self.name} {1000 * self.seconds:.0f} ms ({", ".join(parts)})'


@dataclasses.dataclass(frozen=True)
class EngineChoice:
    """The engine that runs a network in place of 'auto'.

    Attributes:
      asked: the options with 'auto'.
      options: the engine, and how it computes.
      candidates: all that were considered: the one that was taken, then those that passed by time, then the others.
      batch_size: images of the batches that were timed.
      compared_words: images on which the candidates were compared with TensorFlow; empty for sample images.
    """

    asked: EngineOptions
    options: EngineOptions
    candidates: Sequence[Candidate]
    batch_size: int
    compared_words: str = ''

    @property
    def words(self) -> str:
        """The options that are 'auto', for messages."""
        parts = [option('EngineOptions.engine', AUTO_ENGINE)] if self.asked.engine == AUTO_ENGINE else []
        parts += [option('EngineOptions.precision', AUTO_PRECISION)] if self.asked.precision == AUTO_PRECISION else []
        return ' '.join(parts)

    def text(self) -> str:
        """Returns what the log says."""
        passed = [each for each in self.candidates if each.reason in ('', SLOWER)]
        others = [f'{each.name}: {each.reason}' for each in self.candidates if each not in passed]
        of_images = f' on {self.compared_words}' if self.compared_words else ''
        return (
            f'{self.words} takes {passed[0].name}. Time of a batch of {self.batch_size}, and equality with '
            f'TensorFlow in float32{of_images}: {", ".join(each.figures for each in passed)}.'
            + (f' Not taken: {"; ".join(others)}.' if others else '')
        )

    def as_json(self) -> dict[str, Any]:
        """Returns the entries of a file of results."""
        return {
            'engine': self.options.engine,
            'precision': self.options.precision,
            'engine_candidates': [dataclasses.asdict(each) for each in self.candidates],
            **({'engines_compared_on': self.compared_words} if self.compared_words else {}),
        }
