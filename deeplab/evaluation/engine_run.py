"""A network with the weights of a checkpoint, prepared for a split: in TensorFlow's graph, or in another engine."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from absl import logging

from deeplab.inference import network_source, opening
from deeplab.inference.any_size import WINDOW, AnySize
from deeplab.inference.engine_choice import EngineChoice
from deeplab.inference.network import InferenceNetwork
from deeplab.inference.opening import Weights
from deeplab.options import DEFAULT_ENGINE, EngineOptions, WindowOptions, crop_sizes
from deeplab.registry import FrozenGraph, Outputs, Predict

COMPARED_IMAGES = 3  # at least so many; whole batches


@dataclasses.dataclass
class EngineReport:
    """What ran a network, for reports and metrics files.

    Attributes:
      options: the engine that ran it ('auto' is replaced by the engine that it chose), and how.
      choice: how it was chosen; None if the options name it.
      changed_labels: share of the labels of the first images that differ from the labels in float32; None for float32.
      compared_images: number of those images.
    """

    options: EngineOptions
    choice: EngineChoice | None = None
    changed_labels: float | None = None
    compared_images: int = 0

    @property
    def is_default(self) -> bool:
        """Whether nothing needs to be said."""
        return self.options == EngineOptions() and self.choice is None

    def text(self) -> str:
        """Returns one sentence for a report."""
        sentence = f'Engine: {self.options.engine}, {self.options.precision}'
        sentence += '' if self.choice is None else f', chosen by {self.choice.words}'
        if self.changed_labels is not None:
            sentence += (
                f'; {self.changed_labels:.3%} of the labels of the first {self.compared_images} images differ from '
                'those in float32'
            )
        return f'{sentence}.'

    def as_json(self) -> dict[str, Any]:
        """Returns the entry of a metrics file."""
        facts: dict[str, Any] = {'engine': self.options.engine, 'precision': self.options.precision}
        facts |= {} if self.choice is None else self.choice.as_json()
        compared = {'changed_labels': self.changed_labels, 'compared_images': self.compared_images}
        return facts | (compared if self.changed_labels is not None else {})


@dataclasses.dataclass(frozen=True)
class GraphNetwork:
    """A network with its weights that runs in the graph of the input pipeline, on `at_once` batches at a time.

    Attributes:
      is_semantic: whether its probabilities are the probabilities of labels; else they are the maps of all outputs.
    """

    report: EngineReport
    frozen: FrozenGraph
    at_once: int
    is_semantic: bool = True


class EngineNetwork:
    """A network that another engine runs, batch by batch.

    With `exact`, which runs it in float32, the labels of the first images are compared with its labels.
    """

    def __init__(
        self, report: EngineReport, predict: Predict, exact: Predict | None = None, is_semantic: bool = True
    ) -> None:
        self.report = report
        self.is_semantic = is_semantic
        self._predict = predict
        self._exact = exact
        self._changed = self._pixels = 0

    def predict(self, images: np.ndarray) -> Outputs:
        """Returns the predictions of a batch; notes how many labels of a first one differ from those in float32."""
        outputs = self._predict(images)
        if self._exact is not None and self.report.compared_images < COMPARED_IMAGES:
            self._changed += int(np.sum(self._exact(images).labels != outputs.labels))
            self._pixels += outputs.labels.size
            self.report.compared_images += len(images)
            self.report.changed_labels = self._changed / self._pixels
            if self.report.compared_images >= COMPARED_IMAGES:
                logging.info('%s', self.report.text())
        return outputs


Prepared = GraphNetwork | EngineNetwork  # ready for `runner.run_batches`


@contextlib.contextmanager
def prepared(
    network: InferenceNetwork,
    weights: Weights,
    options: EngineOptions,
    cache_dirs: Sequence[str] = (),
    windows: WindowOptions | None = None,
    source: network_source.NetworkSource | None = None,
) -> Iterator[Prepared]:
    """Opens a network for the `with` block.

    Args:
      network: the network; with windows, its crop size is that to which all images are padded, None for none.
      weights: see `opening.opened`, also for its errors. An export in the place of a checkpoint has a network of its
        own, and needs windows.
      options: see there.
      cache_dirs: see there.
      windows: sizes of windows for images of any size, one at a time; None for images of the crop size.
      source: what runs on images of any size; None for what is at the path of the checkpoint.
    """
    source = source or network_source.at(weights.checkpoint)
    if source.own_engine is not None:
        options = dataclasses.replace(source.own_engine, threads=options.threads)
    choice = None
    if options.is_auto:
        timed = network if windows is None else _of_tiles(network, windows)
        choice = opening.choose(timed, source.timed_weights(weights), options, cache_dirs)
        options = choice.options
    opening.check(options)
    report = EngineReport(source.own_engine or options, choice)
    if windows is None and options.engine == DEFAULT_ENGINE and options.precision == 'float32':
        frozen = network.frozen(weights.checkpoint, weights.use_moving_average)
        yield GraphNetwork(report, frozen, network.at_once, network.options.is_semantic)
        return
    with contextlib.ExitStack() as stack:

        def opened(engine: EngineOptions) -> Predict:
            if windows is None:
                return stack.enter_context(opening.opened(network, weights, engine, cache_dirs))
            runner = source.runner(network, weights.use_moving_average, engine, cache_dirs)
            stack.callback(runner.close)
            return _in_any_size(network, AnySize(runner, windows, network.batch_size or 1))

        exact = None
        if options.precision != 'float32':
            exact = opened(options.in_precision('float32'))
        yield EngineNetwork(report, opened(options), exact, network.options.is_semantic)


def _in_any_size(network: InferenceNetwork, any_size: AnySize) -> Predict:
    """Returns a function that predicts one image of any size, with the probabilities that the network has."""

    def predict(images: np.ndarray) -> Outputs:
        is_semantic = network.options.is_semantic
        (scores,) = any_size.predict(list(images), is_semantic and network.with_probabilities, not is_semantic)
        further = scores.probabilities  # [h, w, channels]
        if scores.confidence is not None:
            further = scores.confidence[..., np.newaxis]  # [h, w, 1]
        return Outputs(scores.labels[np.newaxis], None if further is None else further[np.newaxis])

    return predict


def _of_tiles(network: InferenceNetwork, windows: WindowOptions) -> InferenceNetwork:
    """Returns the network of the windows, to compare engines with."""
    size = network.crop_size or crop_sizes.above(windows.window or WINDOW, network.options.output_stride)
    options = dataclasses.replace(network.options, crop_size=size)
    reference = InferenceNetwork(options, network.prediction, 1, with_probabilities=True, resize=network.resize)
    reference.chosen_engines = network.chosen_engines
    return reference
