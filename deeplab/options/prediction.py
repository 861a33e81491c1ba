"""Options of predictions for single images: `Predictor`, `deeplab predict`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from deeplab.errors import OptionError
from deeplab.options.data import ResizeOptions
from deeplab.options.inference import EngineOptions, PredictionOptions, WindowOptions
from deeplab.options.rules import check_size, require, require_choice, require_positive
from deeplab.options.tools import FetchOptions
from deeplab.wording import option

_CHECKPOINT_DIR, _EXPORT_PATH = 'PredictOptions.checkpoint_dir', 'PredictOptions.export_path'
_PRESET = 'PredictOptions.preset'

LEGENDS = ('present', 'all')
SAVED = ('mask', 'color', 'overlay', 'confidence', 'probabilities')


@dataclasses.dataclass(frozen=True)
class PredictorOptions:
    """How images are predicted.

    Attributes:
      dataset: data set whose names and colors the classes have; None for that of the training, if it is known.
      classes: names or numbers of the classes that are kept; empty for all.
      crop_size: height and width to which every image is padded; None for the next `output_stride * k + 1`.
      batch_size: images of the same size, or windows, that are predicted at a time.
      use_moving_average: whether the moving averages (EMA) of the weights are used instead of the weights; None to use
        them if the run.json of the training names their decay (`inference/run_weights.py`).
      probabilities: whether predictions have probabilities from the beginning; otherwise, they are computed when they
        are first read.
      resize: resizing of images before the network; None for that of the training.
      prediction: scales and flips that are averaged.
      execution: engine and precision.
      windows: sizes of the windows in which large images are predicted.
    """

    dataset: str | None = None
    classes: tuple[str, ...] = ()
    crop_size: tuple[int, int] | None = None
    batch_size: int = 1
    use_moving_average: bool | None = None
    probabilities: bool = False
    resize: ResizeOptions | None = None
    prediction: PredictionOptions = PredictionOptions()
    execution: EngineOptions = EngineOptions()
    windows: WindowOptions = WindowOptions()

    def __post_init__(self) -> None:
        require(not isinstance(self.classes, str), 'PredictorOptions.classes', self.classes, 'give a tuple of names')
        check_size('PredictorOptions.crop_size', self.crop_size)
        require_positive('PredictorOptions.batch_size', self.batch_size)


@dataclasses.dataclass(frozen=True)
class PredictOptions:
    """Options of `deeplab predict`.

    Attributes:
      inputs: image files, folders, patterns, lists (.txt) and videos.
      output_dir: folder for the results.
      checkpoint_dir: a checkpoint, or a folder of checkpoints; None for another source.
      export_path: an exported network: a frozen graph or a SavedModel; None for another source.
      preset: name of a published checkpoint, which is downloaded; None for another source.
      save: what is written for each image, of `SAVED`.
      overlay_alpha: opacity of the colors over the image, 0 to 1.
      overlay_legend: classes in a legend beside overlays, of `LEGENDS`: those that an image shows, with their shares,
        or all; None for no legend.
      overwrite: whether files that predict has not written may be replaced.
      predictor: how images are predicted.
      network: options of the network that take precedence over those of the source, by 'Class.field'.
      fetch: where a published checkpoint comes from.
    """

    inputs: tuple[str, ...]
    output_dir: str = 'predictions'
    checkpoint_dir: str | None = None
    export_path: str | None = None
    preset: str | None = None
    save: tuple[str, ...] = ('mask', 'overlay')
    overlay_alpha: float = 0.5
    overlay_legend: str | None = None
    overwrite: bool = False
    predictor: PredictorOptions = PredictorOptions()
    network: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    fetch: FetchOptions = FetchOptions()

    def __post_init__(self) -> None:
        require(bool(self.save), 'PredictOptions.save', self.save, f'name some of {", ".join(SAVED)}')
        for kind in self.save:
            require_choice('PredictOptions.save', kind, SAVED)
        good = 0 <= self.overlay_alpha <= 1
        require(good, 'PredictOptions.overlay_alpha', self.overlay_alpha, 'it must be in the range 0 to 1')
        if self.overlay_legend is not None:
            require_choice('PredictOptions.overlay_legend', self.overlay_legend, LEGENDS)
        for field, value in ((_CHECKPOINT_DIR, self.checkpoint_dir), (_PRESET, self.preset)):
            if value is not None and self.export_path is not None:
                raise OptionError(f'Give either {option(field)} or {option(_EXPORT_PATH)}, not both.')
        if self.checkpoint_dir is None and self.export_path is None and self.preset is None:
            raise OptionError(
                f'There is no network to predict with. Set {option(_CHECKPOINT_DIR)}, {option(_EXPORT_PATH)} or '
                f'{option(_PRESET)}.'
            )
