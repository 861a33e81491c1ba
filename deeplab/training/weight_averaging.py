"""The mean of the weights of several checkpoints of one network, with statistics of its batch norms for the mean.

The mean of weights along a training, or of trainings from one checkpoint, often generalizes better than each of them
and predicts as fast as one (an ensemble takes the time of all). The statistics of batch norms are no linear function of
the weights: they are measured anew.

Source: P. Izmailov et al., arXiv:1803.05407, sections 3.2 and 3.3.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
import tqdm

from deeplab.checks import checkpoint_network
from deeplab.core import checkpoints, lean_variables, moving_average, moving_updates, sessions
from deeplab.datasets import task_data
from deeplab.deployment import model_deploy
from deeplab.errors import CheckpointError, NetworkMismatchError
from deeplab.evaluation.runner import CheckedSplit
from deeplab.options import CloneOptions, TrainOptions
from deeplab.training import network_clone, split_input
from deeplab.utils import input_generator
from deeplab.wording import option

_MEAN, _VARIANCE = '/moving_mean', '/moving_variance'

Values = Mapping[str, np.ndarray]


def checkpoints_at(paths: Sequence[str]) -> list[str]:
    """Returns checkpoints by their paths and all checkpoints in folders, each once.

    Raises:
      CheckpointError: there is none at a path, or only one in all.
    """
    each_once: dict[str, None] = {}
    for path in paths:
        newest = checkpoints.check_path(path)
        in_folder = checkpoints.on_disk(path) if os.path.isdir(path) else []
        by_step = sorted({*in_folder, newest}, key=lambda each: (checkpoints.step_in_name(each), each))
        each_once |= dict.fromkeys(map(os.path.normpath, by_step))
    if len(each_once) < 2:
        raise CheckpointError(
            f"'{next(iter(each_once))}' is the only checkpoint. Pass at least two, or a folder with several"
        )
    return list(each_once)


def require_one_network(paths: Sequence[str]) -> None:
    """Raises `NetworkMismatchError` unless all checkpoints have the same variables of a network."""
    first = checkpoint_network.shapes_of(paths[0])[0]
    for path in paths[1:]:
        other = checkpoint_network.shapes_of(path)[0]
        differing = sorted(name for name in {*first, *other} if first.get(name) != other.get(name))
        if differing:
            name = differing[0]
            texts = (f'{shapes[name]}' if name in shapes else 'missing' for shapes in (first, other))
            raise NetworkMismatchError(
                f"'{paths[0]}' and '{path}' belong to different networks, so their weights cannot be averaged: "
                f'{len(differing)} variables differ, such as {name} ({", ".join(texts)}). Pass checkpoints of one '
                f'network, or average what they predict ({option("EvalOptions.ensemble")})'
            )


def mean_of(paths: Sequence[str], variables: Sequence[tf.Variable], averages: Sequence[bool]) -> Values:
    """Returns the mean of the values of variables over checkpoints, which are read one after the other.

    Args:
      paths: the checkpoints.
      variables: variables of the network.
      averages: for each checkpoint, whether its moving averages (EMA) are taken in place of the weights.

    Raises:
      CheckpointError: a checkpoint lacks a variable, or has values that are not finite.
    """
    sums = {variable.op.name: np.zeros(variable.shape.as_list(), np.float64) for variable in variables}
    for path, use_averages in zip(paths, averages, strict=True):
        taken = moving_average.names_of_weights(path, variables, use_averages)
        for name, value in checkpoints.read_all(path, variables, taken).items():
            if not np.isfinite(value).all():
                raise CheckpointError(f"'{path}' has values that are NaN or infinite ({name}). Omit it")
            sums[name] += value
    return {name: (total / len(paths)).astype(np.float32) for name, total in sums.items()}


def write(
    paths: Sequence[str], averages: Sequence[bool], options: TrainOptions, data: CheckedSplit, images: int, folder: str
) -> str:
    """Writes the mean of checkpoints to `FOLDER/model.ckpt-STEP`, with the largest of their steps.

    Args:
      paths: checkpoints of one network.
      averages: see `mean_of`.
      options: their training, whose augmented images the statistics of batch norms are measured on.
      data: its split.
      images: number of images for the statistics; 0 for the mean of the statistics of the checkpoints.
      folder: an existing folder.

    Returns:
      The path of the checkpoint.

    Raises:
      CheckpointError: a checkpoint does not match the network, or the result cannot be written.
      DataError: an image cannot be decoded.
    """
    is_shared = options.clones.sync_batch_norm  # of all clones together
    size = options.batch_size // options.accumulation_steps if is_shared else options.clone_batch_size
    options = dataclasses.replace(options, batch_size=size, clones=CloneOptions(), accumulation_steps=1)
    with tf.Graph().as_default() as graph, lean_variables.scope():
        tf.compat.v1.set_random_seed(options.seed)
        global_step = tf.compat.v1.train.get_or_create_global_step()
        pipeline = split_input.build_input(options, data, 0)
        batches = model_deploy.Batches([pipeline.samples])
        context = task_data.context_of(data.descriptor, options.model)
        network_clone._build_deeplab(batches, options, data.ignore_label, global_step, context)
        variables = tf.compat.v1.global_variables()
        averaged = [each for each in variables if each.op.name != global_step.op.name]
        values = dict(mean_of(paths, averaged, averages))
        writer = checkpoints.CheckpointWriter(folder, 1)
        updates = moving_updates.registered()
        step = max(map(checkpoints.step_of, paths))
        # The graph is in training: dropout draws from the step, and 8-bit networks round from a step on.
        values[global_step.op.name] = np.array(step, np.int64)
        next_step = global_step.assign_add(1, read_value=False)
        with sessions.open_session(graph) as session, input_generator.explain_input_errors(data.reader):
            checkpoints.assign(session, paths[0], variables, values)
            if images:
                session.run(pipeline.initializer)
                values |= measure(session, updates, -(-images // options.batch_size), next_step)
            checkpoints.assign(session, paths[0], variables, values)
            return writer.save(session, step)


class _Statistics:
    """Mean and variance of all pixels of some batches, from the moments of each batch, [channels].

    The variance of all pixels is the mean of the variances within the batches plus the variance of their means.
    """

    def __init__(self) -> None:
        self._batches = 0
        self._mean: np.ndarray = np.zeros((), np.float64)
        self._squares: np.ndarray = np.zeros((), np.float64)  # sum of squared deviations of the batches from the mean
        self._variances: np.ndarray = np.zeros((), np.float64)  # sum

    def add(self, mean: np.ndarray, variance: np.ndarray) -> None:
        """Adds a batch."""
        self._batches += 1
        deviation = mean - self._mean
        self._mean = self._mean + deviation / self._batches
        self._squares = self._squares + deviation * (mean - self._mean)
        self._variances = self._variances + variance

    def result(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns mean and variance, float32."""
        variance = (self._variances + self._squares) / self._batches
        return self._mean.astype(np.float32), variance.astype(np.float32)


def measure(
    session: tf.compat.v1.Session, updates: Sequence[moving_updates.MovingUpdate], batches: int, next_step: tf.Operation
) -> dict[str, np.ndarray]:
    """Returns the statistics of batch norms over some batches, by the names of their variables.

    Args:
      session: session on the graph of the training, whose input pipeline has begun.
      updates: updates of the graph; other averages than statistics are left out.
      batches: number of batches, 1 or more.
      next_step: run after each batch, so that the next one has other dropout masks.
    """
    means, variances = (
        [
            (each.variable.op.name.removesuffix(end), each.batch_value)
            for each in updates
            if each.variable.op.name.endswith(end)
        ]
        for end in (_MEAN, _VARIANCE)
    )
    norms = [name for name, _ in means]  # one that runs at several scales is there several times
    assert norms == [name for name, _ in variances]
    statistics = {name: _Statistics() for name in norms}
    fetches = [(mean, variance) for (_, mean), (_, variance) in zip(means, variances, strict=True)]
    for _ in tqdm.trange(batches if norms else 0, desc='batch norms', unit='batch', disable=None):
        for name, moments in zip(norms, session.run(fetches), strict=True):
            statistics[name].add(*moments)
        session.run(next_step)
    measured = {}
    for name, each in statistics.items():
        measured[name + _MEAN], measured[name + _VARIANCE] = each.result()
    return measured
