"""CamVid, the Cambridge-driving Labeled Video Database, in its usual 11 classes."""

from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.registry import register

register(
    DatasetDescriptor(
        name='camvid',
        summary='CamVid: street scenes in 11 classes.',
        source='doi:10.1016/j.patrec.2008.04.005',
        num_classes=11,
        ignore_label=255,
        splits={'train': 367, 'val': 101, 'test': 233},
        class_names=(
            'sky',
            'building',
            'pole',
            'road',
            'pavement',
            'tree',
            'sign',
            'fence',
            'car',
            'pedestrian',
            'bicyclist',
        ),
        palette=(
            (128, 128, 128),
            (128, 0, 0),
            (192, 192, 128),
            (128, 64, 128),
            (0, 0, 192),
            (128, 128, 0),
            (192, 128, 128),
            (64, 64, 128),
            (64, 0, 128),
            (64, 64, 0),
            (0, 128, 192),
        ),
    )
)
