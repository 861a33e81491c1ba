"""Options of evaluation, visualization and export."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from deeplab.errors import OptionError
from deeplab.options.data import DatasetOptions, ResizeOptions
from deeplab.options.network import ModelOptions
from deeplab.options.parameters import Settings, require_applicable, with_parameters
from deeplab.options.rules import check_size, require, require_choice, require_not_negative, require_positive
from deeplab.registry import CONFUSION_MATRIX, ENGINES, METRICS, PRECISIONS, values_of
from deeplab.wording import did_you_mean, option

ALL_METRICS = 'all'  # instead of names of metrics
VIS_SAVED = ('overlay', 'contours', 'confidence', 'errors', 'legend')
SUBMISSIONS = ('voc', 'cityscapes')
COLORMAP_TYPES = ('pascal', 'cityscapes', 'ade20k')
DEFAULT_ENGINE = 'tensorflow'
AUTO_ENGINE = 'auto'  # the fastest of the installed engines


@dataclasses.dataclass(frozen=True)
class PredictionOptions:
    """Scales and flips that are averaged when labels are predicted.

    Attributes:
      scales: scales of the image.
      add_flipped_images: whether left-right flipped images are averaged, too.
    """

    scales: tuple[float, ...] = (1.0,)
    add_flipped_images: bool = False

    def __post_init__(self) -> None:
        good = bool(self.scales) and all(0 < scale < float('inf') for scale in self.scales)
        require(good, 'PredictionOptions.scales', self.scales, 'give at least one scale, each greater than 0')

    @property
    def is_single_scale(self) -> bool:
        """Whether 1.0 is the only scale; flipped images are then ignored, as in the original."""
        return tuple(self.scales) == (1.0,)


@dataclasses.dataclass(frozen=True)
class WindowOptions:
    """Windows: overlapping parts in which large images are predicted.

    Attributes:
      window: height and width of a window; None for the crop size, or 513 by 513.
      window_stride: vertical and horizontal distance of the windows; None for three quarters of the window.
      whole_pixels: largest number of pixels of an image that is predicted without windows, even if it is larger than a
        window; None for 4,194,304, or 0 if a window is given.
    """

    window: tuple[int, int] | None = None
    window_stride: tuple[int, int] | None = None
    whole_pixels: int | None = None

    def __post_init__(self) -> None:
        check_size('WindowOptions.window', self.window)
        check_size('WindowOptions.window_stride', self.window_stride)
        if self.whole_pixels is not None:
            require_not_negative('WindowOptions.whole_pixels', self.whole_pixels)
        if self.window is not None and self.window_stride is not None:
            require(
                all(step <= side for step, side in zip(self.window_stride, self.window, strict=True)),
                'WindowOptions.window_stride',
                self.window_stride,
                f'windows would leave gaps; give at most {option("WindowOptions.window", self.window)}',
            )


@dataclasses.dataclass(frozen=True)
class EngineOptions:
    """What runs a network that predicts, and how.

    Attributes:
      engine: name of a registered engine, or 'auto' for the fastest of the installed ones.
      precision: type in which it computes.
      threads: number of threads of an engine other than TensorFlow; None for one a core that this process may use.
    """

    engine: str = DEFAULT_ENGINE
    precision: str = 'float32'
    threads: int | None = None

    def __post_init__(self) -> None:
        require_choice('EngineOptions.engine', self.engine, (*ENGINES.names(), AUTO_ENGINE))
        require_choice('EngineOptions.precision', self.precision, PRECISIONS)
        if self.threads is not None:
            require_positive('EngineOptions.threads', self.threads)


def _check_engine(field: str, master: str, engine: EngineOptions, windows: WindowOptions | None) -> None:
    """Raises `OptionError` if a server of TensorFlow is to run another engine, or if threads are set for TensorFlow.

    In eval and vis, TensorFlow shares its threads with the input pipeline.
    """
    require(
        engine.threads is None or engine.engine != DEFAULT_ENGINE,
        'EngineOptions.threads',
        engine.threads,
        f'it is for other engines than {DEFAULT_ENGINE}. Omit it, or use another {option("EngineOptions.engine")}',
    )
    require(
        not master or engine == EngineOptions(),
        'EngineOptions.engine' if engine.engine != DEFAULT_ENGINE else 'EngineOptions.precision',
        engine.engine if engine.engine != DEFAULT_ENGINE else engine.precision,
        f'a server of TensorFlow ({option(field, master)}) computes with TensorFlow in float32. Omit one of the two',
    )
    require(
        not master or windows is None,
        'WindowOptions.window',
        None if windows is None else windows.window,
        f'a server of TensorFlow ({option(field, master)}) takes images of one size. Omit one of the two',
    )


@dataclasses.dataclass(frozen=True)
class WaitOptions:
    """How eval and vis wait for checkpoints.

    Attributes:
      interval_secs: minimum number of seconds between the starts of two rounds.
      max_rounds: number of rounds after which the program ends; None for no limit.
      timeout_secs: seconds to wait for a new checkpoint before the program ends; None for no limit.
    """

    interval_secs: float = 300
    max_rounds: int | None = None
    timeout_secs: float | None = None

    def __post_init__(self) -> None:
        require_not_negative('WaitOptions.interval_secs', self.interval_secs)
        require_not_negative('WaitOptions.timeout_secs', self.timeout_secs or 0)


@with_parameters(METRICS)
@dataclasses.dataclass(frozen=True)
class EvalOptions:
    """Options of `deeplab eval`.

    The parameters of all metrics are keywords and attributes as well.

    Attributes:
      model: the network.
      dataset: the split to evaluate on.
      checkpoint_dir: folder of the checkpoints, or one checkpoint.
      further_checkpoint_dirs: more of them; the newest checkpoint of each is then evaluated once, without waiting.
      all_checkpoints: whether every checkpoint of each folder is evaluated once, instead of the newest one.
      fits_crop_size: whether the crop size is replaced by the smallest one into which every image fits, if an image is
        larger; it is so too if the crop size is not set.
      eval_logdir: folder for the metrics.
      resize: resizing of the images before the network.
      prediction: scales and flips that are averaged.
      wait: how to wait for checkpoints.
      batch_size: images per batch.
      master: address of a TensorFlow server; empty for this process.
      use_moving_average: whether the moving averages (EMA) of the weights are used instead of the weights; None to use
        them if the run.json of the training names their decay (`inference/run_weights.py`).
      metrics: names of registered metrics that are computed in addition to those of the confusion matrix; 'all' for
        each that the data set allows.
      engine: what runs the network.
      settings: parameters of the metrics that differ from their defaults.
      windows: sizes of the windows in which large images are predicted; None for no windows. Images are then padded to
        the crop size only if it is set and `fits_crop_size` is not.
    """

    model: ModelOptions
    dataset: DatasetOptions
    checkpoint_dir: str
    eval_logdir: str
    resize: ResizeOptions = ResizeOptions()
    prediction: PredictionOptions = PredictionOptions()
    wait: WaitOptions = WaitOptions()
    batch_size: int = 1
    master: str = ''
    use_moving_average: bool | None = None
    metrics: tuple[str, ...] = ()
    further_checkpoint_dirs: tuple[str, ...] = ()
    all_checkpoints: bool = False
    fits_crop_size: bool = False
    settings: Settings = ()
    engine: EngineOptions = EngineOptions()
    windows: WindowOptions | None = None

    def __post_init__(self) -> None:
        require_positive('EvalOptions.batch_size', self.batch_size)
        _check_engine('EvalOptions.master', self.master, self.engine, self.windows)
        for name in self.metrics:
            if name != ALL_METRICS and name not in METRICS.names():
                names = (*METRICS.names(), ALL_METRICS)
                known = f'{did_you_mean(name, names)}Known: {", ".join(names)}'
                raise OptionError(f'{option("EvalOptions.metrics", name)} is not known. {known}.')
        require_applicable(self, METRICS, self._chosen_metrics)

    @property
    def takes_all_metrics(self) -> bool:
        """Whether 'all' is one of the names in `metrics`."""
        return ALL_METRICS in self.metrics

    @property
    def _chosen_metrics(self) -> tuple[str, ...]:
        """The names in `metrics`; those of all further metrics for 'all'."""
        if not self.takes_all_metrics:
            return self.metrics
        return tuple(name for name in METRICS.names() if name != CONFUSION_MATRIX)

    @property
    def metric_parameters(self) -> dict[str, dict[str, Any]]:
        """Values of the parameters of each metric in `metrics`, by its name and theirs."""
        value_of = functools.partial(getattr, self)
        return {name: values_of(METRICS.get(name), value_of) for name in self._chosen_metrics}


@dataclasses.dataclass(frozen=True)
class VisOptions:
    """Options of `deeplab vis`.

    Attributes:
      model: the network.
      dataset: the split to visualize.
      checkpoint_dir: folder of the checkpoints, or one checkpoint.
      vis_logdir: folder for the images.
      resize: resizing of the images before the network.
      prediction: scales and flips that are averaged.
      wait: how to wait for checkpoints.
      batch_size: images per batch.
      colormap_type: colors of the classes; None for those of the data set.
      also_save_raw_predictions: whether class ids are written, too.
      master: address of a TensorFlow server; empty for this process.
      use_moving_average: whether the moving averages (EMA) of the weights are used instead of the weights; None to use
        them if the run.json of the training names their decay (`inference/run_weights.py`).
      engine: what runs the network.
      save: further pictures of each image, of `VIS_SAVED`.
      overlay_alpha: opacity of the colors of overlays, 0 to 1.
      submission: evaluation server for which an archive is written, of `SUBMISSIONS`; None for none.
      windows: sizes of the windows in which large images are predicted; None for no windows. Images are then padded to
        the crop size only if it is set.
    """

    model: ModelOptions
    dataset: DatasetOptions
    checkpoint_dir: str
    vis_logdir: str
    resize: ResizeOptions = ResizeOptions()
    prediction: PredictionOptions = PredictionOptions()
    wait: WaitOptions = WaitOptions()
    batch_size: int = 1
    colormap_type: str | None = None
    also_save_raw_predictions: bool = False
    master: str = ''
    use_moving_average: bool | None = None
    engine: EngineOptions = EngineOptions()
    save: tuple[str, ...] = ()
    overlay_alpha: float = 0.5
    submission: str | None = None
    windows: WindowOptions | None = None

    def __post_init__(self) -> None:
        require_positive('VisOptions.batch_size', self.batch_size)
        _check_engine('VisOptions.master', self.master, self.engine, self.windows)
        if self.colormap_type is not None:
            require_choice('VisOptions.colormap_type', self.colormap_type, COLORMAP_TYPES)
        for kind in self.save:
            require_choice('VisOptions.save', kind, VIS_SAVED)
        good = 0 <= self.overlay_alpha <= 1
        require(good, 'VisOptions.overlay_alpha', self.overlay_alpha, 'it must be in the range 0 to 1')
        if self.submission is not None:
            require_choice('VisOptions.submission', self.submission, SUBMISSIONS)
            require(
                (self.resize.min_value is None) == (self.resize.max_value is None),
                'VisOptions.submission',
                self.submission,
                'predictions must have the sizes of the images, so set both bounds of the resizing '
                f'({option("ResizeOptions.min_value")}, {option("ResizeOptions.max_value")}) or neither',
            )

    @property
    def needs_labels(self) -> bool:
        """Whether each image must have a mask."""
        return 'errors' in self.save
