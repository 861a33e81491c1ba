"""Where the clones of a training step get their batches: this process's pipelines, or placeholders that it feeds."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from deeplab.core import sessions
from deeplab.deployment import model_deploy
from deeplab.evaluation.runner import CheckedSplit
from deeplab.options import TrainOptions
from deeplab.system import processors
from deeplab.training import split_input, train_loop, unlabeled_input, watch_hooks
from deeplab.utils import input_generator

QUEUED_BATCHES = 2
_CPU = '/device:CPU:0'


class StepInput(NamedTuple):
    """The input of a training step.

    Attributes:
      batches: gives each clone its batches.
      initializers: operations that start the input pipelines, with the first values of the variables.
      is_watched: scalar bool, whether `WatchHook` checks the current step; None if it checks none.
      hooks: hooks that feed the input.
    """

    batches: model_deploy.Batches
    initializers: Sequence[tf.Operation] = ()
    is_watched: tf.Tensor | None = None
    hooks: Sequence[train_loop.Hook] = ()


def build(
    options: TrainOptions,
    data: CheckedSplit,
    config: model_deploy.DeploymentConfig,
    global_step: tf.Variable,
    first_step: int,
) -> StepInput:
    """Builds the input in the current graph, from the batches of the step after `first_step` on."""
    if options.clones.master:
        fed = FedInput(config, options.batch_size, functools.partial(split_input.build_input, options, data))
        return StepInput(fed, hooks=[fed])
    with config.host_scope():
        is_watched = watch_hooks.due(global_step, options.log_steps)
    pipeline = functools.partial(split_input.build_input, options, data, first_position=first_step * options.batch_size)
    return _read_here(pipeline, options.clone_batch_size, config, [is_watched])._replace(is_watched=is_watched)


def build_unlabeled(
    options: TrainOptions, split: CheckedSplit, config: model_deploy.DeploymentConfig, first_step: int
) -> StepInput:
    """Builds the input of images without labels in the current graph, as `build` does for the others."""
    pipeline = functools.partial(
        unlabeled_input.build_input, options, split, first_position=first_step * options.unlabeled_batch_size
    )
    return _read_here(pipeline, options.unlabeled_clone_batch_size, config)


def _read_here(
    build_pipeline: Callable[..., input_generator.Pipeline],
    clone_batch_size: int,
    config: model_deploy.DeploymentConfig,
    before: Sequence[tf.Tensor] = (),
) -> StepInput:
    """Builds one input pipeline for all clones, or one on each GPU.

    Args:
      build_pipeline: returns a pipeline; takes arguments of `input_generator.get`.
      clone_batch_size: samples in each of its batches.
      config: the clones.
      before: what must be computed before the first batch of a step is taken.
    """
    if config.use_gpus:
        return _on_devices(build_pipeline, clone_batch_size, config, before)
    pipeline = build_pipeline()
    clones = config.num_clones
    # A micro-batch takes one batch for each clone: the queue need not hold all of a step.
    queue = model_deploy.prefetch(pipeline.samples, QUEUED_BATCHES * clones, clones, before)
    return StepInput(queue, [pipeline.initializer])


def _on_devices(
    build_pipeline: Callable[..., input_generator.Pipeline],
    clone_batch_size: int,
    config: model_deploy.DeploymentConfig,
    before: Sequence[tf.Tensor],
) -> StepInput:
    """Builds an input pipeline for each clone. Its batches wait in the memory of the clone's GPU."""
    clones = config.num_clones
    initializers = []

    def read(clone: int, asked: tf.Tensor) -> dict[str, tf.Tensor]:
        pipeline = build_pipeline(
            is_taken=split_input.taken_positions(clone_batch_size, config.first_clone + clone, config.clones_of_step),
            num_parallel=-(-processors.available_cores() // clones),
            device=config.clone_device(clone),
            before=[asked],
        )
        initializers.append(pipeline.initializer)
        return pipeline.samples

    return StepInput(model_deploy.on_devices(clones, read, before), initializers)


class FedInput(model_deploy.Batches, train_loop.Hook):
    """Batches that this process reads and feeds to the server that computes, in each step.

    The pipeline runs in a session of this process, from the sample position of the step at which the loop begins.
    """

    def __init__(
        self,
        config: model_deploy.DeploymentConfig,
        batch_size: int,
        build_pipeline: Callable[[tf.Tensor], input_generator.Pipeline],
    ):
        """Builds the pipeline, and a placeholder for each part of each clone's batch.

        `build_pipeline` returns the pipeline of clone batches from a sample position on, a scalar int64.
        """
        self._batch_size = batch_size
        self._open = contextlib.ExitStack()
        self._local: tf.compat.v1.Session | None = None
        with tf.device(_CPU):
            self._first_position = tf.compat.v1.placeholder(tf.int64, [], 'first_position')
        self._pipeline = build_pipeline(self._first_position)
        with tf.device(config.host_device):
            super().__init__(
                [
                    {
                        key: tf.compat.v1.placeholder(part.dtype, part.shape, f'fed/{key}')
                        for key, part in self._pipeline.samples.items()
                    }
                    for _ in range(config.num_clones)
                ]
            )

    def begin(self, session: tf.compat.v1.Session, step: int) -> None:
        """Starts reading at the sample position of `step`."""
        self._local = self._open.enter_context(sessions.open_session(session.graph, places_what_it_runs=True))
        self._local.run(self._pipeline.initializer, {self._first_position: step * self._batch_size})

    def feeds(self, step: int) -> dict[tf.Tensor, Any]:
        """Returns the batches of one step."""
        assert self._local is not None
        fed = {}
        for placeholders in self._batches:
            values = self._local.run(self._pipeline.samples)
            fed.update({placeholder: values[key] for key, placeholder in placeholders.items()})
        return fed

    def end(self, step: int) -> None:
        """Stops reading."""
        self._open.close()
