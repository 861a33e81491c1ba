"""Records of the programs that write TFRecords and masks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from deeplab import options
from deeplab.cli.data_flags import BUILD_FOLDER, NUM_WORKERS, builder_groups, known_builder_groups
from deeplab.cli.links import linked
from deeplab.cli.plugin_flags import EVERY_PROGRAM
from deeplab.cli.program import Program
from deeplab.cli.to_options import folder_options, plain_options
from deeplab.cli.words import Flag, Group


def _path(kind: type, name: str, meaning: str) -> Flag:
    """Returns the flag for a file or folder in the options `kind`."""
    return linked(name, f'{kind.__name__}.{name}', meaning, is_path=True)


def _choice(kind: type, name: str, meaning: str, choices: Sequence[str]) -> Flag:
    """Returns the flag for an option of `kind` that has one of several values."""
    return linked(name, f'{kind.__name__}.{name}', meaning, choices=choices)


def _program(name: str, example: str, groups: tuple[Group, ...], to_options: Callable[..., Any]) -> Program:
    """Returns the record of the program in deeplab/datasets/NAME.py."""
    return Program(
        name=name,
        module=f'deeplab.datasets.{name}',
        example=example,
        groups=groups,
        to_options=to_options,
    )


def _builder(
    kind: type, name: str, example: str, *flags: Flag, groups: Callable[..., tuple[Group, ...]] = known_builder_groups
) -> Program:
    """Returns the record of the builder with the options `kind`, and the given flags beside --output_dir."""
    every = (*flags, _path(kind, 'output_dir', 'Folder for the TFRecord shards.'))
    return _program(name, example, groups(*every), plain_options(kind))


_VOC = functools.partial(_path, options.BuildVocOptions)
_ADE20K = functools.partial(_path, options.BuildAde20kOptions)
_YEAR = linked(
    'year', 'BuildCocoOptions.year', 'Year in the names of files and folders.', also=('BuildCocoStuffOptions.year',)
)

# In the order of the help.
BUILDERS = (
    _builder(
        options.BuildVocOptions,
        'build_voc2012_data',
        '--image_folder=JPEGImages --image_format=jpg --list_folder=lists --output_dir=tfrecord',
        _VOC('image_folder', 'Folder of the images.'),
        _VOC(
            'semantic_segmentation_folder',
            'Folder of the masks: PNG files whose gray value, or palette index, is the class id.',
        ),
        _VOC(
            'list_folder',
            'Folder with a file SPLIT.txt for each split: one name per line, with or without folder and extension.',
        ),
        groups=builder_groups,
    ),
    _builder(
        options.BuildCityscapesOptions,
        'build_cityscapes_data',
        '--cityscapes_root=cityscapes --output_dir=cityscapes/tfrecord',
        _path(
            options.BuildCityscapesOptions,
            'cityscapes_root',
            'Folder that contains leftImg8bit and gtFine or gtCoarse. Masks are *_labelTrainIds.png, or made from '
            '*_labelIds.png or *_polygons.json where these are absent.',
        ),
        _choice(
            options.BuildCityscapesOptions,
            'annotations',
            'fine: splits train_fine, val_fine and test_fine from gtFine; coarse: train_coarse (images of train and '
            'train_extra) and val_coarse from gtCoarse.',
            options.CITYSCAPES_ANNOTATIONS,
        ),
        groups=builder_groups,
    ),
    _builder(
        options.BuildAde20kOptions,
        'build_ade20k_data',
        '--image_format=jpg --output_dir=ADE20K/tfrecord',
        _ADE20K('train_image_folder', 'Folder of the training images.'),
        _ADE20K('train_image_label_folder', 'Folder of the training masks.'),
        _ADE20K('val_image_folder', 'Folder of the validation images.'),
        _ADE20K('val_image_label_folder', 'Folder of the validation masks.'),
        _ADE20K(
            'full_release_root',
            'Folder of the full release of ADE20K (with *_seg.png), from which masks of the 150 classes are made. Not '
            'set: the folders above.',
        ),
        _ADE20K(
            'class_map',
            'For the full release: file with the index of an object and the id or name of its class in each line. Not '
            'set: by the names of the objects in the JSON files beside the masks.',
        ),
        groups=builder_groups,
    ),
    _builder(
        options.BuildCocoOptions,
        'build_coco_data',
        '--coco_root=coco --masks=panoptic --output_dir=coco/tfrecord',
        _path(
            options.BuildCocoOptions,
            'coco_root',
            'Folder of the images (train2017, val2017, or in images) and of annotations.',
        ),
        _choice(
            options.BuildCocoOptions,
            'masks',
            'panoptic: from annotations/panoptic_train2017.json and the folder of that name; instances: from '
            'annotations/instances_train2017.json, with a background (polygons need pycocotools).',
            options.COCO_MASKS,
        ),
        _choice(
            options.BuildCocoOptions,
            'classes',
            'Categories that become classes, with ids in their order; for things or stuff alone, class 0 is the rest.',
            options.COCO_CLASSES,
        ),
        _YEAR,
    ),
    _builder(
        options.BuildCocoStuffOptions,
        'build_coco_stuff_data',
        '--coco_root=coco --output_dir=coco/stuff_tfrecord',
        _path(
            options.BuildCocoStuffOptions,
            'coco_root',
            'Folder of the images (train2017, val2017, or in images) and the pixel maps (folders of the same names in '
            'annotations or stuffthingmaps).',
        ),
        _choice(
            options.BuildCocoStuffOptions,
            'classes',
            '171: the classes that occur, with contiguous ids; 182: the ids of the pixel maps.',
            options.COCO_STUFF_CLASSES,
        ),
        _YEAR,
    ),
    _builder(
        options.BuildMapillaryOptions,
        'build_mapillary_data',
        '--mapillary_root=mapillary --output_dir=mapillary/tfrecord',
        _path(
            options.BuildMapillaryOptions,
            'mapillary_root',
            'Folder of training, validation, testing and the configuration file (config_v1.2.json, config_v2.0.json or '
            'config.json).',
        ),
        _choice(
            options.BuildMapillaryOptions,
            'annotation_version',
            'Version of the annotations. Not set: the first that exists.',
            options.MAPILLARY_VERSIONS,
        ),
    ),
    _builder(
        options.BuildCamvidOptions,
        'build_camvid_data',
        '--camvid_root=CamVid --output_dir=CamVid/tfrecord',
        _path(
            options.BuildCamvidOptions,
            'camvid_root',
            'Folder with train and trainannot (or train_labels), and so on for val and test; or with '
            '701_StillsRaw_full and LabeledApproved_full; or with images and labels. Masks may have colors, a palette '
            'or ids.',
        ),
        _choice(
            options.BuildCamvidOptions,
            'classes',
            '11: the usual groups of classes; 32: all classes of the masks of colors, of which Void is ignored.',
            options.CAMVID_CLASSES,
        ),
    ),
    _program(
        'build_folder_data',
        '--image_folder=images --mask_folder=masks --output_dir=tfrecord',
        (*BUILD_FOLDER, *EVERY_PROGRAM),
        folder_options,
    ),
    _program(
        'remove_gt_colormap',
        '--original_gt_folder=SegmentationClass --output_dir=SegmentationClassRaw',
        (
            Group(
                'Files',
                (
                    _path(options.RemoveColormapOptions, 'original_gt_folder', 'Folder of the masks with a palette.'),
                    linked(
                        'segmentation_format', 'RemoveColormapOptions.segmentation_format', 'Extension of the masks.'
                    ),
                    _path(
                        options.RemoveColormapOptions,
                        'output_dir',
                        'Folder for the converted masks, which keep their names.',
                    ),
                    NUM_WORKERS,
                ),
            ),
            *EVERY_PROGRAM,
        ),
        plain_options(options.RemoveColormapOptions),
    ),
)
