"""Options of predictions for single images: `Predictor`, `deeplab predict`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from deeplab.errors import OptionError
from deeplab.options.data import ResizeOptions
from deeplab.options.inference import EngineOptions, PredictionOptions
from deeplab.options.rules import check_size, require, require_choice, require_not_negative, require_positive
from deeplab.options.tools import FetchOptions
from deeplab.wording import option

_CHECKPOINT_DIR, _EXPORT_PATH = 'PredictOptions.checkpoint_dir', 'PredictOptions.export_path'

SAVED = ('mask', 'color', 'overlay', 'confidence', 'probabilities')


@dataclasses.dataclass(frozen=True)
class PredictorOptions:
    """How images are predicted.

    Attributes:
      dataset: data set whose names and colors the classes have; None for that of the training, if it is known.
      classes: names or numbers of the classes that are kept; empty for all.
      crop_size: height and width to which every image is padded; None for the next `output_stride * k + 1`.
      window: height and width of the tiles of a large image; None for `crop_size`, or 513 by 513.
      window_stride: vertical and horizontal distance of the tiles; None for three quarters of the window.
      whole_pixels: largest number of pixels of an image that is predicted without tiles, even if it is larger than a
        window; None for 4,194,304, or 0 if a window is given.
      batch_size: images of the same size, or tiles, that are predicted at a time.
      use_moving_average: whether the moving averages (EMA) of the weights are used instead of the weights.
      probabilities: whether predictions have probabilities from the beginning; otherwise, they are computed when they
        are first read.
      resize: resizing of images before the network; None for that of the training.
      prediction: scales and flips that are averaged.
      execution: engine and precision.
    """

    dataset: str | None = None
    classes: tuple[str, ...] = ()
    crop_size: tuple[int, int] | None = None
    window: tuple[int, int] | None = None
    window_stride: tuple[int, int] | None = None
    whole_pixels: int | None = None
    batch_size: int = 1
    use_moving_average: bool = False
    probabilities: bool = False
    resize: ResizeOptions | None = None
    prediction: PredictionOptions = PredictionOptions()
    execution: EngineOptions = EngineOptions()

    def __post_init__(self) -> None:
        require(not isinstance(self.classes, str), 'PredictorOptions.classes', self.classes, 'give a tuple of names')
        check_size('PredictorOptions.crop_size', self.crop_size)
        check_size('PredictorOptions.window', self.window)
        check_size('PredictorOptions.window_stride', self.window_stride)
        require_positive('PredictorOptions.batch_size', self.batch_size)
        if self.whole_pixels is not None:
            require_not_negative('PredictorOptions.whole_pixels', self.whole_pixels)
        if self.window is not None and self.window_stride is not None:
            require(
                all(step <= side for step, side in zip(self.window_stride, self.window, strict=True)),
                'PredictorOptions.window_stride',
                self.window_stride,
                f'windows would leave gaps; give at most {option("PredictorOptions.window", self.window)}',
            )


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
        if self.checkpoint_dir is not None and self.export_path is not None:
            raise OptionError(f'Give either {option(_CHECKPOINT_DIR)} or {option(_EXPORT_PATH)}, not both.')
        if self.checkpoint_dir is None and self.export_path is None and self.preset is None:
            raise OptionError(
                f'There is no network to predict with. Set {option(_CHECKPOINT_DIR)}, {option(_EXPORT_PATH)} or '
                f'{option("PredictOptions.preset")}.'
            )
