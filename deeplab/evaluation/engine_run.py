"""A network with the weights of a checkpoint, prepared for a split: in TensorFlow's graph, or in another engine."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from absl import logging

from deeplab.inference import opening
from deeplab.inference.network import InferenceNetwork
from deeplab.inference.opening import Weights
from deeplab.options import AUTO_ENGINE, DEFAULT_ENGINE, EngineOptions
from deeplab.registry import FrozenGraph, Outputs, Predict
from deeplab.wording import option

COMPARED_IMAGES = 3  # at least so many; whole batches
_READ_AHEAD = 2  # batches


@dataclasses.dataclass
class EngineReport:
    """What ran a network, for reports and metrics files.

    Attributes:
      options: the engine that ran it ('auto' is replaced by the engine that it chose), and how.
      is_chosen: whether 'auto' chose the engine.
      changed_labels: share of the labels of the first images that differ from those in float32; None for float32.
      compared_images: number of those images.
    """

    options: EngineOptions
    is_chosen: bool = False
    changed_labels: float | None = None
    compared_images: int = 0

    @property
    def is_default(self) -> bool:
        """Whether nothing needs to be said."""
        return self.options == EngineOptions() and not self.is_chosen

    def text(self) -> str:
        """Returns one sentence for a report."""
        chosen = f', chosen by {option("EngineOptions.engine", AUTO_ENGINE)}' if self.is_chosen else ''
        sentence = f'Engine: {self.options.engine}{chosen}, {self.options.precision}'
        if self.changed_labels is not None:
            sentence += (
                f'; {self.changed_labels:.3%} of the labels of the first {self.compared_images} images differ from '
                'those in float32'
            )
        return f'{sentence}.'

    def as_json(self) -> dict[str, Any]:
        """Returns the entry of a metrics file."""
        found = {'engine': self.options.engine, 'precision': self.options.precision}
        compared = {'changed_labels': self.changed_labels, 'compared_images': self.compared_images}
        return found | (compared if self.changed_labels is not None else {})


class Prepared:
    """A network that is ready for `runner.run_batches`.

    Attributes:
      frozen: the network for the graph of the input pipeline; None if another engine runs it.
      report: what runs it.
    """

    def __init__(
        self, report: EngineReport, frozen: FrozenGraph | None, predict: Predict | None, exact: Predict | None
    ) -> None:
        """Creates it.

        Args:
          report: see the attribute.
          frozen: see the attribute.
          predict: runs the network in another engine.
          exact: runs it in float32, for the comparison of the labels of the first images; None for no comparison.
        """
        self.report, self.frozen = report, frozen
        self._predict, self._exact = predict, exact
        self._changed = self._pixels = 0

    def predictions(self, read: Callable[[], Any], batches: int, images: str) -> Iterator[tuple[Any, Outputs]]:
        """Yields each batch with its predictions; a thread reads the next ones meanwhile.

        Args:
          read: returns the next batch, arrays by key.
          batches: number of batches.
          images: key of the images.
        """
        assert self._predict is not None
        ahead: deque[concurrent.futures.Future[Any]] = deque()
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            try:
                for i in range(batches):
                    while len(ahead) < min(_READ_AHEAD, batches - i):
                        ahead.append(thread.submit(read))
                    batch = ahead.popleft().result()
                    outputs = self._predict(batch[images])
                    self._compare(batch[images], outputs)
                    yield batch, outputs
            finally:
                for waiting in ahead:
                    waiting.cancel()

    def _compare(self, images: np.ndarray, outputs: Outputs) -> None:
        """Notes the labels of the first images that differ from those in float32."""
        if self._exact is None:
            return
        self._changed += int(np.sum(self._exact(images).labels != outputs.labels))
        self._pixels += outputs.labels.size
        self.report.compared_images += len(images)
        self.report.changed_labels = self._changed / self._pixels
        if self.report.compared_images >= COMPARED_IMAGES:
            self._exact = None
            logging.info('%s', self.report.text())


@contextlib.contextmanager
def prepared(
    network: InferenceNetwork, weights: Weights, options: EngineOptions, cache_dirs: Sequence[str] = ()
) -> Iterator[Prepared]:
    """Opens a network for the `with` block; arguments and errors are those of `opening.opened`."""
    is_chosen = options.engine == AUTO_ENGINE
    if is_chosen:
        options = opening.fastest(network, weights, options, cache_dirs)
    opening.check(options)
    report = EngineReport(options, is_chosen)
    if options.engine == DEFAULT_ENGINE and options.precision == 'float32':
        yield Prepared(report, network.frozen(weights.checkpoint, weights.use_moving_average), None, None)
        return
    with contextlib.ExitStack() as stack:
        exact = None
        if options.precision != 'float32':
            in_float32 = dataclasses.replace(options, precision='float32')
            exact = stack.enter_context(opening.opened(network, weights, in_float32, cache_dirs))
        predict = stack.enter_context(opening.opened(network, weights, options, cache_dirs))
        yield Prepared(report, None, predict, exact)
