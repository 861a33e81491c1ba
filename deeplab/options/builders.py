"""Options of the programs that write TFRecords and masks."""

from __future__ import annotations

import dataclasses
import os
import re

from deeplab.errors import OptionError
from deeplab.options.data import IMAGE_FORMATS, LABEL_FORMATS
from deeplab.options.fields import LocalPath, Options, PathText, declared
from deeplab.options.parts import PartOptions
from deeplab.options.rasters import RasterOptions
from deeplab.options.rules import require_classes
from deeplab.wording import option

MAPILLARY_VERSIONS = ('v1.2', 'v2.0')
_PLANES = ('depth_folder', 'depth_scale', 'multilabel_folder')
_INSTANCES = 'Also write instance ids, for panoptic segmentation'


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuilderOptions(Options):
    """Options that all builders share."""

    image_format: str = declared(
        'png',
        'Extension of the image files; npy files hold arrays [height, width, channels] of uint8 or uint16.',
        choices=IMAGE_FORMATS[:4],
    )
    label_format: str = declared('png', 'Extension of the mask files.', choices=LABEL_FORMATS)
    output_dir: LocalPath = declared(
        './tfrecord', 'Folder for the TFRecord shards and the description of the data set, dataset.yaml.'
    )
    num_shards: int | None = declared(
        None,
        'Number of shards per split. Not set: the usual number for the data set, but at most one per image.',
        range='(0, inf)',
    )
    num_workers: int | None = declared(
        None,
        'Number of threads that read and check files. Not set: one per core.',
        range='(0, inf)',
    )
    num_classes: int | None = declared(
        None,
        'Number of classes: masks with this id or larger ones, other than {ignore_label}, are rejected. Not set: no '
        'check; build_folder_data then uses the largest id plus 1.',
        range='(0, inf)',
    )
    ignore_label: int = declared(
        255,
        'Id of the pixels that are excluded from loss and metrics; always allowed in masks.',
        range='[0, 255]',
    )
    seed: int = declared(0, 'Seed of all random choices. Two runs with the same seed give the same result.')
    part: PartOptions = PartOptions()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_classes is not None:
            require_classes(option('BuilderOptions.num_classes', self.num_classes), self.num_classes)


@dataclasses.dataclass(frozen=True)
class BuildVocOptions(BuilderOptions):
    """Options of `deeplab build_voc2012_data`. It keeps the order of the lists, whatever the seed."""

    image_folder: PathText = declared('./VOCdevkit/VOC2012/JPEGImages', 'Folder of the images.')
    semantic_segmentation_folder: PathText = declared(
        './VOCdevkit/VOC2012/SegmentationClassRaw',
        'Folder of the masks: PNG files whose gray value, or palette index, is the class id.',
    )
    list_folder: PathText = declared(
        './VOCdevkit/VOC2012/ImageSets/Segmentation',
        'Folder with a file SPLIT.txt for each split: one name per line, with or without folder and extension.',
    )


@dataclasses.dataclass(frozen=True)
class BuildCityscapesOptions(BuilderOptions):
    """Options of `deeplab build_cityscapes_data`. It sorts images by name, whatever the seed."""

    cityscapes_root: PathText = declared(
        './cityscapes',
        'Folder that contains leftImg8bit and gtFine or gtCoarse. Masks are read from *_labelTrainIds.png or, if '
        'these are missing, made from *_labelIds.png or *_polygons.json.',
    )
    annotations: str = declared(
        'fine',
        'fine: splits train_fine, val_fine and test_fine from gtFine; coarse: train_coarse (images of train and '
        'train_extra) and val_coarse from gtCoarse.',
        choices=('fine', 'coarse'),
    )
    instances: bool = declared(False, f'{_INSTANCES}: from *_instanceIds.png, or else from *_polygons.json.')


@dataclasses.dataclass(frozen=True)
class BuildAde20kOptions(BuilderOptions):
    """Options of `deeplab build_ade20k_data`. It shuffles the images."""

    train_image_folder: PathText = declared(
        './ADE20K/ADEChallengeData2016/images/training', 'Folder of the training images.'
    )
    train_image_label_folder: PathText = declared(
        './ADE20K/ADEChallengeData2016/annotations/training', 'Folder of the training masks.'
    )
    val_image_folder: PathText = declared(
        './ADE20K/ADEChallengeData2016/images/validation', 'Folder of the validation images.'
    )
    val_image_label_folder: PathText = declared(
        './ADE20K/ADEChallengeData2016/annotations/validation', 'Folder of the validation masks.'
    )
    output_dir: LocalPath = declared('./ADE20K/tfrecord', 'Folder for the TFRecord shards.')
    full_release_root: PathText | None = declared(
        None,
        'Folder of the full ADE20K release (with *_seg.png), from which masks of the 150 classes are made. Not set: '
        'the folders above.',
    )
    class_map: PathText | None = declared(
        None,
        'For the full release: file with an object index and the id or name of its class on each line. Not set: '
        'the table of the scene parsing challenge.',
        needs=('full_release_root',),
    )
    instances: bool = declared(
        False,
        f'{_INSTANCES}, from the full release: the objects of 100 classes, without parts.',
        needs=('full_release_root',),
    )


@dataclasses.dataclass(frozen=True)
class BuildFolderOptions(BuilderOptions):
    """Options of `deeplab build_folder_data`. Accepts every supported file format;
    `image_format` and `label_format` have no effect.
    """

    image_folder: PathText = declared(
        './images', 'Folder of the images (jpg, png, npy, or else tif), including its subfolders.'
    )
    mask_folder: PathText = declared(
        './masks',
        'Folder of the masks: PNG (or else tif) files with the same relative paths as their images.',
    )
    mask_suffix: str = declared('', 'Suffix of the names of masks, such as _mask for 01.jpg and 01_mask.png.')
    list_folder: PathText | None = declared(
        None,
        'Folder with a file SPLIT.txt for each split: one file name per line, with or without folder and extension.',
    )
    tile_size: tuple[int, int] | None = declared(
        None,
        'Height and width of the tiles that are cut from TIFF files, such as 513,513; tiles without data are left out. '
        'Not set: whole files.',
    )
    tile_overlap: int = declared(
        0, 'Overlap, in pixels, of neighboring tiles of {tile_size}.', range='[0, inf)', needs=('tile_size',)
    )
    raster: RasterOptions = RasterOptions()
    val_fraction: float | None = declared(
        None,
        'Fraction of the images that form the split val; the others form train. Not set: as in the image folders '
        'train, val and test, or 0.1 if there are none.',
        range='[0, 1)',
    )
    group_pattern: str | None = declared(
        None,
        'Regular expression that extracts the group from the path of an image, such as ^(.*)_[0-9]+$ for video '
        'frames. All images of a group are in one split.',
    )
    folds: int | None = declared(
        None,
        'Number of folds for cross-validation, which become the splits fold1, fold2, ... instead of train and val; a '
        'split test is kept. Classes are balanced, and groups stay together; {TrainOptions.fold} selects the fold to '
        'validate on.',
        range='[2, 1000]',
    )
    max_side: int | None = declared(
        None,
        'Number of pixels to which the longer side of larger images is reduced: images by antialiased bicubic '
        'interpolation, masks and other planes by nearest neighbor. Not set: images keep their size.',
        range='[32, inf)',
    )
    allow_unmatched: bool = declared(
        False,
        'Leave out images without a mask, masks without an image, and annotations without an image.',
    )
    colors: PathText | None = declared(
        None,
        'File with the color of each class, for color-coded masks: one per line, such as 128 64 0 road, or JSON. Not '
        'set: the colors of {dataset}.',
    )
    class_names: tuple[str, ...] = declared(
        (),
        'Names of the classes, separated by commas, or a file with one per line. Not set: the names in {dataset}, '
        '{colors} or {annotations}, or class_0, class_1, ...',
    )
    dataset: PathText | None = declared(
        None,
        'Data set with the same classes, whose names, colors and ignore label are used: a known name, a Python '
        'module, or a JSON or YAML file.',
    )
    annotations: PathText | None = declared(
        None,
        'File or folder of annotations from a labeling tool (labelme, CVAT, Label Studio, COCO, Roboflow, '
        'Supervisely, SuperAnnotate, Hasty), instead of {mask_folder}. The format is detected from the content. '
        'Images are looked up beside the annotations or in {image_folder}.',
    )
    unlabeled: str = declared(
        'background',
        'Label of pixels without an annotation: the class background, or ignore to exclude them.',
        choices=('background', 'ignore'),
    )
    label_map: tuple[str, ...] = declared(
        (),
        'Mapping from annotation labels to classes: LABEL=CLASS, separated by commas, or a file with one per line. '
        'LABEL=ignore excludes pixels, LABEL= leaves out shapes, *=... applies to all other labels.',
    )
    instances: bool = declared(False, 'Also write instance ids: each shape of {annotations} is an instance.')
    instance_folder: PathText | None = declared(
        None,
        'Folder of instance masks, which are also written: 16-bit PNG files of instance ids, 0 for no instance, with '
        'relative paths as in {mask_folder}.',
    )
    depth_folder: PathText | None = declared(
        None,
        'Folder of depth maps, which are also written: 16-bit PNG files in units of {depth_scale}, 0 for invalid, or '
        'npy files of floats. Without the folder {mask_folder}, records have no class ids.',
    )
    depth_scale: float | None = declared(
        None, 'Unit of depth in PNG files, such as 0.001 for millimeters.', range='(0, inf)', needs=('depth_folder',)
    )
    multilabel_folder: PathText | None = declared(
        None,
        'Folder of masks for classes that overlap, which are also written: a folder for each class, with PNG files '
        'that are 0 outside the class; a missing file is an empty mask. Without the folder {mask_folder}, records '
        'have no class ids.',
    )
    things: tuple[str, ...] = declared(
        (),
        'Classes that have instances (things): names, separated by commas, or all for all but background. Not set: '
        'the things of {dataset}; without these, all classes with {instances}, and the classes that have instances '
        'with {instance_folder}.',
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_one_source()
        if self.tile_size is not None:
            fits = self.tile_overlap < min(self.tile_size)
            self._require(fits, 'tile_overlap', f'tiles have {self.tile_size[0]} x {self.tile_size[1]} pixels')
            self._require(self.max_side is None, 'max_side', f'omit it, or {option("BuildFolderOptions.tile_size")}')
        by_list = option('BuildFolderOptions.list_folder', self.list_folder)
        for name in ('val_fraction',) if self.folds else ('val_fraction', 'group_pattern'):  # folds have groups
            if self.list_folder and (value := getattr(self, name)) is not None:
                other = option(f'BuildFolderOptions.{name}', value)
                raise OptionError(f'{by_list} and {other} both choose the splits. Omit one of them.')
        if self.folds is not None:
            self._require(self.val_fraction is None, 'folds', f'omit {option("BuildFolderOptions.val_fraction")}')
            self._require(self.part.part is None, 'folds', 'classes are counted in all masks; omit the part')
        if self.group_pattern is not None:
            try:
                re.compile(self.group_pattern)
            except re.error as error:
                self._require(False, 'group_pattern', f'it is not a regular expression: {error}')

    @property
    def wants_masks(self) -> bool:
        """Whether each image needs a mask of class ids: unless there are other planes, and no folder of masks."""
        has_planes = self.depth_folder is not None or self.multilabel_folder is not None
        is_usual = self.mask_folder == BuildFolderOptions.mask_folder
        has_other = has_planes and self.instance_folder is None  # instances need classes
        return not (has_other and is_usual and not os.path.isdir(self.mask_folder))

    def _require_one_source(self) -> None:
        """Raises `OptionError` if options of masks and of annotations are mixed."""
        of_masks = ('mask_folder', 'mask_suffix', 'colors', 'instance_folder', 'tile_size', *_PLANES)
        of_annotations = ('unlabeled', 'label_map', 'instances', 'things')
        for name in of_annotations if self.annotations is None else of_masks:
            if name == 'things' and self.instance_folder is not None:
                continue
            if (value := getattr(self, name)) != getattr(BuildFolderOptions, name):
                given = option(f'BuildFolderOptions.{name}', value)
                source = option('BuildFolderOptions.annotations', self.annotations or 'PATH')
                fix = f'add {source}' if self.annotations is None else f'omit it, or {source}'
                fix += (
                    f', or set {option("BuildFolderOptions.instance_folder")}'
                    if name in ('instances', 'things')
                    else ''
                )
                kind = 'annotations of labeling tools' if self.annotations is None else 'folders of masks'
                raise OptionError(f'{given} is for {kind}: {fix}.')
        for name in ('bands', 'value_range') if self.annotations is not None else ():
            if value := getattr(self.raster, name):
                given = option(f'RasterOptions.{name}', value)
                raise OptionError(f'{given} is for TIFF files with masks, not for annotations. Omit it.')


@dataclasses.dataclass(frozen=True)
class BuildClassificationOptions(BuilderOptions):
    """Options of `deeplab build_classification_data`. Accepts every supported file format;
    `image_format` and `label_format` have no effect.

    Images are shuffled.
    """

    image_folder: PathText = declared(
        './images',
        'Folder with one folder of images (jpg, png, npy) per class, which may be inside folders train, val and test; '
        'or folder of the images listed in {labels_file}.',
    )
    labels_file: PathText | None = declared(
        None,
        'CSV file with a header line: columns file (the path of an image in {image_folder}) and label (the name or id '
        'of its class), and optionally split and group. Not set: the folders are the classes.',
    )
    class_names: tuple[str, ...] = declared(
        (),
        'Names of the classes in the order of their ids, separated by commas, or a file with one per line, such as '
        'labels.txt. Not set: the names of the folders, or the labels in {labels_file}, in alphabetical order.',
    )
    list_folder: PathText | None = declared(
        None,
        'Folder with a file SPLIT.txt for each split: one file name per line, with or without folder and extension.',
    )
    val_fraction: float | None = declared(
        None,
        'Fraction of the images of each class that form the split val; the others form train. Not set: as in the '
        'column split, or in the image folders train, val and test, or 0.1 if there are none.',
        range='[0, 1)',
    )
    group_pattern: str | None = declared(
        None,
        'Regular expression that extracts the group from the path of an image, such as ^(.*)_[0-9]+$ for video '
        'frames. All images of a group are in one split. Not set: the column group, or no groups.',
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.split_rules  # noqa: B018 (it checks them)

    @property
    def split_rules(self) -> BuildFolderOptions:
        """What the options say about splits, as options of `build_folder_data`."""
        return BuildFolderOptions(
            list_folder=self.list_folder,
            val_fraction=self.val_fraction,
            group_pattern=self.group_pattern,
            seed=self.seed,
        )


@dataclasses.dataclass(frozen=True)
class BuildCamvidOptions(BuilderOptions):
    """Options of `deeplab build_camvid_data`. Accepts every supported file format;
    `image_format` and `label_format` have no effect.
    """

    camvid_root: PathText = declared(
        './CamVid',
        'Folder with train and trainannot (or train_labels), and so on for val and test; or with 701_StillsRaw_full '
        'and LabeledApproved_full; or with images and labels. Masks may be color-coded, have a palette, or contain '
        'ids.',
    )
    classes: str = declared(
        '11',
        '11: the usual groups of classes; 32: all classes of the color-coded masks, with Void ignored.',
        choices=('11', '32'),
    )


@dataclasses.dataclass(frozen=True)
class BuildCocoStuffOptions(BuilderOptions):
    """Options of `deeplab build_coco_stuff_data`. Accepts every supported file format;
    `image_format` and `label_format` have no effect.
    """

    coco_root: PathText = declared(
        './coco',
        'Folder of the images (train2017 and val2017, or these inside images) and the pixel maps (folders with the '
        'same names inside annotations or stuffthingmaps).',
    )
    classes: str = declared(
        '171',
        '171: only the classes that occur, with contiguous ids; 182: the ids of the pixel maps.',
        choices=('171', '182'),
    )
    year: int = declared(2017, 'Year in the names of files and folders.')


@dataclasses.dataclass(frozen=True)
class BuildCocoOptions(BuilderOptions):
    """Options of `deeplab build_coco_data`. Accepts every supported file format;
    `image_format` and `label_format` have no effect.
    """

    coco_root: PathText = declared(
        './coco', 'Folder of the images (train2017 and val2017, or these inside images) and the folder annotations.'
    )
    masks: str = declared(
        'panoptic',
        'panoptic: from annotations/panoptic_train2017.json and the folder with the same name; instances: from '
        'annotations/instances_train2017.json, with a background (polygons need pycocotools).',
        choices=('panoptic', 'instances'),
    )
    classes: str = declared(
        'all',
        'Categories to use as classes, with ids in their order; with only things or only stuff, class 0 is the rest.',
        choices=('all', 'things', 'stuff'),
    )
    year: int = declared(2017, 'Year in the names of files and folders.')
    instances: bool = declared(False, f'{_INSTANCES}; crowds get id 0.')

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.masks == 'instances' and self.classes == 'stuff':
            masks = option('BuildCocoOptions.masks', self.masks)
            self._require(False, 'classes', f'{masks} has things alone')


@dataclasses.dataclass(frozen=True)
class BuildMapillaryOptions(BuilderOptions):
    """Options of `deeplab build_mapillary_data`. Accepts every supported file format;
    `image_format` and `label_format` have no effect.
    """

    mapillary_root: PathText = declared(
        './mapillary',
        'Folder with training, validation, testing and the configuration file (config_v1.2.json, config_v2.0.json or '
        'config.json).',
    )
    annotation_version: str | None = declared(
        None,
        'Version of the annotations. Not set: the first that exists.',
        choices=MAPILLARY_VERSIONS,
    )
    instances: bool = declared(False, f'{_INSTANCES}: from the folders named instances.')


@dataclasses.dataclass(frozen=True)
class RemoveColormapOptions(Options):
    """Options of `deeplab remove_gt_colormap`."""

    original_gt_folder: PathText = declared(
        './VOCdevkit/VOC2012/SegmentationClass', 'Folder of the masks that have a palette.'
    )
    segmentation_format: str = declared('png', 'Extension of the masks.')
    output_dir: LocalPath = declared(
        './VOCdevkit/VOC2012/SegmentationClassRaw', 'Folder for the converted masks, which keep their names.'
    )
    num_workers: int | None = declared(
        None,
        'Number of threads that read and check files. Not set: one per core.',
        range='(0, inf)',
    )
