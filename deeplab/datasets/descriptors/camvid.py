"""CamVid, the Cambridge-driving Labeled Video Database, in its usual 11 classes."""

from deeplab.datasets.descriptor import DatasetDescriptor, colors_in, names_in
from deeplab.registry import register

# The names of the classes by id.
_NAMES = """
sky, building, pole, road, pavement, tree, sign, fence, car, pedestrian, bicyclist
"""
# One color for each class: red, green and blue as hexadecimal bytes.
_COLORS = """
808080 800000 c0c080 804080 0000c0 808000 c08080 404080 400080 404000 0080c0
"""

register(
    DatasetDescriptor(
        name='camvid',
        summary='CamVid: street scenes in 11 classes.',
        source='doi:10.1016/j.patrec.2008.04.005',
        num_classes=11,
        ignore_label=255,
        splits={'train': 367, 'val': 101, 'test': 233},
        class_names=names_in(_NAMES),
        palette=colors_in(_COLORS),
    )
)
