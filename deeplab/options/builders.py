"""Options of the programs that write records and masks."""

from __future__ import annotations

import dataclasses

from deeplab.options.data import IMAGE_FORMATS, LABEL_FORMATS
from deeplab.options.rules import require, require_choice, require_positive


def _check_builder(options: BuildVocOptions | BuildCityscapesOptions | BuildAde20kOptions) -> None:
    """Checks what the options of all builders share."""
    require_choice('image_format', options.image_format, IMAGE_FORMATS)
    require_choice('label_format', options.label_format, LABEL_FORMATS)
    for flag in ('num_shards', 'num_workers', 'num_classes'):
        if (value := getattr(options, flag)) is not None:
            require_positive(flag, value)
    require(0 <= options.ignore_label <= 255, 'ignore_label', options.ignore_label, 'it must be from 0 to 255')


@dataclasses.dataclass(frozen=True)
class BuildVocOptions:
    """All that `deeplab build_voc2012_data` needs to know.

    Attributes:
      image_folder: folder of the images.
      semantic_segmentation_folder: folder of the masks.
      list_folder: folder of one SPLIT.txt for each split, a name without extension a line.
      image_format: extension of the images: jpg, jpeg, png or npy.
      label_format: extension of the masks.
      output_dir: folder that gets the shards.
      num_shards: shards of each split; None for 4.
      num_workers: threads that read and check files; None for one a core.
      num_classes: masks may hold the ids 0 to num_classes - 1 and ignore_label; None to allow every id.
      ignore_label: id of pixels that count nowhere.
      seed: builders all take one; the order here is the list's and needs none.
    """

    image_folder: str = './VOCdevkit/VOC2012/JPEGImages'
    semantic_segmentation_folder: str = './VOCdevkit/VOC2012/SegmentationClassRaw'
    list_folder: str = './VOCdevkit/VOC2012/ImageSets/Segmentation'
    image_format: str = 'png'
    label_format: str = 'png'
    output_dir: str = './tfrecord'
    num_shards: int | None = None
    num_workers: int | None = None
    num_classes: int | None = None
    ignore_label: int = 255
    seed: int = 0

    def __post_init__(self) -> None:
        _check_builder(self)


@dataclasses.dataclass(frozen=True)
class BuildCityscapesOptions:
    """All that `deeplab build_cityscapes_data` needs to know.

    Attributes:
      cityscapes_root: folder that holds leftImg8bit and gtFine.
      image_format: extension of the images: jpg, jpeg, png or npy.
      label_format: extension of the masks.
      output_dir: folder that gets the shards.
      num_shards: shards of each split; None for 10.
      num_workers: threads that read and check files; None for one a core.
      num_classes: masks may hold the ids 0 to num_classes - 1 and ignore_label; None to allow every id.
      ignore_label: id of pixels that count nowhere.
      seed: builders all take one; the order here is by name and needs none.
    """

    cityscapes_root: str = './cityscapes'
    image_format: str = 'png'
    label_format: str = 'png'
    output_dir: str = './tfrecord'
    num_shards: int | None = None
    num_workers: int | None = None
    num_classes: int | None = None
    ignore_label: int = 255
    seed: int = 0

    def __post_init__(self) -> None:
        _check_builder(self)


@dataclasses.dataclass(frozen=True)
class BuildAde20kOptions:
    """All that `deeplab build_ade20k_data` needs to know.

    Attributes:
      train_image_folder: folder of the training images.
      train_image_label_folder: folder of their masks.
      val_image_folder: folder of the validation images.
      val_image_label_folder: folder of their masks.
      image_format: extension of the images: jpg, jpeg, png or npy.
      label_format: extension of the masks.
      output_dir: folder that gets the shards.
      num_shards: shards of each split; None for 4.
      num_workers: threads that read and check files; None for one a core.
      num_classes: masks may hold the ids 0 to num_classes - 1 and ignore_label; None to allow every id.
      ignore_label: id of pixels that count nowhere.
      seed: where the shuffled order of the images starts from.
    """

    train_image_folder: str = './ADE20K/ADEChallengeData2016/images/training'
    train_image_label_folder: str = './ADE20K/ADEChallengeData2016/annotations/training'
    val_image_folder: str = './ADE20K/ADEChallengeData2016/images/validation'
    val_image_label_folder: str = './ADE20K/ADEChallengeData2016/annotations/validation'
    image_format: str = 'png'
    label_format: str = 'png'
    output_dir: str = './ADE20K/tfrecord'
    num_shards: int | None = None
    num_workers: int | None = None
    num_classes: int | None = None
    ignore_label: int = 255
    seed: int = 0

    def __post_init__(self) -> None:
        _check_builder(self)


@dataclasses.dataclass(frozen=True)
class RemoveColormapOptions:
    """All that `deeplab remove_gt_colormap` needs to know.

    Attributes:
      original_gt_folder: folder of palette PNGs.
      segmentation_format: their extension.
      output_dir: folder that gets single-channel PNGs of the same names, which hold the ids.
      num_workers: threads that convert files; None for one a core.
    """

    original_gt_folder: str = './VOCdevkit/VOC2012/SegmentationClass'
    segmentation_format: str = 'png'
    output_dir: str = './VOCdevkit/VOC2012/SegmentationClassRaw'
    num_workers: int | None = None

    def __post_init__(self) -> None:
        if self.num_workers is not None:
            require_positive('num_workers', self.num_workers)
