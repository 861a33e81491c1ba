"""Options of the programs that write TFRecords and masks."""

from __future__ import annotations

import dataclasses
import re

from deeplab.errors import OptionError
from deeplab.options.data import IMAGE_FORMATS, LABEL_FORMATS
from deeplab.options.rules import require, require_choice, require_classes, require_positive
from deeplab.wording import option

CITYSCAPES_ANNOTATIONS = ('fine', 'coarse')
CAMVID_CLASSES = ('11', '32')
COCO_CLASSES = ('all', 'things', 'stuff')
COCO_MASKS = ('panoptic', 'instances')
COCO_STUFF_CLASSES = ('171', '182')
MAPILLARY_VERSIONS = ('v1.2', 'v2.0')
UNLABELED = ('background', 'ignore')


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
        if self.num_classes is not None:
            require_classes(option('BuilderOptions.num_classes', self.num_classes), self.num_classes)
        require(
            0 <= self.ignore_label <= 255, 'BuilderOptions.ignore_label', self.ignore_label, 'it must be from 0 to 255'
        )


@dataclasses.dataclass(frozen=True)
class BuildVocOptions(BuilderOptions):
    """Options of `deeplab build_voc2012_data`. It keeps the order of the lists, whatever the seed.

    Attributes:
      image_folder: folder of the images.
      semantic_segmentation_folder: folder of the masks.
      list_folder: folder with a file SPLIT.txt for each split: one name per line.
    """

    image_folder: str = './VOCdevkit/VOC2012/JPEGImages'
    semantic_segmentation_folder: str = './VOCdevkit/VOC2012/SegmentationClassRaw'
    list_folder: str = './VOCdevkit/VOC2012/ImageSets/Segmentation'


@dataclasses.dataclass(frozen=True)
class BuildCityscapesOptions(BuilderOptions):
    """Options of `deeplab build_cityscapes_data`. It sorts images by name, whatever the seed.

    Attributes:
      cityscapes_root: folder that contains leftImg8bit and gtFine or gtCoarse.
      annotations: fine or coarse.
    """

    cityscapes_root: str = './cityscapes'
    annotations: str = 'fine'

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice('BuildCityscapesOptions.annotations', self.annotations, CITYSCAPES_ANNOTATIONS)


@dataclasses.dataclass(frozen=True)
class BuildAde20kOptions(BuilderOptions):
    """Options of `deeplab build_ade20k_data`. It shuffles the images.

    Attributes:
      train_image_folder: folder of the training images.
      train_image_label_folder: folder of the training masks.
      val_image_folder: folder of the validation images.
      val_image_label_folder: folder of the validation masks.
      full_release_root: folder of the full release, from which the masks of the challenge are made instead; None for
        the folders above.
      class_map: file with the class of each object of the full release; None to go by the names of the objects.
    """

    train_image_folder: str = './ADE20K/ADEChallengeData2016/images/training'
    train_image_label_folder: str = './ADE20K/ADEChallengeData2016/annotations/training'
    val_image_folder: str = './ADE20K/ADEChallengeData2016/images/validation'
    val_image_label_folder: str = './ADE20K/ADEChallengeData2016/annotations/validation'
    output_dir: str = './ADE20K/tfrecord'
    full_release_root: str | None = None
    class_map: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.class_map is not None and self.full_release_root is None:
            needed = f'it needs {option("BuildAde20kOptions.full_release_root")}'
            require(False, 'BuildAde20kOptions.class_map', self.class_map, needed)


@dataclasses.dataclass(frozen=True)
class BuildFolderOptions(BuilderOptions):
    """Options of `deeplab build_folder_data`. It takes files of every known format, whatever the formats above.

    Attributes:
      image_folder: folder of the images, and of folders of them.
      mask_folder: folder of the masks, whose paths there, without extension, are those of the images.
      mask_suffix: what the stem of each mask has in addition to that of its image, such as '_mask'.
      list_folder: folder with a file SPLIT.txt for each split; None for no lists.
      val_fraction: share of the images in the split val; None for the folders train, val and test of the images if all
        images are in such folders, or else 0.1.
      group_pattern: regular expression that finds the group in the path of an image: its first group in parentheses,
        or else the match. Images of one group are in one split. None for a group for each image.
      allow_unmatched: whether to leave out images without a mask, and masks without an image.
      colors: file with the color of each class, for masks with colors; None for none.
      class_names: names of the classes, or one file that has one in each line; none for class_0, class_1, ..., or for
        those of the annotations.
      dataset: data set, as for `descriptor.load`, whose classes, names and colors to use; None for none.
      annotations: file or folder of annotations of a labeling tool, instead of a folder of masks; None for none. Images
        are found beside them or in image_folder.
      unlabeled: what pixels without an annotation become: the class 'background', or 'ignore' for ignore_label.
      label_map: 'LABEL=CLASS' for each label of the annotations that becomes another class, 'LABEL=ignore' to exclude
        its pixels, 'LABEL=' to leave out its shapes, '*=...' for all others; or one file that has one in each line.
    """

    image_folder: str = './images'
    mask_folder: str = './masks'
    mask_suffix: str = ''
    list_folder: str | None = None
    val_fraction: float | None = None
    group_pattern: str | None = None
    allow_unmatched: bool = False
    colors: str | None = None
    class_names: tuple[str, ...] = ()
    dataset: str | None = None
    annotations: str | None = None
    unlabeled: str = 'background'
    label_map: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice('BuildFolderOptions.unlabeled', self.unlabeled, UNLABELED)
        self._require_one_source()
        if self.val_fraction is not None:
            allowed = 'it must be 0 or more, and less than 1'
            require(0 <= self.val_fraction < 1, 'BuildFolderOptions.val_fraction', self.val_fraction, allowed)
        by_list = option('BuildFolderOptions.list_folder', self.list_folder)
        for name in ('val_fraction', 'group_pattern'):
            if self.list_folder and (value := getattr(self, name)) is not None:
                other = option(f'BuildFolderOptions.{name}', value)
                raise OptionError(f'{by_list} and {other} both choose the splits. Omit one of them.')
        if self.group_pattern is not None:
            try:
                re.compile(self.group_pattern)
            except re.error as error:
                allowed = f'it is not a regular expression: {error}'
                require(False, 'BuildFolderOptions.group_pattern', self.group_pattern, allowed)

    def _require_one_source(self) -> None:
        """Raises `OptionError` if options of masks and of annotations are mixed."""
        of_masks, of_annotations = ('mask_folder', 'mask_suffix', 'colors'), ('unlabeled', 'label_map')
        for name in of_annotations if self.annotations is None else of_masks:
            if (value := getattr(self, name)) != getattr(BuildFolderOptions, name):
                given = option(f'BuildFolderOptions.{name}', value)
                source = option('BuildFolderOptions.annotations', self.annotations or 'PATH')
                fix = f'add {source}' if self.annotations is None else f'omit it, or {source}'
                kind = 'annotations of labeling tools' if self.annotations is None else 'folders of masks'
                raise OptionError(f'{given} is for {kind}: {fix}.')


@dataclasses.dataclass(frozen=True)
class BuildCamvidOptions(BuilderOptions):
    """Options of `deeplab build_camvid_data`. It takes files of every known format, whatever the formats above.

    Attributes:
      camvid_root: folder of the data set.
      classes: '11' or '32'.
    """

    camvid_root: str = './CamVid'
    classes: str = '11'

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice('BuildCamvidOptions.classes', self.classes, CAMVID_CLASSES)


@dataclasses.dataclass(frozen=True)
class BuildCocoStuffOptions(BuilderOptions):
    """Options of `deeplab build_coco_stuff_data`. It takes files of every known format, whatever the formats above.

    Attributes:
      coco_root: folder of the images and the pixel maps.
      classes: '171' for the classes that occur, with contiguous ids, or '182' for the ids of the pixel maps.
      year: year in the names of the folders.
    """

    coco_root: str = './coco'
    classes: str = '171'
    year: int = 2017

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice('BuildCocoStuffOptions.classes', self.classes, COCO_STUFF_CLASSES)


@dataclasses.dataclass(frozen=True)
class BuildCocoOptions(BuilderOptions):
    """Options of `deeplab build_coco_data`. It takes files of every known format, whatever the formats above.

    Attributes:
      coco_root: folder of the images and of annotations.
      masks: what the masks are made from: panoptic or instances.
      classes: categories that become classes: all, things or stuff.
      year: year in the names of the files and folders.
    """

    coco_root: str = './coco'
    masks: str = 'panoptic'
    classes: str = 'all'
    year: int = 2017

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice('BuildCocoOptions.masks', self.masks, COCO_MASKS)
        require_choice('BuildCocoOptions.classes', self.classes, COCO_CLASSES)
        if self.masks == 'instances' and self.classes == 'stuff':
            masks = option('BuildCocoOptions.masks', self.masks)
            require(False, 'BuildCocoOptions.classes', self.classes, f'{masks} has things alone')


@dataclasses.dataclass(frozen=True)
class BuildMapillaryOptions(BuilderOptions):
    """Options of `deeplab build_mapillary_data`. It takes files of every known format, whatever the formats above.

    Attributes:
      mapillary_root: folder of training, validation and the configuration files.
      annotation_version: v1.2 or v2.0; None for the first that exists.
    """

    mapillary_root: str = './mapillary'
    annotation_version: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.annotation_version is not None:
            require_choice('BuildMapillaryOptions.annotation_version', self.annotation_version, MAPILLARY_VERSIONS)


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
