"""Flags of the smaller programs."""

from __future__ import annotations

from deeplab import options
from deeplab.cli.inference_flags import engine_flag
from deeplab.cli.links import linked
from deeplab.cli.words import Flag, Group

JSON = linked(
    'json',
    'NetworksOptions.json',
    'Print JSON.',
    also=('CheckpointOptions.json', 'ListDatasetsOptions.json', 'PresetsOptions.json'),
)
# For programs that download the checkpoint of a preset.
FETCH = (
    linked(
        'mirror',
        'FetchOptions.mirror',
        'Address of a folder with the archives to download (http or https). Not set: DEEPLAB_MIRROR, '
        'or else the server that they were published on.',
    ),
    linked(
        'cache_dir',
        'FetchOptions.cache_dir',
        'Folder for downloads. Not set: DEEPLAB_CACHE, or else deeplab in XDG_CACHE_HOME or ~/.cache.',
        is_path=True,
    ),
)
VERIFICATION = Group(
    'Checkpoint, published figures and results',
    (
        linked(
            'checkpoint_dir',
            'VerifyOptions.checkpoint_dir',
            'Folder of the checkpoint, or the checkpoint. Not set: that of --preset, which is downloaded.',
            is_path=True,
        ),
        Flag(
            'published',
            'string',
            None,  # the options have the evaluations themselves
            'JSON file with published figures: a list of objects with output_stride, scales, flips, split, miou (in '
            'percent). Not set: those of --preset.',
            fields=('VerifyOptions.cases',),
            is_path=True,
        ),
        linked(
            'tolerance',
            'VerifyOptions.tolerance',
            'Largest difference of the mean IoU, in percentage points, with which a figure counts as reproduced.',
        ),
        linked(
            'diagnosis_images',
            'VerifyOptions.diagnosis_images',
            'Number of images on which other settings are tried if a figure is not reproduced; 0: none are tried.',
        ),
        linked('verify_logdir', 'VerifyOptions.verify_logdir', 'Folder for the results, as JSON.', is_path=True),
        *FETCH,
    ),
)
VERIFY_BATCH_SIZE = linked('eval_batch_size', 'VerifyOptions.batch_size', 'Images per batch.')
# None is "not given" here: the data set, or the checkpoint, then has the numbers.
CLASSES = Group(
    'Classes',
    (
        Flag(
            'dataset',
            'string',
            None,
            'The data set that defines the number of classes and channels, as in training.',
            fields=('DatasetOptions.name',),
            is_path=True,
        ),
        Flag(
            'num_classes',
            'integer',
            None,
            'Number of classes; overrides --dataset.',
            fields=('ModelOptions.outputs_to_num_classes',),
        ),
        Flag(
            'image_channels',
            'integer',
            None,
            'Number of channels of the images; overrides --dataset. Not set: that of the data set, or 3 without one.',
            fields=('ModelOptions.input_channels',),
        ),
    ),
)
# None is "not given" here, too; the flags of train and eval have other defaults.
DOCTOR = Group(
    'Data',
    (
        linked(
            'data',
            'DoctorOptions.data',
            'Folder of TFRecord shards, or one with a folder of images and one of masks (such as images and masks, or '
            'JPEGImages and SegmentationClass) and lists of names, or a description of them; --data= may be omitted.',
            is_path=True,
        ),
        linked(
            'dataset',
            'DoctorOptions.dataset',
            'The data set, as for train: its classes, their names and its ignore label. Not set: the description '
            'beside the data; without one, the ids in the masks are taken as the classes.',
            is_path=True,
        ),
        linked('num_classes', 'DoctorOptions.num_classes', 'Number of classes; overrides that of the data set.'),
        linked(
            'ignore_label',
            'DoctorOptions.ignore_label',
            'Id of the pixels that are excluded. Not set: that of the data set, or 255.',
        ),
        linked('train_split', 'DoctorOptions.train_split', 'The split to train on.'),
        linked('eval_split', 'DoctorOptions.eval_split', 'The split to evaluate on.'),
        linked(
            'image_folder', 'DoctorOptions.image_folder', 'Folder of the images, if it has another name.', is_path=True
        ),
        linked(
            'mask_folder', 'DoctorOptions.mask_folder', 'Folder of the masks, if it has another name.', is_path=True
        ),
        linked(
            'mask_suffix',
            'DoctorOptions.mask_suffix',
            'Suffix of the names of masks, such as _mask for 01.jpg and 01_mask.png, as for build_folder_data.',
        ),
        linked(
            'list_folder',
            'DoctorOptions.list_folder',
            'Folder with a file SPLIT.txt for each split. Not set: ImageSets/Segmentation, ImageSets, lists, splits or '
            'the folder itself.',
            is_path=True,
        ),
        linked(
            'colors',
            'DoctorOptions.colors',
            'Color table of masks in color, as for build_folder_data: the findings name the colors that it lacks, and '
            '--fix converts the masks. Not set: the palette of --dataset, if given.',
            is_path=True,
        ),
        linked(
            'output_stride',
            'DoctorOptions.output_stride',
            'Output stride of the network. Classes that consist of narrower parts are reported.',
        ),
        linked('output', 'DoctorOptions.output', 'JSON file for the findings, or its folder.', is_path=True),
        linked(
            'html',
            'DoctorOptions.html',
            'HTML file for the findings, or its folder, with the classes and pictures of the worst cases. Not set: no '
            'HTML file.',
            is_path=True,
        ),
    ),
)
REPAIR = Group(
    'Repaired copy',
    (
        linked(
            'fix',
            'DoctorOptions.fix',
            'New folder for a repaired copy of the data set, as images, masks and lists of its splits. Only what has '
            'one right answer is repaired; other faulty images are left out and listed. The data set itself never '
            'changes.',
            is_path=True,
        ),
        linked(
            'ignore_other_ids',
            'DoctorOptions.ignore_other_ids',
            'In the copy, replace ids that are neither a class nor the ignore label by the ignore label.',
        ),
    ),
)
BENCHMARK = Group(
    'Benchmark; all flags of train are accepted, too',
    (
        linked(
            'exports',
            'BenchmarkOptions.exports',
            'Exports to measure side by side, in any format, instead of a network; --exports= may be omitted.',
            kind='repeated string',
            is_path=True,
        ),
        linked('batch', 'BenchmarkOptions.batch', 'Numbers of images that exports predict at a time.', kind='list'),
        linked(
            'size',
            'BenchmarkOptions.size',
            'Height and width of the images of exports that take any size. Not set: those of each export.',
            kind='list',
        ),
        linked('output', 'BenchmarkOptions.output', 'JSON file for the results, or its folder.', is_path=True),
        linked(
            'image_size',
            'BenchmarkOptions.image_size',
            'Height and width, in pixels, of the images that the network predicts. Not set: --train_crop_size.',
            kind='list',
        ),
        linked(
            'checkpoint_dir',
            'BenchmarkOptions.checkpoint_dir',
            'Checkpoint, or folder of checkpoints, whose weights predict. Not set: random weights.',
            is_path=True,
        ),
        linked(
            'batch_sizes',
            'BenchmarkOptions.batch_sizes',
            'Numbers of images that the network predicts at a time, such as 1,4,16.',
            kind='list',
        ),
        engine_flag,
        linked(
            'inference_precision',
            'EngineOptions.precision',
            'Data type in which the network predicts.',
            choices=options.PRECISIONS,
        ),
        linked(
            'threads',
            'BenchmarkOptions.threads',
            'Numbers of threads that predict, such as 1,2,4. Not set: one, and one per core.',
            kind='list',
        ),
        linked(
            'training_batch_sizes',
            'BenchmarkOptions.training_batch_sizes',
            'Images of a training step, such as 4,8,16. Not set: --train_batch_size, and half of it.',
            kind='list',
        ),
        linked(
            'budget_secs',
            'BenchmarkOptions.budget_secs',
            'Seconds after which no further measurement begins; the first of each kind is always made.',
        ),
    ),
)
