"""Speed of a network that predicts, by batch size."""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from deeplab.core import sessions
from deeplab.errors import OutOfMemoryError
from deeplab.export.speed import timed
from deeplab.inference import opening
from deeplab.inference.network import InferenceNetwork
from deeplab.options import EngineOptions, ModelOptions, PredictionOptions
from deeplab.programs.benchmark.figures import Inference
from deeplab.system import system_files
from deeplab.wording import option

_SECONDS = 2.0  # of later batches
_CENTERS = {'beta': 0.0, 'moving_mean': 0.0, 'biases': 0.0, 'gamma': 1.0, 'moving_variance': 1.0}


def measure(
    model: ModelOptions,
    checkpoint: str | None,
    engine: EngineOptions,
    batch_sizes: Sequence[int],
    process_started: float,
    deadline: float,
    folder: str,
) -> tuple[float, list[Inference]]:
    """Measures a network; the first function that this process runs.

    Args:
      model: the network; its crop size is the size of the images.
      checkpoint: path of its weights; None for random ones.
      engine: what runs it, and with how many threads.
      batch_sizes: images at a time.
      process_started: when the process was started, `time.time()`.
      deadline: when no further measurement begins.
      folder: folder for files that nobody needs afterwards.

    Returns:
      Seconds from the start of the process until its modules were loaded, and the figures of each batch size.

    Raises:
      UserError: there is no such network, or the checkpoint does not match it.
    """
    import_seconds = time.time() - process_started
    threads = engine.threads or 1
    rows: list[Inference] = []
    too_large = ''
    for batch_size in batch_sizes:
        late = 'the time is up' if rows and time.time() > deadline else ''
        if late or too_large:
            rows.append(Inference(threads, batch_size, skipped=late or too_large))
            continue
        try:
            rows.append(_measured(model, checkpoint, engine, batch_size, folder))
        except OutOfMemoryError as error:  # larger ones need more
            names = (option('EvalOptions.batch_size'), option('BenchmarkOptions.batch_sizes'))
            too_large = str(error).replace(*names)
            rows.append(Inference(threads, batch_size, skipped=too_large))
    return import_seconds, rows


def _measured(
    model: ModelOptions, checkpoint: str | None, engine: EngineOptions, batch_size: int, folder: str
) -> Inference:
    started = time.perf_counter()
    network = InferenceNetwork(model, PredictionOptions(), batch_size)
    network.check_memory('eval')
    if checkpoint is None:
        checkpoint = os.path.join(folder, 'random', 'model.ckpt-0')
        if not os.path.exists(f'{checkpoint}.index'):
            write_random_weights(network, checkpoint)
            started = time.perf_counter()  # as if they had been there
    assert model.crop_size is not None
    shape = (batch_size, *model.crop_size, model.input_channels)
    images = np.random.default_rng(0).uniform(0, 255, shape).astype(np.float32)
    with contextlib.ExitStack() as stack:
        opened = opening.opened(network, opening.Weights(checkpoint), engine, [folder])
        predict = stack.enter_context(opened)
        load = time.perf_counter() - started
        first, *later = timed(lambda: predict(images), _SECONDS)
    peak = system_files.peak_bytes(os.getpid())
    choice = network.chosen_engines.get(engine)
    used, candidates = (engine, ()) if choice is None else (choice.options, tuple(choice.candidates))
    return Inference(
        engine.threads or 1,
        batch_size,
        load,
        first,
        statistics.median(later),
        peak,
        engine=used.engine,
        precision=used.precision,
        candidates=candidates,
    )


def write_random_weights(network: InferenceNetwork, path: str) -> None:
    """Writes a checkpoint at step 0 with random weights of a network.

    Batch norms and biases are random, too: TensorFlow omits what adds 0, and a trained network has no such values.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    rng = np.random.default_rng(0)
    values: dict[str, np.ndarray] = {'global_step': np.array(0, np.int64)}
    for weights in network.built.weights:
        shape = weights.shape.as_list()
        center = _CENTERS.get(weights.op.name.rpartition('/')[2])
        deviation = 0.1 if center is not None else np.sqrt(2.0 / max(np.prod(shape[:-1]), 1))  # arXiv:1502.01852
        values[weights.op.name] = rng.normal(center or 0.0, deviation, shape).astype(weights.dtype.as_numpy_dtype)
    with tf.Graph().as_default() as graph, sessions.open_session(graph) as session:
        tensors = [tf.compat.v1.placeholder(value.dtype, value.shape) for value in values.values()]
        write = tf.raw_ops.SaveV2(
            prefix=path, tensor_names=list(values), shape_and_slices=[''] * len(values), tensors=tensors
        )
        session.run(write, dict(zip(tensors, values.values(), strict=True)))
