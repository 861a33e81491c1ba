"""Options of the smaller programs: presets, networks, checkpoint, demo."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from deeplab import common
from deeplab.options.inference import PredictionOptions
from deeplab.options.network import ModelOptions
from deeplab.options.rules import require, require_positive, require_seed
from deeplab.options.training import RestoreOptions


@dataclasses.dataclass(frozen=True)
class PresetsOptions:
    """All that `deeplab presets` needs to know.

    Attributes:
      name: the preset to show; None for a list of all.
      json: whether to answer in JSON.
    """

    name: str | None = None
    json: bool = False


@dataclasses.dataclass(frozen=True)
class NetworksOptions:
    """All that `deeplab networks` needs to know.

    Attributes:
      model: head, decoder, classes and crop of the networks; the variant and the output stride as well where the next
        two are None.
      variants: backbones to show; None for all.
      output_strides: output strides to count at.
      prediction: scales and flips of each image.
      json: whether to answer in JSON.
    """

    model: ModelOptions
    variants: tuple[str, ...] | None = None
    output_strides: tuple[int, ...] = (16, 8)
    prediction: PredictionOptions = PredictionOptions()
    json: bool = False

    def __post_init__(self) -> None:
        require(
            self.model.crop_size is not None,
            'ModelOptions.crop_size',
            None,
            'multiply-adds are counted for a crop size, such as 513,513',
        )


@dataclasses.dataclass(frozen=True)
class CheckpointOptions:
    """All that `deeplab checkpoint` needs to know.

    Attributes:
      file: a checkpoint, one of its files, or a folder with checkpoints.
      against: the network to compare it with; None for none.
      takes_classes: whether that network has as many classes as the checkpoint, whatever `against` says.
      initialize_last_layer: whether training would take what is behind the backbone, too.
      last_layer_scopes: scopes of that.
      restore: what else training would leave out, and the checkpoint's names in the network.
      presets: networks of the published checkpoints, by name.
      list_variables: whether each variable is listed.
      json: whether to answer in JSON.
    """

    file: str
    against: ModelOptions | None = None
    takes_classes: bool = True
    initialize_last_layer: bool = True
    last_layer_scopes: tuple[str, ...] = common.LAST_LAYER_SCOPES
    restore: RestoreOptions = RestoreOptions()
    presets: Mapping[str, ModelOptions] = dataclasses.field(default_factory=dict)
    list_variables: bool = True
    json: bool = False


@dataclasses.dataclass(frozen=True)
class DemoOptions:
    """All that `deeplab demo` needs to know.

    Attributes:
      workdir: folder that gets everything that the demo makes.
      steps: training steps; None for the demo's own number.
      seed: where the scenes and the training start from.
    """

    workdir: str = './deeplab_demo'
    steps: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.steps is not None:
            require_positive('DemoOptions.steps', self.steps)
        require_seed('DemoOptions.seed', self.seed, least=0)
