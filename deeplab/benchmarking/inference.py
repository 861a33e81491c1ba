"""Speed of a network that predicts, by batch size."""

from __future__ import annotations

import contextlib
import os
import statistics
import time

import numpy as np
import tensorflow as tf

from deeplab import model
from deeplab.benchmarking import children
from deeplab.benchmarking.figures import Inference, InferenceRequest, InferenceResult
from deeplab.core import sessions
from deeplab.errors import OutOfMemoryError
from deeplab.inference import opening
from deeplab.inference.network import InferenceNetwork
from deeplab.options import ModelOptions, PredictionOptions
from deeplab.wording import option

_SECONDS = 2.0  # of later batches
_LEAST_RUNS = 3
_CENTERS = {'beta': 0.0, 'moving_mean': 0.0, 'biases': 0.0, 'gamma': 1.0, 'moving_variance': 1.0}


def measure(request: InferenceRequest) -> InferenceResult:
    """Measures a network; the first function that this process runs.

    Raises:
      UserError: there is no such network, or the checkpoint does not match it.
    """
    import_seconds = time.time() - request.process_started
    threads = request.engine.threads or 1
    rows, too_large = [], ''
    for batch_size in request.batch_sizes:
        late = 'the time is up' if rows and time.time() > request.deadline else ''
        if late or too_large:
            rows.append(Inference(threads, batch_size, skipped=late or too_large))
            continue
        try:
            rows.append(_measured(request, threads, batch_size))
        except OutOfMemoryError as error:  # larger ones need more
            names = (option('EvalOptions.batch_size'), option('BenchmarkOptions.batch_sizes'))
            too_large = str(error).replace(*names)
            rows.append(Inference(threads, batch_size, skipped=too_large))
    return InferenceResult(import_seconds, tuple(rows))


def _measured(request: InferenceRequest, threads: int, batch_size: int) -> Inference:
    """Measures one batch size."""
    started = time.perf_counter()
    network = InferenceNetwork(request.model, PredictionOptions(), batch_size)
    network.check_memory('eval')
    checkpoint = request.checkpoint
    if checkpoint is None:
        checkpoint = os.path.join(request.folder, 'random', 'model.ckpt')
        if not os.path.exists(f'{checkpoint}.index'):
            write_random_weights(_with_variables(request.model), checkpoint)
            started = time.perf_counter()  # as if they had been there
    shape = (batch_size, *request.model.crop_size, request.model.input_channels)
    images = np.random.default_rng(0).uniform(0, 255, shape).astype(np.float32)
    with contextlib.ExitStack() as stack:
        opened = opening.opened(network, opening.Weights(checkpoint), request.engine, [request.folder])
        predict = stack.enter_context(opened)
        load = time.perf_counter() - started
        first, *later = _timed(lambda: predict(images))
    peak = children.peak_bytes_of(os.getpid())
    return Inference(threads, batch_size, load, first, statistics.median(later), peak)


def _timed(run) -> list[float]:
    """Returns the seconds of each run."""
    seconds: list[float] = []
    until = None
    while len(seconds) <= _LEAST_RUNS or time.perf_counter() < until:
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
        until = until or time.perf_counter() + _SECONDS
    return seconds


def _with_variables(options: ModelOptions) -> tf.Graph:
    """Builds the network with its variables."""
    with tf.Graph().as_default() as graph:
        model.multi_scale_logits(tf.zeros([1, *options.crop_size, options.input_channels]), options)
    return graph


def write_random_weights(graph: tf.Graph, path: str) -> None:
    """Writes a checkpoint with random weights of all variables of a graph.

    Batch norms and biases are random too, as those of a trained network are not 0 and 1: TensorFlow omits what adds 0.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    rng = np.random.default_rng(0)
    with graph.as_default(), sessions.open_session(graph) as session:
        variables = tf.compat.v1.global_variables()
        values = {}
        for variable in variables:
            center = _CENTERS.get(variable.op.name.rpartition('/')[2])
            if center is not None:
                value = rng.normal(center, 0.1, variable.shape.as_list())
                values[variable.initializer.inputs[1]] = value.astype(np.float32)
        session.run(tf.compat.v1.variables_initializer(variables), values)
        tf.compat.v1.train.Saver(variables).save(session, path, write_meta_graph=False)


__all__ = ['measure', 'write_random_weights']
