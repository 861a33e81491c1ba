"""COCO-Stuff, the pixel maps of things and stuff of 164,000 images of COCO 2017.

Source: labels.txt and the description of the data set, github.com/nightrome/cocostuff.
"""

from __future__ import annotations

from deeplab.datasets.descriptor import DatasetDescriptor, names_in
from deeplab.registry import register

# The names of the ids 0 to 181 of the masks, separated by commas.
_LABELS = """
person, bicycle, car, motorcycle, airplane, bus, train, truck, boat, traffic light, fire hydrant, street sign,
stop sign, parking meter, bench, bird, cat, dog, horse, sheep, cow, elephant, bear, zebra, giraffe, hat, backpack,
umbrella, shoe, eye glasses, handbag, tie, suitcase, frisbee, skis, snowboard, sports ball, kite, baseball bat,
baseball glove, skateboard, surfboard, tennis racket, bottle, plate, wine glass, cup, fork, knife, spoon, bowl,
banana, apple, sandwich, orange, broccoli, carrot, hot dog, pizza, donut, cake, chair, couch, potted plant, bed,
mirror, dining table, window, desk, toilet, door, tv, laptop, mouse, remote, keyboard, cell phone, microwave, oven,
toaster, sink, refrigerator, blender, book, clock, vase, scissors, teddy bear, hair drier, toothbrush, hair brush,
banner, blanket, branch, bridge, building-other, bush, cabinet, cage, cardboard, carpet, ceiling-other, ceiling-tile,
cloth, clothes, clouds, counter, cupboard, curtain, desk-stuff, dirt, door-stuff, fence, floor-marble, floor-other,
floor-stone, floor-tile, floor-wood, flower, fog, food-other, fruit, furniture-other, grass, gravel, ground-other,
hill, house, leaves, light, mat, metal, mirror-stuff, moss, mountain, mud, napkin, net, paper, pavement, pillow,
plant-other, plastic, platform, playingfield, railing, railroad, river, road, rock, roof, rug, salad, sand, sea,
shelf, sky-other, skyscraper, snow, solid-other, stairs, stone, straw, structural-other, table, tent, textile-other,
towel, tree, vegetable, wall-brick, wall-concrete, wall-other, wall-panel, wall-stone, wall-tile, wall-wood,
water-other, waterdrops, window-blind, window-other, wood
"""
LABELS = names_in(_LABELS)
# Ids of things that COCO lists, but for which it has no annotations.
ABSENT = (11, 25, 28, 29, 44, 65, 67, 68, 70, 82, 90)
PRESENT = tuple(number for number in range(len(LABELS)) if number not in ABSENT)

register(
    DatasetDescriptor(
        name='coco_stuff',
        summary='COCO-Stuff: 80 classes of things and 91 of stuff.',
        source='arXiv:1612.03716',
        num_classes=len(PRESENT),
        splits={'train': 118287, 'val': 5000},
        class_names=tuple(LABELS[number] for number in PRESENT),
        categories=tuple('thing' if number <= 90 else 'stuff' for number in PRESENT),
    )
)
