"""CamVid, the Cambridge-driving Labeled Video Database, in all of its 32 classes.

Source: the file label_colors.txt of the data set; SegNet, arXiv:1511.00561, for the grouping into 11 classes.
"""

from __future__ import annotations

from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.registry import register

# Name, color, and class of 11 (None for pixels that are ignored) in the order of label_colors.txt, which gives the ids.
CLASSES: tuple[tuple[str, tuple[int, int, int], str | None], ...] = (
    ('Animal', (64, 128, 64), 'pedestrian'),
    ('Archway', (192, 0, 128), 'building'),
    ('Bicyclist', (0, 128, 192), 'bicyclist'),
    ('Bridge', (0, 128, 64), 'building'),
    ('Building', (128, 0, 0), 'building'),
    ('Car', (64, 0, 128), 'car'),
    ('CartLuggagePram', (64, 0, 192), 'pedestrian'),
    ('Child', (192, 128, 64), 'pedestrian'),
    ('Column_Pole', (192, 192, 128), 'pole'),
    ('Fence', (64, 64, 128), 'fence'),
    ('LaneMkgsDriv', (128, 0, 192), 'road'),
    ('LaneMkgsNonDriv', (192, 0, 64), 'road'),
    ('Misc_Text', (128, 128, 64), 'sign'),
    ('MotorcycleScooter', (192, 0, 192), 'bicyclist'),
    ('OtherMoving', (128, 64, 64), 'car'),
    ('ParkingBlock', (64, 192, 128), 'pavement'),
    ('Pedestrian', (64, 64, 0), 'pedestrian'),
    ('Road', (128, 64, 128), 'road'),
    ('RoadShoulder', (128, 128, 192), 'pavement'),
    ('Sidewalk', (0, 0, 192), 'pavement'),
    ('SignSymbol', (192, 128, 128), 'sign'),
    ('Sky', (128, 128, 128), 'sky'),
    ('SUVPickupTruck', (64, 128, 192), 'car'),
    ('TrafficCone', (0, 0, 64), 'pole'),
    ('TrafficLight', (0, 64, 64), 'sign'),
    ('Train', (192, 64, 128), 'car'),
    ('Tree', (128, 128, 0), 'tree'),
    ('Truck_Bus', (192, 128, 192), 'car'),
    ('Tunnel', (64, 0, 64), 'building'),
    ('VegetationMisc', (192, 192, 0), 'tree'),
    ('Void', (0, 0, 0), None),
    ('Wall', (64, 192, 0), 'building'),
)
_NAMES = tuple(name for name, _, _ in CLASSES)

register(
    DatasetDescriptor(
        name='camvid32',
        summary='CamVid: street scenes in 32 classes, of which Void is ignored.',
        source='doi:10.1016/j.patrec.2008.04.005',
        num_classes=32,
        ignore_label=_NAMES.index('Void'),
        ignore_label_is_class=True,
        splits={'train': 367, 'val': 101, 'test': 233},
        class_names=_NAMES,
        palette=tuple(color for _, color, _ in CLASSES),
    )
)
