"""A training run, from its options to its report: checks, graph, restore or resume, loop."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Sequence

import tensorflow as tf
import tf_slim as slim
from absl import logging

from deeplab import common, model, names
from deeplab.core import (
    checkpoints,
    conditional,
    graph_memory,
    lean_variables,
    run_checkpoints,
    scale_losses,
    sessions,
    shapes,
    summation,
)
from deeplab.datasets import descriptor
from deeplab.deployment import cluster, model_deploy
from deeplab.errors import OptionError
from deeplab.files import folder_lock, output_files, run_manifests
from deeplab.options import CloneOptions, TrainOptions
from deeplab.system import memory
from deeplab.training import (
    agreement,
    diagnostics,
    metrics_file,
    network_clone,
    replicas,
    resume_changes,
    run_manifest,
    split_input,
    summaries,
    train_hooks,
    train_loop,
    training_step,
    validation,
    watch_hooks,
)
from deeplab.utils import input_generator, train_utils
from deeplab.wording import option

_LOGDIR = 'TrainOptions.train_logdir'
KEPT_CHECKPOINTS = 5
MOST_SKIPS = 9  # in a row, with on_nan 'skip'


@dataclasses.dataclass(frozen=True)
class Result:
    """How a training ended.

    Attributes:
      report: one sentence for the user.
      step: steps done.
      loss: total loss of the last step; None if no step was left to do.
      checkpoint: path of the last checkpoint.
      status: exit status for the command line: 0, or 128 plus the number of the signal that ended it.
    """

    report: str
    step: int
    loss: float | None = None
    checkpoint: str | None = None
    status: int = 0


def run(options: TrainOptions) -> Result:
    """Trains a network, or resumes an earlier run in the same folder.

    Raises:
      UserError: options, data or checkpoints are invalid, or the loss is not finite.
    """
    check_options(options)
    if options.clones.master:  # a server has another working directory
        options = dataclasses.replace(options, train_logdir=os.path.abspath(options.train_logdir))
    if not options.clones.is_chief:  # the folder is task 0's
        return _run(options)
    with folder_lock.held(options.train_logdir, 'train', 'TrainOptions.train_logdir'):
        return _run(options)


def _run(options: TrainOptions) -> Result:
    """Runs a training with checked options, in a folder where no other training writes."""
    resumed, first_step = _newest(options) if options.clones.is_chief else (None, 0)
    if first_step >= options.number_of_steps and not validation.is_pending(options, first_step):
        return Result(
            f'Nothing to train: {resumed} is at step {first_step}, with '
            f'{option("TrainOptions.number_of_steps", options.number_of_steps)}. Set a larger number to continue, or '
            f'another {option(_LOGDIR)} for a new training.',
            first_step,
            checkpoint=resumed,
        )
    _require_folders(options)
    if options.clones.is_chief:
        step = first_step if resumed else None
        initial = options.initial_checkpoint
        run_checkpoints.require_not_overwritten(options.train_logdir, initial, step, options.number_of_steps)
    if resumed is None and options.clones.is_chief:
        _check_initial_checkpoint(options)
    data = split_input.open_data(options)
    options = split_input.with_label_weights(options, data)
    bar = train_hooks.ProgressHook(options.number_of_steps, options.batch_size)
    hooks: list[train_loop.Hook] = []
    validator = None
    if options.clones.is_chief:
        output_files.make_folder(options.train_logdir)  # not before the data is checked
        if not first_step:
            diagnostics.warn(options, data.descriptor, data.check_result)
        metrics = metrics_file.MetricsHook(options.train_logdir, options.log_steps, options.batch_size)
        validator = validation.ValidationHook(options, bar, metrics) if options.validation.is_on else None
        run_now = _run_manifest(options, data, first_step, validator)
        write = functools.partial(_write_run_manifest, options, run_now)
        hooks = [train_hooks.BeginHook(write), metrics, *([validator] if validator else [])]
    with tf.Graph().as_default(), lean_variables.scope():
        tf.compat.v1.set_random_seed(options.seed)
        with memory.explained('train', size=_size(options)):
            result = _train(options, data, resumed, first_step, bar, hooks, validator)
    report = _report(options, result, validator)
    return Result(report, result.step, result.loss, result.checkpoint, result.status)


def _require_folders(options: TrainOptions) -> None:
    """Raises `OptionError` if a folder of the run cannot be made or written, before the record check, which is slow."""
    if options.profile_logdir:
        output_files.require_folder(options.profile_logdir, 'TrainOptions.profile_logdir')
    if options.clones.is_chief:
        output_files.require_folder(options.train_logdir, _LOGDIR)
        for folder in validation.folders(options):
            output_files.require_folder(folder, _LOGDIR)


def _newest(options: TrainOptions) -> tuple[str | None, int]:
    """Returns the checkpoint from which training resumes, and its step; None and 0 for a new run."""
    with output_files.writing_to(options.train_logdir, _LOGDIR):
        for folder in (options.train_logdir, *validation.folders(options)):
            checkpoints.remove_leftovers(folder)
    path = run_checkpoints.newest_of_run(options.train_logdir, options.initial_checkpoint)
    return path, checkpoints.step_of(path) if path else 0


def _report(options: TrainOptions, result: train_loop.LoopResult, validator: validation.ValidationHook | None) -> str:
    """Returns the report for the user."""
    if not options.clones.is_chief:
        ended = 'Stopped' if result.status else 'Ended'
        return f'{ended} at step {result.step}, as task {options.clones.task} of {options.clones.num_replicas}.'
    best = '' if validator is None else validator.report()
    if result.status:
        return f'Stopped at step {result.step}; the same command resumes from {result.checkpoint}.{best}'
    early = f' Ended before the last step: {result.stop_reason}.' if result.stop_reason else ''
    done = f'Trained to step {result.step} in {names.duration(result.seconds)}: {result.checkpoint}'
    return f'{done}.{early}{best}' if early or best else done


def check_options(options: TrainOptions) -> None:
    """Raises `OptionError` for invalid options; warns of a crop size that does not suit the output stride."""
    model.check_options(options.model)
    validation.check(options)
    scale_losses.check_label_weights(options.loss.label_weights, options.model.num_classes)
    if options.model.crop_size is None:
        raise OptionError(f'Training needs a crop size. Set {option("ModelOptions.crop_size", (513, 513))}')
    advice = train_utils.crop_advice(options.model.crop_size, options.model.output_stride)
    if advice:
        logging.warning(advice)


def _check_initial_checkpoint(options: TrainOptions) -> None:
    """Checks what a new run starts from, before the data is read; a run that resumes needs none of it.

    Raises:
      UserError: the checkpoint does not exist, or its rename map is invalid.
    """
    if options.initial_checkpoint:
        train_utils.checkpoint_names(checkpoints.check_path(options.initial_checkpoint), options.restore.rename_map)
    elif options.optimizer.trainable_scopes:
        logging.warning(
            '%s without %s: all other variables keep their random initial values.',
            option('OptimizerOptions.trainable_scopes', options.optimizer.trainable_scopes),
            option('TrainOptions.initial_checkpoint'),
        )


def _run_manifest(
    options: TrainOptions, data: split_input.Data, first_step: int, validator: validation.ValidationHook | None
) -> run_manifest.Run:
    """Describes this run; warns of differences from the run that it resumes or repeats."""
    validated = (validator.split.reader.index, validator.split.num_images) if validator else None
    initial = options.initial_checkpoint if not first_step else None
    initial = checkpoints.check_path(initial) if initial else None
    run_now = run_manifest.describe(options, data.reader.index, len(data.records), first_step, validated, initial)
    changes = resume_changes.warning(run_manifests.runs_in(options.train_logdir), run_now, options)
    if changes:
        logging.warning('%s', changes)
    if options.repeats:
        for difference in run_manifest.differences(run_manifest.load(options.repeats), run_now):
            logging.warning('%s', difference)
    return run_now


def _write_run_manifest(options: TrainOptions, run_now: run_manifest.Run) -> None:
    """Adds this run to run.json; called when everything is ready, as the newest entry is the one to be repeated."""
    with output_files.writing_to(options.train_logdir, _LOGDIR):
        run_manifest.write(options.train_logdir, run_now)


def _train(
    options: TrainOptions,
    data: split_input.Data,
    resumed: str | None,
    first_step: int,
    bar: train_hooks.ProgressHook,
    hooks: Sequence[train_loop.Hook],
    validator: validation.ValidationHook | None,
) -> train_loop.LoopResult:
    """Builds the training in the current graph and runs it, with `hooks`, the validator among them, besides its own."""
    machines = options.clones
    config = _deployment(machines)
    fed = replicas.FedInput(config, options.batch_size) if machines.master else None
    with config.host_scope():
        global_step = tf.compat.v1.train.get_or_create_global_step()
        micro_batches = training_step.micro_batches(options)
    watched = None if fed else _Watched(options, data, config, global_step, first_step * options.batch_size)
    queue = watched.queue if watched else fed.take(_pipeline(options, data, fed.first_position))
    build = functools.partial(network_clone._build_deeplab, queue, options, data.ignore_label, global_step)
    clones = model_deploy.create_clones(config, build)
    with config.host_scope():
        learning_rate = training_step.learning_rate(options, global_step)
        averages = training_step.moving_averages(options, global_step)
        step = training_step.build_train_step(clones, options, learning_rate, global_step, averages, micro_batches)
        if watched:
            step = dataclasses.replace(step, waiting_seconds=watched.queue.waiting_seconds())
            hooks = [*hooks, _watch(clones[0], watched.is_looked_at, options, data.descriptor, bar)]
        merged = _merged_summaries(options, clones[0], step) if machines.is_chief else None
        writer = _checkpoint_writer(options)
        start = tf.compat.v1.global_variables_initializer()
        group = replicas.Group(agreement.Training(options, data.reader.index, len(data.records)), step)
    init_fn = _init_fn(options) if machines.is_chief else None

    def initialize(running: tf.compat.v1.Session) -> None:
        running.run([start, *(watched.initializers if watched else ())])
        if resumed:
            train_utils.resume(running, resumed, options.model, averages)
            writer.adopt(resumed, first_step)
            return
        if init_fn is not None:
            init_fn(running)
        if averages is not None:
            running.run(averages.start)

    _prepare_to_run(options, config, clones, step, validator)
    with input_generator.explain_input_errors(data.reader, lambda: writer.last_path):
        return train_loop.train(
            group.step,
            options.number_of_steps,
            writer,
            functools.partial(group.initialize, initialize),
            [*_hooks(options, merged, bar), *hooks, *([fed] if fed else [])],
            _loop_options(options, config, group, first_step),
        )


def _loop_options(
    options: TrainOptions, config: model_deploy.DeploymentConfig, group: replicas.Group, first_step: int
) -> train_loop.LoopOptions:
    """Returns the options of the loop."""
    return train_loop.LoopOptions(
        options.save_interval_secs,
        config.cpu_devices,
        group.remote,
        MOST_SKIPS if options.on_nan == 'skip' else 0,
        first_step if group.remote is None else None,  # other replicas may have done some
    )


def _size(options: TrainOptions) -> memory.Size:
    """Returns what determines the memory of the training."""
    assert options.model.crop_size is not None
    parts = options.clones.num_clones * options.accumulation_steps
    return memory.Size('train', options.batch_size, options.model.crop_size, options.model.output_stride, parts)


def _prepare_to_run(
    options: TrainOptions,
    config: model_deploy.DeploymentConfig,
    clones: Sequence[model_deploy.Clone],
    step: training_step.TrainStep,
    validator: validation.ValidationHook | None,
) -> None:
    """Checks that the finished graph and the validations fit into memory, and writes the graph.

    Raises:
      OutOfMemoryError: they cannot fit.
    """
    need = memory.Need(0, 0)
    if not options.clones.master and not config.use_gpus:  # else the network computes elsewhere
        need = _memory_need(config, clones, step)
        memory.check(need, _size(options))
    if validator is not None:
        validator.check_memory(need)
    _write_graph(options)


def _memory_need(
    config: model_deploy.DeploymentConfig, clones: Sequence[model_deploy.Clone], step: training_step.TrainStep
) -> memory.Need:
    """Returns the memory of a step, of the variables and of the batches in queues."""
    batches = split_input.QUEUED_BATCHES * config.num_clones + input_generator.PREFETCHED_BATCHES
    waiting = batches * sum(map(graph_memory.bytes_of, clones[0].outputs.batch.values()))
    activations = graph_memory.peak([step.is_applied, step.loss, step.gradient_norm])
    held = sum(graph_memory.bytes_of(variable) for variable in tf.compat.v1.global_variables())
    return memory.Need(activations, held, waiting)


def _write_graph(options: TrainOptions) -> None:
    """Writes the current graph into the run's folder, if this is the chief."""
    if not options.clones.is_chief:
        return
    with output_files.writing_to(options.train_logdir, _LOGDIR):
        sessions.write_graph(tf.compat.v1.get_default_graph(), os.path.join(options.train_logdir, 'graph.pbtxt'))


def _pipeline(
    options: TrainOptions, data: split_input.Data, first_position: int | tf.Tensor
) -> input_generator.Pipeline:
    """Builds the input pipeline on the CPU of this process."""
    with tf.device('/device:CPU:0'):
        return split_input.build_input(options, data, first_position)


class _Watched:
    """The batches of this process, and whether the current step is one that `WatchHook` checks.

    Attributes:
      is_looked_at: scalar bool.
      queue: gives each clone its batches.
      initializers: operations that start the input.
    """

    queue: model_deploy.OrderedQueue | model_deploy.DeviceBatches

    def __init__(
        self,
        options: TrainOptions,
        data: split_input.Data,
        config: model_deploy.DeploymentConfig,
        global_step: tf.Variable,
        first_position: int,
    ):
        self.initializers: list[tf.Operation] = []
        pipeline = None if config.use_gpus else _pipeline(options, data, first_position)
        with config.host_scope():
            self.is_looked_at = watch_hooks.due(global_step, options.log_steps)
        if pipeline is None:
            read = functools.partial(self._read, options, data, config, first_position)
            self.queue = model_deploy.DeviceBatches(config.num_clones, read, [self.is_looked_at])
            return
        self.initializers.append(pipeline.initializer)
        # A micro-batch takes one batch for each clone: the queue need not hold all of a step.
        self.queue = model_deploy.prefetch(pipeline.samples, split_input.QUEUED_BATCHES * config.num_clones)
        self.queue.begin_step([self.is_looked_at])

    def _read(
        self,
        options: TrainOptions,
        data: split_input.Data,
        config: model_deploy.DeploymentConfig,
        first_position: int,
        clone: int,
        before: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """Builds the pipeline of a clone, whose batches wait in the memory of its GPU."""
        with tf.device('/device:CPU:0'):
            pipeline = split_input.build_input_of_clone(
                options, data, first_position, clone, config.clone_device(clone), [before]
            )
        self.initializers.append(pipeline.initializer)
        return pipeline.samples


def _deployment(machines: CloneOptions) -> model_deploy.DeploymentConfig:
    """Returns the placement of clones: on this machine, or in the cluster of a server."""
    if machines.master:
        return cluster.connect(machines)
    return model_deploy.deployment_config(machines.num_clones, machines.clone_on_cpu)


def _checkpoint_writer(options: TrainOptions) -> checkpoints.CheckpointWriter | checkpoints.NoCheckpoints:
    """Returns the writer of checkpoints, which writes none unless this is the chief."""
    if options.clones.is_chief:
        return checkpoints.CheckpointWriter(options.train_logdir, KEPT_CHECKPOINTS)
    return checkpoints.NoCheckpoints()


def _init_fn(options: TrainOptions) -> Callable[[tf.compat.v1.Session], None] | None:
    """Returns the function that restores the initial checkpoint of a new run; None without one."""
    init_fn = train_utils.get_model_init_fn(
        options.train_logdir,
        options.initial_checkpoint,
        options.initialize_last_layer,
        options.optimizer.last_layer_scopes,
        options.restore.ignores_missing,
        options.restore.exclude_scopes,
        options.restore.rename_map,
        options.model.input_channels,
    )
    if init_fn is not None:
        shapes = {variable.op.name: tuple(variable.shape.as_list()) for variable in slim.get_model_variables()}
        diagnostics.warn_of_restore(options, shapes)
    return init_fn


def _watch(
    clone: model_deploy.Clone,
    is_looked_at: tf.Tensor,
    options: TrainOptions,
    dataset: descriptor.DatasetDescriptor,
    bar: train_hooks.ProgressHook,
) -> watch_hooks.WatchHook:
    """Returns the hook that logs warnings about a clone."""
    outputs: network_clone.CloneOutputs = clone.outputs
    classes = options.model.num_classes
    with tf.device(clone.device):
        loss = summation.in_order(list(outputs.losses.values()))
        labels = outputs.batch[common.LABEL]
        looked = watch_hooks.look(is_looked_at, outputs.logits, labels, loss, classes, dataset.ignore_label)
    return watch_hooks.WatchHook(looked, options.log_steps, [dataset.class_name(i) for i in range(classes)], bar)


def _merged_summaries(
    options: TrainOptions, clone: model_deploy.Clone, step: training_step.TrainStep
) -> summaries.Merged:
    """Merges all summaries but histograms into one tensor, which is computed only where they are due."""
    is_due = tf.compat.v1.placeholder_with_default(False, [], 'summaries_are_due')
    build = functools.partial(_summaries_of_step, options, clone, step)
    variables = {variable.op.name: variable.graph.as_graph_element(variable) for variable in slim.get_model_variables()}
    return summaries.Merged(conditional.choose(is_due, build, lambda: tf.constant(b'')), is_due, variables)


def _summaries_of_step(options: TrainOptions, clone: model_deploy.Clone, step: training_step.TrainStep) -> tf.Tensor:
    """Computes the summaries of losses, learning rate and images."""
    outputs: network_clone.CloneOutputs = clone.outputs
    found = summaries.scalar_summaries(step.loss, step.learning_rate, outputs.losses, clone.scope, outputs.terms)
    if options.save_summaries_images:
        labels = outputs.batch[common.LABEL]
        logits = shapes.resize_bilinear(outputs.logits[: summaries.MOST_IMAGES], shapes.spatial_size(labels))
        predictions = tf.argmax(logits, axis=3)[..., tf.newaxis]  # [n, h, w, 1]
        found += summaries.image_summaries(outputs.batch[common.IMAGE], labels, predictions, options.model.num_classes)
    return tf.raw_ops.MergeSummary(inputs=found)


def _hooks(
    options: TrainOptions, merged: summaries.Merged | None, bar: train_hooks.ProgressHook
) -> list[train_loop.Hook]:
    """Returns the hooks that every training has; `merged` is None for no summaries."""
    hooks: list[train_loop.Hook] = [train_hooks.LogHook(options.log_steps, bar), bar]
    if merged is not None and options.save_summaries_secs is not None:
        hooks.append(train_hooks.SummaryHook(options.train_logdir, merged, options.save_summaries_secs))
    if options.profile_logdir:
        hooks.append(train_hooks.ProfileHook(options.profile_logdir))
    return hooks
