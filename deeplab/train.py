"""Trains a network on the records of a split: `python -m deeplab.train --train_logdir=... --dataset_dir=...`."""

from __future__ import annotations

if __name__ == '__main__':  # first, so that help and mistakes need not wait for TensorFlow
    import os
    import sys

    if not __package__:  # started by its path: the folder above deeplab/ takes the place of this file's own
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    from deeplab import start

    sys.exit(start.main(['train', *sys.argv[1:]]))

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf
import tf_slim as slim
from absl import logging

from deeplab import common, folder_lock, input_preprocess, model
from deeplab.core import (
    accumulation,
    checkpoints,
    feature_extractor,
    graph_memory,
    label_weights,
    layers,
    loss_scaling,
    moving_average,
    run_checkpoints,
    schedules,
    session,
    shapes,
    summation,
)
from deeplab.datasets import descriptor, record_check, record_index, segmentation_dataset
from deeplab.deployment import model_deploy, replicas
from deeplab.errors import DataError, OptionError
from deeplab.options import CloneOptions, TrainOptions
from deeplab.utils import (
    evaluation_loop,
    input_generator,
    memory,
    metrics_file,
    output_files,
    receipt,
    scale_losses,
    summaries,
    train_checks,
    train_hooks,
    train_utils,
    validation,
    watch_hooks,
)

KEPT_CHECKPOINTS = 5
QUEUED_BATCHES = 2
MOST_SKIPS = 9  # in a row, with --on_nan=skip


@dataclasses.dataclass(frozen=True)
class Result:
    """How a training ended.

    Attributes:
      report: one sentence for the user.
      step: steps done.
      loss: total loss of the last step; None where there was nothing left to do.
      checkpoint: path of the last checkpoint.
      status: exit status for the command line: 0, or 128 and the number of the signal that ended it.
    """

    report: str
    step: int
    loss: float | None = None
    checkpoint: str | None = None
    status: int = 0


class CloneOutputs(NamedTuple):
    """What `_build_deeplab` gives.

    Attributes:
      losses: scalars by `OUTPUT_KEY`.
      batch: the samples, by the keys of `common`.
      logits: the merged logits of the semantic output, [n, h', w', classes].
      terms: scalars by `OUTPUT_KEY/TERM`, where the loss is a sum; they are for summaries.
    """

    losses: dict[str, tf.Tensor]
    batch: dict[str, tf.Tensor]
    logits: tf.Tensor
    terms: Mapping[str, tf.Tensor] = {}


class Data(NamedTuple):
    """A checked split.

    Attributes:
      descriptor: of the data set.
      verdict: what the check of its records found.
      reader: reads its records.
    """

    descriptor: descriptor.DatasetDescriptor
    verdict: record_check.Verdict
    reader: input_generator.RecordReader

    @property
    def ignore_label(self) -> int:
        """Label of pixels that count nowhere."""
        return self.descriptor.ignore_label

    @property
    def records(self) -> Sequence[int]:
        """Numbers of the good records."""
        return self.verdict.records


def run(options: TrainOptions) -> Result:
    """Trains as `options` say, or goes on where an earlier run in the same folder stopped.

    Raises:
      UserError: for whatever the user can mend: options, data, checkpoints, a loss that is not finite.
    """
    check_options(options)
    if options.clones.master:  # a server has a working folder of its own
        options = dataclasses.replace(options, train_logdir=os.path.abspath(options.train_logdir))
    if not options.clones.is_chief:  # the folder is task 0's
        return _run(options)
    with folder_lock.held(options.train_logdir, 'train', 'train_logdir'):
        return _run(options)


def _run(options: TrainOptions) -> Result:
    """What `run` does with options that are good, in a folder where no other training writes."""
    resumed, first_step = _newest(options) if options.clones.is_chief else (None, 0)
    if first_step >= options.number_of_steps and not validation.is_pending(options, first_step):
        return Result(
            f'Nothing to train: {resumed} is at step {first_step}, and --training_number_of_steps is '
            f'{options.number_of_steps}.',
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
    data = open_data(options)
    options = _with_label_weights(options, data)
    bar = train_hooks.ProgressHook(options.number_of_steps, options.batch_size)
    hooks: list[session.Hook] = []
    validator = None
    if options.clones.is_chief:
        output_files.make_folder(options.train_logdir)  # not before the data is known to be good
        if not first_step:
            train_checks.warn(options, data.descriptor, data.verdict)
        metrics = metrics_file.MetricsHook(options.train_logdir, options.log_steps, options.batch_size)
        validator = validation.ValidationHook(options, bar, metrics) if options.validation.is_on else None
        run_now = _receipt(options, data, first_step, validator)
        write = functools.partial(_write_receipt, options, run_now)
        hooks = [train_hooks.BeginHook(write), metrics, *([validator] if validator else [])]
    with tf.Graph().as_default():
        tf.compat.v1.set_random_seed(options.seed)
        with memory.explained('train', size=_size(options)):
            result = _train(options, data, resumed, first_step, bar, hooks)
    report = _report(options, result, validator)
    return Result(report, result.step, result.loss, result.checkpoint, result.status)


def _require_folders(options: TrainOptions) -> None:
    """Raises `OptionError` where a folder of the run cannot be made or written; the record check may take long."""
    if options.profile_logdir:
        output_files.require_folder(options.profile_logdir, 'profile_logdir')
    if options.clones.is_chief:
        output_files.require_folder(options.train_logdir, 'train_logdir')
        for folder in validation.folders(options):
            output_files.require_folder(folder, 'eval_split')


def _newest(options: TrainOptions) -> tuple[str | None, int]:
    """The checkpoint from which training goes on, and its step; None and 0 for a new run."""
    with output_files.writing_to(options.train_logdir, 'train_logdir'):
        for folder in (options.train_logdir, *validation.folders(options)):
            checkpoints.remove_leftovers(folder)
    path = run_checkpoints.newest_of_run(options.train_logdir, options.initial_checkpoint)
    return path, session.step_of(path) if path else 0


def _report(options: TrainOptions, result: session.LoopResult, validator: validation.ValidationHook | None) -> str:
    """How training ended, for people."""
    if not options.clones.is_chief:
        ended = 'Stopped' if result.status else 'Ended'
        return f'{ended} at step {result.step}, as task {options.clones.task} of {options.clones.num_replicas}.'
    best = '' if validator is None else validator.report()
    if result.status:
        return f'Stopped at step {result.step}; the same command goes on from {result.checkpoint}.{best}'
    early = f' Ended before the last step: {result.stop_reason}.' if result.stop_reason else ''
    done = f'Trained to step {result.step} in {result.seconds:.0f} s: {result.checkpoint}'
    return f'{done}.{early}{best}' if early or best else done


def check_options(options: TrainOptions) -> None:
    """Raises `OptionError` for what cannot work; warns of what hardly can."""
    model.check_options(options.model)
    validation.check(options)
    scale_losses.check_label_weights(options.loss.label_weights, options.model.num_classes)
    if options.model.crop_size is None:
        raise OptionError('Training needs a crop size; set --train_crop_size=513,513')
    advice = train_utils.crop_advice(options.model.crop_size, options.model.output_stride, 'train_crop_size')
    if advice:
        logging.warning(advice)


def _check_initial_checkpoint(options: TrainOptions) -> None:
    """Looks at what a new run starts from, before the data; a run that resumes needs none of it.

    Raises:
      UserError: the checkpoint is not there, or the map of its names is not good.
    """
    if options.initial_checkpoint:
        train_utils.checkpoint_names(checkpoints.check_path(options.initial_checkpoint), options.restore.rename_map)
    elif options.optimizer.trainable_scopes:
        logging.warning(
            '--trainable_scopes=%s without --tf_initial_checkpoint: all other variables keep their random initial '
            'values.',
            ','.join(options.optimizer.trainable_scopes),
        )


def open_data(options: TrainOptions) -> Data:
    """Finds the split and checks all its records before anything is built.

    Raises:
      UserError: there is no such data set or split, or its records or masks are not good.
    """
    dataset = segmentation_dataset.get_dataset(options.dataset.name, options.dataset.split, options.dataset.directory)
    evaluation_loop.require_channels(options.model, dataset.descriptor)
    ignore_label = dataset.descriptor.ignore_label
    index = record_index.RecordIndex.walk(dataset.shards, options.dataset.skip_corrupt_records)
    verdict = record_check.check(
        dataset,
        options.model.num_classes,
        ignore_label,
        skip_corrupt_records=options.dataset.skip_corrupt_records,
        cache_dir=options.train_logdir if options.clones.is_chief else None,
        index=index,
    )
    logging.info('Training on %d images of %s, split %s.', len(verdict.records), options.dataset.name, dataset.split)
    kind = (dataset.descriptor.image_channels, dataset.descriptor.image_bits)
    return Data(dataset.descriptor, verdict, input_generator.RecordReader(index, *kind))


def _with_label_weights(options: TrainOptions, data: Data) -> TrainOptions:
    """`options` with label weights in numbers, where they are to follow from the records."""
    if not options.loss.auto_label_weights:
        return options
    try:
        weights = label_weights.median_frequency(data.verdict.class_pixels, data.verdict.class_image_pixels)
    except ValueError as error:
        raise DataError(
            f'--label_weights=auto: {error} of split {options.dataset.split}. Leave the flag away, or mend the masks'
        ) from None
    shown = ', '.join(f'{data.descriptor.class_name(number)} {weight:.3g}' for number, weight in enumerate(weights))
    logging.info('--label_weights=auto: %s.', shown)
    loss = dataclasses.replace(options.loss, label_weights=tuple(weights.tolist()), auto_label_weights=False)
    return dataclasses.replace(options, loss=loss)


def _receipt(
    options: TrainOptions, data: Data, first_step: int, validator: validation.ValidationHook | None
) -> receipt.Run:
    """What is run; says what differs where an earlier run is repeated."""
    validated = (validator.split.reader.index, validator.split.num_images) if validator else None
    initial = options.initial_checkpoint if not first_step else None
    initial = checkpoints.check_path(initial) if initial else None
    run_now = receipt.describe(options, data.reader.index, len(data.records), first_step, validated, initial)
    if options.repeats:
        for difference in receipt.differences(receipt.load(options.repeats), run_now):
            logging.warning('%s', difference)
    return run_now


def _write_receipt(options: TrainOptions, run_now: receipt.Run) -> None:
    """Notes what is run, once it is sure to run: --from repeats the newest entry."""
    with output_files.writing_to(options.train_logdir, 'train_logdir'):
        receipt.write(options.train_logdir, run_now)


def _train(
    options: TrainOptions,
    data: Data,
    resumed: str | None,
    first_step: int,
    bar: train_hooks.ProgressHook,
    hooks: Sequence[session.Hook],
) -> session.LoopResult:
    """Builds the graph in the current one, and runs it with `hooks` beside its own."""
    machines = options.clones
    config = _deployment(machines)
    fed = replicas.FedInput(config, options.batch_size) if machines.master else None
    with config.host_scope():
        global_step = tf.compat.v1.train.get_or_create_global_step()
        micro_batches = _micro_batches(options)
    with tf.device('/device:CPU:0'):
        pipeline = _build_input(options, data, fed.first_position if fed else first_step * options.batch_size)
    watched = None if fed else _Watched(options, pipeline, config, global_step)
    queue = watched.queue if watched else fed.take(pipeline)
    build = functools.partial(_build_deeplab, queue, options, data.ignore_label, global_step)
    clones = model_deploy.create_clones(config, build)
    with config.host_scope():
        learning_rate = _learning_rate(options, global_step)
        averages = _moving_averages(options, global_step)
        step = build_train_step(clones, options, learning_rate, global_step, averages, micro_batches)
        if watched:
            step = dataclasses.replace(step, waiting_seconds=watched.queue.waiting_seconds())
            hooks = [*hooks, _watch(clones[0], watched.is_looked_at, options, data.descriptor, bar)]
        merged = _merged_summaries(options, clones[0], step) if machines.is_chief else None
        writer = _checkpoint_writer(options)
        start = tf.compat.v1.global_variables_initializer()
        group = replicas.Group(machines, step, options.number_of_steps)
    init_fn = _init_fn(options) if machines.is_chief else None

    def initialise(running: tf.compat.v1.Session) -> None:
        running.run(start if fed else [start, pipeline.initializer])
        if resumed:
            train_utils.resume(running, resumed, options.model, averages)
            writer.adopt(resumed, first_step)
            return
        if init_fn is not None:
            init_fn(running)
        if averages is not None:
            running.run(averages.start)

    _prepare_to_run(options, config, clones, step)
    with input_generator.explain_input_errors(data.reader, lambda: writer.last_path):
        return session.train(
            group.step,
            options.number_of_steps,
            writer,
            functools.partial(group.initialise, initialise),
            [*_hooks(options, merged, bar), *hooks, *([fed] if fed else [])],
            options.save_interval_secs,
            cpu_devices=config.cpu_devices,
            remote=group.remote,
            most_skips=MOST_SKIPS if options.on_nan == 'skip' else 0,
        )


def _size(options: TrainOptions) -> memory.Size:
    """What rules the memory of the training."""
    assert options.model.crop_size is not None
    parts = options.clones.num_clones * options.accumulation_steps
    return memory.Size('train', options.batch_size, options.model.crop_size, options.model.output_stride, parts)


def _prepare_to_run(
    options: TrainOptions,
    config: model_deploy.DeploymentConfig,
    clones: Sequence[model_deploy.Clone],
    step: session.TrainStep,
) -> None:
    """Does what needs the whole graph, and no session: compares its memory with what is free, and writes it."""
    _check_memory(options, config, clones, step)
    _write_graph(options)


def _check_memory(
    options: TrainOptions,
    config: model_deploy.DeploymentConfig,
    clones: Sequence[model_deploy.Clone],
    step: session.TrainStep,
) -> None:
    """Compares what the step needs with what is free, where the network computes in the memory of this machine.

    Raises:
      OutOfMemoryError: it cannot fit.
    """
    if options.clones.master or config.use_gpus:
        return
    batches = QUEUED_BATCHES * config.num_clones + input_generator.PREFETCHED_BATCHES
    waiting = batches * sum(map(graph_memory.bytes_of, clones[0].outputs.batch.values()))
    activations = graph_memory.peak([step.is_applied, step.loss, step.gradient_norm])
    held = sum(graph_memory.bytes_of(variable) for variable in tf.compat.v1.global_variables())
    memory.check(memory.Need(activations + waiting, held), _size(options))


def _write_graph(options: TrainOptions) -> None:
    """Puts the present graph into the run's folder; it is for the chief to do so."""
    if not options.clones.is_chief:
        return
    with output_files.writing_to(options.train_logdir, 'train_logdir'):
        session.write_graph(tf.compat.v1.get_default_graph(), options.train_logdir)


class _Watched:
    """The queue of batches of this process, and whether the step that takes from it is to be looked at."""

    def __init__(
        self,
        options: TrainOptions,
        pipeline: input_generator.Pipeline,
        config: model_deploy.DeploymentConfig,
        global_step: tf.Variable,
    ):
        with config.host_scope():
            self.is_looked_at = watch_hooks.due(global_step, options.log_steps)
        # A micro-batch takes one batch for each clone: the queue need not hold all of a step.
        self.queue = model_deploy.prefetch(pipeline.samples, QUEUED_BATCHES * config.num_clones)
        self.queue.begin_step([self.is_looked_at])


def _deployment(machines: CloneOptions) -> model_deploy.DeploymentConfig:
    """Where things go: on this machine, or in the cluster of a server."""
    if machines.master:
        return replicas.connect(machines)
    return model_deploy.deployment_config(machines.num_clones, machines.clone_on_cpu)


def _checkpoint_writer(options: TrainOptions) -> session.CheckpointWriter | session.NoCheckpoints:
    """What writes the checkpoints of this process, if it is for it to write any."""
    if options.clones.is_chief:
        return session.CheckpointWriter(options.train_logdir, KEPT_CHECKPOINTS)
    return session.NoCheckpoints()


def _init_fn(options: TrainOptions) -> Callable[[tf.compat.v1.Session], None] | None:
    """What gives a new run the values of its initial checkpoint; None where there is nothing to take."""
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
        train_checks.warn_of_restore(options, [variable.op.name for variable in slim.get_model_variables()])
    return init_fn


def input_steps(options: TrainOptions, data: Data) -> dict[str, input_preprocess.Step]:
    """What happens to a sample before the network sees it, by the names in `input_preprocess`."""
    assert options.model.crop_size is not None
    return input_preprocess.train_steps(
        options.model.crop_size,
        options.resize,
        options.augment,
        feature_extractor.mean_pixel(options.model.model_variant, options.model.input_channels),
        data.ignore_label,
        data.verdict.class_pixels,
    )


def _build_input(options: TrainOptions, data: Data, first_position: int | tf.Tensor) -> input_generator.Pipeline:
    """The batches of one clone each, from a sample position on."""
    return input_generator.get(
        data.reader,
        list(input_steps(options, data).values()),
        options.clone_batch_size,
        is_training=True,
        records=data.records,
        seed=options.seed,
        first_position=first_position,
        is_taken=replicas.is_mine(options.clones, options.batch_size),
    )


def _build_deeplab(
    inputs_queue: model_deploy.OrderedQueue, options: TrainOptions, ignore_label: int, global_step: tf.Variable
) -> CloneOutputs:
    """Builds one clone: takes a batch, runs the network at every scale, and measures its losses.

    Args:
      inputs_queue: batches of images [n, h, w, channels] float32 and labels [n, h, w, 1] int32.
      options: the training.
      ignore_label: label of pixels that count nowhere.
      global_step: steps done.
    """
    batch = inputs_queue.dequeue()
    # What is named here is compiled, and its gradients with it; the session's own switch would compile the reading of
    # images too, whose sizes it cannot know.
    with tf.xla.experimental.jit_scope() if options.xla else contextlib.nullcontext():
        with layers.training_scope(options.optimizer.trainable_scopes):
            logits = model.multi_scale_logits(
                batch[common.IMAGE],
                options.model,
                image_pyramid=options.model.image_pyramid,
                weight_decay=options.optimizer.weight_decay,
                is_training=True,
                fine_tune_batch_norm=options.fine_tune_batch_norm,
                compute_type=tf.as_dtype(options.precision),
            )
        losses, terms = {}, {}
        for output, scales_to_logits in logits.items():
            for key, loss in scale_losses.losses_of_scales(
                scales_to_logits, batch[common.LABEL], ignore_label, options.loss, global_step, scope=output
            ).items():
                losses[f'{output}_{key}'] = loss.value
                if len(loss.terms) > 1:
                    terms.update({f'{output}_{key}/{name}': value for name, value in loss.terms.items()})
    return CloneOutputs(losses, batch, logits[common.OUTPUT_TYPE][common.MERGED_LOGITS], terms)


def _learning_rate(options: TrainOptions, global_step: tf.Variable) -> tf.Tensor:
    """The optimiser's rate at the step, scalar float32."""
    if options.optimizer.name == 'adam':
        return tf.constant(options.optimizer.adam_learning_rate, tf.float32)
    return schedules.learning_rate(global_step, options.optimizer.learning_rate, options.number_of_steps)


def _moving_averages(options: TrainOptions, global_step: tf.Variable) -> moving_average.MovingAverages | None:
    """Shadows of all variables of the network; None where they are not asked for."""
    if options.moving_average_decay is None:
        return None
    return moving_average.MovingAverages(slim.get_model_variables(), options.moving_average_decay, global_step)


def _micro_batches(options: TrainOptions) -> accumulation.MicroBatches | None:
    """The micro-batches of each step; None where it has but one."""
    return accumulation.MicroBatches(options.accumulation_steps) if options.accumulation_steps > 1 else None


def build_train_step(
    clones: Sequence[model_deploy.Clone],
    options: TrainOptions,
    learning_rate: tf.Tensor,
    global_step: tf.Variable,
    averages: moving_average.MovingAverages | None = None,
    micro_batches: accumulation.MicroBatches | None = None,
) -> session.TrainStep:
    """The step that the clones make together: one gated update of weights, moving averages and step.

    Args:
      clones: their outputs are `CloneOutputs`.
      options: the training.
      learning_rate: scalar float32.
      global_step: the counter of updates.
      averages: of the weights, which follow them in each step; None for none.
      micro_batches: those of a step, over which all is averaged; None where there is but one.
    """
    losses = [summation.in_order(list(clone.outputs.losses.values())) for clone in clones]
    variables = train_utils.trained_variables(options.optimizer.trainable_scopes)
    regularization = train_utils.decay_in_loss(options.optimizer)
    scale = loss_scaling.LossScale() if options.precision == 'float16' else None
    factor = scale.factor if scale else None
    total_loss, gradients = model_deploy.optimize_clones(clones, losses, regularization, variables, factor)
    updates = layers.moving_updates(clones[0].scope)
    if micro_batches is not None:
        total_loss, gradients, updates = micro_batches.mean(accumulation.Step(total_loss, gradients, updates))
    multipliers = train_utils.get_model_gradient_multipliers(
        options.optimizer.last_layer_scopes, options.optimizer.last_layer_gradient_multiplier
    )

    gradients = train_utils.multiply_gradients(gradients, multipliers)
    is_applied, norm = session.gated_update(
        total_loss,
        gradients,
        train_utils.make_optimizer(options.optimizer, learning_rate),
        global_step,
        lambda: layers.apply_moving_updates(updates) + (scale.grow() if scale else []),
        functools.partial(_skipped_updates, options.on_nan, total_loss, global_step, scale),
        averages.update if averages else tuple,
        options.optimizer.clip_gradient_norm,
    )
    names = [clone.outputs.batch[common.IMAGE_NAME] for clone in clones if common.IMAGE_NAME in clone.outputs.batch]
    return session.TrainStep(
        is_applied,
        total_loss,
        norm,
        learning_rate,
        global_step,
        tf.concat(names, 0) if names else None,
        loss_scale=factor,
        variable_norms=session.norms_where_skipped(is_applied, gradients),
        variable_names=tuple(variable.op.name for _, variable in gradients),
        micro_batches=micro_batches,
    )


def _skipped_updates(
    on_nan: str, loss: tf.Tensor, global_step: tf.Variable, scale: loss_scaling.LossScale | None
) -> list[tf.Operation]:
    """What happens where a step is not applied.

    One that is left out counts too: its batch does not come again, here or in a run that goes on from here. One that
    ends training does not.
    """
    is_counted = tf.constant(on_nan == 'skip')
    if scale is None:
        return [global_step.assign_add(tf.cast(is_counted, tf.int64), read_value=False)]
    is_counted |= scale.has_overflowed(loss)
    return [global_step.assign_add(tf.cast(is_counted, tf.int64), read_value=False), *scale.shrink(loss)]


def _watch(
    clone: model_deploy.Clone,
    is_looked_at: tf.Tensor,
    options: TrainOptions,
    dataset: descriptor.DatasetDescriptor,
    bar: train_hooks.ProgressHook,
) -> watch_hooks.WatchHook:
    """What keeps an eye on a clone."""
    outputs: CloneOutputs = clone.outputs
    classes = options.model.num_classes
    with tf.device(clone.device):
        loss = summation.in_order(list(outputs.losses.values()))
        labels = outputs.batch[common.LABEL]
        looked = watch_hooks.look(is_looked_at, outputs.logits, labels, loss, classes, dataset.ignore_label)
    return watch_hooks.WatchHook(looked, options.log_steps, [dataset.class_name(i) for i in range(classes)], bar)


def _merged_summaries(options: TrainOptions, clone: model_deploy.Clone, step: session.TrainStep) -> tf.Tensor:
    """All summaries in one tensor."""
    outputs: CloneOutputs = clone.outputs
    found = summaries.scalar_summaries(step.loss, step.learning_rate, outputs.losses, clone.scope, outputs.terms)
    found += summaries.variable_summaries(slim.get_model_variables())
    if options.save_summaries_images:
        labels = outputs.batch[common.LABEL]
        logits = shapes.resize_bilinear(outputs.logits[: summaries.MOST_IMAGES], shapes.spatial_size(labels))
        predictions = tf.argmax(logits, axis=3)[..., tf.newaxis]  # [n, h, w, 1]
        found += summaries.image_summaries(outputs.batch[common.IMAGE], labels, predictions, options.model.num_classes)
    return tf.compat.v1.summary.merge(found)


def _hooks(options: TrainOptions, merged: tf.Tensor | None, bar: train_hooks.ProgressHook) -> list[session.Hook]:
    """What happens between the steps; `merged` None for no summaries."""
    hooks: list[session.Hook] = [train_hooks.LogHook(options.log_steps, bar), bar]
    if merged is not None and options.save_summaries_secs is not None:
        hooks.append(train_hooks.SummaryHook(options.train_logdir, merged, options.save_summaries_secs))
    if options.profile_logdir:
        hooks.append(train_hooks.ProfileHook(options.profile_logdir))
    return hooks
