"""Options of `deeplab benchmark`."""

from __future__ import annotations

import dataclasses

from deeplab.options.fields import LocalPath, Options, PathText, declared
from deeplab.options.inference import EngineOptions
from deeplab.options.rules import require
from deeplab.options.training import TrainOptions
from deeplab.wording import option


@dataclasses.dataclass(frozen=True)
class BenchmarkOptions(Options):
    """Options of `deeplab benchmark`.

    Attributes:
      train: the training to measure; inference is measured with its network. Its log folder is not used; the folder of
        its data set is None for generated images.
    """

    train: TrainOptions
    output: LocalPath = declared('deeplab_benchmark.json', 'JSON file for the results, or its folder.')
    image_size: tuple[int, int] | None = declared(
        None,
        'Height and width, in pixels, of the images for inference. Not set: {ModelOptions.crop_size}.',
    )
    checkpoint_dir: LocalPath | None = declared(
        None, 'Checkpoint, or folder of checkpoints, whose weights to use. Not set: random weights.'
    )
    batch_sizes: tuple[int, ...] = declared(
        (1, 4),
        'Batch sizes for inference, such as 1,4,16.',
        kind='list',
        range='(0, inf)',
    )
    threads: tuple[int, ...] = declared(
        (),
        'Numbers of inference threads, such as 1,2,4. Not set: 1, and the number of threads of the process (by '
        'default one per core).',
        kind='list',
        range='(0, inf)',
    )
    training_batch_sizes: tuple[int, ...] = declared(
        (),
        'Batch sizes for training, such as 4,8,16. Not set: {TrainOptions.batch_size} and half of it.',
        kind='list',
        range='(0, inf)',
    )
    engine: EngineOptions = EngineOptions()
    budget_secs: int = declared(
        60,
        'Seconds after which no new measurement starts; the first of each kind is always made.',
        range='(0, inf)',
    )
    exports: tuple[PathText, ...] = declared(
        (),
        'Exports, in any format, to measure side by side instead of a network; {exports}= may be omitted.',
        kind='repeated string',
    )
    batch: tuple[int, ...] = declared((1,), 'Batch sizes for exports.', kind='list', range='(0, inf)')
    size: tuple[int, int] | None = declared(
        None,
        'Height and width of the images for exports that accept any size. Not set: the default size of each export.',
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_used()

    def _require_used(self) -> None:
        """Raises `OptionError` for an option of networks where exports are measured, or the other way round."""
        exports = option('BenchmarkOptions.exports')
        if self.exports:
            rule = f'it applies to a network, not to {exports}'
            for name in ('engine', 'precision', 'calibration_dir'):  # an export runs in the engine of its format
                value = getattr(self.engine, name)
                require(value == getattr(EngineOptions, name), f'EngineOptions.{name}', value, f'{rule}. Omit it')
            others = {'image_size': 'size', 'batch_sizes': 'batch', 'training_batch_sizes': '', 'checkpoint_dir': ''}
        else:
            rule, others = f'it applies to {exports} only', {'size': 'image_size', 'batch': 'batch_sizes'}
        for name, other in others.items():
            fix = f'Set {option(f"BenchmarkOptions.{other}")} instead' if other else 'Omit it'
            self._require(getattr(self, name) == getattr(BenchmarkOptions, name), name, f'{rule}. {fix}')
