"""Flags of `deeplab predict`."""

from __future__ import annotations

from deeplab.cli.data_flags import RESIZE
from deeplab.cli.inference_flags import INFERENCE_THREADS, USE_MOVING_AVERAGE, engine_flag, windows
from deeplab.cli.links import linked
from deeplab.cli.tool_flags import FETCH
from deeplab.cli.training_flags import NUM_THREADS
from deeplab.cli.words import Flag, Group
from deeplab.options import LEGENDS, PRECISIONS

PREDICT_FILES = Group(
    'Images and results',
    (
        linked(
            'inputs',
            'PredictOptions.inputs',
            'An image, a folder, a pattern such as photos/**/*.jpg in quotes, a list (.txt, one path a line) or a '
            'video; --inputs= may be omitted.',
            kind='repeated string',
            is_path=True,
        ),
        linked(
            'output_dir',
            'PredictOptions.output_dir',
            'Folder for the results: KIND/NAME.png for each image, and predictions.json.',
            is_path=True,
        ),
        linked(
            'save',
            'PredictOptions.save',
            'Comma-separated kinds of files to write: mask (class ids, gray PNG), color (class ids with a palette), '
            'overlay (colors over the image, JPEG), confidence (probability of the class, gray PNG), probabilities '
            '([height, width, classes], NPY).',
            kind='string',
        ),
        linked(
            'classes',
            'PredictorOptions.classes',
            'Comma-separated names or numbers of the classes to keep; pixels of others get the id 255. Not set: all.',
            kind='string',
        ),
        linked(
            'overlay_alpha',
            'PredictOptions.overlay_alpha',
            'Opacity of the colors of overlays, 0 to 1. If given, overlays are written.',
        ),
        linked(
            'overlay_legend',
            'PredictOptions.overlay_legend',
            'Draw a legend beside overlays: of the classes that are present in the image, with their shares, or of all '
            'classes, in the same place in each image. If given, overlays are written. Not set: no legend.',
            choices=LEGENDS,
        ),
        linked('overwrite', 'PredictOptions.overwrite', 'Replace files that predict has not written.'),
    ),
)
PREDICT_NETWORK = Group(
    'Network: one of --checkpoint_dir, --export_path and --preset',
    (
        linked(
            'checkpoint_dir',
            'PredictOptions.checkpoint_dir',
            'A checkpoint, or a folder, whose newest checkpoint is used: the --train_logdir of a training, or best in '
            'it. The flags of the network are read from run.json, or else identified by the variables. Not set: no '
            'checkpoint.',
            is_path=True,
        ),
        linked(
            'export_path',
            'PredictOptions.export_path',
            'An export of any format, such as a frozen graph (.pb), a SavedModel or model.tflite. Not set: no export.',
            is_path=True,
        ),
        *FETCH,
        Flag(
            'dataset',
            'string',
            None,  # None in the options, too, which other programs do not have
            'Data set with the names and colors of the classes. Not set: that of the training, if it is known.',
            fields=('PredictorOptions.dataset',),
            is_path=True,
        ),
        USE_MOVING_AVERAGE,
    ),
)
PREDICT_SIZES = Group(
    'Sizes',
    (
        linked(
            'eval_crop_size',
            'PredictorOptions.crop_size',
            'Height and width to which every image is padded, as in eval. Not set: the next multiples of '
            '--output_stride plus 1.',
            kind='list',
        ),
        *windows('513,513, or --eval_crop_size, for images of more than 4,194,304 pixels'),
        linked(
            'predict_batch_size',
            'PredictorOptions.batch_size',
            'Consecutive images of the same size, or windows, per batch.',
        ),
        *RESIZE,
    ),
)
PREDICT_ENGINE = Group(
    'Engine',
    (
        engine_flag,
        linked(
            'precision',
            'EngineOptions.precision',
            'Data type in which the engine computes. 16-bit types need a processor and an engine that support them.',
            choices=PRECISIONS,
        ),
        NUM_THREADS,
        INFERENCE_THREADS,
    ),
)
