"""Options of `deeplab benchmark`."""

from __future__ import annotations

import dataclasses

from deeplab.options.inference import EngineOptions
from deeplab.options.rules import check_size, require, require_positive
from deeplab.options.training import TrainOptions
from deeplab.wording import option


@dataclasses.dataclass(frozen=True)
class BenchmarkOptions:
    """Options of `deeplab benchmark`.

    Attributes:
      train: the training that is measured; its network is the one that predicts, too. Its log folder is not used; the
        folder of its data set is None for generated images.
      output: JSON file of the results.
      image_size: height and width of the images that the network predicts; None for the crop size of training.
      checkpoint_dir: checkpoint, or folder of checkpoints, with the weights that predict; None for random weights.
      batch_sizes: images at a time that the network predicts.
      threads: numbers of threads that predict; empty for one and for all cores.
      training_batch_sizes: images of a training step; empty for the batch size of training and half of it.
      engine: what predicts.
      budget_secs: seconds after which no further measurement begins.
      plugins: to import in the processes that measure.
      exports: files or folders of exports, which are measured instead of the network.
      batch: images at a time that they predict.
      size: height and width of their images; None for those of each export.
    """

    train: TrainOptions
    output: str = 'deeplab_benchmark.json'
    image_size: tuple[int, int] | None = None
    checkpoint_dir: str | None = None
    batch_sizes: tuple[int, ...] = (1, 4)
    threads: tuple[int, ...] = ()
    training_batch_sizes: tuple[int, ...] = ()
    engine: EngineOptions = EngineOptions()
    budget_secs: int = 60
    plugins: tuple[str, ...] = ()
    exports: tuple[str, ...] = ()
    batch: tuple[int, ...] = (1,)
    size: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        check_size('BenchmarkOptions.image_size', self.image_size)
        check_size('BenchmarkOptions.size', self.size)
        for name in ('batch_sizes', 'threads', 'training_batch_sizes', 'batch'):
            sizes = getattr(self, name)
            require(all(size > 0 for size in sizes), f'BenchmarkOptions.{name}', sizes, 'each must be 1 or more')
        require_positive('BenchmarkOptions.budget_secs', self.budget_secs)
        self._require_used()

    def _require_used(self) -> None:
        """Raises `OptionError` for an option of networks where exports are measured, or the other way round."""
        exports = option('BenchmarkOptions.exports')
        if self.exports:
            rule = f'it applies to a network, not to {exports}'
            for name in ('engine', 'precision'):  # an export runs in that of its format
                value = getattr(self.engine, name)
                require(value == getattr(EngineOptions, name), f'EngineOptions.{name}', value, f'{rule}. Omit it')
            others = {'image_size': 'size', 'batch_sizes': 'batch', 'training_batch_sizes': '', 'checkpoint_dir': ''}
        else:
            rule, others = f'it applies to {exports} only', {'size': 'image_size', 'batch': 'batch_sizes'}
        for name, other in others.items():
            value = getattr(self, name)
            fix = f'Set {option(f"BenchmarkOptions.{other}")} instead' if other else 'Omit it'
            require(value == getattr(BenchmarkOptions, name), f'BenchmarkOptions.{name}', value, f'{rule}. {fix}')
