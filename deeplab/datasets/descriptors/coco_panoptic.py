"""COCO panoptic, the 80 classes of things and 53 of stuff of the panoptic task, as semantic classes.

Source: the categories in the files of the task (cocodataset.org), github.com/cocodataset/panopticapi.
"""

from __future__ import annotations

from deeplab.datasets.descriptor import DatasetDescriptor, colors_in, names_in
from deeplab.registry import register

# Separated by commas, in the order of the categories.
_NAMES = """
person, bicycle, car, motorcycle, airplane, bus, train, truck, boat, traffic light, fire hydrant, stop sign,
parking meter, bench, bird, cat, dog, horse, sheep, cow, elephant, bear, zebra, giraffe, backpack, umbrella, handbag,
tie, suitcase, frisbee, skis, snowboard, sports ball, kite, baseball bat, baseball glove, skateboard, surfboard,
tennis racket, bottle, wine glass, cup, fork, knife, spoon, bowl, banana, apple, sandwich, orange, broccoli, carrot,
hot dog, pizza, donut, cake, chair, couch, potted plant, bed, dining table, toilet, tv, laptop, mouse, remote,
keyboard, cell phone, microwave, oven, toaster, sink, refrigerator, book, clock, vase, scissors, teddy bear,
hair drier, toothbrush, banner, blanket, bridge, cardboard, counter, curtain, door-stuff, floor-wood, flower, fruit,
gravel, house, light, mirror-stuff, net, pillow, platform, playingfield, railroad, river, road, roof, sand, sea,
shelf, snow, stairs, tent, towel, wall-brick, wall-stone, wall-tile, wall-wood, water-other, window-blind,
window-other, tree-merged, fence-merged, ceiling-merged, sky-other-merged, cabinet-merged, table-merged,
floor-other-merged, pavement-merged, mountain-merged, grass-merged, dirt-merged, paper-merged, food-other-merged,
building-other-merged, rock-merged, wall-other-merged, rug-merged
"""
# One color for each class: red, green and blue as hexadecimal bytes.
_COLORS = """
dc143c 770b20 00008e 0000e6 6a00e4 003c64 005064 000046 0000c0 faaa1e 64aa1e dcdc00 af74af fa001e a52a2a ff4dff 00e2fc
b6b6ff 005200 78a69d 6e4c00 ae39ff c76400 480076 ffb3f0 007d5c d10097 bcd0b6 00dcb0 ff63a4 5c0049 8581ff 4eb4ff 00e400
aefff3 2d59ff 868667 9194ae ffd0ba c5e2ff ab8601 6d3f36 cf8aff 97005f 09503d 546933 4a4169 a6c466 d0c3d2 ff6d41 008f95
b300c2 d1636a 057900 e3ffcd 93bad0 994501 035fa1 a3ff00 7700aa 00b6c7 00a578 b78258 5f2000 827287 6e8185 a64a76 db8eb9
4fd272 b25a3e 41460f 7fa773 3b696a 8e6c2d c4ac00 5f3650 804cff c93901 f6007a bfa2d0 ffff80 93d3cb 966464 a8abac 9270c6
d2aa64 5c8859 da58b8 f18100 d911ff 7c4ab5 464646 ffe4ff 9ad000 c1005c 4c5b71 ffb4c3 6a9ab0 e6968c 3c8fff 804080 5c5237
fed47c 494dae ffa062 ffffff 68546d a9a483 e1c7ff 89364a 879edf 07f6e7 6bffc8 3a2995 b7798e ff4961 6b8e23 be9999 928b8d
4682b4 86c79c d1e28c 60246c 606060 40aa40 98fb98 d0e5e4 cebaab 98a140 747000 00728f 66669c fa8dff
"""
_THINGS = 80

register(
    DatasetDescriptor(
        name='coco_panoptic',
        summary='COCO panoptic: 80 classes of things and 53 of stuff.',
        source='arXiv:1801.00868',
        num_classes=133,
        splits={'train': 118287, 'val': 5000},
        class_names=names_in(_NAMES),
        palette=colors_in(_COLORS),
        categories=tuple('thing' if number < _THINGS else 'stuff' for number in range(133)),
    )
)
