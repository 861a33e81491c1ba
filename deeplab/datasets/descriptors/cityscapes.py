"""Cityscapes, the 19 classes of its evaluation (train ids) among its 34 labels.

Source: the definition of the labels that is published with the data set (cityscapes-dataset.com).
"""

from deeplab.datasets.descriptor import DatasetDescriptor, colors_in, names_in
from deeplab.registry import register

# Names of the labels by id.
NAMES = names_in("""
unlabeled, ego vehicle, rectification border, out of roi, static, dynamic, ground, road, sidewalk, parking, rail
track, building, wall, fence, guard rail, bridge, tunnel, pole, polegroup, traffic light, traffic sign, vegetation,
terrain, sky, person, rider, car, truck, bus, caravan, trailer, train, motorcycle, bicycle
""")
# Ids of the classes 0 to 18; pixels of other ids are ignored.
EVALUATED = (7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33)
# One color for each class: red, green and blue as hexadecimal bytes.
_COLORS = """
804080 f423e8 464646 66669c be9999 999999 faaa1e dcdc00 6b8e23 98fb98 4682b4 dc143c ff0000 00008e 000046 003c64 005064
0000e6 770b20
"""

register(
    DatasetDescriptor(
        name='cityscapes',
        summary='Cityscapes: street scenes in 19 classes.',
        source='arXiv:1604.01685',
        license='https://www.cityscapes-dataset.com/license/',
        num_classes=19,
        ignore_label=255,
        splits={
            'train_fine': 2975,
            'train_coarse': 22973,
            'trainval_fine': 3475,
            'trainval_coarse': 23473,
            'val_fine': 500,
            'val_coarse': 500,
            'test_fine': 1525,
            # What records of 2018 call train_fine and val_fine.
            'train': 2975,
            'val': 500,
        },
        class_names=tuple(NAMES[number] for number in EVALUATED),
        palette=colors_in(_COLORS),
        categories=(
            *2 * ('flat',),
            *3 * ('construction',),
            *3 * ('object',),
            *2 * ('nature',),
            'sky',
            *2 * ('human',),
            *6 * ('vehicle',),
        ),
        eval_ids=EVALUATED,
    )
)
