"""Options of smaller programs: data sets, presets, download, networks, checkpoint, verify, demo, eval_coco_format."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from deeplab import common
from deeplab.errors import OptionError
from deeplab.options.data import DatasetOptions, ResizeOptions
from deeplab.options.fields import LocalPath, Options, PathText, declared
from deeplab.options.inference import PredictionOptions
from deeplab.options.network import ModelOptions
from deeplab.options.rules import require_seed
from deeplab.options.training import RestoreOptions
from deeplab.registry.tasks import SEMANTIC
from deeplab.wording import option


@dataclasses.dataclass(frozen=True)
class ListDatasetsOptions(Options):
    """Options of `deeplab datasets`."""

    directory: PathText | None = declared(
        None,
        'Folder of records, or with a description of images and masks, or with such folders; {directory}= may be '
        'omitted. Not set: the data sets that are known by name.',
    )
    index: bool = declared(
        False,
        'Write an index beside the shards in {directory}, so that large splits open at once, and add the digests of '
        'the records to their description.',
    )
    json: bool = declared(False, 'Print JSON.')


@dataclasses.dataclass(frozen=True)
class PresetsOptions(Options):
    """Options of `deeplab presets`."""

    name: str | None = declared(None, 'The preset to show; {name}= may be omitted. Not set: all.')
    json: bool = declared(False, 'Print JSON.')


@dataclasses.dataclass(frozen=True)
class FetchOptions(Options):
    """Download server and cache folder of published checkpoints."""

    mirror: str | None = declared(
        None,
        'URL of a folder with the archives to download (http or https). Not set: DEEPLAB_MIRROR, or else the server '
        'that they were published on.',
    )
    cache_dir: LocalPath | None = declared(
        None, 'Folder for downloads. Not set: DEEPLAB_CACHE, or else deeplab in XDG_CACHE_HOME or ~/.cache.'
    )


@dataclasses.dataclass(frozen=True)
class DownloadOptions(Options):
    """Options of `deeplab download`."""

    name: str | None = declared(
        None,
        'Preset of the checkpoint, or data set (voc2012, ade20k, camvid, cityscapes); {name}= may be omitted. Not '
        'set: a list of all.',
    )
    fetch: FetchOptions = FetchOptions()
    dry_run: bool = declared(False, 'Only show what would be downloaded, and where to.')
    output_dir: LocalPath | None = declared(
        None,
        'Folder for the records of a data set; checkpoints go to {FetchOptions.cache_dir}. Not set: tfrecord beside '
        'its files in the cache.',
    )


@dataclasses.dataclass(frozen=True)
class ConvertDataOptions(Options):
    """Options of `deeplab download_and_convert_data`."""

    dataset_name: str = declared(
        meaning='Data set for image classification.', choices=('flowers', 'cifar10', 'mnist', 'visualwakewords')
    )
    dataset_dir: LocalPath = declared(
        meaning='Folder for the records, labels.txt and dataset.yaml; archives that are already there are not '
        'downloaded.'
    )
    small_object_area_threshold: float = declared(
        0.005,
        'For visualwakewords: fraction of the area of an image below which an object is ignored.',
        range='[0, 1)',
    )
    foreground_class_of_interest: str = declared(
        'person', 'For visualwakewords: COCO category whose presence in an image is to be detected.'
    )
    fetch: FetchOptions = FetchOptions()


@dataclasses.dataclass(frozen=True)
class NetworksOptions(Options):
    """Options of `deeplab networks`.

    Attributes:
      model: head, decoder, classes and crop size of the networks.
    """

    model: ModelOptions
    variants: tuple[str, ...] | None = declared(
        None, 'Backbones to list. Not set: all.', with_flag_of='ModelOptions.model_variant'
    )
    output_strides: tuple[int, ...] = declared(
        (16, 8),
        'Output strides for which multiply-adds are computed.',
        with_flag_of='ModelOptions.output_stride',
    )
    prediction: PredictionOptions = PredictionOptions()
    json: bool = declared(False, 'Print JSON.')

    def __post_init__(self) -> None:
        super().__post_init__()
        needed = 'multiply-adds are counted for a crop size, such as 513,513'
        self.model._require(self.model.crop_size is not None, 'crop_size', needed)


@dataclasses.dataclass(frozen=True)
class CheckpointOptions(Options):
    """Options of `deeplab checkpoint`.

    Attributes:
      against: the network to compare it with; None for none.
      takes_classes: whether that network has the number of classes of the checkpoint instead of its own.
      last_layer_scopes: scopes of the last layers.
      restore: other variables that training would not restore, and the map of variable names.
      presets: networks of the published checkpoints, by name.
    """

    file: PathText = declared(
        meaning='A checkpoint, one of its files, or a folder (such as an unpacked archive), whose newest checkpoint '
        'is used; {file}= may be omitted.'
    )
    against: ModelOptions | None = None
    takes_classes: bool = True
    initialize_last_layer: bool = declared(
        True,
        'Also restore the last layers (all after the backbone) from the checkpoint. Set it to false if the classes '
        'differ.',
    )
    last_layer_scopes: tuple[str, ...] = common.LAST_LAYER_SCOPES
    restore: RestoreOptions = RestoreOptions()
    presets: Mapping[str, ModelOptions] = dataclasses.field(default_factory=dict)
    list_variables: bool = declared(True, 'List each variable with its shape.', flag='variables')
    json: bool = declared(False, 'Print JSON.')


@dataclasses.dataclass(frozen=True)
class VerifyCase:
    """One published evaluation, and the settings to repeat it with.

    Attributes:
      miou: the published mean IoU, in percent.
      model: the network, with output stride and crop size.
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
      preset: name of the published checkpoint; None for another one.
      fits_crop_size: whether a crop size that is too small for an image becomes the smallest that fits all.
      other_predictions: scales and flips of other published evaluations, to try.
    """

    cases: tuple[VerifyCase, ...]
    dataset: DatasetOptions
    preset: str | None = None
    checkpoint_dir: LocalPath | None = declared(
        None,
        'Folder of the checkpoint, or the checkpoint. Not set: the checkpoint of {PredictOptions.preset} is '
        'downloaded.',
    )
    fetch: FetchOptions = FetchOptions()
    verify_logdir: LocalPath = declared('./deeplab_verify', 'Folder for the results, as JSON.')
    tolerance: float = declared(
        0.1,
        'Largest difference in mean IoU, in percentage points, at which a figure counts as reproduced.',
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
                f'{option("VerifyOptions.preset")} and {option("VerifyOptions.checkpoint_dir")} are not set. Pass at '
                'least one of them: a published checkpoint, or the checkpoint to verify.'
            )


@dataclasses.dataclass(frozen=True)
class DemoOptions(Options):
    """Options of `deeplab demo`."""

    workdir: LocalPath = declared('./deeplab_demo', 'Folder for all files of the demo.')
    steps: int | None = declared(
        None,
        'Number of training steps. Not set: the usual number of the demo.',
        range='(0, inf)',
    )
    seed: int = declared(0, 'Seed of all random choices. Two runs with the same seed give the same result.')
    task: str = declared(
        SEMANTIC,
        'What the network of the demo predicts: classes, or classes and instances (panoptic). --task=NAME is the same.',
        choices=(SEMANTIC, 'panoptic'),
        flag='network_task',
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require_seed('DemoOptions.seed', self.seed, least=0)


@dataclasses.dataclass(frozen=True)
class CocoFormatOptions(Options):
    """Options of `deeplab eval_coco_format`."""

    gt_json_file: PathText = declared(meaning='JSON file of the ground truth, in the COCO panoptic format.')
    gt_folder: PathText = declared(meaning='Folder of the PNG files of the ground truth.')
    pred_json_file: PathText = declared(meaning='JSON file of the predictions, in the same format.')
    pred_folder: PathText = declared(meaning='Folder of the PNG files of the predictions.')
    metric: str = declared(
        'pq',
        'pq: panoptic quality, with segmentation and recognition quality; pc: parsing covering.',
        choices=('pq', 'pc'),
    )
    num_categories: int = declared(201, 'Number of categories: category ids must be less than this.', range='(0, inf)')
    ignored_label: int = declared(
        0,
        'Category that is not evaluated: its segments are treated as pixels without a segment.',
    )
    max_instances_per_category: int = declared(
        256,
        'Largest number of segments of one category in an image.',
        range='(0, inf)',
    )
    normalize_by_image_size: bool = declared(
        True,
        'For parsing covering: weight a segment by its fraction of the image; false: by its number of pixels.',
    )
    num_workers: int = declared(
        0,
        'Number of processes that read and compare images; 0: only this one, -1: one per core.',
        range='[-1, inf)',
    )
    print_digits: int = declared(
        3,
        'Decimal places of the fractions that are printed in percent: 3 prints 0.674 as 67.4.',
        range='[0, inf)',
    )
    results_json_file: LocalPath | None = declared(
        None, 'JSON file to write: all metrics, also per category. Not set: none.'
    )
