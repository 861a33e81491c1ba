"""Records of the programs that write TFRecords and masks."""

from __future__ import annotations

import dataclasses

from deeplab import options
from deeplab.cli.links import of
from deeplab.cli.program import Program
from deeplab.cli.to_options import folder_options, plain_options
from deeplab.cli.words import Group

_PACKAGE = 'deeplab.datasets'
_FORMATS = of(options.BuilderOptions, 'image_format', 'label_format')
_PART = of(options.PartOptions)
_RECORDS = Group('Records', of(options.BuilderOptions, without=['image_format', 'label_format', 'output_dir']), _PART)
_SHARDS = Group('Records', of(options.BuilderOptions, 'num_shards', 'num_workers', 'seed'), _PART)
_SHARED = [field.name for field in dataclasses.fields(options.BuilderOptions) if field.name != 'output_dir']
# Fields of BuildFolderOptions by the heading of their flags; all others are about files.
_SPLITS = ('list_folder', 'val_fraction', 'group_pattern')
_FOLDS = 'folds'
_TILES = ('tile_size', 'tile_overlap')
_CLASSES = ('class_names', 'colors', 'dataset', 'unlabeled', 'label_map', 'things')


def _builder(kind: type, name: str, example: str, has_formats: bool = False) -> Program:
    """Returns the record of a builder.

    Args:
      kind: class of its options.
      name: name of the program.
      example: flags of an example.
      has_formats: whether its files have one format that users choose, and any classes; otherwise the classes are known
        and the files may have any format.
    """
    files = of(kind, without=_SHARED)
    groups = Group('Files', files), _SHARDS
    if has_formats:
        groups = Group('Files', files, _FORMATS), _RECORDS
    return Program(name, example, groups, plain_options(kind), package=_PACKAGE)


# In the order of the help.
BUILDERS = (
    _builder(
        options.BuildVocOptions,
        'build_voc2012_data',
        '--image_folder=JPEGImages --image_format=jpg --list_folder=lists --output_dir=tfrecord',
        has_formats=True,
    ),
    _builder(
        options.BuildCityscapesOptions,
        'build_cityscapes_data',
        '--cityscapes_root=cityscapes --output_dir=cityscapes/tfrecord',
        has_formats=True,
    ),
    _builder(
        options.BuildAde20kOptions,
        'build_ade20k_data',
        '--image_format=jpg --output_dir=ADE20K/tfrecord',
        has_formats=True,
    ),
    _builder(
        options.BuildCocoOptions, 'build_coco_data', '--coco_root=coco --masks=panoptic --output_dir=coco/tfrecord'
    ),
    _builder(
        options.BuildCocoStuffOptions, 'build_coco_stuff_data', '--coco_root=coco --output_dir=coco/stuff_tfrecord'
    ),
    _builder(
        options.BuildMapillaryOptions,
        'build_mapillary_data',
        '--mapillary_root=mapillary --output_dir=mapillary/tfrecord',
    ),
    _builder(options.BuildCamvidOptions, 'build_camvid_data', '--camvid_root=CamVid --output_dir=CamVid/tfrecord'),
    Program(
        'build_folder_data',
        '--image_folder=images --mask_folder=masks --output_dir=tfrecord',
        (
            Group('Files', of(options.BuildFolderOptions, without=[*_SHARED, *_TILES, *_SPLITS, _FOLDS, *_CLASSES])),
            Group('Rasters', of(options.BuildFolderOptions, *_TILES), of(options.RasterOptions)),
            Group('Splits', of(options.BuildFolderOptions, *_SPLITS, _FOLDS)),
            Group('Classes', of(options.BuildFolderOptions, *_CLASSES)),
            _RECORDS,
        ),
        folder_options,
        package=_PACKAGE,
    ),
    Program(
        'build_classification_data',
        '--image_folder=images --output_dir=tfrecord',
        (
            Group('Files', of(options.BuildClassificationOptions, without=[*_SHARED, *_SPLITS])),
            Group('Splits', of(options.BuildClassificationOptions, *_SPLITS)),
            _SHARDS,
        ),
        plain_options(options.BuildClassificationOptions),
        package=_PACKAGE,
    ),
    Program(
        'remove_gt_colormap',
        '--original_gt_folder=SegmentationClass --output_dir=SegmentationClassRaw',
        (Group('Files', of(options.RemoveColormapOptions)),),
        plain_options(options.RemoveColormapOptions),
        package=_PACKAGE,
    ),
)
