"""A training run, from its options to its report: checks, graph, restore or resume, loop."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import tempfile
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf
import tf_slim as slim
from absl import logging

from deeplab import model, names
from deeplab.core import (
    checkpoints,
    collectives,
    graph_memory,
    lean_variables,
    moving_average,
    quantization,
    run_checkpoints,
    scale_losses,
    schedules,
    sessions,
)
from deeplab.datasets import task_data
from deeplab.datasets.segmentation_dataset import DataSource, SegmentationDataset
from deeplab.deployment import cluster, model_deploy, worker_group
from deeplab.errors import NonFiniteError, OptionError
from deeplab.files import folder_lock, output_files, run_manifests
from deeplab.options import CloneOptions, TrainOptions
from deeplab.registry import LoggedRun
from deeplab.system import memory
from deeplab.training import (
    accumulation,
    diagnostics,
    initial_checkpoint,
    mean_teacher,
    metrics_file,
    network_clone,
    precision,
    rate_test,
    replicas,
    resume_changes,
    run_loggers,
    run_manifest,
    split_input,
    step_input,
    summaries,
    task_losses,
    train_hooks,
    train_loop,
    training_step,
    unlabeled_input,
    validation,
    watch_hooks,
    workers,
)
from deeplab.training.split_input import TrainingSplit
from deeplab.training.train_loop import TrainResult
from deeplab.utils import input_generator, train_utils
from deeplab.wording import option

_LOGDIR = 'TrainOptions.train_logdir'
KEPT_CHECKPOINTS = 5
MOST_SKIPS = 9  # in a row, with on_nan 'skip'


class Start(NamedTuple):
    """Where a run begins: the checkpoint from which it resumes, or None, and the steps done by earlier runs."""

    checkpoint: str | None = None
    step: int = 0


class TrainGraph(NamedTuple):
    """A training in the current graph; `averages` are moving averages of the weights, `sums` of workers; or None."""

    input: step_input.StepInput
    clones: Sequence[model_deploy.Clone]
    step: training_step.TrainStep
    averages: moving_average.MovingAverages | None
    sums: workers.WorkerSums | None = None


def run(options: TrainOptions) -> TrainResult:
    """Trains a network, or resumes an earlier run in the same folder.

    Raises:
      UserError: options, data or checkpoints are invalid, or the loss is not finite.
    """
    options = mean_teacher.with_averages(options)
    source = DataSource(options.dataset)
    validated = check_options(options, source)
    if options.clones.master:  # a server has another working directory
        options = dataclasses.replace(options, train_logdir=os.path.abspath(options.train_logdir))
    with workers.joined(options.clones) as group:
        if not options.clones.is_chief:  # the folder is task 0's
            return _run_other(options, source, validated, group)
        with folder_lock.held(options.train_logdir, 'train', _LOGDIR):
            if options.rate_test.is_on:
                return _test_rates(options, source)
            return _run_chief(options, source, validated, group)


def _run_chief(
    options: TrainOptions,
    source: DataSource,
    validated: SegmentationDataset | None,
    group: worker_group.WorkerGroup | None,
) -> TrainResult:
    """Runs a training of this process alone, or as task 0: it restores, writes and validates checkpoints."""
    start = _start(options)
    if start.step >= options.number_of_steps and not validation.is_pending(options, *start):
        report = (
            f'Nothing to train: {start.checkpoint} is at step {start.step}, with '
            f'{option("TrainOptions.number_of_steps", options.number_of_steps)}. Set a larger number to continue, or '
            f'another {option(_LOGDIR)} for a new training.'
        )
        if group is not None:
            replicas.common_start(group, start.step, report)
        return TrainResult(start.step, None, 0.0, start.checkpoint, report=report)
    options, reason = precision.resolved(options, start.step)
    # Quick checks come before the check of the records, which is slow.
    for folder in (options.train_logdir, *validation.folders(options)):
        output_files.require_folder(folder, _LOGDIR)
    run_checkpoints.require_not_overwritten(
        options.train_logdir,
        options.initial_checkpoint,
        start.step if start.checkpoint else None,
        options.number_of_steps,
    )
    if start.checkpoint is None:
        initial_checkpoint.check(options)
    data = split_input.open_all_data(options, source)
    options = split_input.with_label_weights(options, data)
    output_files.make_folder(options.train_logdir)  # not before the data is checked
    if not start.step:
        diagnostics.warn(options, data.descriptor, data.check_result)
    bar = train_hooks.ProgressHook(options.number_of_steps, options.batch_size)
    loggers = run_loggers.RunLoggers(options.loggers)
    metrics = metrics_file.MetricsHook(options.train_logdir, options.log_steps, options.batch_size, loggers)
    validator = None if validated is None else validation.ValidationHook(options, validated, bar, metrics, group)
    run_now = _run_manifest(options, data, start, validator)
    run_now |= {} if reason is None else {precision.REASON: reason}
    if group is not None:
        replicas.common_start(group, start.step)
    hooks = [RunManifestHook(options.train_logdir, run_now), loggers, metrics]
    result = loggers.run(
        LoggedRun(options.train_logdir, start.step, run_now),
        lambda: _train(options, data, start, bar, hooks, validator, group),
    )
    return dataclasses.replace(result, report=_report(result, validator))


def _test_rates(options: TrainOptions, source: DataSource) -> TrainResult:
    """Runs a learning rate range test, of a training that starts anew and writes no checkpoint."""
    options, _ = precision.resolved(options)
    output_files.require_folder(options.train_logdir, _LOGDIR)
    initial_checkpoint.check(options)
    if newest := checkpoints.newest(options.train_logdir):
        initial = options.initial_checkpoint or 'initial weights'
        logging.info('The range test starts from %s, and leaves %s as it is.', initial, newest)
    data = split_input.open_all_data(options, source)
    options = split_input.with_label_weights(options, data)
    if options.unlabeled.is_on:  # as in the training, which is longer than the test
        unlabeled = dataclasses.replace(options.unlabeled, ramp_steps=options.unlabeled_ramp_steps)
        options = dataclasses.replace(options, unlabeled=unlabeled)
    options = dataclasses.replace(options, number_of_steps=options.rate_test.steps, on_nan='stop')
    output_files.make_folder(options.train_logdir)
    test = rate_test.RateTest(options)
    bar = train_hooks.ProgressHook(options.number_of_steps, options.batch_size)
    result = TrainResult(0, None, 0.0, None)
    is_diverged = False
    try:
        result = _train(options, data, Start(), bar, [test])
    except NonFiniteError:
        is_diverged = True
    if result.status:
        return dataclasses.replace(result, report='Stopped. Nothing was written.')
    return dataclasses.replace(result, report=test.finish(is_diverged))


def _run_other(
    options: TrainOptions,
    source: DataSource,
    validated: SegmentationDataset | None,
    group: worker_group.WorkerGroup | None,
) -> TrainResult:
    """Runs a training as another task than 0: it computes steps, and leaves files and checkpoints to task 0."""
    options, _ = precision.resolved(options)
    data = split_input.open_all_data(options, source)
    options = split_input.with_label_weights(options, data)
    start, report = (0, '') if group is None else replicas.common_start(group)
    if report:
        return TrainResult(start, None, 0.0, None, report=report)
    bar = train_hooks.ProgressHook(options.number_of_steps, options.batch_size)
    validator = None
    if validated is not None and group is not None:
        validator = validation.ValidationHook(options, validated, bar, None, group)
    result = _train(options, data, Start(step=start), bar, validator=validator, group=group)
    ended = 'Stopped' if result.status else 'Ended'
    tasks = max(options.clones.num_replicas, options.clones.workers)
    return dataclasses.replace(
        result, report=f'{ended} at step {result.step}, as task {options.clones.task} of {tasks}.'
    )


def _start(options: TrainOptions) -> Start:
    """Returns where the run begins: at the newest checkpoint of the same training in its folder, if there is one."""
    with output_files.writing_to(options.train_logdir, _LOGDIR):
        for folder in (options.train_logdir, *validation.folders(options)):
            checkpoints.remove_leftovers(folder)
    path = run_checkpoints.newest_of_run(options.train_logdir, options.initial_checkpoint)
    return Start(path, checkpoints.step_of(path)) if path else Start()


def _report(result: TrainResult, validator: validation.ValidationHook | None) -> str:
    best = '' if validator is None else validator.report()
    if result.status:
        return f'Stopped at step {result.step}; the same command resumes from {result.checkpoint}.{best}'
    early = f' Ended before the last step: {result.stop_reason}.' if result.stop_reason else ''
    done = f'Trained to step {result.step} in {names.duration(result.seconds)}: {result.checkpoint}'
    return f'{done}.{early}{best}' if early or best else done


def check_options(options: TrainOptions, source: DataSource) -> SegmentationDataset | None:
    """Raises `UserError` for invalid options; warns of a crop size that does not suit the output stride.

    Args:
      options: the training.
      source: its data set.

    Returns:
      The validation split, whose records are not read yet; None without validation.
    """
    model.check_options(options.model)
    task_losses.check(options)
    summaries.check(options)
    validated = validation.find_split(options, source)
    scale_losses.check_label_weights(options.loss.label_weights, options.model.num_classes)
    if options.model.crop_size is None:
        raise OptionError(f'Training needs a crop size. Set {option("ModelOptions.crop_size", (513, 513))}')
    if options.profile_logdir:
        output_files.require_folder(options.profile_logdir, 'TrainOptions.profile_logdir')
    if not options.model.is_per_image:
        train_utils.warn_of_crop_size(options.model.crop_size, options.model.output_stride)
    return validated


def _run_manifest(
    options: TrainOptions, data: TrainingSplit, start: Start, validator: validation.ValidationHook | None
) -> run_manifests.Run:
    """Describes this run; warns of differences from the run that it resumes or repeats."""
    validated = validator.split if validator else None
    initial = options.initial_checkpoint if start.checkpoint is None else None
    initial = checkpoints.check_path(initial) if initial else None
    run_now = run_manifest.describe(options, data, start.step, validated, initial)
    if (unlabeled := data.unlabeled) is not None:
        facts = run_manifest.records_of(unlabeled)
        run_now[run_manifest.UNLABELED_RECORDS] = {**facts, 'split': unlabeled_input.SPLIT}
    runs = run_manifests.runs_in(options.train_logdir)
    if start.checkpoint is None or start.step:
        changes = resume_changes.warning(runs, run_now, options)
    else:
        changes = resume_changes.warning_of_weights(runs, run_now, options, start.checkpoint)
        run_now[run_manifest.INITIAL_CHECKPOINT] = run_manifest.initial_checkpoint(runs)
    if changes:
        logging.warning('%s', changes)
    if options.repeats:
        for difference in run_manifest.differences(run_manifest.load(options.repeats), run_now):
            logging.warning('%s', difference)
    return run_now


class RunManifestHook(train_loop.Hook):
    """Adds this run to run.json when everything is ready, as the newest entry there is the one to be repeated."""

    def __init__(self, directory: str, run_now: run_manifests.Run):
        self._directory = directory
        self._run_now = run_now

    def begin(self, session: tf.compat.v1.Session, step: int) -> None:
        """Writes the entry."""
        with output_files.writing_to(self._directory, _LOGDIR):
            run_manifest.write(self._directory, self._run_now)


def _train(
    options: TrainOptions,
    data: TrainingSplit,
    start: Start,
    bar: train_hooks.ProgressHook,
    hooks: Sequence[train_loop.Hook] = (),
    validator: validation.ValidationHook | None = None,
    group: worker_group.WorkerGroup | None = None,
) -> TrainResult:
    """Builds a training in a graph of its own and runs it, with `hooks` and the validator besides its own hooks."""
    machines = options.clones
    with (
        tf.Graph().as_default(),
        lean_variables.scope(),
        memory.explained('train', size=_size(options)),
        tempfile.TemporaryDirectory(prefix='deeplab-') as temporary,
    ):
        tf.compat.v1.set_random_seed(options.seed)
        config = cluster.connect(machines)
        graph = _build(options, data, config, start.step)
        with config.host_scope():
            all_hooks = [*_hooks(options, data, graph, bar, hooks), *hooks, *([validator] if validator else [])]
            writer: train_loop.Writer
            if options.rate_test.is_on:
                writer = checkpoints.NoCheckpoints()
            elif machines.is_chief:
                writer = checkpoints.CheckpointWriter(options.train_logdir, KEPT_CHECKPOINTS)
            else:
                writer = checkpoints.NoCheckpoints(checkpoints.CheckpointWriter(temporary, 1) if validator else None)
            initialize = _initializer(options, start, graph, writer)
            replica = replicas.Group(options, data, graph.step)
        _check_memory(options, config, graph, validator)
        if machines.is_chief and not options.rate_test.is_on:
            _write_graph(options.train_logdir)
        loop = train_loop.LoopOptions(
            options.save_interval_secs,
            config.cpu_devices,
            most_skips=MOST_SKIPS if options.on_nan == 'skip' else 0,
            steps_done=None if machines.master else start.step,  # other replicas may have done some
        )
        if group is None:
            server = sessions.Server(machines.master, cluster.device_filters(machines))
            loop = loop._replace(server=server, is_ready=replica.is_ready)
            initialize = functools.partial(replica.initialize, initialize)
        else:
            assert graph.sums is not None
            loop = loop._replace(server=group.server, workers=workers.Workers(group, graph.sums))
            replicas.require_same_training(group, options, data)
        with contextlib.ExitStack() as explained:
            for split in filter(None, (data, data.unlabeled)):
                explained.enter_context(input_generator.explain_input_errors(split.reader, lambda: writer.last_path))
            return train_loop.train(replica.step, options.number_of_steps, writer, initialize, all_hooks, loop)


def _initializer(
    options: TrainOptions, start: Start, graph: TrainGraph, writer: train_loop.Writer
) -> Callable[[tf.compat.v1.Session], None]:
    """Returns the function that gives every variable of a new session its value, and starts the input."""
    prepared = [tf.compat.v1.global_variables_initializer(), *graph.input.initializers]
    restore = initial_checkpoint.init_fn(options) if options.clones.is_chief else None
    equal_values = None
    if graph.sums is not None:
        prepared += graph.sums.initializers
        equal_values = graph.sums.equal_values(tf.compat.v1.global_variables())

    def initialize(session: tf.compat.v1.Session) -> None:
        session.run(prepared)  # a checkpoint may lack some of the variables
        if start.checkpoint:
            train_utils.resume(session, start.checkpoint, options.model, graph.averages)
            assert isinstance(writer, checkpoints.CheckpointWriter)
            writer.adopt(start.checkpoint, start.step)
            if graph.averages is not None and not moving_average.held_by(start.checkpoint):
                writer.last_step = None  # it is written again with the averages, which a validation at this step uses
        else:
            if restore is not None:
                restore(session)
            if graph.averages is not None:
                session.run(graph.averages.start)
        if equal_values is not None:
            session.run(equal_values)

    return initialize


def _build(
    options: TrainOptions, data: TrainingSplit, config: model_deploy.DeploymentConfig, first_step: int
) -> TrainGraph:
    with config.host_scope():
        global_step = tf.compat.v1.train.get_or_create_global_step()
        parts = options.accumulation_steps
        micro_batches = accumulation.MicroBatches(parts) if parts > 1 else None
    source = step_input.build(options, data, config, global_step, first_step)
    clone = functools.partial(
        network_clone._build_deeplab,
        source.batches,
        options,
        data.ignore_label,
        global_step,
        task_data.context_of(data.descriptor, options.model),
        functools.partial(_statistics_group, options.clones),
    )
    clones = model_deploy.create_clones(config, clone)
    with config.update_scope():
        sums = None
        if options.clones.worker_hosts:
            sums = workers.WorkerSums(config, global_step, options.clones.reduce_precision)
        if options.rate_test.is_on:
            learning_rate = schedules.growing(global_step, options.rate_test)
        else:
            learning_rate = training_step.learning_rate(options.optimizer, options.number_of_steps, global_step)
        averages = None
        if options.moving_average_decay is not None:
            # Ranges of 8-bit networks are moving averages already.
            variables = [each for each in slim.get_model_variables() if not quantization.is_range(each.op.name)]
            averages = moving_average.MovingAverages(variables, options.moving_average_decay, global_step)
    batches = [source.batches]
    if data.unlabeled is not None:
        assert averages is not None
        unlabeled = step_input.build_unlabeled(options, data.unlabeled, config, first_step)
        clones = mean_teacher.add(clones, unlabeled.batches, options, config, averages, global_step, data.ignore_label)
        source = source._replace(initializers=[*source.initializers, *unlabeled.initializers])
        batches.append(unlabeled.batches)
    with config.update_scope():
        step = training_step.build_train_step(
            clones, options, learning_rate, global_step, averages, micro_batches, sums
        )
        waited = [seconds for each in batches if (seconds := each.waiting_seconds()) is not None]
        waiting = functools.reduce(tf.maximum, waited) if waited else None
        step = dataclasses.replace(step, waiting_seconds=waiting)
    return TrainGraph(source, clones, step, averages, sums)


def _statistics_group(clones: CloneOptions) -> collectives.Participant | None:
    """Returns a clone among all clones whose batch norms have common statistics; None if each has its own."""
    return collectives.Participant(collectives.CLONES, clones.parts) if clones.sync_batch_norm else None


def _hooks(
    options: TrainOptions,
    data: TrainingSplit,
    graph: TrainGraph,
    bar: train_hooks.ProgressHook,
    others: Sequence[train_loop.Hook],
) -> list[train_loop.Hook]:
    """Returns the hooks of every training beside `others`: log, progress, warnings, summaries, profile, input."""
    hooks: list[train_loop.Hook] = [train_hooks.LogHook(options.log_steps, bar), bar]
    if graph.input.is_watched is not None and graph.clones[0].outputs.logits is not None:
        class_names = [data.descriptor.class_name(number) for number in range(options.model.num_classes)]
        statistics = watch_hooks.statistics(
            graph.clones[0], graph.input.is_watched, len(class_names), data.ignore_label
        )
        hooks.append(watch_hooks.WatchHook(statistics, options.log_steps, class_names, bar))
    for loggers in [hook for hook in others if isinstance(hook, run_loggers.RunLoggers)]:
        if loggers.takes_summaries and options.save_summaries_secs is not None:
            merged = summaries.merged(graph.clones[0], graph.step, options, data.ignore_label)
            hooks.append(train_hooks.SummaryHook(loggers, merged, options.save_summaries_secs))
    if options.profile_logdir:
        hooks.append(train_hooks.ProfileHook(options.profile_logdir))
    return [*hooks, *graph.input.hooks]


def _size(options: TrainOptions) -> memory.Size:
    assert options.model.crop_size is not None
    parts = options.clones.num_clones * options.accumulation_steps
    return memory.Size('train', options.batch_size, options.model.crop_size, options.model.output_stride, parts)


def _check_memory(
    options: TrainOptions,
    config: model_deploy.DeploymentConfig,
    graph: TrainGraph,
    validator: validation.ValidationHook | None,
) -> None:
    """Raises `OutOfMemoryError` if the finished graph and the validations cannot fit into memory."""
    need = memory.Need(0, 0)
    if not options.clones.master and not config.use_gpus:  # else the network computes elsewhere
        batches = step_input.QUEUED_BATCHES * config.num_clones + input_generator.PREFETCHED_BATCHES
        need = memory.Need(
            graph_memory.peak([graph.step.is_applied, graph.step.loss, graph.step.gradient_norm]),
            sum(map(graph_memory.bytes_of, tf.compat.v1.global_variables())),
            batches * sum(map(graph_memory.bytes_of, graph.clones[0].outputs.batch.values())),
        )
        memory.check(need, _size(options))
    if validator is not None:
        validator.check_memory(need)


def _write_graph(train_logdir: str) -> None:
    with output_files.writing_to(train_logdir, _LOGDIR):
        sessions.write_graph(tf.compat.v1.get_default_graph(), os.path.join(train_logdir, 'graph.pbtxt'))
