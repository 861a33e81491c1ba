"""Program records of the command line: flags, options, module, example."""

from __future__ import annotations

import dataclasses
import functools

from deeplab import options
from deeplab.cli import early, program, slim
from deeplab.cli.builder_programs import BUILDERS
from deeplab.cli.links import flag_of, of
from deeplab.cli.program import Program
from deeplab.cli.recipes import RECIPE
from deeplab.cli.repeat import with_repeated, with_run_of_checkpoints
from deeplab.cli.report_flags import compare_options, report_groups, report_options
from deeplab.cli.shared_flags import (
    CLASSES,
    DEFAULT_CROP,
    HEAD,
    NETWORK,
    NUM_THREADS,
    PREDICTION,
    RESIZE,
    WINDOWS,
    data_group,
    engine_group,
)
from deeplab.cli.to_options import (
    OF_EACH_FOLD,
    average_options,
    benchmark_options,
    checkpoint_options,
    cross_validate_options,
    eval_options,
    export_options,
    networks_options,
    plain_options,
    predict_options,
    preview_options,
    rank_options,
    spread_against,
    train_options,
    verify_options,
    vis_options,
)
from deeplab.cli.words import Entry, Flag, Group
from deeplab.overview import TRAIN_EXAMPLE

# Names of flags that --help shows for many programs, see `Program.common`.
_RANK_VIEWS = ('view_scales', 'view_flipped')
_NETWORK_FLAGS = 'preset model_variant output_stride atrous_rates decoder_output_stride'
_PAGE_FLAGS = (
    'output images metrics_dir dataset_dir dataset eval_split eval_crop_size use_moving_average window engine preset'
)

# Fields of TrainOptions by the heading of their flags; all others are about optimization.
_LOGS = ('train_logdir', 'initial_checkpoint', 'initialize_last_layer')
_SAVED = (
    'save_interval_secs',
    'save_summaries_secs',
    'save_summaries_images',
    'save_summaries_miou',
    'log_steps',
    'profile_logdir',
    'repeats',
)
_MACHINES = ('precision', 'xla')
# Fields with flags in other groups.
_EVAL_RESULTS = ('checkpoint_dir', 'ensemble', 'all_checkpoints', 'use_moving_average', 'eval_logdir')
_OUTSIDE = ('master', 'batch_size')
_PREDICT_SOURCES = ('checkpoint_dir', 'ensemble', 'export_path')
_PREDICT_SIZES = ('crop_size', 'batch_size')
_REPAIR = ('fix', 'ignore_other_ids')
_UNUSED = Group(
    'Accepted so that the same flags can be passed to all programs', flag_of(options.LossOptions, 'label_weights')
)


def _network_of_export() -> list[Flag]:
    """Returns the network flags; the default is 8 in the original's export, 16 in its other programs."""
    return [dataclasses.replace(flag, default=8) if flag.name == 'output_stride' else flag for flag in NETWORK.flags]


def _wait(rounds: str, meaning: str) -> tuple[Entry, ...]:
    """Returns the flags that say how a program waits for checkpoints; `rounds` names the limit of their number."""
    return (
        of(options.WaitOptions, without=['max_rounds']),
        flag_of(options.WaitOptions, 'max_rounds', name=rounds, meaning=f'{meaning}; 0: wait for new ones forever.'),
    )


def _windows_of_large_images() -> tuple[Entry, ...]:
    """Returns the flags of windows, without which images of any size could not be predicted."""
    meaning = (
        'Height and width of the overlapping windows in which larger images are predicted, such as 513,513. Not set: '
        '513,513, or --eval_crop_size, for images of more than 4,194,304 pixels.'
    )
    return flag_of(options.WindowOptions, 'window', meaning=meaning), of(options.WindowOptions, without=['window'])


TRAIN = Program(
    name='train',
    package='deeplab',
    example=TRAIN_EXAMPLE,
    groups=(
        data_group('train', 'train'),
        Group('Augmentation of training images', of(options.AugmentOptions)),
        NETWORK,
        HEAD,
        Group('Loss', of(options.LossOptions), of(options.OptimizerOptions, 'weight_decay')),
        Group(
            'Optimization',
            RECIPE,
            of(options.TrainOptions, without=[*_LOGS, *_SAVED, *_MACHINES]),
            of(options.OptimizerOptions, without=['weight_decay']),
            of(options.LearningRateOptions),
            of(options.NasOptions, 'drop_path_keep_prob'),
        ),
        Group('Learning rate range test', of(options.RateTestOptions)),
        Group('Unlabeled images', of(options.UnlabeledOptions)),
        Group('Validation during training', of(options.ValidationOptions)),
        Group(
            'Checkpoints and logs',
            of(options.TrainOptions, *_LOGS),
            of(options.RestoreOptions),
            of(options.TrainOptions, *_SAVED),
            of(options.LoggerOptions),
        ),
        Group('Machines', of(options.TrainOptions, *_MACHINES), NUM_THREADS, of(options.CloneOptions)),
    ),
    to_options=train_options,
    beginning=(early.use_one_dnn, early.limit_arenas, early.check_records),
    required=('train_logdir', 'dataset_dir'),
    prepare=with_repeated,
    common=(
        'dataset train_split train_crop_size min_scale_factor max_scale_factor rotation_degrees jitter_brightness '
        'loss label_weights weight_decay recipe training_number_of_steps train_batch_size fine_tune_batch_norm '
        'optimizer learning_policy base_learning_rate seed eval_split eval_every early_stop_evals '
        'tf_initial_checkpoint initialize_last_layer save_interval_secs log_steps from precision num_clones '
        + _NETWORK_FLAGS
    ),
)
# In the order of the help.
program.PROGRAMS += [
    Program(
        name='demo',
        package='deeplab.programs.demo',
        example='--workdir=deeplab_demo',
        groups=(Group('Demo', of(options.DemoOptions)),),
        to_options=plain_options(options.DemoOptions),
        runs_others=True,
    ),
    *BUILDERS,
    Program(
        name='download',
        example='mobilenetv2_coco_voc_trainaug',
        groups=(Group('Download', of(options.DownloadOptions), of(options.FetchOptions)),),
        to_options=plain_options(options.DownloadOptions),
        positional='name',
    ),
    Program(
        name='download_and_convert_data',
        package='deeplab.slim',
        example='--dataset_name=flowers --dataset_dir=flowers',
        groups=(Group('Data set', of(options.ConvertDataOptions), of(options.FetchOptions, 'mirror')),),
        to_options=plain_options(options.ConvertDataOptions),
        required=('dataset_name', 'dataset_dir'),
    ),
    Program(
        name='datasets',
        example='tfrecord',
        groups=(Group('Data sets', of(options.ListDatasetsOptions)),),
        to_options=plain_options(options.ListDatasetsOptions),
        positional='directory',
    ),
    Program(
        name='doctor',
        example='tfrecord --dataset=camvid',
        groups=(
            Group('Data', of(options.DoctorOptions, without=_REPAIR), of(options.PartOptions)),
            Group('Repaired copy', of(options.DoctorOptions, *_REPAIR)),
        ),
        to_options=plain_options(options.DoctorOptions),
        required=('data',),
        positional='data',
    ),
    Program(
        name='preview',
        example='--dataset_dir=tfrecord --train_crop_size=513,513 --rotation_degrees=10 --jitter_brightness=0.2',
        groups=(
            Group('Preview; all flags of train are also accepted', of(options.PreviewOptions)),
            *TRAIN.groups,
        ),
        to_options=preview_options,
        required=('dataset_dir',),
        prepare=TRAIN.prepare,
        common=(
            'preview_path preview_images preview_samples dataset train_split train_crop_size min_scale_factor '
            'max_scale_factor rotation_degrees jitter_brightness jitter_contrast jitter_saturation jitter_hue '
            'rare_class_sampling blur_probability cutout_count flip_probability train_batch_size seed train_logdir'
        ),
    ),
    TRAIN,
    Program(
        name='cross_validate',
        example='--dataset_dir=tfrecord --output_dir=logs/cross_validation --train_crop_size=513,513',
        groups=(
            Group(
                'Cross-validation; all flags of train are also accepted, except for folder, fold and splits',
                of(options.CrossValidateOptions),
            ),
            *TRAIN.groups,
        ),
        to_options=cross_validate_options,
        beginning=(early.use_one_dnn, early.limit_arenas),
        required=('dataset_dir', 'output_dir'),
        prepare=functools.partial(with_repeated, omitted=OF_EACH_FOLD),
        common=f'output_dir save images {TRAIN.common}',
    ),
    Program(
        name='eval',
        package='deeplab',
        example='--dataset_dir=tfrecord --checkpoint_dir=logs/train --eval_logdir=logs/eval '
        '--max_number_of_evaluations=1',
        groups=(
            data_group('eval', 'val', of(options.EvalOptions, 'batch_size')),
            Group(
                'Checkpoints and results',
                of(options.EvalOptions, *_EVAL_RESULTS),
                *_wait('max_number_of_evaluations', 'Number of checkpoints to evaluate'),
                of(options.PartOptions),
            ),
            Group('Metrics', of(options.EvalOptions, without=[*_EVAL_RESULTS, *_OUTSIDE])),
            PREDICTION,
            WINDOWS,
            NETWORK,
            HEAD,
            engine_group(of(options.EvalOptions, 'master')),
            _UNUSED,
        ),
        to_options=eval_options,
        beginning=(early.use_one_dnn, early.check_records, early.announce_wait),
        required=('checkpoint_dir', 'eval_logdir', 'dataset_dir'),
        aliases=('evaluate',),
        common=(
            'dataset eval_split eval_crop_size eval_batch_size ensemble all_checkpoints use_moving_average '
            'max_number_of_evaluations timeout_secs metrics eval_scales add_flipped_images window engine '
            + _NETWORK_FLAGS
        ),
    ),
    Program(
        name='verify',
        example='--preset=mobilenetv2_coco_voc_trainaug --dataset_dir=tfrecord',
        groups=(
            Group(
                'Checkpoint, published figures and results',
                Flag(
                    'published',
                    'string',
                    None,  # the options have the evaluations themselves
                    'JSON file with published figures: a list of objects with output_stride, scales, flips, split, '
                    'miou (in percent). Not set: the figures of --preset.',
                    fields=('VerifyOptions.cases',),
                    is_path=True,
                ),
                of(options.VerifyOptions, without=['batch_size']),
                of(options.FetchOptions),
            ),
            data_group('eval', 'val', of(options.VerifyOptions, 'batch_size')),
            NETWORK,
            HEAD,
        ),
        to_options=verify_options,
        beginning=(early.use_one_dnn,),
        required=('dataset_dir',),
        common='checkpoint_dir published tolerance verify_logdir dataset eval_split eval_crop_size ' + _NETWORK_FLAGS,
    ),
    Program(
        name='report',
        example='logs/train --dataset_dir=tfrecord --output=report.html',
        groups=report_groups(
            'Log folder of a training run, checkpoint or export; several are compared with the first',
            'report.html',
            without=['max_miou_loss'],
        ),
        to_options=report_options,
        beginning=(early.check_report, early.use_one_dnn),
        required=('run',),
        positional='run',
        common=_PAGE_FLAGS,
    ),
    Program(
        name='compare',
        example='logs/one logs/two --dataset_dir=tfrecord --output=compare.html',
        groups=report_groups(
            'Checkpoint, export or log folder of a training run; the others are compared with the first', 'compare.html'
        ),
        to_options=compare_options,
        beginning=(early.check_report, early.use_one_dnn),
        required=('run',),
        positional='run',
        common=f'max_miou_loss {_PAGE_FLAGS}',
    ),
    Program(
        name='networks',
        example='--model_variant=xception_65 --atrous_rates=6,12,18 --decoder_output_stride=4',
        groups=(
            Group(
                'Table',
                flag_of(
                    options.ModelOptions,
                    'crop_size',
                    default=DEFAULT_CROP,  # a network of unknown size, None in the options, has no cost
                    meaning='Height and width, in pixels, of the input for which multiply-adds are computed.',
                ),
                of(options.NetworksOptions),
            ),
            CLASSES,
            PREDICTION,
            NETWORK,
            HEAD,
        ),
        to_options=networks_options,
        common='crop_size json dataset num_classes ' + _NETWORK_FLAGS,
    ),
    Program(
        name='presets',
        example='mobilenetv2_coco_voc_trainaug',
        groups=(Group('Presets', of(options.PresetsOptions)),),
        to_options=plain_options(options.PresetsOptions),
        aliases=('preset',),
        positional='name',
    ),
    Program(
        name='checkpoint',
        example='logs/train/model.ckpt-30000 --against --model_variant=mobilenet_v2 --num_classes=21',
        groups=(
            Group('Checkpoint', of(options.CheckpointOptions, without=['initialize_last_layer'])),
            Group(
                'Comparison with the network that the following flags describe',
                Flag(
                    'against',
                    'boolean',
                    False,  # the options have the network itself, or None
                    'Show what the network would restore. Any network flag implies it; --against=NAME is short for '
                    '--preset=NAME.',
                    fields=('CheckpointOptions.against',),
                ),
                of(options.CheckpointOptions, 'initialize_last_layer'),
                of(options.OptimizerOptions, 'last_layers_contain_logits_only'),
                of(options.RestoreOptions, without=['ignore_missing_vars']),  # it always shows what is missing
            ),
            Group('Classes; if not given, the classes of the checkpoint', *CLASSES.entries),
            NETWORK,
            HEAD,
        ),
        to_options=checkpoint_options,
        required=('file',),
        positional='file',
        prepare=spread_against,
        common='variables json against dataset num_classes ' + _NETWORK_FLAGS,
    ),
    Program(
        name='average_checkpoints',
        example='logs/train --output_dir=logs/average',
        groups=(
            Group(
                'Checkpoints; all flags of train are also accepted, and override the run.json',
                of(options.AverageOptions),
            ),
            *TRAIN.groups,
        ),
        to_options=average_options,
        beginning=(early.use_one_dnn, early.limit_arenas),
        required=('checkpoints', 'output_dir'),
        positional='checkpoints',
        prepare=with_run_of_checkpoints,
        common='output_dir batch_norm_images use_moving_average dataset dataset_dir train_split ' + _NETWORK_FLAGS,
    ),
    Program(
        name='launch',
        example='--workers=2 --restarts=3 -- train --dataset_dir=tfrecord --train_logdir=logs/train '
        '--train_batch_size=16',
        groups=(Group('Workers', of(options.LaunchOptions)),),
        to_options=plain_options(options.LaunchOptions),
        required=('command',),
        positional='command',
    ),
    Program(
        name='server',
        example='--job_name=ps --task=0 --ps_hosts=one:2222 --worker_hosts=one:2223,two:2223',
        groups=(Group('Cluster', of(options.ServerOptions)),),
        to_options=plain_options(options.ServerOptions),
        required=('worker_hosts',),
    ),
    Program(
        name='predict',
        example='photos --checkpoint_dir=logs/train --output_dir=predictions',
        groups=(
            Group(
                'Images and results',
                of(options.PredictOptions, without=_PREDICT_SOURCES),
                of(options.PredictorOptions, 'classes'),
                of(options.AnnotationOptions),
                of(options.RasterOptions),
                of(options.PartOptions),
            ),
            Group(
                'Network: one of --checkpoint_dir, --export_path and --preset',
                of(options.PredictOptions, *_PREDICT_SOURCES),
                of(options.FetchOptions),
                of(options.PredictorOptions, without=['classes', *_PREDICT_SIZES]),
            ),
            Group(
                'Image sizes and windows',
                of(options.PredictorOptions, *_PREDICT_SIZES),
                *_windows_of_large_images(),
                *RESIZE,
            ),
            PREDICTION,
            engine_group(),
            NETWORK,
            HEAD,
        ),
        to_options=predict_options,
        beginning=(early.use_one_dnn,),
        required=('inputs',),
        positional='inputs',
        common=(
            'output_dir save classes overlay_alpha overwrite checkpoint_dir ensemble export_path dataset '
            'use_moving_average eval_crop_size window eval_scales add_flipped_images engine ' + _NETWORK_FLAGS
        ),
    ),
    Program(
        name='rank',
        example='photos --checkpoint_dir=logs/train --output_dir=ranking',
        groups=(
            Group('Images and results', of(options.RankOptions, without=_RANK_VIEWS), of(options.PartOptions)),
            Group('Views of an image', of(options.RankOptions, *_RANK_VIEWS)),
            Group('Prediction', of(options.PredictorOptions, without=['classes'])),
            Group('Image sizes and windows', *_windows_of_large_images(), *RESIZE),
            engine_group(),
            NETWORK,
            HEAD,
        ),
        to_options=rank_options,
        beginning=(early.use_one_dnn,),
        required=('inputs', 'checkpoint_dir'),
        positional='inputs',
        common=(
            'output_dir first measure class_balance labeled checkpoint_dir view_scales view_flipped eval_crop_size '
            'window engine ' + _NETWORK_FLAGS
        ),
    ),
    Program(
        name='vis',
        package='deeplab',
        example='--dataset_dir=tfrecord --checkpoint_dir=logs/train --vis_logdir=logs/vis --max_number_of_iterations=1',
        groups=(
            data_group('vis', 'val', of(options.VisOptions, 'batch_size')),
            Group(
                'Checkpoints and results',
                of(options.VisOptions, without=_OUTSIDE),
                *_wait('max_number_of_iterations', 'Number of checkpoints to visualize'),
                of(options.PartOptions),
            ),
            PREDICTION,
            WINDOWS,
            NETWORK,
            HEAD,
            engine_group(of(options.VisOptions, 'master')),
            _UNUSED,
        ),
        to_options=vis_options,
        beginning=(early.use_one_dnn, early.check_records, early.announce_wait),
        required=('checkpoint_dir', 'vis_logdir', 'dataset_dir'),
        aliases=('visualize', 'visualise'),
        common=(
            'dataset vis_split vis_crop_size vis_batch_size use_moving_average colormap_type also_save_raw_predictions '
            'save submission max_number_of_iterations timeout_secs eval_scales add_flipped_images window engine '
            + _NETWORK_FLAGS
        ),
    ),
    Program(
        name='merge',
        example='logs/eval',
        groups=(Group('Parts', of(options.MergeOptions)),),
        to_options=plain_options(options.MergeOptions),
        required=('folder',),
        positional='folder',
    ),
    Program(
        name='eval_coco_format',
        package='deeplab.evaluation',
        example='--gt_json_file=gt.json --gt_folder=gt --pred_json_file=predicted.json --pred_folder=predicted',
        groups=(
            Group(
                'Files, metric and output',
                of(options.CocoFormatOptions),
                Flag(
                    'intersection_offset',
                    'integer',
                    None,
                    'Accepted for compatibility with old command lines; it has no effect, whether set or not set.',
                ),
            ),
        ),
        to_options=plain_options(options.CocoFormatOptions),
        required=('gt_json_file', 'gt_folder', 'pred_json_file', 'pred_folder'),
    ),
    *slim.PROGRAMS,
    Program(
        name='export_model',
        package='deeplab',
        example='--checkpoint_path=logs/train/model.ckpt-30000 --export_path=frozen_inference_graph.pb '
        '--output_stride=16',
        groups=(
            Group('Checkpoint and export', of(options.ExportOptions, without=['image_bits'])),
            Group(
                'Classes, sizes and channels',
                Flag(
                    'num_classes',
                    'integer',
                    21,  # of the original's flag; the options have no default
                    'Number of classes of the checkpoint.',
                    fields=('ModelOptions.outputs_to_num_classes',),
                ),
                flag_of(options.ModelOptions, 'input_channels', name='image_channels'),
                of(options.ExportOptions, 'image_bits'),
                flag_of(
                    options.ModelOptions,
                    'crop_size',
                    kind='repeated integer',
                    default=[513, 513],  # of the original's flag; a network of unknown size has None in the options
                    meaning='Height and width, in pixels, of the largest image that the export accepts: 513,513, '
                    'or one flag for each.',
                ),
                *RESIZE,
            ),
            Group('Conversion to tflite, onnx and openvino; layout of saved_model', of(options.ConversionOptions)),
            Group('Comparison with the checkpoint', of(options.ProofOptions)),
            Group(
                'Scales and flips',
                flag_of(options.PredictionOptions, 'scales', name='inference_scales'),
                of(options.PredictionOptions, without=['scales']),
            ),
            Group('Network', _network_of_export),
            HEAD,
            Group('Machine', NUM_THREADS),
            _UNUSED,
        ),
        to_options=export_options,
        beginning=(early.use_one_dnn,),
        required=('checkpoint_path', 'export_path'),
        aliases=('export',),
        common=(
            'use_moving_average format crop_size num_classes input_type outputs resizable calibration_split '
            'calibration_images dataset dataset_dir verify_split sample_images inference_scales ' + _NETWORK_FLAGS
        ),
    ),
    Program(
        name='convert_to_tflite',
        package='deeplab',
        example='--quantized_graph_def_path=frozen_inference_graph.pb --output_tflite_path=model.tflite',
        groups=(Group('Graph and model', of(options.ConvertOptions)),),
        to_options=plain_options(options.ConvertOptions),
        beginning=(early.use_one_dnn,),
        required=('quantized_graph_def_path', 'output_tflite_path'),
    ),
    Program(
        name='benchmark',
        package='deeplab.programs.benchmark',
        example='--model_variant=mobilenet_v2 --train_crop_size=513,513 --train_batch_size=8',
        groups=(
            Group(
                'Benchmark; all flags of train are also accepted',
                of(options.BenchmarkOptions),
                of(options.EngineOptions, 'engine'),
                flag_of(
                    options.EngineOptions,
                    'precision',
                    name='inference_precision',
                    meaning='Data type for inference.',
                ),
                of(options.EngineOptions, 'calibration_dir'),
            ),
            *TRAIN.groups,
        ),
        to_options=benchmark_options,
        beginning=(early.use_one_dnn,),  # the processes that measure inherit it
        prepare=TRAIN.prepare,
        positional='exports',
        common=(
            'exports batch size output image_size checkpoint_dir batch_sizes engine inference_precision '
            'calibration_dir threads training_batch_sizes budget_secs dataset_dir train_crop_size train_batch_size '
            'precision ' + _NETWORK_FLAGS
        ),
    ),
]
