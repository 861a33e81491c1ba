"""Options of the programs that write TFRecords and masks."""

from __future__ import annotations

import dataclasses

from deeplab.options.data import IMAGE_FORMATS, LABEL_FORMATS
from deeplab.options.rules import require, require_choice, require_positive


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuilderOptions:
    """Options that all builders share.

    Attributes:
      image_format: extension of the images: jpg, jpeg, png or npy.
      label_format: extension of the masks.
      output_dir: folder for the shards.
      num_shards: number of shards of each split; None for the usual number of the data set.
      num_workers: number of threads that read and check files; None for one per core.
      num_classes: masks may contain the ids 0 to num_classes - 1 and ignore_label; None to allow every id.
      ignore_label: id of the pixels that are excluded from loss and metrics.
      seed: seed of the order of the images, where a builder shuffles them.
    """

    image_format: str = 'png'
    label_format: str = 'png'
    output_dir: str = './tfrecord'
    num_shards: int | None = None
    num_workers: int | None = None
    num_classes: int | None = None
    ignore_label: int = 255
    seed: int = 0

    def __post_init__(self) -> None:
        require_choice('BuilderOptions.image_format', self.image_format, IMAGE_FORMATS)
        require_choice('BuilderOptions.label_format', self.label_format, LABEL_FORMATS)
        for name in ('num_shards', 'num_workers', 'num_classes'):
            if (value := getattr(self, name)) is not None:
                require_positive(f'BuilderOptions.{name}', value)
        require(
            0 <= self.ignore_label <= 255, 'BuilderOptions.ignore_label', self.ignore_label, 'it must be from 0 to 255'
        )


@dataclasses.dataclass(frozen=True)
class BuildVocOptions(BuilderOptions):
    """Options of `deeplab build_voc2012_data`. It keeps the order of the lists, whatever the seed.

    Attributes:
      image_folder: folder of the images.
      semantic_segmentation_folder: folder of the masks.
      list_folder: folder with a file SPLIT.txt for each split: one name without extension per line.
    """

    image_folder: str = './VOCdevkit/VOC2012/JPEGImages'
    semantic_segmentation_folder: str = './VOCdevkit/VOC2012/SegmentationClassRaw'
    list_folder: str = './VOCdevkit/VOC2012/ImageSets/Segmentation'


@dataclasses.dataclass(frozen=True)
class BuildCityscapesOptions(BuilderOptions):
    """Options of `deeplab build_cityscapes_data`. It sorts images by name, whatever the seed.

    Attributes:
      cityscapes_root: folder that contains leftImg8bit and gtFine.
    """

    cityscapes_root: str = './cityscapes'


@dataclasses.dataclass(frozen=True)
class BuildAde20kOptions(BuilderOptions):
    """Options of `deeplab build_ade20k_data`. It shuffles the images.

    Attributes:
      train_image_folder: folder of the training images.
      train_image_label_folder: folder of the training masks.
      val_image_folder: folder of the validation images.
      val_image_label_folder: folder of the validation masks.
    """

    train_image_folder: str = './ADE20K/ADEChallengeData2016/images/training'
    train_image_label_folder: str = './ADE20K/ADEChallengeData2016/annotations/training'
    val_image_folder: str = './ADE20K/ADEChallengeData2016/images/validation'
    val_image_label_folder: str = './ADE20K/ADEChallengeData2016/annotations/validation'
    output_dir: str = './ADE20K/tfrecord'


@dataclasses.dataclass(frozen=True)
class RemoveColormapOptions:
    """Options of `deeplab remove_gt_colormap`.

    Attributes:
      original_gt_folder: folder of the masks with a palette.
      segmentation_format: extension of the masks.
      output_dir: folder for the single-channel PNG files of class ids, which keep their names.
      num_workers: number of threads that convert files; None for one per core.
    """

    original_gt_folder: str = './VOCdevkit/VOC2012/SegmentationClass'
    segmentation_format: str = 'png'
    output_dir: str = './VOCdevkit/VOC2012/SegmentationClassRaw'
    num_workers: int | None = None

    def __post_init__(self) -> None:
        if self.num_workers is not None:
            require_positive('RemoveColormapOptions.num_workers', self.num_workers)
