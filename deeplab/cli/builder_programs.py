"""Records of the programs that write TFRecords and masks."""

from __future__ import annotations

from deeplab import options
from deeplab.cli.data_flags import BUILD_FOLDER, NUM_WORKERS, builder_groups, known_builder_groups
from deeplab.cli.links import linked
from deeplab.cli.plugin_flags import EVERY_PROGRAM
from deeplab.cli.program import Program
from deeplab.cli.to_options import folder_options, plain_options
from deeplab.cli.words import Flag, Group
from deeplab.overview import SUMMARIES


def _output_dir(kind: str) -> Flag:
    """Returns the flag for the output folder of the builder whose options are `kind`."""
    return linked('output_dir', f'{kind}.output_dir', 'Folder for the TFRecord shards.', is_path=True)


_BUILD_VOC = Program(
    name='build_voc2012_data',
    module='deeplab.datasets.build_voc2012_data',
    summary=SUMMARIES['build_voc2012_data'],
    example='--image_folder=JPEGImages --image_format=jpg --list_folder=lists --output_dir=tfrecord',
    groups=builder_groups(
        linked('image_folder', 'BuildVocOptions.image_folder', 'Folder of the images.', is_path=True),
        linked(
            'semantic_segmentation_folder',
            'BuildVocOptions.semantic_segmentation_folder',
            'Folder of the masks: PNG files whose gray value, or palette index, is the class id.',
            is_path=True,
        ),
        linked(
            'list_folder',
            'BuildVocOptions.list_folder',
            'Folder with a file SPLIT.txt for each split: one name per line, with or without folder and extension.',
            is_path=True,
        ),
        _output_dir('BuildVocOptions'),
    ),
    to_options=plain_options(options.BuildVocOptions),
)
_BUILD_CITYSCAPES = Program(
    name='build_cityscapes_data',
    module='deeplab.datasets.build_cityscapes_data',
    summary=SUMMARIES['build_cityscapes_data'],
    example='--cityscapes_root=cityscapes --output_dir=cityscapes/tfrecord',
    groups=builder_groups(
        linked(
            'cityscapes_root',
            'BuildCityscapesOptions.cityscapes_root',
            'Folder that contains leftImg8bit and gtFine or gtCoarse. Masks are *_labelTrainIds.png, or made from '
            '*_labelIds.png or *_polygons.json where these are absent.',
            is_path=True,
        ),
        linked(
            'annotations',
            'BuildCityscapesOptions.annotations',
            'fine: splits train_fine, val_fine and test_fine from gtFine; coarse: train_coarse (images of train and '
            'train_extra) and val_coarse from gtCoarse.',
            choices=options.CITYSCAPES_ANNOTATIONS,
        ),
        _output_dir('BuildCityscapesOptions'),
    ),
    to_options=plain_options(options.BuildCityscapesOptions),
)
_BUILD_ADE20K = Program(
    name='build_ade20k_data',
    module='deeplab.datasets.build_ade20k_data',
    summary=SUMMARIES['build_ade20k_data'],
    example='--image_format=jpg --output_dir=ADE20K/tfrecord',
    groups=builder_groups(
        *(
            linked(name, f'BuildAde20kOptions.{name}', meaning, is_path=True)
            for name, meaning in (
                ('train_image_folder', 'Folder of the training images.'),
                ('train_image_label_folder', 'Folder of the training masks.'),
                ('val_image_folder', 'Folder of the validation images.'),
                ('val_image_label_folder', 'Folder of the validation masks.'),
                (
                    'full_release_root',
                    'Folder of the full release of ADE20K (with *_seg.png), from which masks of the 150 classes are '
                    'made. Not set: the folders above.',
                ),
                (
                    'class_map',
                    'For the full release: file with the index of an object and the id or name of its class in each '
                    'line. Not set: by the names of the objects in the JSON files beside the masks.',
                ),
            )
        ),
        _output_dir('BuildAde20kOptions'),
    ),
    to_options=plain_options(options.BuildAde20kOptions),
)
_BUILD_COCO = Program(
    name='build_coco_data',
    module='deeplab.datasets.build_coco_data',
    summary=SUMMARIES['build_coco_data'],
    example='--coco_root=coco --masks=panoptic --output_dir=coco/tfrecord',
    groups=known_builder_groups(
        linked(
            'coco_root',
            'BuildCocoOptions.coco_root',
            'Folder of the images (train2017, val2017, or in images) and of annotations.',
            is_path=True,
        ),
        linked(
            'masks',
            'BuildCocoOptions.masks',
            'panoptic: from annotations/panoptic_train2017.json and the folder of that name; instances: from '
            'annotations/instances_train2017.json, with a background (needs pycocotools).',
            choices=options.COCO_MASKS,
        ),
        linked(
            'classes',
            'BuildCocoOptions.classes',
            'Categories that become classes, with ids in their order; for things or stuff alone, class 0 is the rest.',
            choices=options.COCO_CLASSES,
        ),
        linked(
            'year',
            'BuildCocoOptions.year',
            'Year in the names of files and folders.',
            also=('BuildCocoStuffOptions.year',),
        ),
        _output_dir('BuildCocoOptions'),
    ),
    to_options=plain_options(options.BuildCocoOptions),
)
_BUILD_COCO_STUFF = Program(
    name='build_coco_stuff_data',
    module='deeplab.datasets.build_coco_stuff_data',
    summary=SUMMARIES['build_coco_stuff_data'],
    example='--coco_root=coco --output_dir=coco/stuff_tfrecord',
    groups=known_builder_groups(
        linked(
            'coco_root',
            'BuildCocoStuffOptions.coco_root',
            'Folder of the images (train2017, val2017, or in images) and the pixel maps (folders of the same names in '
            'annotations or stuffthingmaps).',
            is_path=True,
        ),
        linked(
            'classes',
            'BuildCocoStuffOptions.classes',
            '171: the classes that occur, with contiguous ids; 182: the ids of the pixel maps.',
            choices=options.COCO_STUFF_CLASSES,
        ),
        linked(
            'year',
            'BuildCocoOptions.year',
            'Year in the names of files and folders.',
            also=('BuildCocoStuffOptions.year',),
        ),
        _output_dir('BuildCocoStuffOptions'),
    ),
    to_options=plain_options(options.BuildCocoStuffOptions),
)
_BUILD_MAPILLARY = Program(
    name='build_mapillary_data',
    module='deeplab.datasets.build_mapillary_data',
    summary=SUMMARIES['build_mapillary_data'],
    example='--mapillary_root=mapillary --output_dir=mapillary/tfrecord',
    groups=known_builder_groups(
        linked(
            'mapillary_root',
            'BuildMapillaryOptions.mapillary_root',
            'Folder of training, validation, testing and the configuration file (config_v1.2.json, config_v2.0.json or '
            'config.json).',
            is_path=True,
        ),
        linked(
            'annotation_version',
            'BuildMapillaryOptions.annotation_version',
            'Version of the annotations. Not set: the first that exists.',
            choices=options.MAPILLARY_VERSIONS,
        ),
        _output_dir('BuildMapillaryOptions'),
    ),
    to_options=plain_options(options.BuildMapillaryOptions),
)
_BUILD_CAMVID = Program(
    name='build_camvid_data',
    module='deeplab.datasets.build_camvid_data',
    summary=SUMMARIES['build_camvid_data'],
    example='--camvid_root=CamVid --output_dir=CamVid/tfrecord',
    groups=known_builder_groups(
        linked(
            'camvid_root',
            'BuildCamvidOptions.camvid_root',
            'Folder of train and trainannot (or train_labels) and so on, or of 701_StillsRaw_full and '
            'LabeledApproved_full, or of images and labels. Masks of colors, palettes and ids are recognized.',
            is_path=True,
        ),
        linked(
            'classes',
            'BuildCamvidOptions.classes',
            '11: the usual groups of classes; 32: all classes of the masks of colors, of which Void is ignored.',
            choices=options.CAMVID_CLASSES,
        ),
        _output_dir('BuildCamvidOptions'),
    ),
    to_options=plain_options(options.BuildCamvidOptions),
)
_BUILD_FOLDER = Program(
    name='build_folder_data',
    module='deeplab.datasets.build_folder_data',
    summary=SUMMARIES['build_folder_data'],
    example='--image_folder=images --mask_folder=masks --output_dir=tfrecord',
    groups=(*BUILD_FOLDER, *EVERY_PROGRAM),
    to_options=folder_options,
)
_REMOVE_COLORMAP = Program(
    name='remove_gt_colormap',
    module='deeplab.datasets.remove_gt_colormap',
    summary=SUMMARIES['remove_gt_colormap'],
    example='--original_gt_folder=SegmentationClass --output_dir=SegmentationClassRaw',
    groups=(
        Group(
            'Files',
            (
                linked(
                    'original_gt_folder',
                    'RemoveColormapOptions.original_gt_folder',
                    'Folder of the masks with a palette.',
                    is_path=True,
                ),
                linked('segmentation_format', 'RemoveColormapOptions.segmentation_format', 'Extension of the masks.'),
                linked(
                    'output_dir',
                    'RemoveColormapOptions.output_dir',
                    'Folder for the converted masks, which keep their names.',
                    is_path=True,
                ),
                NUM_WORKERS,
            ),
        ),
        *EVERY_PROGRAM,
    ),
    to_options=plain_options(options.RemoveColormapOptions),
)
# In the order of the help.
BUILDERS = (
    _BUILD_VOC,
    _BUILD_CITYSCAPES,
    _BUILD_ADE20K,
    _BUILD_COCO,
    _BUILD_COCO_STUFF,
    _BUILD_MAPILLARY,
    _BUILD_CAMVID,
    _BUILD_FOLDER,
    _REMOVE_COLORMAP,
)
