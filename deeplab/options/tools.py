"""Options of the smaller programs: data sets, presets, download, networks, checkpoint, demo."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from deeplab import common
from deeplab.options.inference import PredictionOptions
from deeplab.options.network import ModelOptions
from deeplab.options.rules import require, require_positive, require_seed
from deeplab.options.training import RestoreOptions


@dataclasses.dataclass(frozen=True)
class ListDatasetsOptions:
    """Options of `deeplab datasets`.

    Attributes:
      directory: folder to look into; None for the data sets that are known by name.
      index: whether to write an index of the records in the folder, and their digests to their description.
      json: whether to print JSON.
    """

    directory: str | None = None
    index: bool = False
    json: bool = False


@dataclasses.dataclass(frozen=True)
class PresetsOptions:
    """Options of `deeplab presets`.

    Attributes:
      name: the preset to show; None for a list of all.
      json: whether to print JSON.
    """

    name: str | None = None
    json: bool = False


@dataclasses.dataclass(frozen=True)
class FetchOptions:
    """Where published checkpoints come from, and where they are kept.

    Attributes:
      mirror: address of the folder on a server (http or https) that holds the archives; None for the environment
        variable DEEPLAB_MIRROR, or else the server that they were published on.
      cache_dir: folder that keeps what was downloaded; None for the environment variable DEEPLAB_CACHE, or else
        `deeplab` in the user's cache folder (XDG_CACHE_HOME, ~/.cache).
    """

    mirror: str | None = None
    cache_dir: str | None = None


@dataclasses.dataclass(frozen=True)
class DownloadOptions:
    """Options of `deeplab download`.

    Attributes:
      name: the published checkpoint or data set to download; None for a list of all.
      output_dir: folder for the records of a data set; None for the folder tfrecord in that of its files.
      fetch: where it comes from, and where it is kept.
      dry_run: whether only to say what would be done.
    """

    name: str | None = None
    fetch: FetchOptions = FetchOptions()
    dry_run: bool = False
    output_dir: str | None = None


@dataclasses.dataclass(frozen=True)
class NetworksOptions:
    """Options of `deeplab networks`.

    Attributes:
      model: head, decoder, classes and crop size of the networks.
      variants: backbones to list; None for all.
      output_strides: output strides for which multiply-adds are counted.
      prediction: scales and flips of each image.
      json: whether to print JSON.
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
    """Options of `deeplab checkpoint`.

    Attributes:
      file: a checkpoint, one of its files, or a folder with checkpoints.
      against: the network to compare it with; None for none.
      takes_classes: whether that network has the number of classes of the checkpoint instead of its own.
      initialize_last_layer: whether training would restore the last layers, too.
      last_layer_scopes: scopes of the last layers.
      restore: other variables that training would not restore, and the map of variable names.
      presets: networks of the published checkpoints, by name.
      list_variables: whether to list each variable.
      json: whether to print JSON.
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
    """Options of `deeplab demo`.

    Attributes:
      workdir: folder for all files of the demo.
      steps: number of training steps; None for the usual number of the demo.
      seed: seed of the scenes and of the training.
    """

    workdir: str = './deeplab_demo'
    steps: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.steps is not None:
            require_positive('DemoOptions.steps', self.steps)
        require_seed('DemoOptions.seed', self.seed, least=0)
