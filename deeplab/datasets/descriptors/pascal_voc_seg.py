"""PASCAL VOC 2012, semantic segmentation (train_aug with the annotations of SBD)."""

from deeplab.datasets.descriptor import DatasetDescriptor, names_in
from deeplab.registry import register

# The names of the classes by id.
_NAMES = """
background, aeroplane, bicycle, bird, boat, bottle, bus, car, cat, chair, cow, diningtable, dog, horse, motorbike,
person, pottedplant, sheep, sofa, train, tvmonitor
"""

register(
    DatasetDescriptor(
        name='pascal_voc_seg',
        summary='PASCAL VOC 2012: 20 classes of objects, and the background.',
        source='doi:10.1007/s11263-014-0733-5',
        license='images: terms of use of Flickr',
        num_classes=21,
        ignore_label=255,
        splits={'train': 1464, 'train_aug': 10582, 'trainval': 2913, 'val': 1449},
        class_names=names_in(_NAMES),
    )
)
