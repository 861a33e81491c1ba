"""Opens a network with the weights of a checkpoint in the engine that the options name.

network = InferenceNetwork(options, PredictionOptions(), batch_size=1, with_probabilities=True)
with opening.opened(network, Weights('logs/model.ckpt-30000'), EngineOptions(), cache_dirs) as predict:
labels, probabilities = predict(images)  # [n, h, w, channels] float32, 0 to 255
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import time
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

import deeplab
from deeplab.errors import OptionError, UserError, reason_of
from deeplab.inference import conversion_cache, task_decoding
from deeplab.inference.comparison import LEAST_AGREEMENT, MOST_DIFFERENCE, Comparison, compared
from deeplab.inference.engine_choice import SLOWER, Candidate, EngineChoice
from deeplab.inference.network import InferenceNetwork
from deeplab.inference.runtimes import tensorflow
from deeplab.options import AUTO_ENGINE, DEFAULT_ENGINE, EngineOptions
from deeplab.pictures.sample_image import sample_image
from deeplab.registry import (
    AUTO_PRECISION,
    BACKBONES,
    ENGINES,
    HEADS,
    TASKS,
    Engine,
    Execution,
    FrozenGraph,
    Outputs,
    Predict,
)
from deeplab.system import packages, processors
from deeplab.wording import option

_TIMED_BATCHES, _TIMED_SECONDS = 3, 0.3  # at least
_SIDE_OF_ANY = 129  # side of the images that are tried where the network takes any size
_LONGEST_REASON = 300  # characters


@dataclasses.dataclass(frozen=True)
class Weights:
    """The weights of a network.

    Attributes:
      checkpoint: path of a checkpoint.
      use_moving_average: whether its moving averages (EMA) of the weights are used instead of the weights.
    """

    checkpoint: str
    use_moving_average: bool = False


def check(options: EngineOptions) -> None:
    """Raises `OptionError` if the engine is not installed, or does not compute in the precision on this processor.

    'auto' is not checked: it takes what there is.
    """
    if options.engine == AUTO_ENGINE:
        return
    engine = ENGINES.get(options.engine)
    packages.require(engine.requires, option(ENGINES.field, engine.name), engine.install)
    with _imports_explained(engine):
        precisions = engine.precisions()
    if options.precision not in (*precisions, AUTO_PRECISION):
        raise OptionError(
            f'{option("EngineOptions.precision", options.precision)} is not possible: on this processor, '
            f'{engine.name} computes in {" or ".join(precisions)} only. Set '
            f'{option("EngineOptions.precision", precisions[0])}, or use another engine or processor.'
        )


@contextlib.contextmanager
def _imports_explained(engine: Engine) -> Iterator[None]:
    """Raises `OptionError` for a package of the engine that is installed but fails when it is imported."""
    try:
        yield
    except ImportError as error:
        raise OptionError(
            f'{option(ENGINES.field, engine.name)} needs a package that cannot be imported: '
            f'{reason_of(error).rstrip(".")}. Install it again, or use another engine.'
        ) from error


@contextlib.contextmanager
def opened(
    network: InferenceNetwork, weights: Weights, options: EngineOptions, cache_dirs: Sequence[str] = ()
) -> Iterator[Predict]:
    """Opens a network for the `with` block, and gives the function that runs it.

    The function takes images [n, h, w, channels] float32, 0 to 255, as a NumPy array, and returns `Outputs` of NumPy
    arrays. One thread may call it at a time.

    A network is converted for an engine once: the result is kept in the folder of the checkpoint, in `.engines`.

    Args:
      network: the network.
      weights: checkpoint of the network.
      options: the engine, and how it computes.
      cache_dirs: folders for converted networks if the folder of the checkpoint cannot be written.

    Raises:
      CheckpointError: The checkpoint does not match the network.
      OptionError: The engine is not installed, or cannot run the network; the message names the operation.
    """
    if options.is_auto:
        options = choose(network, weights, options, cache_dirs).options
    check(options)
    engine = ENGINES.get(options.engine)
    execution = Execution(options.precision, options.threads or processors.available_cores())
    if engine.open is not None:
        is_portable = engine.name != DEFAULT_ENGINE
        frozen = network.frozen(weights.checkpoint, weights.use_moving_average, is_portable)
        with engine.open(frozen, execution) as predict:
            yield predict
        return
    folders = (os.path.dirname(weights.checkpoint) or '.', *cache_dirs)

    def convert(folder: str) -> None:
        _convert(engine, network, weights, execution, folder)

    with (
        conversion_cache.converted(_key(engine, network, weights, execution), folders, convert) as folder,
        _loaded(engine, folder, execution) as predict,
    ):
        logging.info('%s runs the network in %s.', engine.name, folder)
        yield predict


@contextlib.contextmanager
def _loaded(engine: Engine, folder: str, execution: Execution) -> Iterator[Predict]:
    """Opens `engine.load` for the `with` block."""
    assert engine.load is not None, f'{engine.name} has neither open nor load'
    with contextlib.ExitStack() as stack:
        with _imports_explained(engine):
            predict = stack.enter_context(engine.load(folder, execution))
        yield predict


def _key(engine: Engine, network: InferenceNetwork, weights: Weights, execution: Execution) -> str:
    """Returns the digest of everything that determines a converted network."""
    cell = network.options.dense_prediction_cell_json
    head = HEADS.chosen(network.options).name
    sources = (
        ENGINES.file_of(engine.name),
        BACKBONES.file_of(network.options.model_variant),
        HEADS.file_of(head),
        cell,
        *(TASKS.file_of(task.name) for task in TASKS.chosen(network.options)),
    )
    return conversion_cache.digest_of(
        {
            'checkpoint': conversion_cache.digest_of_checkpoint(weights.checkpoint),
            'use_moving_average': weights.use_moving_average,
            'network': repr(network.options),
            'prediction': repr(network.prediction),
            'batch_size': network.batch_size,
            'with_probabilities': network.with_probabilities,
            'of_labels_only': network.of_labels_only,
            'engine': (engine.name, engine.version()),
            'precision': execution.precision,
            'versions': (deeplab.__version__, tf.__version__),
            'code': conversion_cache.digest_of_code(path for path in sources if path),
        }
    )


def _convert(engine: Engine, network: InferenceNetwork, weights: Weights, execution: Execution, folder: str) -> None:
    """Converts a network, and compares its labels with TensorFlow's on sample images."""
    assert engine.convert is not None, f'{engine.name} has neither open nor convert'
    frozen = network.frozen(weights.checkpoint, weights.use_moving_average, is_portable=True)
    logging.info("Converting '%s' for %s.", weights.checkpoint, engine.name)
    started = time.monotonic()
    exact = execution._replace(precision='float32')
    images = _images(network)
    failure = f'{option(ENGINES.field, engine.name)} cannot run this network'
    advice = f'Use {option(ENGINES.field, DEFAULT_ENGINE)} or another engine.'
    with conversion_explained(frozen, failure, advice):
        with _imports_explained(engine):
            engine.convert(frozen, folder, execution)
        with _loaded(engine, folder, exact) as predict:
            outputs = predict(images)
    with tensorflow.opened(frozen, exact) as predict:
        expected = predict(images)
    comparison = Comparison(len(images), 0.0, None)
    if outputs.labels.shape == expected.labels.shape:
        comparison = compared([(outputs, expected)], task_decoding.channels_of(network.options))
    _require_equal(comparison, engine.least_agreement, failure, advice)
    logging.info('Converted in %.1f s.', time.monotonic() - started)


def _require_equal(comparison: Comparison, least_agreement: float, failure: str, advice: str) -> None:
    """Raises `OptionError` if labels, or the maps of tasks, differ from TensorFlow's by more than rounding errors."""
    if comparison.differences and not (comparison.difference or 0.0) <= MOST_DIFFERENCE['float32']:
        shown = comparison.shown_differences()
        raise OptionError(f"{failure}: its outputs differ from TensorFlow's on a test image by up to {shown}. {advice}")
    if comparison.agreement < least_agreement:
        raise OptionError(
            f"{failure}: its labels equal TensorFlow's on only {comparison.agreement:.2%} of the pixels of a test "
            f'image; {least_agreement:.1%} are required. {advice}'
        )


@contextlib.contextmanager
def conversion_explained(frozen: FrozenGraph, failure: str, advice: str) -> Iterator[None]:
    """Turns what a converter raises into an `OptionError`: what fails, the operation that causes it, what avoids it."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:  # such as a full disk
            raise
        raise OptionError(f'{failure}: {_reason_of_failure(error, frozen)}. {advice}') from error


def _reason_of_failure(error: Exception, frozen: FrozenGraph) -> str:
    """Returns why a conversion failed: the operations that the error names, or its first line."""
    text = str(error)
    kinds = {node.op for node in frozen.graph_def.node}
    # The part that lists operations, if there is one: further text may quote the whole network.
    lines = [line for line in text.splitlines() if re.search(r'[Cc]ustom ops|[Nn]o conversion|[Uu]nsupported', line)]
    named = sorted(kind for kind in kinds if any(re.search(rf'\b{kind}\b', line) for line in lines))
    if named:
        return f'it has no conversion for the operation{"s" if len(named) > 1 else ""} {", ".join(named)}'
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return first[:_LONGEST_REASON].rstrip('.')


def _images(network: InferenceNetwork) -> np.ndarray:
    """Returns a batch of sample images: [n, h, w, channels] float32."""
    size, channels = network.crop_size or (_SIDE_OF_ANY, _SIDE_OF_ANY), network.options.input_channels
    return np.array([sample_image(size, channels, seed).image for seed in range(network.batch_size or 1)], np.float32)


def choose(
    network: InferenceNetwork, weights: Weights, options: EngineOptions, cache_dirs: Sequence[str] = ()
) -> EngineChoice:
    """Chooses the fastest engine and precision in place of 'auto', and logs what was tried.

    At least three batches of sample images are timed in each candidate: in each installed engine if the engine is
    'auto', in each type that the processor computes if the precision is. A candidate is left out if it cannot run the
    network, or if its predictions differ from TensorFlow's in float32 by more than rounding errors of its type.

    Args:
      network: see `opened`.
      weights: see `opened`.
      options: with 'auto' as engine, precision or both.
      cache_dirs: see `opened`.

    Raises:
      CheckpointError: The checkpoint does not match the network.
      OptionError: No candidate can run the network.
    """
    if options in network.chosen_engines:
        return network.chosen_engines[options]
    check(options)
    images = _images(network)
    network.frozen(weights.checkpoint, weights.use_moving_average)  # a checkpoint that does not match is no engine's
    tried = [*_tried(network, weights, options, cache_dirs, images)]
    passed = sorted((each for each in tried if not each.reason), key=lambda each: each.seconds or 0.0)
    others = [each for each in tried if each.reason]
    if not passed:
        reasons = '; '.join(f'{each.name}: {each.reason}' for each in others)
        raise OptionError(
            f'{option(ENGINES.field, options.engine)}: no engine can run the network with '
            f'{option("EngineOptions.precision", options.precision)}. {reasons}.'
        )
    taken, *slower = passed
    assert taken.precision is not None
    slower = [dataclasses.replace(each, reason=SLOWER) for each in slower]
    chosen = _of_engine(options, taken.engine, taken.precision)
    choice = EngineChoice(options, chosen, (taken, *slower, *others), batch_size=len(images))
    logging.info('%s', choice.text())
    network.chosen_engines[options] = choice
    return choice


def _tried(
    network: InferenceNetwork, weights: Weights, options: EngineOptions, cache_dirs: Sequence[str], images: np.ndarray
) -> Iterator[Candidate]:
    """Yields each candidate, with the reason why it cannot be taken, or with its time."""
    expected: Outputs | None = None
    for candidate in _candidates(options):
        if candidate.reason:
            yield candidate
            continue
        assert candidate.precision is not None
        if expected is None:
            usual = _of_engine(options, DEFAULT_ENGINE, 'float32')
            with opened(network, weights, usual, cache_dirs) as predict:
                expected = predict(images)
        try:
            of_candidate = _of_engine(options, candidate.engine, candidate.precision)
            with opened(network, weights, of_candidate, cache_dirs) as predict:
                compared_to = [(predict(images), expected)]
                seconds = _time(predict, images)
            comparison = compared(compared_to, task_decoding.channels_of(network.options))
            yield dataclasses.replace(
                candidate,
                seconds=seconds,
                agreement=comparison.agreement,
                difference=comparison.difference,
                reason=_refusal(comparison, candidate),
            )
        except Exception as error:  # of an engine: another one can run the network
            yield dataclasses.replace(candidate, reason=reason_of(error)[:_LONGEST_REASON].rstrip('.'))


def _candidates(options: EngineOptions) -> Iterator[Candidate]:
    """Yields engines in the precisions that the options allow; with a reason if an engine cannot compute in any."""
    for engine in ENGINES.records() if options.engine == AUTO_ENGINE else (ENGINES.get(options.engine),):
        if absent := packages.missing(engine.requires):
            yield Candidate(engine.name, None, reason=f'{" and ".join(absent)} not installed')
            continue
        try:
            precisions = engine.precisions()
        except Exception as error:  # of its package
            yield Candidate(engine.name, None, reason=reason_of(error)[:_LONGEST_REASON].rstrip('.'))
            continue
        if options.precision == AUTO_PRECISION:
            yield from (Candidate(engine.name, precision) for precision in precisions)
        elif options.precision in precisions:
            yield Candidate(engine.name, options.precision)
        else:
            types = ' or '.join(precisions)
            yield Candidate(engine.name, None, reason=f'computes in {types} only on this processor')


def _refusal(comparison: Comparison, candidate: Candidate) -> str:
    """Returns why a candidate is refused whose predictions differ from TensorFlow's in float32; empty if it is not."""
    assert candidate.precision is not None
    least, most = LEAST_AGREEMENT[candidate.precision], MOST_DIFFERENCE[candidate.precision]
    if candidate.precision == 'float32':
        least = ENGINES.get(candidate.engine).least_agreement
    if comparison.differences and not (comparison.difference or 0.0) <= most:
        return f'its outputs differ from those in float32 by up to {comparison.shown_differences()}'
    if comparison.agreement < least:
        return f'only {comparison.agreement:.2%} of its labels equal those in float32, and {least:.1%} are required'
    return ''


def _of_engine(options: EngineOptions, name: str, precision: str) -> EngineOptions:
    """Returns the options with an engine; TensorFlow, in the graph of the input, chooses its threads itself."""
    threads = None if name == DEFAULT_ENGINE else options.threads
    return dataclasses.replace(options, engine=name, precision=precision, threads=threads)


def _time(predict: Predict, images: np.ndarray) -> float:
    """Returns the shortest time of several batches, in seconds, after one batch without timing."""
    predict(images)
    seconds: list[float] = []
    while len(seconds) < _TIMED_BATCHES or sum(seconds) < _TIMED_SECONDS:
        started = time.perf_counter()
        predict(images)
        seconds.append(time.perf_counter() - started)
    return min(seconds)
