"""Masks of Cityscapes from its ids and polygons.

Covers datasets/mask_sources.py, too.
"""

import json

import numpy as np
import pytest

from deeplab.datasets import cityscapes_labels, descriptor, mask_sources
from deeplab.errors import DataError
from tests.helpers import dataset_files


def test_the_classes_are_those_of_the_description():
    known = descriptor.load('cityscapes')
    assert [known.class_names[number] for number in (0, 5, 13, 16, 18)] == ['road', 'pole', 'car', 'train', 'bicycle']
    assert [known.eval_ids[number] for number in (0, 5, 13, 16, 18)] == [7, 17, 26, 31, 33]
    assert (len(known.class_names), len(cityscapes_labels.NAMES)) == (19, 34)
    train_ids = [cityscapes_labels.train_id(number) for number in (7, 26, 33, 0, 29, 30, 18)]
    assert train_ids == [0, 13, 18, 255, 255, 255, 255]


def test_ids_become_train_ids(tmp_path):
    ids = np.arange(34, dtype=np.uint8).reshape(2, 17)
    ids[0, 0] = 255  # a license plate, -1 in 8 bits
    (tmp_path / 'a.png').write_bytes(dataset_files.png(ids))
    made = mask_sources.ids_of(cityscapes_labels.id_table().masks(str(tmp_path / 'a.png')).classes)
    assert made[0, 0] == 255
    assert {int(old): int(new) for old, new in zip(ids.flat, made.flat, strict=True) if new < 255} == {
        old: new for new, old in enumerate(cityscapes_labels.EVALUATED)
    }
    (tmp_path / 'a.png').write_bytes(dataset_files.png(np.full((2, 2), 34, np.uint8)))
    with pytest.raises(DataError, match='34 on 4 pixels'):
        cityscapes_labels.id_table().masks(str(tmp_path / 'a.png'))


def box(label, left, top, right, bottom, **more):
    """An object of an annotation; PIL draws the border of a polygon, too."""
    return {'label': label, 'polygon': [[left, top], [right, top], [right, bottom], [left, bottom]], **more}


def annotation(*objects, height=8, width=10):
    return {'imgHeight': height, 'imgWidth': width, 'objects': list(objects)}


def test_polygons_are_drawn_in_the_order_of_the_list():
    drawn, _ = cityscapes_labels.drawn(
        annotation(
            box('sky', 0, 0, 9, 3),
            box('road', 0, 4, 9, 7, deleted=0),
            box('cargroup', 2, 2, 5, 5),
            box('license plate', 3, 3, 4, 4),
            box('bus', 0, 0, 9, 7, deleted=1),
            box('ego vehicle', 6, 6, 20, 20),
            box('polegroup', 9, 0, 9, 1),
        )
    )
    wanted = np.zeros((8, 10), np.uint8)
    wanted[:4], wanted[2:6, 2:6], wanted[6:, 6:], wanted[:2, 9] = 10, 13, 255, 255
    np.testing.assert_array_equal(drawn, wanted)


def test_pixels_without_an_object_are_ignored():
    assert set(cityscapes_labels.drawn(annotation())[0].flat) == {255}
    drawn, _ = cityscapes_labels.drawn(annotation(box('person', -5, -5, 3.5, 2)))
    np.testing.assert_array_equal(drawn[:3, :4], 11)
    assert (drawn == 11).sum() == 12 and (drawn == 255).sum() == 68


@pytest.mark.parametrize(
    ('content', 'part'),
    [
        ([], 'objects'),
        ({'objects': []}, 'imgWidth'),
        (annotation(height=0), 'imgHeight'),
        (annotation(width=10**9), '1000000000'),
        (annotation('car'), 'object 0'),
        (annotation(box('sky', 0, 0, 1, 1), box('elephant', 0, 0, 1, 1)), "object 1 has the label 'elephant'"),
        (annotation({'polygon': []}), 'label None'),
        (annotation({'label': 'car'}), 'polygon of its object 0'),
        (annotation({'label': 'car', 'polygon': [[0, 0], [1, 'x']]}), 'polygon of its object 0'),
        (annotation({'label': 'car', 'polygon': [[0, 0], [1, float('nan')]]}), 'polygon of its object 0'),
    ],
)
def test_annotations_that_are_wrong(content, part):
    with pytest.raises(DataError, match=part):
        cityscapes_labels.drawn(content)


@pytest.mark.parametrize(('content', 'part'), [(b'', 'empty'), (b'{', 'not JSON'), (b'\xff\xfe\x80', 'UTF-8')])
def test_files_that_are_no_annotation(tmp_path, content, part):
    (tmp_path / 'a.json').write_bytes(content)
    with pytest.raises(DataError, match=part):
        cityscapes_labels.FromPolygons().masks(str(tmp_path / 'a.json'))
    (tmp_path / 'a.json').write_text(json.dumps(annotation(box('car', 0, 0, 3, 3))))
    made = mask_sources.ids_of(cityscapes_labels.FromPolygons().masks(str(tmp_path / 'a.json')).classes)
    assert made.shape == (8, 10) and made[0, 0] == 13
