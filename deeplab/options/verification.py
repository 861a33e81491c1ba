"""Options of the comparison of a checkpoint with published figures."""

from __future__ import annotations

import dataclasses

from deeplab.errors import OptionError
from deeplab.options.data import DatasetOptions, ResizeOptions
from deeplab.options.inference import PredictionOptions
from deeplab.options.network import ModelOptions
from deeplab.options.rules import require_not_negative, require_positive
from deeplab.options.tools import FetchOptions
from deeplab.wording import option


@dataclasses.dataclass(frozen=True)
class VerifyCase:
    """One published evaluation, and the settings to repeat it with.

    Attributes:
      miou: the published mean IoU, in percent.
      model: the network, with output stride and crop size.
      resize: resizing of the images before the network.
      prediction: scales and flips that are averaged.
      as_published: the settings of the preset, if options override them.
      overrides: those options, as they are given.
    """

    miou: float
    model: ModelOptions
    resize: ResizeOptions = ResizeOptions()
    prediction: PredictionOptions = PredictionOptions()
    as_published: VerifyCase | None = None
    overrides: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class VerifyOptions:
    """Options of `deeplab verify`.

    Attributes:
      cases: the published evaluations.
      dataset: the split to evaluate on.
      preset: name of the published checkpoint; None for another one.
      checkpoint_dir: folder of the checkpoint, or the checkpoint; None to download that of the preset.
      fetch: where it is downloaded from, and kept.
      verify_logdir: folder for the results.
      tolerance: largest difference of the mean IoU, in percentage points, with which it counts as reproduced.
      diagnosis_images: number of images on which other settings are tried if a figure is not reproduced; 0 for none.
      batch_size: images per batch.
      fits_crop_size: whether a crop size that is too small for an image becomes the smallest that fits all.
      other_predictions: scales and flips of other published evaluations, to try.
    """

    cases: tuple[VerifyCase, ...]
    dataset: DatasetOptions
    preset: str | None = None
    checkpoint_dir: str | None = None
    fetch: FetchOptions = FetchOptions()
    verify_logdir: str = './deeplab_verify'
    tolerance: float = 0.1
    diagnosis_images: int = 50
    batch_size: int = 1
    fits_crop_size: bool = False
    other_predictions: tuple[PredictionOptions, ...] = ()

    def __post_init__(self) -> None:
        require_not_negative('VerifyOptions.tolerance', self.tolerance)
        require_not_negative('VerifyOptions.diagnosis_images', self.diagnosis_images)
        require_positive('VerifyOptions.batch_size', self.batch_size)
        if self.preset is None and self.checkpoint_dir is None:
            raise OptionError(
                f'{option("VerifyOptions.preset")} and {option("VerifyOptions.checkpoint_dir")} are not set. Give at '
                'least one of them: a published checkpoint, or the checkpoint to verify.'
            )
