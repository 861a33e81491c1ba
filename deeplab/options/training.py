"""Options of training: restore, validation, training run, preview."""

from __future__ import annotations

import dataclasses

from deeplab.errors import OptionError
from deeplab.options.data import AugmentOptions, DatasetOptions, ResizeOptions
from deeplab.options.loss import LossOptions
from deeplab.options.machines import CloneOptions
from deeplab.options.network import ModelOptions
from deeplab.options.optimization import OptimizerOptions
from deeplab.options.rules import (
    check_size,
    require,
    require_choice,
    require_not_negative,
    require_positive,
    require_seed,
)
from deeplab.registry import PRECISIONS
from deeplab.wording import option

ON_NAN = ('stop', 'skip')


@dataclasses.dataclass(frozen=True)
class RestoreOptions:
    """The variables that a new run restores from its initial checkpoint.

    Attributes:
      exclude_scopes: prefixes of variables that are initialized instead of restored.
      ignore_missing_vars: whether variables that the checkpoint lacks are initialized; otherwise they are an error.
        None for "yes, unless there is a rename map".
      rename_map: `old_prefix=new_prefix,...` from names in the checkpoint to names in the network, or the path of a
        JSON or YAML file of such pairs; None if names are equal. It is read when a run needs it.
    """

    exclude_scopes: tuple[str, ...] = ()
    ignore_missing_vars: bool | None = None
    rename_map: str | None = None

    @property
    def ignores_missing(self) -> bool:
        """Whether variables may be missing in the checkpoint."""
        return self.rename_map is None if self.ignore_missing_vars is None else self.ignore_missing_vars


@dataclasses.dataclass(frozen=True)
class ValidationOptions:
    """Validation during training.

    Attributes:
      split: split to evaluate; None for no validation.
      every: number of steps between two validations; None for no validation.
      crop_size: height and width of the input in validation; None for the smallest suitable size that holds every
        image.
      early_stop: number of consecutive validations without a better mIoU after which training ends; None for never.
    """

    split: str | None = None
    every: int | None = None
    crop_size: tuple[int, int] | None = None
    early_stop: int | None = None

    def __post_init__(self) -> None:
        split, every = option('ValidationOptions.split'), option('ValidationOptions.every')
        if (self.split is None) != (self.every is None):
            if self.every is None:
                given, missing = option('ValidationOptions.split', self.split), f'{every} (steps between validations)'
            else:
                given, missing = option('ValidationOptions.every', self.every), split
            raise OptionError(f'{given} has no effect without {missing}: set or omit both.')
        if self.every is not None:
            require_positive('ValidationOptions.every', self.every)
        check_size('ValidationOptions.crop_size', self.crop_size)
        needs = f'it applies to validation during training; also set {split} and {every}'
        require(self.is_on or self.crop_size is None, 'ValidationOptions.crop_size', self.crop_size, needs)
        require(self.is_on or self.early_stop is None, 'ValidationOptions.early_stop', self.early_stop, needs)
        if self.early_stop is not None:
            require_positive('ValidationOptions.early_stop', self.early_stop)

    @property
    def is_on(self) -> bool:
        """Whether there are validations."""
        return self.split is not None


@dataclasses.dataclass(frozen=True)
class TrainOptions:
    """Options of `deeplab train`.

    Attributes (those whose name is not sufficient):
      precision: data type of convolutions and activations; variables are always float32.
      xla: whether the graph is compiled with XLA.
      accumulation_steps: number of micro-batches into which each clone splits its images of a step.
      on_nan: 'stop' or 'skip': what to do about a loss or gradient that is not finite.
      save_interval_secs: seconds between two checkpoints; 0 for one per step, None for the first and the last only.
      save_summaries_secs: seconds between two summaries; 0 for one per step, None for none.
      command: the flags, for the run manifest; they do not affect training.
      recipe_flags: what the recipe among them sets, as --NAME=VALUE, for the run manifest.
      repeats: path of the run manifest that this run repeats, for its own run manifest.
    """

    model: ModelOptions
    dataset: DatasetOptions
    train_logdir: str
    resize: ResizeOptions = ResizeOptions()
    augment: AugmentOptions = AugmentOptions()
    optimizer: OptimizerOptions = OptimizerOptions()
    loss: LossOptions = LossOptions()
    clones: CloneOptions = CloneOptions()
    validation: ValidationOptions = ValidationOptions()
    batch_size: int = 8
    number_of_steps: int = 30000
    fine_tune_batch_norm: bool = True
    initial_checkpoint: str | None = None
    initialize_last_layer: bool = True
    restore: RestoreOptions = RestoreOptions()
    log_steps: int = 10
    save_interval_secs: float | None = 1200
    save_summaries_secs: float | None = 600
    save_summaries_images: bool = False
    profile_logdir: str | None = None
    seed: int = 0
    precision: str = 'float32'
    xla: bool = False
    moving_average_decay: float | None = None
    accumulation_steps: int = 1
    on_nan: str = 'stop'
    command: tuple[str, ...] = dataclasses.field(default=(), compare=False)
    recipe_flags: tuple[str, ...] = dataclasses.field(default=(), compare=False)
    repeats: str | None = None

    def __post_init__(self) -> None:
        require_choice('TrainOptions.precision', self.precision, PRECISIONS)
        require_positive('TrainOptions.batch_size', self.batch_size)
        require_positive('TrainOptions.number_of_steps', self.number_of_steps)
        require_positive('TrainOptions.log_steps', self.log_steps)
        require_not_negative('TrainOptions.save_interval_secs', self.save_interval_secs or 0)
        require_not_negative('TrainOptions.save_summaries_secs', self.save_summaries_secs or 0)
        require_seed('TrainOptions.seed', self.seed)
        decay, field = self.moving_average_decay, 'TrainOptions.moving_average_decay'
        require(
            decay is None or 0.0 < decay < 1.0,
            field,
            decay,
            f'it must be greater than 0 and less than 1, such as 0.99; omit {option(field)} for no moving averages',
        )
        require_choice('TrainOptions.on_nan', self.on_nan, ON_NAN)
        clones = self.clones.num_clones
        require(
            self.batch_size % clones == 0,
            'TrainOptions.batch_size',
            self.batch_size,
            f'{option("CloneOptions.num_clones", clones)} must divide it; set a multiple of {clones}',
        )
        self._require_quantizable()
        self._require_micro_batches()
        self._require_initial_checkpoint()
        if self.model.crop_size is not None:
            self.augment.check_crop_size(self.model.crop_size)

    def _require_quantizable(self) -> None:
        """Raises `OptionError` if 8-bit training has more than one clone, or computes in less than float32."""
        step, field = self.model.quantize_delay_step, 'ModelOptions.quantize_delay_step'
        clones = self.clones.num_clones
        require(
            step is None or clones == 1,
            field,
            step,
            f'ranges of 8 bits are measured in one clone; omit {option("CloneOptions.num_clones", clones)}',
        )
        require(
            step is None or self.precision == 'float32',
            field,
            step,
            f'8 bits are imitated in float32; omit {option("TrainOptions.precision", self.precision)}',
        )

    def _require_micro_batches(self) -> None:
        """Raises `OptionError` unless the images of a step can be split into equal micro-batches, on one machine."""
        steps, clones, field = self.accumulation_steps, self.clones.num_clones, 'TrainOptions.accumulation_steps'
        require_positive(field, steps)
        # Another machine would change the weights between two micro-batches and add to the same sums; and the batches
        # that are fed to a server are those of whole steps.
        require(
            steps == 1 or not self.clones.master,
            field,
            steps,
            f'gradients cannot be accumulated over several machines. Omit it, or {option("CloneOptions.master")}',
        )
        images = self.batch_size // clones
        good = ', '.join(str(number) for number in range(1, images + 1) if images % number == 0)
        batch = option('TrainOptions.batch_size', self.batch_size)
        if clones > 1:
            batch += f' with {option("CloneOptions.num_clones", clones)}'
        require(
            images % steps == 0,
            field,
            steps,
            f'micro-batches must have equal sizes, and {batch} can be split into {good} only. Set one of these, or '
            f'{option("TrainOptions.batch_size")} to a multiple of {clones * steps}',
        )

    def _require_initial_checkpoint(self) -> None:
        """Raises `OptionError` for an option about the initial checkpoint if there is none."""
        for name in ('exclude_scopes', 'rename_map'):
            value = getattr(self.restore, name)
            require(
                not value or self.initial_checkpoint is not None,
                f'RestoreOptions.{name}',
                value,
                f'it applies to the initial checkpoint; also set {option("TrainOptions.initial_checkpoint")}, or omit '
                'it',
            )

    @property
    def clone_batch_size(self) -> int:
        """Number of images that a clone processes at a time: its part of a batch or micro-batch."""
        return self.batch_size // (self.clones.num_clones * self.accumulation_steps)


@dataclasses.dataclass(frozen=True)
class PreviewOptions:
    """Options of `deeplab preview`.

    Attributes:
      train: the training whose input is drawn; only its data and augmentation are used.
      path: PNG file of the sheet.
      images: number of records that are drawn with each augmentation.
      samples: number of augmented training samples that are drawn.
    """

    train: TrainOptions
    path: str
    images: int = 4
    samples: int = 8

    def __post_init__(self) -> None:
        require(
            self.path.lower().endswith('.png'),
            'PreviewOptions.path',
            self.path,
            'the sheet is a PNG file; give a folder, or a name that ends in .png',
        )
        for name in ('images', 'samples'):
            value = getattr(self, name)
            require(1 <= value <= 64, f'PreviewOptions.{name}', value, 'it must be from 1 to 64')
