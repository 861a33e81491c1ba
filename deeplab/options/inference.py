"""Options of evaluation, visualization and export."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from deeplab.options.data import DatasetOptions, ResizeOptions
from deeplab.options.fields import LocalPath, Options, PathText, declared
from deeplab.options.network import ModelOptions
from deeplab.options.parameters import OptionsWithSettings, Settings, require_applicable
from deeplab.options.parts import PartOptions
from deeplab.registry import AUTO_PRECISION, CONFUSION_MATRIX, ENGINES, INT8, METRICS, PRECISIONS
from deeplab.registry.records import check_allowed
from deeplab.registry.tasks import TASKS
from deeplab.wording import option

ALL_METRICS = 'all'  # instead of names of metrics
VIS_SAVED = ('overlay', 'contours', 'confidence', 'errors', 'legend')
SUBMISSIONS = ('voc', 'cityscapes')
DEFAULT_ENGINE = 'tensorflow'
USE_MOVING_AVERAGE = (
    'Use the exponential moving averages (EMA) of the weights, which training with '
    '{TrainOptions.moving_average_decay} keeps. Not set: used if the run.json of the training run contains a decay.'
)
_CHECKPOINT_DIR = 'Folder of the checkpoints (the {TrainOptions.train_logdir} of training), a checkpoint, or an export.'
ENSEMBLE = (
    'Average the probabilities of several checkpoints: repeat {checkpoint_dir}, or pass the folder of a finished '
    'deeplab cross_validate for the networks of all folds. The networks may differ, but not their classes.'
)
NAMED_CLASSES = (
    'Data set with the names and colors of the classes. Not set: the data set of the training run, if it is known.'
)
OVERLAY_ALPHA = 'Opacity of the colors in overlays, 0 to 1. If given, overlays are written.'
AUTO_ENGINE = 'auto'  # the fastest of the installed engines


@dataclasses.dataclass(frozen=True)
class PredictionOptions(Options):
    """Scales and flips that are averaged when labels are predicted."""

    scales: tuple[float, ...] = declared(
        (1.0,),
        'Image scales whose predictions are averaged, one flag per scale, such as 0.5, 0.75, ... 1.75.',
        flag='eval_scales',
        range='(0, inf)',
    )
    add_flipped_images: bool = declared(
        False,
        'Also average over left-right flipped images; it has no effect on semantic segmentation '
        'if 1.0 is the only scale.',
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(bool(self.scales), 'scales', 'set at least one')

    @property
    def is_single_scale(self) -> bool:
        """Whether 1.0 is the only scale; flipped images are then ignored, as in the original."""
        return tuple(self.scales) == (1.0,)


@dataclasses.dataclass(frozen=True)
class WindowOptions(Options):
    """Windows: overlapping parts in which large images are predicted."""

    window: tuple[int, int] | None = declared(
        None,
        'Height and width of the overlapping windows in which larger images are predicted, such as 513,513. Not set: '
        'no windows.',
    )
    window_stride: tuple[int, int] | None = declared(
        None,
        'Vertical and horizontal stride of the windows. Not set: three quarters of their size.',
    )
    whole_pixels: int | None = declared(
        None,
        'Predict images of up to this many pixels without windows. Not set: 4194304; 0 with {window}.',
        range='[0, inf)',
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window is not None and self.window_stride is not None:
            self._require(
                all(step <= side for step, side in zip(self.window_stride, self.window, strict=True)),
                'window_stride',
                f'windows would leave gaps; set at most {option("WindowOptions.window", self.window)}',
            )


@dataclasses.dataclass(frozen=True)
class EngineOptions(Options):
    """The inference engine and its data type."""

    engine: str = declared(
        DEFAULT_ENGINE,
        lambda: f'Engine that runs the network. {AUTO_ENGINE}: the fastest installed one; {ENGINES.summaries()}',
        choices=lambda: (*ENGINES.names(), AUTO_ENGINE),
    )
    precision: str = declared(
        'float32',
        'Data type in which the engine computes. 16-bit types need a processor and an engine that support them; the '
        'fraction of labels that change is reported. int8: 8-bit weights and activations, with an engine other than '
        'tensorflow; needs {calibration_dir}. auto: the fastest type whose labels agree with the float32 labels on '
        '98% of the pixels of a test image; with {calibration_dir} also int8.',
        choices=(*PRECISIONS, INT8, AUTO_PRECISION),
    )
    threads: int | None = declared(
        None,
        'Number of threads for an engine other than tensorflow. Not set: --num_threads.',
        flag='inference_threads',
        range='(0, inf)',
    )
    calibration_dir: PathText | None = declared(
        None,
        'Folder of images typical of the application, from which the ranges of 8-bit activations are measured, for '
        '{precision=int8} or {precision=auto}. The int8 labels must agree with the float32 labels on 95% of the '
        'pixels of some of the images, which are held out from this calibration. Not set: no int8.',
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        has_images = self.calibration_dir is not None
        fix = f'Set {option("EngineOptions.calibration_dir")} to a folder with images typical of the application'
        self._require(self.precision != INT8 or has_images, 'precision', f'8 bits need images for calibration. {fix}')
        fix = f'Set {option("EngineOptions.precision", INT8)} or {option("EngineOptions.precision", AUTO_PRECISION)}'
        is_used = self.precision in (INT8, AUTO_PRECISION)
        self._require(is_used or not has_images, 'calibration_dir', f'it is for 8 bits. {fix}, or omit it')

    @property
    def is_auto(self) -> bool:
        """Whether the engine or the precision is yet to be chosen."""
        return self.engine == AUTO_ENGINE or self.precision == AUTO_PRECISION

    def in_precision(self, precision: str) -> EngineOptions:
        """Returns the options with a precision other than 'auto', and with images only if it is int8."""
        images = self.calibration_dir if precision == INT8 else None
        return dataclasses.replace(self, precision=precision, calibration_dir=images)


def _check_engine(field: str, master: str, engine: EngineOptions, windows: WindowOptions | None) -> None:
    """Raises `OptionError` if a server of TensorFlow is to run another engine, or if threads are set for TensorFlow.

    In eval and vis, TensorFlow shares its threads with the input pipeline.
    """
    is_usual = engine.engine == DEFAULT_ENGINE
    another = f'Omit it, or use another {option("EngineOptions.engine")}'
    rule = f'it is for other engines than {DEFAULT_ENGINE}. {another}'
    engine._require(engine.threads is None or not is_usual, 'threads', rule)
    server = f'a server of TensorFlow ({option(field, master)})'
    rule = f'{server} computes with TensorFlow in float32. Omit one of the two'
    engine._require(not master or engine == EngineOptions(), 'precision' if is_usual else 'engine', rule)
    if windows is not None:
        windows._require(not master, 'window', f'{server} takes images of one size. Omit one of the two')


@dataclasses.dataclass(frozen=True)
class WaitOptions(Options):
    """How eval and vis wait for checkpoints."""

    interval_secs: float = declared(
        300,
        'Minimum number of seconds between the starts of two rounds.',
        flag='eval_interval_secs',
        range='[0, inf)',
        kind='integer',
    )
    max_rounds: int | None = declared(
        None,
        'Number of checkpoints to evaluate; 0: wait for new ones forever.',
        flag='max_number_of_evaluations',
        flag_default=0,
        unset='(-inf, 0]',
    )
    timeout_secs: float | None = declared(
        None,
        'Stop after this many seconds without a new checkpoint. Not set: if the number of rounds is limited, stop '
        'when no training run is active in the folder or starts there within 60 seconds, except between rounds; '
        'otherwise wait forever.',
        range='[0, inf)',
    )


def _metrics_meaning() -> str:
    further = ', '.join(name for name in METRICS.names() if name != CONFUSION_MATRIX)
    return (
        'Comma-separated names of metrics to compute in addition to mean IoU, the IoU of each class and accuracies: '
        f'{further}; {ALL_METRICS}: every metric that the data set allows. Not set: none.'
    )


@dataclasses.dataclass(frozen=True)
class EvalOptions(OptionsWithSettings, registries=(METRICS,)):
    """Options of `deeplab eval`.

    `settings` has the parameters of all metrics.

    Attributes:
      further_checkpoint_dirs: more of them; the newest checkpoint of each is then evaluated once, without waiting.
      network: options of the networks of several checkpoints that take precedence over their run.json, by
        'Class.field'; of one network, the parameters of tasks that take precedence over the settings of an export, also
        if they are defaults, which `model` does not keep.
      fits_crop_size: whether the crop size is replaced by the smallest one into which every image fits, if an image is
        larger; it is so too if the crop size is not set.
      windows: sizes of the windows in which large images are predicted; None for no windows. Images are then padded to
        the crop size only if it is set and `fits_crop_size` is not.
      max_images: number of images to evaluate, from the first; None for all.
    """

    model: ModelOptions
    dataset: DatasetOptions
    checkpoint_dir: LocalPath = declared(
        meaning=f'{_CHECKPOINT_DIR} Repeat the flag to compare several, each evaluated once.'
    )
    eval_logdir: LocalPath = declared(meaning='Folder for the metrics: metrics-STEP.json and TensorBoard summaries.')
    resize: ResizeOptions = ResizeOptions()
    prediction: PredictionOptions = PredictionOptions()
    wait: WaitOptions = WaitOptions()
    batch_size: int = declared(1, 'Images per batch.', flag='eval_batch_size', range='(0, inf)')
    master: str = declared('', 'Address of the TensorFlow server to compute on; empty: this process.')
    use_moving_average: bool | None = declared(None, USE_MOVING_AVERAGE)
    metrics: tuple[str, ...] = declared((), _metrics_meaning)
    further_checkpoint_dirs: tuple[str, ...] = ()
    ensemble: bool = declared(False, ENSEMBLE)
    all_checkpoints: bool = declared(
        False,
        'Evaluate every checkpoint of the folder once, by step, instead of waiting for new ones.',
    )
    fits_crop_size: bool = False
    settings: Settings = ()
    engine: EngineOptions = EngineOptions()
    windows: WindowOptions | None = None
    max_images: int | None = None
    part: PartOptions = PartOptions()
    network: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        several = self.all_checkpoints or bool(self.further_checkpoint_dirs)
        self.part._require(self.part.part is None or not several, 'part', 'parts are of one checkpoint at a time')
        if self.ensemble:
            rule = 'an ensemble is evaluated once, in this process. Omit it, or {}'
            for name in ('all_checkpoints', 'master'):
                self._require(not getattr(self, name), name, rule.format(option('EvalOptions.ensemble')))
            self.part._require(self.part.part is None, 'part', rule.format(option('EvalOptions.ensemble')))
        _check_engine('EvalOptions.master', self.master, self.engine, self.windows)
        for name in self.metrics:
            check_allowed(name, 'EvalOptions.metrics', name, choices=(*METRICS.names(), ALL_METRICS))
        require_applicable(self, METRICS, self._chosen_metrics)

    @property
    def takes_all_metrics(self) -> bool:
        """Whether 'all' is one of the names in `metrics`."""
        return ALL_METRICS in self.metrics

    @property
    def _chosen_metrics(self) -> tuple[str, ...]:
        """The names in `metrics`; for 'all', the names of all further metrics."""
        if not self.takes_all_metrics:
            return self.metrics
        return tuple(name for name in METRICS.names() if name != CONFUSION_MATRIX)

    @property
    def metric_parameters(self) -> dict[str, dict[str, Any]]:
        """Values of the parameters of each metric in `metrics`, by its name and theirs."""
        return {name: self.settings_of(METRICS.get(name)) for name in self._chosen_metrics}


@dataclasses.dataclass(frozen=True)
class VisOptions(Options):
    """Options of `deeplab vis`.

    Attributes:
      windows: sizes of the windows in which large images are predicted; None for no windows. Images are then padded to
        the crop size only if it is set.
      uses_eval_ids: whether raw predictions have the `eval_ids` of the data set, if it has any, instead of class ids.
      network: see `EvalOptions`.
    """

    model: ModelOptions
    dataset: DatasetOptions
    checkpoint_dir: LocalPath = declared(meaning=_CHECKPOINT_DIR)
    vis_logdir: LocalPath = declared(meaning='Folder for the images.')
    resize: ResizeOptions = ResizeOptions()
    prediction: PredictionOptions = PredictionOptions()
    wait: WaitOptions = WaitOptions()
    batch_size: int = declared(1, 'Images per batch.', flag='vis_batch_size', range='(0, inf)')
    colormap_type: str | None = declared(
        None,
        'Color map of the classes. If not given, the colors of the data set are used.',
        choices=('pascal', 'cityscapes', 'ade20k'),
        flag_default='pascal',
    )
    also_save_raw_predictions: bool = declared(False, 'Also write the class ids, as grayscale PNG files.')
    master: str = declared('', 'Address of the TensorFlow server to compute on; empty: this process.')
    use_moving_average: bool | None = declared(None, USE_MOVING_AVERAGE)
    engine: EngineOptions = EngineOptions()
    save: tuple[str, ...] = declared(
        (),
        lambda: (
            'Comma-separated kinds of additional pictures of each image: overlay (colors over the image), contours '
            '(outlines of the segments on the image), confidence (probability of the class, grayscale), errors (wrong '
            'pixels; needs masks), legend (names and colors of the classes, in all images and in each); for networks '
            f'of other tasks: {", ".join(TASKS.all_files())} (see docs/predict.md). Not set: none, or overlay and all '
            'kinds of these tasks.'
        ),
    )
    overlay_alpha: float = declared(0.5, OVERLAY_ALPHA, range='[0, 1]')
    submission: str | None = declared(
        None,
        'Also write the archive that this evaluation server expects: voc (PASCAL VOC 2012, .tar.gz) or cityscapes '
        '(.zip). It is checked before it is put in place. Not set: none.',
        choices=SUBMISSIONS,
    )
    windows: WindowOptions | None = None
    part: PartOptions = PartOptions()
    network: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    uses_eval_ids: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        needs_all = self.submission is not None or 'legend' in self.save
        self.part._require(
            self.part.part is None or not needs_all,
            'part',
            f'{option("VisOptions.submission")} and {option("VisOptions.save", "legend")} are made of all images; omit '
            'them, or visualize all images at once',
        )
        _check_engine('VisOptions.master', self.master, self.engine, self.windows)
        for kind in self.save:
            check_allowed(kind, 'VisOptions.save', kind, choices=(*VIS_SAVED, *TASKS.all_files()))
        has_one_bound = (self.resize.min_value is None) != (self.resize.max_value is None)
        self._require(
            self.submission is None or not has_one_bound,
            'submission',
            'predictions must have the sizes of the images, so set both bounds of the resizing '
            f'({option("ResizeOptions.min_value")}, {option("ResizeOptions.max_value")}) or neither',
        )

    @property
    def needs_labels(self) -> bool:
        """Whether each image must have a mask."""
        return 'errors' in self.save
