"""Options of evaluation, visualization and export."""

from __future__ import annotations

import dataclasses

from deeplab.options.data import IMAGE_BITS, DatasetOptions, ResizeOptions
from deeplab.options.network import ModelOptions
from deeplab.options.rules import require, require_choice, require_not_negative, require_positive

COLORMAP_TYPES = ('pascal', 'cityscapes', 'ade20k')
EXPORT_FORMATS = ('frozen_graph', 'saved_model')


@dataclasses.dataclass(frozen=True)
class PredictionOptions:
    """Scales and flips that are averaged when labels are predicted.

    Attributes:
      scales: factors on the images' size.
      add_flipped_images: whether each scale sees the mirrored images too.
    """

    scales: tuple[float, ...] = (1.0,)
    add_flipped_images: bool = False

    def __post_init__(self) -> None:
        good = bool(self.scales) and all(0 < scale < float('inf') for scale in self.scales)
        require(good, 'PredictionOptions.scales', self.scales, 'give at least one scale, each greater than 0')

    @property
    def is_single_scale(self) -> bool:
        """Whether the network sees each image once; flipping then does nothing (contract, section 6)."""
        return tuple(self.scales) == (1.0,)


@dataclasses.dataclass(frozen=True)
class WaitOptions:
    """How eval and vis wait for checkpoints.

    Attributes:
      interval_secs: least time between the starts of two rounds, in seconds.
      max_rounds: rounds after which the program ends; None for never.
      timeout_secs: how long to wait for a (new) checkpoint before giving up, in seconds; None for ever.
    """

    interval_secs: float = 300
    max_rounds: int | None = None
    timeout_secs: float | None = None

    def __post_init__(self) -> None:
        require_not_negative('WaitOptions.interval_secs', self.interval_secs)
        require_not_negative('WaitOptions.timeout_secs', self.timeout_secs or 0)


@dataclasses.dataclass(frozen=True)
class EvalOptions:
    """All that `deeplab eval` needs to know."""

    model: ModelOptions
    dataset: DatasetOptions
    checkpoint_dir: str
    eval_logdir: str
    resize: ResizeOptions = ResizeOptions()
    prediction: PredictionOptions = PredictionOptions()
    wait: WaitOptions = WaitOptions()
    batch_size: int = 1
    master: str = ''
    use_moving_average: bool = False

    def __post_init__(self) -> None:
        require_positive('EvalOptions.batch_size', self.batch_size)


@dataclasses.dataclass(frozen=True)
class VisOptions:
    """All that `deeplab vis` needs to know."""

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
    use_moving_average: bool = False

    def __post_init__(self) -> None:
        require_positive('VisOptions.batch_size', self.batch_size)
        if self.colormap_type is not None:
            require_choice('VisOptions.colormap_type', self.colormap_type, COLORMAP_TYPES)


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """All that `deeplab export_model` needs to know.

    Attributes:
      model: the network; its crop size is the largest image that the export takes.
      checkpoint_path: a checkpoint, or a folder whose newest whole one is taken.
      export_path: file of the frozen graph, or folder of the SavedModel.
      resize: how an image is resized before the network sees it; predictions come at its own size.
      prediction: scales and flips that are averaged.
      export_format: 'frozen_graph' or 'saved_model'.
      save_inference_graph: whether the graph with variables is written too, as text.
      use_moving_average: whether the weights' moving averages take their place.
      image_bits: 8 for images of uint8, 16 for uint16, as the data set of training has them.
    """

    model: ModelOptions
    checkpoint_path: str
    export_path: str
    resize: ResizeOptions = ResizeOptions()
    prediction: PredictionOptions = PredictionOptions()
    export_format: str = 'frozen_graph'
    save_inference_graph: bool = False
    use_moving_average: bool = False
    image_bits: int = 8

    def __post_init__(self) -> None:
        require_choice('ExportOptions.export_format', self.export_format, EXPORT_FORMATS)
        require(self.image_bits in IMAGE_BITS, 'ExportOptions.image_bits', self.image_bits, 'it must be 8 or 16')
        require(
            self.model.crop_size is not None,
            'ModelOptions.crop_size',
            None,
            'an export needs height and width, such as 513,513',
        )
