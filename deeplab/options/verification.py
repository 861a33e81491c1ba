"""Options of the comparison of a checkpoint with published figures."""

from __future__ import annotations

import dataclasses

from deeplab.errors import OptionError
from deeplab.options.data import DatasetOptions, ResizeOptions
from deeplab.options.fields import Options, declared
from deeplab.options.inference import PredictionOptions
from deeplab.options.network import ModelOptions
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
class VerifyOptions(Options):
    """Options of `deeplab verify`.

    Attributes:
      cases: the published evaluations.
      dataset: the split to evaluate on.
      preset: name of the published checkpoint; None for another one.
      fetch: where it is downloaded from, and kept.
      fits_crop_size: whether a crop size that is too small for an image becomes the smallest that fits all.
      other_predictions: scales and flips of other published evaluations, to try.
    """

    cases: tuple[VerifyCase, ...]
    dataset: DatasetOptions
    preset: str | None = None
    checkpoint_dir: str | None = declared(
        None,
        'Folder of the checkpoint, or the checkpoint. Not set: the checkpoint of {PredictOptions.preset} is '
        'downloaded.',
        is_path=True,
    )
    fetch: FetchOptions = FetchOptions()
    verify_logdir: str = declared('./deeplab_verify', 'Folder for the results, as JSON.', is_path=True)
    tolerance: float = declared(
        0.1,
        'Largest difference of the mean IoU, in percentage points, with which a figure counts as reproduced.',
        range='[0, inf)',
    )
    diagnosis_images: int = declared(
        50,
        'Number of images on which other settings are tried if a figure is not reproduced; 0: none are tried.',
        range='[0, inf)',
    )
    batch_size: int = declared(1, 'Images per batch.', flag='eval_batch_size', range='(0, inf)')
    fits_crop_size: bool = False
    other_predictions: tuple[PredictionOptions, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.preset is None and self.checkpoint_dir is None:
            raise OptionError(
                f'{option("VerifyOptions.preset")} and {option("VerifyOptions.checkpoint_dir")} are not set. Give at '
                'least one of them: a published checkpoint, or the checkpoint to verify.'
            )
