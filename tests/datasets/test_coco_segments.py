"""Segments in the COCO panoptic format: ids, colors and JSON."""

import numpy as np

from deeplab.datasets import coco_segments

CLASS_IDS = np.array([[0, 1, 1], [1, 255, 254]], np.uint8)
INSTANCE_IDS = np.array([[0, 1, 1], [300, 0, 65535]], np.uint16)


def test_ids_are_colors():
    ids = coco_segments.segment_ids(CLASS_IDS, INSTANCE_IDS, 255)
    assert ids.tolist() == [[1, 258, 258], [2 + 256 * 300, 0, 255 + 256 * 65535]]
    red, green, blue = (coco_segments.as_colors(ids)[..., i].astype(int) for i in range(3))
    assert np.array_equal(red + 256 * green + 65536 * blue, ids) and ids.max() == 2**24 - 1
    shown = CLASS_IDS != 255
    assert np.array_equal((red - 1)[shown], CLASS_IDS[shown]) and np.array_equal(green + 256 * blue, INSTANCE_IDS)


def test_annotation():
    ids = coco_segments.segment_ids(CLASS_IDS[:, :2], INSTANCE_IDS[:, :2], 255)
    entry = coco_segments.annotation(ids, '000012.png', [7, 9], {(1, 1): 0.25, (1, 300): None})
    assert entry == {
        'image_id': 12,
        'file_name': '000012.png',
        'segments_info': [
            {'id': 1, 'category_id': 7, 'area': 1, 'iscrowd': 0},
            {'id': 258, 'category_id': 9, 'area': 1, 'iscrowd': 0, 'score': 0.25},
            {'id': 2 + 256 * 300, 'category_id': 9, 'area': 1, 'iscrowd': 0},
        ],
    }
    named = coco_segments.annotation(ids, 'town/a.png')
    assert named['image_id'] == 'town/a' and named['segments_info'][0]['category_id'] == 0
    content = coco_segments.document([entry], ['road', 'car'], (1,), [7, 9])
    assert content['images'] == [{'id': 12, 'file_name': '000012.png'}] and content['annotations'] == [entry]
    assert content['categories'] == [
        {'id': 7, 'name': 'road', 'isthing': 0},
        {'id': 9, 'name': 'car', 'isthing': 1},
    ]
