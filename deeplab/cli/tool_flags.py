"""Flags of the smaller programs."""

from __future__ import annotations

from deeplab.cli.links import linked
from deeplab.cli.words import Flag, Group

JSON = linked('json', 'NetworksOptions.json', 'Print JSON.', also=('CheckpointOptions.json', 'PresetsOptions.json'))
# For programs that download the checkpoint of a preset.
FETCH = (
    linked(
        'mirror',
        'FetchOptions.mirror',
        'Address of a folder with the archives of the published checkpoints (http or https). Not set: DEEPLAB_MIRROR, '
        'or else the server that they were published on.',
    ),
    linked(
        'cache_dir',
        'FetchOptions.cache_dir',
        'Folder for downloaded checkpoints. Not set: DEEPLAB_CACHE, or else deeplab in XDG_CACHE_HOME or ~/.cache.',
        is_path=True,
    ),
)
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
