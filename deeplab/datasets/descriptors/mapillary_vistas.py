"""Mapillary Vistas 1.2, the 65 of its 66 labels that are evaluated.

Source: the configuration file of the data set, config_v1.2.json (config.json in version 1.1).
"""

from __future__ import annotations

from deeplab.datasets.descriptor import DatasetDescriptor, colors_in, names_in
from deeplab.registry import register

# Separated by commas, in the order of the labels.
_NAMES = """
Bird, Ground Animal, Curb, Fence, Guard Rail, Barrier, Wall, Bike Lane, Crosswalk - Plain, Curb Cut, Parking,
Pedestrian Area, Rail Track, Road, Service Lane, Sidewalk, Bridge, Building, Tunnel, Person, Bicyclist, Motorcyclist,
Other Rider, Lane Marking - Crosswalk, Lane Marking - General, Mountain, Sand, Sky, Snow, Terrain, Vegetation, Water,
Banner, Bench, Bike Rack, Billboard, Catch Basin, CCTV Camera, Fire Hydrant, Junction Box, Mailbox, Manhole,
Phone Booth, Pothole, Street Light, Pole, Traffic Sign Frame, Utility Pole, Traffic Light, Traffic Sign (Back),
Traffic Sign (Front), Trash Can, Bicycle, Boat, Bus, Car, Caravan, Motorcycle, On Rails, Other Vehicle, Trailer,
Truck, Wheeled Slow, Car Mount, Ego Vehicle
"""
# One color for each class: red, green and blue as hexadecimal bytes.
_COLORS = """
a52a2a 00c000 c4c4c4 be9999 b4a5b4 5a7896 66669c 8040ff 8c8cc8 aaaaaa faaaa0 606060 e6968c 804080 6e6e6e f423e8 966464
464646 96785a dc143c ff0000 ff0064 ff00c8 c88080 ffffff 40aa40 e6a032 4682b4 beffff 98fb98 6b8e23 00aa1e ffff80 fa001e
648cb4 dcdcdc dc8080 de2828 64aa1e 282828 212121 6480a0 8e0000 466496 d2aa64 999999 808080 000050 faaa1e c0c0c0 dcdc00
8c8c14 770b20 9600ff 003c64 00008e 00005a 0000e6 005064 804040 00006e 000046 0000c0 202020 780a0a
"""

register(
    DatasetDescriptor(
        name='mapillary_vistas',
        summary='Mapillary Vistas 1.2: street scenes in 65 classes.',
        source='doi:10.1109/ICCV.2017.534',
        num_classes=65,
        splits={'train': 18000, 'val': 2000, 'test': 5000},
        class_names=names_in(_NAMES),
        palette=colors_in(_COLORS),
    )
)
