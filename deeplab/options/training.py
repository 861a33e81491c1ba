"""Options of training: restore, validation, training run, preview."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from deeplab.errors import OptionError
from deeplab.options.data import AugmentOptions, DatasetOptions, ResizeOptions, split_of_fold, split_without_fold
from deeplab.options.fields import LocalPath, Options, PathText, declared
from deeplab.options.inference import USE_MOVING_AVERAGE, VIS_SAVED
from deeplab.options.loss import LossOptions
from deeplab.options.machines import CloneOptions
from deeplab.options.network import ModelOptions
from deeplab.options.optimization import OptimizerOptions, RateTestOptions
from deeplab.options.parameters import OptionsWithSettings, Settings, require_applicable
from deeplab.options.reports import MOST_IMAGES
from deeplab.options.rules import require_seed
from deeplab.options.unlabeled import UnlabeledOptions
from deeplab.registry import AUTO_PRECISION, LOGGERS, PRECISIONS
from deeplab.wording import option


@dataclasses.dataclass(frozen=True)
class RestoreOptions(Options):
    """The variables that a new run restores from its initial checkpoint."""

    exclude_scopes: tuple[str, ...] = declared(
        (),
        'Comma-separated prefixes of variables that are not restored from the checkpoint but initialized, such as '
        'logits or decoder,logits. Not set: none.',
        flag='checkpoint_exclude_scopes',
    )
    ignore_missing_vars: bool | None = declared(
        None,
        'Initialize variables that the checkpoint lacks, with a warning; false: refuse such a checkpoint. With '
        '{rename_map} the default is false.',
        flag_default=True,
    )
    rename_map: PathText | None = declared(
        None,
        'For a checkpoint with other variable names: old_prefix=new_prefix,... or a JSON or YAML file of such pairs. '
        'The old prefix is in the checkpoint, the new one in the network; the longest match applies. Not '
        'set: the names are equal.',
        flag='checkpoint_rename_map',
    )

    @property
    def ignores_missing(self) -> bool:
        """Whether variables may be missing in the checkpoint."""
        return self.rename_map is None if self.ignore_missing_vars is None else self.ignore_missing_vars


@dataclasses.dataclass(frozen=True)
class ValidationOptions(Options):
    """Validation during training."""

    split: str | None = declared(
        None,
        'Split on which mIoU, or {best_metric}, is measured during training; the best checkpoint is kept in '
        'TRAIN_LOGDIR/best. Not set: no validation.',
        flag='eval_split',
    )
    every: int | None = declared(
        None,
        'Number of steps between validations; there is also one after the last step.',
        flag='eval_every',
        range='(0, inf)',
    )
    crop_size: tuple[int, int] | None = declared(
        None,
        'Height and width, in pixels, of the network input in validation; no image may be larger. Not set: the '
        'smallest suitable size that holds every image of the split.',
        flag='eval_crop_size',
        needs=('split', 'every'),
    )
    early_stop: int | None = declared(
        None,
        'Early stopping: end training after this many consecutive validations without a better mIoU, or {best_metric}. '
        'Not set: never.',
        flag='early_stop_evals',
        range='(0, inf)',
        needs=('split', 'every'),
    )
    best_metric: str | None = declared(
        None,
        "Metric that determines the best checkpoint, such as miou, pixel_accuracy or panoptic/pq; with a leading '-', "
        'smaller is better, as in -depth/rmse. Not set: mIoU, or the main metric of the first task in '
        '{ModelOptions.task}.',
        needs=('split', 'every'),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        split, every = option('ValidationOptions.split'), option('ValidationOptions.every')
        if (self.split is None) != (self.every is None):
            if self.every is None:
                given, missing = option('ValidationOptions.split', self.split), f'{every} (steps between validations)'
            else:
                given, missing = option('ValidationOptions.every', self.every), split
            raise OptionError(f'{given} has no effect without {missing}: set or omit both.')

    @property
    def is_on(self) -> bool:
        """Whether there are validations."""
        return self.split is not None


@dataclasses.dataclass(frozen=True)
class LoggerOptions(OptionsWithSettings, registries=(LOGGERS,)):
    """The experiment trackers that a training logs to; `settings` has the parameters of all of them."""

    names: tuple[str, ...] = declared(
        ('tensorboard',),
        lambda: (
            'Comma-separated names of the experiment trackers that training logs to, including trackers from plugins. '
            f'{LOGGERS.summaries()}'
        ),
        flag='logger',
    )
    settings: Settings = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        require_applicable(self, LOGGERS, self.names)


@dataclasses.dataclass(frozen=True)
class TrainOptions(Options):
    """Options of `deeplab train`.

    Attributes:
      command: the flags, for the run manifest; they do not affect training.
      recipe_flags: what the recipe among them sets, as --NAME=VALUE, for the run manifest.
      given: values of the flags that they, a preset or a recipe set, by 'Class.field', for the run manifest.
      plugins: the plugins that they name, for the run manifest.
    """

    model: ModelOptions
    dataset: DatasetOptions
    train_logdir: LocalPath = declared(
        meaning='Folder for checkpoints and logs. Training resumes from the newest checkpoint in it.'
    )
    resize: ResizeOptions = ResizeOptions()
    augment: AugmentOptions = AugmentOptions()
    optimizer: OptimizerOptions = OptimizerOptions()
    loss: LossOptions = LossOptions()
    clones: CloneOptions = CloneOptions()
    validation: ValidationOptions = ValidationOptions()
    loggers: LoggerOptions = LoggerOptions()
    rate_test: RateTestOptions = RateTestOptions()
    unlabeled: UnlabeledOptions = UnlabeledOptions()
    batch_size: int = declared(
        8, 'Images per step, over all clones and synchronous workers.', flag='train_batch_size', range='(0, inf)'
    )
    number_of_steps: int = declared(
        30000,
        'Number of training steps, including those before a resume.',
        flag='training_number_of_steps',
        range='(0, inf)',
    )
    fine_tune_batch_norm: bool = declared(
        True,
        'Train the batch norms and update their statistics. Set it to false for batches of fewer than about 12 '
        'images if you start from a checkpoint.',
    )
    initial_checkpoint: PathText | None = declared(
        None,
        'Checkpoint to start from, such as .../model.ckpt (without .index). Ignored if {train_logdir} contains a '
        'checkpoint.',
        flag='tf_initial_checkpoint',
    )
    initialize_last_layer: bool = declared(
        True,
        'Also restore the last layers (all after the backbone) from the checkpoint. Set it to false if the classes '
        'differ.',
    )
    restore: RestoreOptions = RestoreOptions()
    log_steps: int = declared(10, 'Number of steps between log messages.', range='(0, inf)')
    save_interval_secs: float | None = declared(
        1200,
        'Seconds between checkpoints; 0: only the first and the last.',
        range='[0, inf)',
        unset='[0, 0]',
        kind='integer',
    )
    save_summaries_secs: float | None = declared(
        600,
        'Seconds between TensorBoard summaries; 0: none.',
        range='[0, inf)',
        unset='[0, 0]',
        kind='integer',
    )
    save_summaries_images: bool = declared(False, 'Include images, labels and predictions in the summaries.')
    save_summaries_miou: bool = declared(
        False, 'Include the mIoU of training batches in the summaries; it is usually higher than the validation mIoU.'
    )
    profile_logdir: LocalPath | None = declared(None, 'Folder for a profile of some steps. Not set: no profile.')
    seed: int = declared(
        0,
        'Seed of all random choices. On the same processor, two runs with the same seed give the same result; on a GPU '
        'they differ slightly.',
    )
    precision: str = declared(
        'float32',
        'Data type of convolutions and activations: 16-bit types need less memory and are faster on hardware that '
        'supports them. Weights, checkpoints and the loss stay float32. auto: bfloat16 if the processor (AVX512_BF16, '
        'AMX) or all GPUs (Ampere or later) support it and the network benefits from it, else float32; a resumed run '
        'keeps its type.',
        choices=(*PRECISIONS, AUTO_PRECISION),
    )
    xla: bool = declared(False, 'Compile the network with XLA: a slower start, often faster steps.')
    moving_average_decay: float | None = declared(
        None,
        'Keep an exponential moving average (EMA) of the weights with this decay: 0.99 averages over about 100 '
        'steps, 0.9999 over 10000. Other programs then use it in place of the weights. Not set: no EMA.',
        range='(0, 1)',
    )
    accumulation_steps: int = declared(
        1,
        'Gradient accumulation, for batches that do not fit into memory: process the batch of a step in this many '
        'equal micro-batches and apply their mean gradient once. Batch norms see one micro-batch at a time.',
        range='(0, inf)',
    )
    on_nan: str = declared(
        'stop',
        'What to do if a loss or gradient is not finite. stop: training stops; skip: the batch is skipped with a '
        'warning, and training stops at the tenth in a row.',
        choices=('stop', 'skip'),
    )
    fold: int | None = declared(
        None,
        'Fold of the records ({BuildFolderOptions.folds}), from 1, to validate on: after the last step, or every '
        '{ValidationOptions.every} steps. The other folds are the training split. Not set: the given splits.',
        range='(0, inf)',
    )
    command: tuple[str, ...] = dataclasses.field(default=(), compare=False)
    recipe_flags: tuple[str, ...] = dataclasses.field(default=(), compare=False)
    given: Mapping[str, Any] | None = dataclasses.field(default=None, compare=False)
    plugins: tuple[str, ...] = dataclasses.field(default=(), compare=False)
    repeats: PathText | None = declared(
        None,
        'Repeat the run of this run manifest (run.json in its {train_logdir}) with the same flags. Flags given on '
        'the command line override them, such as another {train_logdir}; --NAME= without a value resets a flag to '
        '"not set". Not set: no run is repeated.',
        flag='from',
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require_seed('TrainOptions.seed', self.seed)
        self._choose_fold()
        parts = self.clones.parts
        self._require(
            self.batch_size % parts == 0,
            'batch_size',
            f'{self.clones.explained_parts} must divide it; set a multiple of {parts}',
        )
        self.clones._require(
            not (self.xla and self.clones.sync_batch_norm),
            'sync_batch_norm',
            f'XLA compiles no exchange between clones; omit it, or {option("TrainOptions.xla", True)}',
        )
        self._require_quantizable()
        is_alone = not self.clones.master and not self.clones.worker_hosts
        self.rate_test._require(is_alone or not self.rate_test.is_on, 'is_on', 'it runs on one machine alone')
        self._require_micro_batches()
        self._require_initial_checkpoint()
        self._require_unlabeled()
        if self.model.crop_size is not None:
            self.augment.check_crop_size(self.model.crop_size)

    def _choose_fold(self) -> None:
        """Sets the splits as the fold says; raises `OptionError` if others are given."""
        if self.fold is None:
            return
        train, val, given = split_without_fold(self.fold), split_of_fold(self.fold), self.validation.split
        for split, own, name in (
            (self.dataset.split, ('train', train), 'DatasetOptions.split'),
            (given, (None, val), 'ValidationOptions.split'),
        ):
            self._require(split in own, 'fold', f'it chooses the splits; omit {option(name, split)}')
        object.__setattr__(self, 'dataset', dataclasses.replace(self.dataset, split=train))
        if given is None:
            validation = dataclasses.replace(self.validation, split=val, every=self.number_of_steps)
            object.__setattr__(self, 'validation', validation)

    def _require_quantizable(self) -> None:
        """Raises `OptionError` if 8-bit training has more than one clone, or computes in less than float32."""
        if self.model.quantize_delay_step is None:
            return
        precision = self.precision
        rule = f'ranges of 8 bits are measured in one clone; omit {self.clones.explained_parts}'
        self.model._require(self.clones.parts == 1, 'quantize_delay_step', rule)
        rule = f'fake quantization needs float32; omit {option("TrainOptions.precision", precision)}'
        self.model._require(precision in ('float32', AUTO_PRECISION), 'quantize_delay_step', rule)

    def _require_micro_batches(self) -> None:
        """Raises `OptionError` unless the images of a step can be split into equal micro-batches, on one machine."""
        steps, parts = self.accumulation_steps, self.clones.parts
        # Another machine would change the weights between two micro-batches and add to the same sums; and the batches
        # that are fed to a server are batches of whole steps.
        self._require(
            steps == 1 or not self.clones.master,
            'accumulation_steps',
            f'gradients cannot be accumulated over several machines. Omit it, or {option("CloneOptions.master")}',
        )
        images = self.batch_size // parts
        good = ', '.join(str(number) for number in range(1, images + 1) if images % number == 0)
        batch = option('TrainOptions.batch_size', self.batch_size)
        if parts > 1:
            batch += f' with {self.clones.explained_parts}'
        self._require(
            images % steps == 0,
            'accumulation_steps',
            f'micro-batches must have equal sizes, and {batch} can be split into {good} only. Set one of these, or '
            f'{option("TrainOptions.batch_size")} to a multiple of {parts * steps}',
        )

    def _require_initial_checkpoint(self) -> None:
        """Raises `OptionError` for an option about the initial checkpoint if there is none."""
        initial = option('TrainOptions.initial_checkpoint')
        for name in ('exclude_scopes', 'rename_map') if self.initial_checkpoint is None else ():
            rule = f'it applies to the initial checkpoint; also set {initial}, or omit it'
            self.restore._require(not getattr(self.restore, name), name, rule)

    def _require_unlabeled(self) -> None:
        """Raises `OptionError` if images without labels do not combine with other options."""
        if not self.unlabeled.is_on:
            return
        for is_refused, name, value in (
            (not self.model.is_semantic, 'ModelOptions.task', self.model.task),
            (self.model.quantize_delay_step is not None, 'ModelOptions.quantize_delay_step', None),
            (bool(self.clones.master), 'CloneOptions.master', None),
            (bool(self.clones.worker_hosts), 'CloneOptions.worker_hosts', None),
            (self.clones.sync_batch_norm, 'CloneOptions.sync_batch_norm', True),
        ):
            rule = f'images without labels cannot be used with {option(name, value)}; omit one of the two'
            self.unlabeled._require(not is_refused, 'directory', rule)
        parts = self.clones.parts * self.accumulation_steps
        steps = f' and {option("TrainOptions.accumulation_steps", self.accumulation_steps)}'
        given = self.clones.explained_parts + (steps if self.accumulation_steps > 1 else '')
        rule = f'{given} must divide it; set a multiple of {parts}'
        if self.model.crop_size is not None:
            try:
                self.unlabeled.strong.check_crop_size(self.model.crop_size)
            except OptionError as error:
                fix = f'Set {option("UnlabeledOptions.augmentations")} or {option("UnlabeledOptions.magnitude")}'
                raise OptionError(f'Images without labels: {error} {fix}') from None
        self.unlabeled._require(self.unlabeled_batch_size % parts == 0, 'batch_size', rule)

    @property
    def unlabeled_batch_size(self) -> int:
        """Images without labels per step, if there are any."""
        return self.unlabeled.batch_size or self.batch_size

    @property
    def unlabeled_clone_batch_size(self) -> int:
        """Images without labels that a clone processes at a time."""
        return self.unlabeled_batch_size // (self.clones.parts * self.accumulation_steps)

    @property
    def unlabeled_ramp_steps(self) -> int:
        """Steps in which the weight of images without labels rises, if there are any."""
        return self.number_of_steps // 4 if self.unlabeled.ramp_steps is None else self.unlabeled.ramp_steps

    @property
    def last_layer_scopes(self) -> tuple[str, ...]:
        """Scopes of the last layers."""
        return self.model.classifier_scopes or self.optimizer.last_layer_scopes

    @property
    def clone_batch_size(self) -> int:
        """Number of images that a clone processes at a time: its part of a batch or micro-batch."""
        return self.batch_size // (self.clones.parts * self.accumulation_steps)


@dataclasses.dataclass(frozen=True)
class CrossValidateOptions(Options):
    """Options of `deeplab cross_validate`.

    Attributes:
      train: the training without fold 1; the trainings without other folds differ from it in splits and folder alone.
      command: words of the command line, for the page.
    """

    train: TrainOptions
    output_dir: LocalPath = declared(
        meaning='Folder for the results: fold1 to foldN with the training runs, predictions, report.html and '
        'cross_validation.json.'
    )
    save: tuple[str, ...] = declared(
        (),
        lambda: (
            'Comma-separated kinds of additional pictures of each image, as in vis: '
            f'{", ".join(VIS_SAVED)}, and the kinds of files of other tasks. Not set: only class ids and colored '
            'predictions.'
        ),
    )
    images: int = declared(30, 'Largest number of images on the page, at most 500.', range=f'[1, {MOST_IMAGES}]')
    command: tuple[str, ...] = dataclasses.field(default=(), compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        clones = self.train.clones
        one_by_one = 'the folds are trained one after the other, by one process. Omit it'
        clones._require(not clones.worker_hosts, 'worker_hosts', one_by_one)
        clones._require(not clones.master, 'master', one_by_one)
        alone = 'find the learning rate in a training run without one of the folds first, and omit it here'
        self.train.rate_test._require(not self.train.rate_test.is_on, 'is_on', alone)

    def of_fold(self, fold: int) -> TrainOptions:
        """Returns the training without a fold, which is numbered from 1, as `deeplab train --fold=NUMBER` runs it."""
        train, logdir = self.train, os.path.join(self.output_dir, split_of_fold(fold))
        own = {'TrainOptions.fold': fold, 'TrainOptions.train_logdir': logdir}
        return dataclasses.replace(
            train,
            fold=fold,
            train_logdir=logdir,
            dataset=dataclasses.replace(train.dataset, split=split_without_fold(fold)),
            validation=dataclasses.replace(train.validation, split=split_of_fold(fold)),
            command=(*train.command, *(f'{option(field)}={value}' for field, value in own.items()))
            if train.command
            else (),
            given=None if train.given is None else {**train.given, **own},
        )


@dataclasses.dataclass(frozen=True)
class AverageOptions(Options):
    """Options of `deeplab average_checkpoints`.

    Attributes:
      train: the training of the checkpoints; its data and network are used.
    """

    train: TrainOptions
    checkpoints: tuple[PathText, ...] = declared(
        meaning='Checkpoints of one network, or folders, for all checkpoints in them; {checkpoints}= may be omitted. '
        'The flags of the training run are read from the run.json of the first.',
        kind='repeated string',
    )
    output_dir: LocalPath = declared(meaning='Folder for the averaged checkpoint, model.ckpt-STEP, and its run.json.')
    batch_norm_images: int | None = declared(
        None,
        'Number of augmented training images on which batch norm statistics are recomputed for the averaged weights. '
        '0: the mean of the statistics of the checkpoints. Not set: all images once.',
        range='[0, inf)',
    )
    use_moving_average: bool | None = declared(None, USE_MOVING_AVERAGE)


@dataclasses.dataclass(frozen=True)
class PreviewOptions(Options):
    """Options of `deeplab preview`.

    Attributes:
      train: the training whose input is drawn; only its data and augmentation are used.
    """

    train: TrainOptions
    path: LocalPath = declared(
        meaning='PNG file to write, or its folder. Not set: preview.png in {TrainOptions.train_logdir}, or in the '
        'current folder.',
        flag='preview_path',
    )
    images: int = declared(
        4, 'Number of records to draw with each augmentation.', flag='preview_images', range='[1, 64]'
    )
    samples: int = declared(8, 'Number of augmented samples to draw.', flag='preview_samples', range='[1, 64]')

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(
            self.path.lower().endswith('.png'),
            'path',
            'the sheet is a PNG file; pass a folder, or a name that ends in .png',
        )
