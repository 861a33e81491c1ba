"""Flags of data sets, builders and augmentation."""

from __future__ import annotations

from typing import Any

from deeplab import options
from deeplab.cli.links import linked, parameters
from deeplab.cli.plugin_flags import EVERY_PROGRAM
from deeplab.cli.words import Flag, Group
from deeplab.registry import DATASETS

SEED = linked(
    'seed',
    'TrainOptions.seed',
    'Seed of all random choices. Two runs with the same seed give the same result.',
    also=('BuilderOptions.seed', 'DemoOptions.seed'),
)
_KEEP_ASPECT_RATIO = Flag(
    'keep_aspect_ratio', 'boolean', True, 'Accepted for compatibility with old command lines; it has no effect.'
)
RESIZE = (
    linked(
        'min_resize_value',
        'ResizeOptions.min_value',
        'Resize each image so that its shorter side has this many pixels.',
    ),
    linked(
        'max_resize_value', 'ResizeOptions.max_value', 'Largest length, in pixels, of the longer side after resizing.'
    ),
    linked(
        'resize_factor',
        'ResizeOptions.factor',
        'Round the sides of resized images up to a multiple of this plus 1; use the value of --output_stride.',
    ),
    _KEEP_ASPECT_RATIO,
)


def _dataset() -> list[Flag]:
    """Returns --dataset, which names all registered data sets."""
    meaning = (
        f'The data set: a known name ({", ".join(DATASETS.names())}), a Python module that defines DATASET, or a JSON '
        'or YAML file.'
    )
    return [linked('dataset', 'DatasetOptions.name', meaning, is_path=True)]


# Ends of the meaning of the crop size.
_OF_LARGER_IMAGES = {
    'train': '.',
    'eval': '. If it is not given and an image is larger, the smallest size into which every image fits is used.',
    'vis': ', and no image may be larger.',
}


def data_group(prefix: str, split: str, *more: Flag) -> Group:
    """Returns the flags of the data that a program reads: `prefix` is train, eval or vis."""
    return Group(
        'Data',
        (
            linked(
                'dataset_dir',
                'DatasetOptions.directory',
                'Folder of the TFRecord shards that a builder wrote.',
                is_path=True,
            ),
            _dataset,
            Flag(
                f'{prefix}_split',
                'string',
                split,  # of the program; the options have no default
                'The split to read: its shards are named SPLIT-*.',
                fields=('DatasetOptions.split',),
            ),
            Flag(
                f'{prefix}_crop_size',
                'list',
                ['513', '513'],  # of the original's programs; a network of unknown size has None in the options
                'Height and width, in pixels, of the input of the network: 513,513, or one flag for each. Multiples of '
                f'--output_stride plus 1 are best{_OF_LARGER_IMAGES[prefix]}',
                fields=('ModelOptions.crop_size',),
            ),
            *more,
            *RESIZE,
            linked(
                'skip_corrupt_records',
                'DatasetOptions.skip_corrupt_records',
                'Skip and count records that cannot be read, instead of stopping at the first.',
            ),
        ),
    )


AUGMENTATION = Group(
    'Augmentation of training images',
    (
        linked('min_scale_factor', 'AugmentOptions.min_scale_factor', 'Smallest random scale of an image.'),
        linked('max_scale_factor', 'AugmentOptions.max_scale_factor', 'Largest random scale of an image.'),
        linked(
            'scale_factor_step_size',
            'AugmentOptions.scale_factor_step_size',
            'Approximate distance between the possible scales; 0: any scale in the range.',
        ),
        parameters('AugmentOptions'),
    ),
)
NUM_WORKERS = linked(
    'num_workers',
    'BuilderOptions.num_workers',
    'Number of threads that read and check files. Not set: one per core.',
    also=('RemoveColormapOptions.num_workers',),
)
_BUILDER = Group(
    'Records',
    (
        linked(
            'num_shards',
            'BuilderOptions.num_shards',
            'Number of shards of each split. Not set: the usual number for the data set, but not more than images.',
        ),
        NUM_WORKERS,
        linked(
            'num_classes',
            'BuilderOptions.num_classes',
            'Refuse masks with ids that are not less than this, other than --ignore_label. Not set: no check; '
            'build_folder_data then takes the largest id plus 1.',
        ),
        linked(
            'ignore_label',
            'BuilderOptions.ignore_label',
            'Id of the pixels that are excluded from loss and metrics; always allowed in masks.',
        ),
        SEED,
    ),
)
_FORMATS = (
    linked(
        'image_format',
        'BuilderOptions.image_format',
        'Extension of the image files; npy files hold arrays [height, width, channels] of uint8 or uint16.',
        choices=options.IMAGE_FORMATS,
    ),
    linked(
        'label_format', 'BuilderOptions.label_format', 'Extension of the mask files.', choices=options.LABEL_FORMATS
    ),
)


def known_builder_groups(*flags: Flag) -> tuple[Group, ...]:
    """Returns the groups of a builder of a data set whose classes are known and whose files may have any format."""
    kept = tuple(flag for flag in _BUILDER.flags if flag.name in ('num_shards', 'num_workers'))
    return Group('Files', flags), Group(_BUILDER.title, kept), *EVERY_PROGRAM


def builder_groups(*paths: Flag) -> tuple[Group, ...]:
    """Returns the groups of a builder whose input and output folders are `paths`."""
    return Group('Files', (*paths, *_FORMATS)), _BUILDER, *EVERY_PROGRAM


def _folder(name: str, meaning: str, kind: str | None = None, **more: Any) -> Flag:
    """Returns a flag of build_folder_data."""
    is_path = name.endswith('_folder') or name in ('output_dir', 'colors', 'dataset', 'annotations')
    return linked(name, f'BuildFolderOptions.{name}', meaning, kind=kind, is_path=is_path, **more)


BUILD_FOLDER = (
    Group(
        'Files',
        (
            _folder('image_folder', 'Folder of the images (jpg, png, npy), and of folders of them.'),
            _folder(
                'mask_folder',
                'Folder of the masks: PNG files that have the path of their image, relative to its folder.',
            ),
            _folder('mask_suffix', 'Suffix of the names of masks, such as _mask for 01.jpg and 01_mask.png.'),
            _folder(
                'allow_unmatched',
                'Leave out images without a mask, masks without an image, and annotations without an image.',
            ),
            _folder(
                'annotations',
                'File or folder of annotations of a labeling tool (labelme, CVAT, Label Studio, COCO, Roboflow, '
                'Supervisely, SuperAnnotate, Hasty), in place of --mask_folder. The format is recognized by the '
                'content. Images are found beside the annotations or in --image_folder.',
            ),
            _folder('output_dir', 'Folder for the TFRecord shards and the description of the data set, dataset.yaml.'),
        ),
    ),
    Group(
        'Splits',
        (
            _folder(
                'list_folder',
                'Folder with a file SPLIT.txt for each split: one file name per line, with or without folder and '
                'extension.',
            ),
            _folder(
                'val_fraction',
                'Share of the images in the split val; the others are train. Not set: the folders train, val and test '
                'of the images, or 0.1 if there are none.',
            ),
            _folder(
                'group_pattern',
                'Regular expression that finds the group in the path of an image, such as ^(.*)_[0-9]+$ for the frames '
                'of videos. All images of a group are in one split.',
            ),
        ),
    ),
    Group(
        'Classes',
        (
            _folder(
                'class_names',
                kind='string',
                meaning='Names of the classes, separated by commas, or a file with one per line. Not set: those of '
                '--dataset, --colors or --annotations, or class_0, class_1, ...',
            ),
            _folder(
                'colors',
                'File with the color of each class, for masks with colors: one per line, such as 128 64 0 road, or '
                'JSON. Not set: the colors of --dataset.',
            ),
            _folder(
                'dataset',
                'Data set with the same classes, whose names, colors and ignore label to use: a known name, a Python '
                'module, or a JSON or YAML file.',
            ),
            _folder(
                'unlabeled',
                'What pixels without an annotation become: the class background, or ignore to exclude them.',
                choices=options.UNLABELED,
            ),
            _folder(
                'label_map',
                kind='string',
                meaning='Labels of annotations that become another class: LABEL=CLASS, separated by commas, or a file '
                'with one per line. LABEL=ignore excludes pixels, LABEL= leaves out shapes, *=... is for all others.',
            ),
        ),
    ),
    _BUILDER,
)
