"""Flags of evaluation, visualization and export."""

from __future__ import annotations

import dataclasses
from typing import Any

from deeplab import options
from deeplab.cli.data_flags import RESIZE
from deeplab.cli.links import each_with_summary, linked, parameters
from deeplab.cli.training_flags import MASTER, NUM_THREADS
from deeplab.cli.words import Flag, Group
from deeplab.registry import CONFUSION_MATRIX, ENGINES, EXPORT_FORMATS, METRICS

_EVAL_SCALES = linked(
    'eval_scales',
    'PredictionOptions.scales',
    'Scales of the image whose predictions are averaged, one flag per scale, such as 0.5, 0.75, ... 1.75.',
    kind='repeated float',
)
INFERENCE_SCALES = dataclasses.replace(_EVAL_SCALES, name='inference_scales')
ADD_FLIPPED_IMAGES = linked(
    'add_flipped_images',
    'PredictionOptions.add_flipped_images',
    'Also average over left-right flipped images; it has no effect if 1.0 is the only scale.',
)
PREDICTION = Group('Scales and flips', (_EVAL_SCALES, ADD_FLIPPED_IMAGES))


def windows(if_not_set: str) -> tuple[Flag, ...]:
    """Returns the flags of windows; `if_not_set` says what happens without --window."""
    return (
        linked(
            'window',
            'WindowOptions.window',
            'Height and width of the overlapping windows in which a larger image is predicted, such as 513,513. Not '
            f'set: {if_not_set}.',
            kind='list',
        ),
        linked(
            'window_stride',
            'WindowOptions.window_stride',
            'Vertical and horizontal distance of the windows. Not set: three quarters of their size.',
            kind='list',
        ),
        linked(
            'whole_pixels',
            'WindowOptions.whole_pixels',
            'Predict images of up to this many pixels without windows. Not set: 4194304; 0 with --window.',
        ),
    )


WINDOWS = Group('Large images', windows('no windows'))
_CHECKPOINT_DIR = linked(
    'checkpoint_dir',
    'EvalOptions.checkpoint_dir',
    'Folder of the checkpoints, which is the --train_logdir of training; or one checkpoint, or an export.',
    also=('VisOptions.checkpoint_dir',),
    is_path=True,
)
USE_MOVING_AVERAGE = linked(
    'use_moving_average',
    'EvalOptions.use_moving_average',
    'Use the exponential moving averages (EMA) of the weights, which training with --moving_average_decay keeps. Not '
    'set: yes if the run.json of the training names a decay.',
    also=(
        'VisOptions.use_moving_average',
        'ExportOptions.use_moving_average',
        'PredictorOptions.use_moving_average',
    ),
)


def _wait_flags(rounds: Flag) -> tuple[Flag, ...]:
    """Returns the flags that say how a program waits for checkpoints."""
    return (
        linked(
            'eval_interval_secs',
            'WaitOptions.interval_secs',
            'Minimum number of seconds between the starts of two rounds.',
            kind='integer',
        ),
        rounds,
        linked(
            'timeout_secs',
            'WaitOptions.timeout_secs',
            'Stop after this many seconds without a new checkpoint. Not set: if the number of rounds is limited, stop '
            'when no training runs in the folder or starts there within 60 seconds; otherwise wait forever.',
        ),
    )


def _rounds(name: str, meaning: str) -> Flag:
    """Returns the flag that limits the number of rounds."""
    # 0 is "no limit" of the original's flags; None in the options.
    return Flag(name, 'integer', 0, meaning, fields=('WaitOptions.max_rounds',))


def _metrics() -> list[Flag]:
    """Returns --metrics, which names all registered metrics."""
    known = ', '.join(name for name in METRICS.names() if name != CONFUSION_MATRIX)
    meaning = (
        'Comma-separated names of further metrics, which are computed in addition to mean IoU, the IoU of each class '
        f'and accuracies: {known}; all: each that the data set allows. Not set: none.'
    )
    return [linked('metrics', 'EvalOptions.metrics', meaning, kind='string')]


def engine_flag() -> list[Flag]:
    """Returns --engine, which names all registered engines."""
    meaning = (
        f'What runs the network. {options.AUTO_ENGINE}: the fastest of the installed ones; {each_with_summary(ENGINES)}'
    )
    choices = (*ENGINES.names(), options.AUTO_ENGINE)
    return [linked('engine', 'EngineOptions.engine', meaning, choices=choices)]


INFERENCE_THREADS = linked(
    'inference_threads',
    'EngineOptions.threads',
    'Number of threads of an engine other than tensorflow. Not set: --num_threads.',
)
ENGINE = Group(
    'Machines and engines',
    (
        MASTER,
        engine_flag,
        linked(
            'precision',
            'EngineOptions.precision',
            'Data type in which the engine computes. 16-bit types need a processor and an engine that support them; '
            'the share of labels that change is reported.',
            choices=options.PRECISIONS,
        ),
        NUM_THREADS,
        INFERENCE_THREADS,
    ),
)
METRIC_FLAGS = Group('Metrics', (_metrics, parameters('EvalOptions')))
EVAL_RESULTS = Group(
    'Checkpoints and results',
    (
        dataclasses.replace(
            _CHECKPOINT_DIR,
            meaning=f'{_CHECKPOINT_DIR.meaning} Repeat the flag to compare several, each evaluated once.',
        ),
        linked(
            'all_checkpoints',
            'EvalOptions.all_checkpoints',
            'Evaluate every checkpoint of the folder once, by step, instead of waiting for new ones.',
        ),
        USE_MOVING_AVERAGE,
        linked(
            'eval_logdir',
            'EvalOptions.eval_logdir',
            'Folder for the metrics: metrics-STEP.json and TensorBoard summaries.',
            is_path=True,
        ),
        *_wait_flags(
            _rounds('max_number_of_evaluations', 'Number of checkpoints to evaluate; 0: wait for new ones forever.')
        ),
    ),
)
VIS_RESULTS = Group(
    'Checkpoints and results',
    (
        _CHECKPOINT_DIR,
        USE_MOVING_AVERAGE,
        linked('vis_logdir', 'VisOptions.vis_logdir', 'Folder for the images.', is_path=True),
        Flag(
            'colormap_type',
            'enum',
            'pascal',  # of the original's flag; the options have None, for the colors of the data set
            'Color map of the classes. If not given, the colors of the data set are used.',
            options.COLORMAP_TYPES,
            fields=('VisOptions.colormap_type',),
        ),
        linked(
            'also_save_raw_predictions',
            'VisOptions.also_save_raw_predictions',
            'Also write the class ids, as grayscale PNG files.',
        ),
        linked(
            'save',
            'VisOptions.save',
            'Comma-separated kinds of further pictures of each image: overlay (colors over the image), contours '
            '(outlines of the segments on the image), confidence (probability of the class, gray), errors (wrong '
            'pixels; needs masks), legend (names and colors of the classes, in all images and in each). Not set: none.',
            kind='string',
        ),
        linked(
            'overlay_alpha',
            'VisOptions.overlay_alpha',
            'Opacity of the colors of overlays, 0 to 1. If given, overlays are written.',
        ),
        linked(
            'submission',
            'VisOptions.submission',
            'Also write the archive that this evaluation server asks for: voc (PASCAL VOC 2012, .tar.gz) or '
            'cityscapes (.zip). It is checked before it is put in place. Not set: none.',
            choices=options.SUBMISSIONS,
        ),
        *_wait_flags(
            _rounds('max_number_of_iterations', 'Number of checkpoints to visualize; 0: wait for new ones forever.')
        ),
    ),
)


def _formats() -> list[Flag]:
    """Returns --format, which names all registered formats with their variants."""
    known = '; '.join(
        f'{record.name} ({", ".join(record.variants)})' if len(record.variants) > 1 else record.name
        for record in EXPORT_FORMATS.records()
    )
    meaning = (
        f'Formats to write, each FORMAT or FORMAT:VARIANT, comma-separated or repeated: {known}. Each export gets '
        'metadata, is compared with the checkpoint and measured; several are written to the folder --export_path. Not '
        'set: --export_format.'
    )
    return [linked('format', 'ExportOptions.formats', meaning, kind='repeated string')]


def _export_format() -> list[Flag]:
    """Returns --export_format, which names all registered formats."""
    meaning = f'{each_with_summary(EXPORT_FORMATS)} Not set: by the ending of --export_path, otherwise frozen_graph.'
    return [linked('export_format', 'ExportOptions.export_format', meaning, choices=EXPORT_FORMATS.names())]


EXPORT_FILES = Group(
    'Checkpoint and export',
    (
        linked(
            'checkpoint_path',
            'ExportOptions.checkpoint_path',
            'The checkpoint, such as logs/train/model.ckpt-30000 (without .index), or a folder, whose newest '
            'checkpoint is used.',
            is_path=True,
        ),
        USE_MOVING_AVERAGE,
        linked(
            'export_path',
            'ExportOptions.export_path',
            'File to write; folder to write for a format that is a folder, such as saved_model. The endings .pb, '
            '.tflite, .onnx and .xml (openvino) choose the format.',
            is_path=True,
        ),
        _formats,
        _export_format,
        parameters('ExportOptions'),
        linked(
            'save_inference_graph',
            'ExportOptions.save_inference_graph',
            'Also write the graph with its variables as text, to inference_graph.pbtxt beside the export.',
        ),
    ),
)
EXPORT_SIZES = Group(
    'Classes, sizes and channels',
    (
        Flag(
            'num_classes',
            'integer',
            21,  # of the original's flag; the options have no default
            'Number of classes of the checkpoint.',
            fields=('ModelOptions.outputs_to_num_classes',),
        ),
        linked(
            'image_channels',
            'ModelOptions.input_channels',
            'Number of channels of the images that the network was trained on.',
        ),
        linked(
            'image_bits',
            'ExportOptions.image_bits',
            'Bits per channel of those images, 8 or 16; with 16 the export takes images of uint16.',
        ),
        Flag(
            'crop_size',
            'repeated integer',
            [513, 513],  # of the original's flag; a network of unknown size has None in the options
            'Height and width, in pixels, of the largest image that the export accepts: 513,513, or one flag for each.',
            fields=('ModelOptions.crop_size',),
        ),
        *RESIZE,
    ),
)


EXPORT_CONVERSION = Group(
    'Conversion to tflite, onnx and openvino; layout of saved_model',
    (
        linked(
            'input_type',
            'ConversionOptions.input_type',
            'Type of the images, 0 to 255, that tflite, onnx and openvino take.',
            choices=options.INPUT_TYPES,
        ),
        linked(
            'outputs',
            'ConversionOptions.outputs',
            'Outputs of tflite, onnx and openvino: labels alone, which is faster, or labels and probabilities.',
            choices=options.OUTPUTS,
        ),
        linked(
            'resizable',
            'ConversionOptions.is_resizable',
            'Images may have any size, instead of that of --crop_size alone.',
        ),
        linked(
            'dynamic_batch',
            'ConversionOptions.has_dynamic_batch',
            'Take any number of images at a time, instead of 1.',
        ),
        linked(
            'calibration_split',
            'ConversionOptions.calibration_split',
            'Split whose images determine the ranges of 8-bit activations, for the variant int8.',
        ),
        linked(
            'calibration_images',
            'ConversionOptions.calibration_images',
            'Number of its images that are used, evenly spaced.',
        ),
        linked(
            'serving_version',
            'ConversionOptions.serving_version',
            'Write saved_model in the layout of TensorFlow Serving, to --export_path/VERSION. Not set: to '
            '--export_path itself.',
        ),
        linked(
            'serving_warmup',
            'ConversionOptions.has_warmup',
            'Add a request to saved_model with which TensorFlow Serving warms up.',
        ),
    ),
)
EXPORT_PROOF = Group(
    'Comparison with the checkpoint',
    (
        Flag(
            'dataset',
            'string',
            None,  # None in the options, too, which other programs do not have
            'Data set with the names and colors of the classes. Not set: that of the training, if it is known.',
            fields=('ProofOptions.dataset', 'PredictorOptions.dataset'),
            is_path=True,
        ),
        linked(
            'dataset_dir',
            'ProofOptions.dataset_dir',
            'Folder of the records, for samples, calibration and verification. Not set: samples are generated.',
            is_path=True,
        ),
        linked(
            'verify_split',
            'ProofOptions.verify_split',
            'Split on which the mean IoU of checkpoint and export is measured. Not set: none.',
        ),
        linked(
            'sample_images',
            'ProofOptions.sample_images',
            'Number of images on which labels and probabilities are compared.',
        ),
        linked(
            'max_miou_loss',
            'ProofOptions.max_miou_loss',
            'Largest loss of mean IoU, 0 to 1, on --verify_split; an export that loses more is not written. Not set: '
            'any.',
        ),
    ),
)


CONVERSION_FILES = Group(
    'Graph and model',
    (
        linked(
            'quantized_graph_def_path',
            'ConvertOptions.quantized_graph_def_path',
            'Frozen graph of export_model; one of 8-bit training gives an 8-bit model.',
            is_path=True,
        ),
        linked('output_tflite_path', 'ConvertOptions.output_tflite_path', 'File to write.', is_path=True),
        linked(
            'input_tensor_name',
            'ConvertOptions.input_tensor_name',
            'Tensor of the normalized image. Not set: SCOPE/SCOPE/input:0, which exports have.',
        ),
        linked('output_tensor_name', 'ConvertOptions.output_tensor_name', 'Tensor of the class ids.'),
        linked(
            'test_image_path',
            'ConvertOptions.test_image_path',
            'Image on which the labels of both are compared. Not set: none.',
            is_path=True,
        ),
    ),
)


def with_default(flag: Flag, name: str, default: Any) -> Flag:
    """Returns `flag`, with another default if its name is `name`."""
    return dataclasses.replace(flag, default=default) if flag.name == name else flag
