"""The programs of the command line, one record each: flags, options, module, example."""

from __future__ import annotations

import dataclasses

from deeplab import options
from deeplab.cli import program
from deeplab.cli.data_flags import AUGMENTATION, NUM_WORKERS, SEED, builder_groups, data_group
from deeplab.cli.inference_flags import (
    ADD_FLIPPED_IMAGES,
    EVAL_RESULTS,
    EXPORT_FILES,
    EXPORT_SIZES,
    INFERENCE_SCALES,
    PREDICTION,
    VIS_RESULTS,
    with_default,
)
from deeplab.cli.log_flags import LOG
from deeplab.cli.network_flags import HEAD, NETWORK
from deeplab.cli.program import Program
from deeplab.cli.repeat import with_repeated
from deeplab.cli.to_options import (
    checkpoint_options,
    eval_options,
    export_options,
    networks_options,
    plain_options,
    presets_options,
    preview_options,
    server_options,
    spread_against,
    train_options,
    vis_options,
)
from deeplab.cli.tool_flags import CLASSES, JSON
from deeplab.cli.training_flags import (
    CHECKPOINT_EXCLUDE_SCOPES,
    CHECKPOINT_RENAME_MAP,
    INITIALIZE_LAST_LAYER,
    LAST_LAYERS_CONTAIN_LOGITS_ONLY,
    LOSS,
    MASTER,
    OPTIMISATION,
    TRAIN_LOGS,
    TRAIN_MACHINES,
    UNUSED_HERE,
    VALIDATION,
)
from deeplab.cli.words import (
    Flag,
    Group,
)

TRAIN = Program(
    name='train',
    module='deeplab.train',
    summary='Train a network on the records of a data set.',
    example='--dataset_dir=tfrecord --train_logdir=logs/train --train_crop_size=513,513 --train_batch_size=8',
    groups=(
        data_group('train', 'train'),
        AUGMENTATION,
        NETWORK,
        HEAD,
        LOSS,
        OPTIMISATION,
        VALIDATION,
        TRAIN_LOGS,
        TRAIN_MACHINES,
        LOG,
    ),
    to_options=train_options,
    required=('train_logdir', 'dataset_dir'),
    prepare=with_repeated,
)
_PREVIEW = Program(
    name='preview',
    module='deeplab.preview',
    summary='Draw what training would see: records, what each random change does to them, whole samples.',
    example='--dataset_dir=tfrecord --train_crop_size=513,513 --rotation_degrees=10 --jitter_brightness=0.2',
    groups=(
        Group(
            'Preview; all flags of train may stand beside these',
            (
                Flag(
                    'preview_path',
                    'string',
                    None,
                    'File of the sheet, a PNG, or its folder. Not set: preview.png in --train_logdir, or where you '
                    'are without one.',
                ),
                Flag('preview_images', 'integer', 4, 'Records that are drawn with what each change does to them.'),
                Flag('preview_samples', 'integer', 8, 'Complete samples, from the first on, that are drawn.'),
            ),
        ),
        *TRAIN.groups,
    ),
    to_options=preview_options,
    required=('dataset_dir',),
    prepare=TRAIN.prepare,
)
_EVAL = Program(
    name='eval',
    module='deeplab.eval',
    summary='Measure checkpoints: mean IoU, and the IoU of each class.',
    example='--dataset_dir=tfrecord --checkpoint_dir=logs/train --eval_logdir=logs/eval --max_number_of_evaluations=1',
    groups=(
        data_group(
            'eval', 'val', Flag('eval_batch_size', 'integer', 1, 'Images that go through the network together.')
        ),
        EVAL_RESULTS,
        PREDICTION,
        NETWORK,
        HEAD,
        Group('Machines', (MASTER,)),
        UNUSED_HERE,
        LOG,
    ),
    to_options=eval_options,
    required=('checkpoint_dir', 'eval_logdir', 'dataset_dir'),
    aliases=('evaluate',),
)
_VIS = Program(
    name='vis',
    module='deeplab.vis',
    summary='Picture the predictions of a checkpoint.',
    example='--dataset_dir=tfrecord --checkpoint_dir=logs/train --vis_logdir=logs/vis --max_number_of_iterations=1',
    groups=(
        data_group('vis', 'val', Flag('vis_batch_size', 'integer', 1, 'Images that go through the network together.')),
        VIS_RESULTS,
        PREDICTION,
        NETWORK,
        HEAD,
        Group('Machines', (MASTER,)),
        UNUSED_HERE,
        LOG,
    ),
    to_options=vis_options,
    required=('checkpoint_dir', 'vis_logdir', 'dataset_dir'),
    aliases=('visualize', 'visualise'),
)
_BUILD_VOC = Program(
    name='build_voc2012_data',
    module='deeplab.datasets.build_voc2012_data',
    summary='Write records of a data set laid out as PASCAL VOC: images, masks, lists.',
    example='--image_folder=JPEGImages --image_format=jpg --list_folder=lists --output_dir=tfrecord',
    groups=builder_groups(
        Flag('image_folder', 'string', './VOCdevkit/VOC2012/JPEGImages', 'Folder of the images.'),
        Flag(
            'semantic_segmentation_folder',
            'string',
            './VOCdevkit/VOC2012/SegmentationClassRaw',
            'Folder of the masks: PNG files whose grey value, or palette index, is the class.',
        ),
        Flag(
            'list_folder',
            'string',
            './VOCdevkit/VOC2012/ImageSets/Segmentation',
            'Folder of one SPLIT.txt for each split: a file name without extension a line.',
        ),
        Flag('output_dir', 'string', './tfrecord', 'Folder that gets the records.'),
    ),
    to_options=plain_options(options.BuildVocOptions),
)
_BUILD_CITYSCAPES = Program(
    name='build_cityscapes_data',
    module='deeplab.datasets.build_cityscapes_data',
    summary='Write records of Cityscapes.',
    example='--cityscapes_root=cityscapes --output_dir=cityscapes/tfrecord',
    groups=builder_groups(
        Flag('cityscapes_root', 'string', './cityscapes', 'Folder that holds leftImg8bit and gtFine.'),
        Flag('output_dir', 'string', './tfrecord', 'Folder that gets the records.'),
    ),
    to_options=plain_options(options.BuildCityscapesOptions),
)
_ADE20K_ROOT = './ADE20K/ADEChallengeData2016'
_BUILD_ADE20K = Program(
    name='build_ade20k_data',
    module='deeplab.datasets.build_ade20k_data',
    summary='Write records of ADE20K.',
    example='--image_format=jpg --output_dir=ADE20K/tfrecord',
    groups=builder_groups(
        Flag('train_image_folder', 'string', f'{_ADE20K_ROOT}/images/training', 'Folder of the training images.'),
        Flag('train_image_label_folder', 'string', f'{_ADE20K_ROOT}/annotations/training', 'Folder of their masks.'),
        Flag('val_image_folder', 'string', f'{_ADE20K_ROOT}/images/validation', 'Folder of the validation images.'),
        Flag('val_image_label_folder', 'string', f'{_ADE20K_ROOT}/annotations/validation', 'Folder of their masks.'),
        Flag('output_dir', 'string', './ADE20K/tfrecord', 'Folder that gets the records.'),
    ),
    to_options=plain_options(options.BuildAde20kOptions),
)
_REMOVE_COLORMAP = Program(
    name='remove_gt_colormap',
    module='deeplab.datasets.remove_gt_colormap',
    summary='Turn masks with a colour palette into masks of plain class ids.',
    example='--original_gt_folder=SegmentationClass --output_dir=SegmentationClassRaw',
    groups=(
        Group(
            'Files',
            (
                Flag(
                    'original_gt_folder',
                    'string',
                    './VOCdevkit/VOC2012/SegmentationClass',
                    'Folder of the masks with a palette.',
                ),
                Flag('segmentation_format', 'string', 'png', 'Their extension.'),
                Flag(
                    'output_dir',
                    'string',
                    './VOCdevkit/VOC2012/SegmentationClassRaw',
                    'Folder that gets the plain masks, under the same names.',
                ),
                NUM_WORKERS,
            ),
        ),
        LOG,
    ),
    to_options=plain_options(options.RemoveColormapOptions),
)
_PRESETS = Program(
    name='presets',
    module='deeplab.presets',
    summary='List the published checkpoints, and show how each is used.',
    example='mobilenetv2_coco_voc_trainaug',
    groups=(
        Group(
            'Presets',
            (Flag('name', 'string', None, 'The preset to show (--name= may be left away); not set: all.'), JSON),
        ),
        LOG,
    ),
    to_options=presets_options,
    aliases=('preset',),
    positional='name',
)
NETWORKS = Program(
    name='networks',
    module='deeplab.networks',
    summary='List all networks, with parameters and multiply-adds counted from their graphs.',
    example='--model_variant=xception_65 --atrous_rates=6,12,18 --decoder_output_stride=4',
    groups=(
        Group(
            'Table',
            (
                Flag('crop_size', 'list', ['513', '513'], 'Height and width of the image that is counted for.'),
                JSON,
            ),
        ),
        CLASSES,
        PREDICTION,
        NETWORK,
        HEAD,
        LOG,
    ),
    to_options=networks_options,
)
_CHECKPOINT = Program(
    name='checkpoint',
    module='deeplab.inspect_checkpoint',
    summary='Say what is in a checkpoint, which network it fits, and what another would take of it.',
    example='logs/train/model.ckpt-30000 --against --model_variant=mobilenet_v2 --num_classes=21',
    groups=(
        Group(
            'Checkpoint',
            (
                Flag(
                    'file',
                    'string',
                    None,
                    'A checkpoint, one of its files, or a folder, such as an unpacked archive, for its newest one '
                    '(--file= may be left away).',
                ),
                Flag('variables', 'boolean', True, 'List each variable with its shape.'),
                JSON,
            ),
        ),
        Group(
            'Comparison with a network, the one that the flags from here on describe',
            (
                Flag(
                    'against',
                    'boolean',
                    False,
                    'Say what the network would take. Any flag of a network asks for it too, and --against=NAME '
                    'is --preset=NAME.',
                ),
                INITIALIZE_LAST_LAYER,
                LAST_LAYERS_CONTAIN_LOGITS_ONLY,
                CHECKPOINT_EXCLUDE_SCOPES,
                CHECKPOINT_RENAME_MAP,
            ),
        ),
        dataclasses.replace(
            CLASSES, title='Classes; where neither is given, the network has as many as the checkpoint'
        ),
        NETWORK,
        HEAD,
        LOG,
    ),
    to_options=checkpoint_options,
    required=('file',),
    positional='file',
    prepare=spread_against,
)
_DEMO = Program(
    name='demo',
    module='deeplab.demo.demo',
    summary='Show the whole job in a few minutes: draw a data set, build, train, evaluate, picture.',
    example='--workdir=deeplab_demo',
    groups=(
        Group(
            'Demo',
            (
                Flag('workdir', 'string', './deeplab_demo', 'Folder that gets everything the demo makes.'),
                Flag('steps', 'integer', None, "Training steps; not set: the demo's own number."),
                SEED,
            ),
        ),
        LOG,
    ),
    to_options=plain_options(options.DemoOptions),
    runs_others=True,
)
_EXPORT = Program(
    name='export_model',
    module='deeplab.export_model',
    summary='Turn a checkpoint into one file that runs without this package.',
    example='--checkpoint_path=logs/train/model.ckpt-30000 --export_path=frozen_inference_graph.pb --output_stride=16',
    groups=(
        EXPORT_FILES,
        EXPORT_SIZES,
        Group('Scales and flips', (INFERENCE_SCALES, ADD_FLIPPED_IMAGES)),
        Group('Network', tuple(with_default(flag, 'output_stride', 8) for flag in NETWORK.flags)),
        HEAD,
        UNUSED_HERE,
        LOG,
    ),
    to_options=export_options,
    required=('checkpoint_path', 'export_path'),
    aliases=('export',),
)
_SERVER = Program(
    name='server',
    module='deeplab.server',
    summary='Serve as one machine of several that train together.',
    example='--job_name=ps --task=0 --ps_hosts=one:2222 --worker_hosts=one:2223,two:2223',
    groups=(
        Group(
            'Cluster',
            (
                Flag(
                    'job_name',
                    'enum',
                    'worker',
                    'What this server is: ps holds weights, worker computes.',
                    options.JOBS,
                ),
                Flag('task', 'integer', 0, 'Its number among the servers of its kind.'),
                Flag('worker_hosts', 'string', None, 'HOST:PORT of all that compute, with commas between them.'),
                Flag('ps_hosts', 'string', None, 'HOST:PORT of all that hold weights; not set: none.'),
            ),
        ),
        LOG,
    ),
    to_options=server_options,
    required=('worker_hosts',),
)
program.register(
    _DEMO,
    _BUILD_VOC,
    _BUILD_CITYSCAPES,
    _BUILD_ADE20K,
    _REMOVE_COLORMAP,
    _PREVIEW,
    TRAIN,
    _EVAL,
    _VIS,
    _EXPORT,
    NETWORKS,
    _CHECKPOINT,
    _PRESETS,
    _SERVER,
)
