"""Opens a network with the weights of a checkpoint in the engine that the options name.

network = InferenceNetwork(options, PredictionOptions(), batch_size=1, with_probabilities=True)
with opening.opened(network, Weights('logs/model.ckpt-30000'), EngineOptions(), cache_dirs) as predict:
labels, probabilities = predict(images)  # [n, h, w, channels] float32, 0 to 255
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import json
import os
import re
import time
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

import deeplab
from deeplab.errors import OptionError, UserError, reason_of
from deeplab.inference import calibration_images, conversion_cache, task_decoding
from deeplab.inference.calibration_images import CalibrationError, CalibrationImages
from deeplab.inference.comparison import (
    LEAST_AGREEMENT,
    LEAST_AGREEMENT_IN_INT8,
    MOST_DIFFERENCE,
    Comparison,
    compared,
)
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
    INT8,
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
_AGREEMENT = 'agreement.json'  # in the folder of a network that was converted to 8 bits


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

    It is raised for a folder without images for calibration, too. 'auto' is not checked: it takes what there is.
    """
    if options.calibration_dir is not None:
        calibration_images.paths_in(options.calibration_dir)
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
    needs, install = engine.precisions_need.get(options.precision, ((), ''))
    packages.require(needs, f'{option(ENGINES.field, engine.name)} in {options.precision}', install)


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
    calibration = None
    if options.precision == INT8:
        assert options.calibration_dir is not None  # the options have checked it
        _require_int8(network)
        calibration = CalibrationImages(options.calibration_dir, network)
        execution = execution._replace(calibration=calibration.calibrating)

    def convert(folder: str) -> None:
        _convert(engine, network, weights, execution, folder, calibration)

    key = _key(engine, network, weights, execution, calibration)
    with conversion_cache.converted(key, folders, convert) as folder:
        if calibration is not None:
            _require_agreement(engine, folder, calibration)
        with _loaded(engine, folder, execution) as predict:
            logging.info('%s runs the network in %s.', engine.name, folder)
            yield predict


def _require_int8(network: InferenceNetwork) -> None:
    """Raises `OptionError` if a network is none for 8 bits."""
    options = network.options
    reason = ''
    if not options.is_semantic:
        reason = 'the maps of other tasks than semantic have no bound on what 8 bits may change'
    elif options.quantize_delay_step is not None:
        reason = 'the ranges of this network come from 8-bit training; export it in 8 bits instead'
    elif options.crop_size is None:
        reason = f'it needs one size of images; set {option("ModelOptions.crop_size")}'
    if reason:
        raise OptionError(f'{option("EngineOptions.precision", INT8)} is not possible: {reason}.')


def _require_agreement(engine: Engine, folder: str, calibration: CalibrationImages) -> None:
    """Logs how many labels in 8 bits equal TensorFlow's in float32; raises `OptionError` if they are too few."""
    with open(os.path.join(folder, _AGREEMENT), encoding='utf-8') as file:
        agreement = json.load(file)
    share = f"equal TensorFlow's in float32 on {agreement:.2%} of the pixels of {calibration.compared_words}"
    if agreement < LEAST_AGREEMENT_IN_INT8:
        raise OptionError(
            f'{option(ENGINES.field, engine.name)} with {option("EngineOptions.precision", INT8)}: the labels {share}; '
            f'{LEAST_AGREEMENT_IN_INT8:.0%} are required. Use another engine or precision.'
        )
    logging.info('%s in int8, calibrated with %s: the labels %s.', engine.name, calibration.calibrating_words, share)


@contextlib.contextmanager
def _loaded(engine: Engine, folder: str, execution: Execution) -> Iterator[Predict]:
    """Opens `engine.load` for the `with` block."""
    assert engine.load is not None, f'{engine.name} has neither open nor load'
    with contextlib.ExitStack() as stack:
        with _imports_explained(engine):
            predict = stack.enter_context(engine.load(folder, execution))
        yield predict


def _key(
    engine: Engine,
    network: InferenceNetwork,
    weights: Weights,
    execution: Execution,
    calibration: CalibrationImages | None,
) -> str:
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
    of_int8 = {}
    if calibration is not None:
        needs, _ = engine.precisions_need.get(INT8, ((), ''))
        of_int8 = {
            'calibration': (calibration.digest, repr(network.resize)),
            'saturates': processors.saturates_int8(),
            'quantizer': [importlib.metadata.version(name) for name in needs],
        }
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
            **of_int8,
        }
    )


def _convert(
    engine: Engine,
    network: InferenceNetwork,
    weights: Weights,
    execution: Execution,
    folder: str,
    calibration: CalibrationImages | None,
) -> None:
    """Converts a network, and compares its labels with TensorFlow's on sample images; in 8 bits, notes the result."""
    assert engine.convert is not None, f'{engine.name} has neither open nor convert'
    frozen = network.frozen(weights.checkpoint, weights.use_moving_average, is_portable=True)
    logging.info("Converting '%s' for %s.", weights.checkpoint, engine.name)
    started = time.monotonic()
    exact = execution._replace(precision='float32')
    batches = [_images(network)] if calibration is None else calibration.compared()
    failure = f'{option(ENGINES.field, engine.name)} cannot run this network'
    advice = f'Use {option(ENGINES.field, DEFAULT_ENGINE)} or another engine.'
    with conversion_explained(frozen, failure, advice):
        with _imports_explained(engine):
            engine.convert(frozen, folder, execution)
        with _loaded(engine, folder, exact) as predict:
            outputs = [predict(images) for images in batches]
    with tensorflow.opened(frozen, exact) as predict:
        expected = [predict(images) for images in batches]
    comparison = Comparison(len(batches), 0.0, None)
    if outputs[0].labels.shape == expected[0].labels.shape:
        pairs = zip(outputs, expected, strict=True)
        comparison = compared(pairs, task_decoding.channels_of(network.options))
    if calibration is None:
        _require_equal(comparison, engine.least_agreement, failure, advice)
    else:
        with open(os.path.join(folder, _AGREEMENT), 'w', encoding='utf-8') as file:
            json.dump(comparison.agreement, file)
    logging.info('Converted in %.1f s.', time.monotonic() - started)


def _require_equal(comparison: Comparison, least_agreement: float, failure: str, advice: str) -> None:
    """Raises `OptionError` if labels, or the maps of tasks, differ from TensorFlow's by more than rounding errors."""
    if flaw := comparison.flaw(least_agreement, MOST_DIFFERENCE['float32'], "TensorFlow's", 'a test image'):
        raise OptionError(f'{failure}: {flaw}. {advice}')


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
    network, or if its predictions differ from TensorFlow's in float32 by more than rounding errors of its type. With
    images for calibration, 8 bits are tried too, and the predictions are of images that do not calibrate.

    Args:
      network: see `opened`.
      weights: see `opened`.
      options: with 'auto' as engine, precision or both.
      cache_dirs: see `opened`.

    Raises:
      CalibrationError: There is no image for calibration, or it does not fit the network.
      CheckpointError: The checkpoint does not match the network.
      OptionError: No candidate can run the network.
    """
    if options in network.chosen_engines:
        return network.chosen_engines[options]
    check(options)
    batches, compared_words = [_images(network)], ''
    if options.calibration_dir is not None and network.crop_size is not None:
        calibration = CalibrationImages(options.calibration_dir, network)
        batches, compared_words = calibration.compared(), calibration.compared_words
    network.frozen(weights.checkpoint, weights.use_moving_average)  # a checkpoint that does not match is no engine's
    tried = [*_tried(network, weights, options, cache_dirs, batches)]
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
    choice = EngineChoice(options, chosen, (taken, *slower, *others), len(batches[0]), compared_words)
    logging.info('%s', choice.text())
    network.chosen_engines[options] = choice
    return choice


def _tried(
    network: InferenceNetwork,
    weights: Weights,
    options: EngineOptions,
    cache_dirs: Sequence[str],
    batches: Sequence[np.ndarray],
) -> Iterator[Candidate]:
    """Yields each candidate, with the reason why it cannot be taken, or with its time."""
    expected: list[Outputs] = []
    for candidate in _candidates(options):
        if candidate.reason:
            yield candidate
            continue
        assert candidate.precision is not None
        if not expected:
            usual = _of_engine(options, DEFAULT_ENGINE, 'float32')
            with opened(network, weights, usual, cache_dirs) as predict:
                expected = [predict(images) for images in batches]
        try:
            of_candidate = _of_engine(options, candidate.engine, candidate.precision)
            with opened(network, weights, of_candidate, cache_dirs) as predict:
                outputs = [predict(images) for images in batches]
                seconds = _time(predict, batches[0])
            pairs = zip(outputs, expected, strict=True)
            comparison = compared(pairs, task_decoding.channels_of(network.options))
            yield dataclasses.replace(
                candidate,
                seconds=seconds,
                agreement=comparison.agreement,
                difference=comparison.difference,
                reason=_refusal(comparison, candidate),
            )
        except CalibrationError:
            raise
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
            tried = [each for each in precisions if each != INT8 or options.calibration_dir is not None]
            yield from (Candidate(engine.name, precision) for precision in tried)
        elif options.precision in precisions:
            yield Candidate(engine.name, options.precision)
        else:
            types = ' or '.join(precisions)
            yield Candidate(engine.name, None, reason=f'computes in {types} only on this processor')


def _refusal(comparison: Comparison, candidate: Candidate) -> str:
    """Returns why a candidate is refused whose predictions differ from TensorFlow's in float32; empty if it is not."""
    assert candidate.precision is not None
    least = LEAST_AGREEMENT.get(candidate.precision, LEAST_AGREEMENT_IN_INT8)
    most = MOST_DIFFERENCE.get(candidate.precision, 0.0)
    if candidate.precision == 'float32':
        least = ENGINES.get(candidate.engine).least_agreement
    return comparison.flaw(least, most, "TensorFlow's in float32", 'the compared images')


def _of_engine(options: EngineOptions, name: str, precision: str) -> EngineOptions:
    """Returns the options with an engine; TensorFlow, in the graph of the input, chooses its threads itself."""
    threads = None if name == DEFAULT_ENGINE else options.threads
    return dataclasses.replace(options.in_precision(precision), engine=name, threads=threads)


def _time(predict: Predict, images: np.ndarray) -> float:
    """Returns the shortest time of several batches, in seconds, after one batch without timing."""
    predict(images)
    seconds: list[float] = []
    while len(seconds) < _TIMED_BATCHES or sum(seconds) < _TIMED_SECONDS:
        started = time.perf_counter()
        predict(images)
        seconds.append(time.perf_counter() - started)
    return min(seconds)
