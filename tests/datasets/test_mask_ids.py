import numpy as np
import pytest

from deeplab.datasets.mask_ids import MaskIds


def counts_of(*ids):
    counts = np.zeros(256, np.int64)
    counts[list(ids)] = 7
    return counts


def test_what_is_outside():
    assert MaskIds(3, 255).outside(counts_of(0, 1, 2, 255)).tolist() == []
    assert MaskIds(3, 255).outside(counts_of(0, 3, 254)).tolist() == [3, 254]
    assert MaskIds(3, 0).outside(counts_of(0, 255)).tolist() == [255]
    assert MaskIds(256, 255).outside(np.ones(256, np.int64)).tolist() == []


@pytest.mark.parametrize(
    ('num_classes', 'ignore_label', 'ids', 'words'),
    [
        (2, 0, [0, 255], 'which contain only the ids 0 and 255: write 1 for the object (mask // 255)'),
        (1, 0, [255], 'which contain only the ids 0 and 255'),
        (3, 255, [1, 2, 3], 'whose ids start at 1 and must start at 0: subtract 1'),
        (3, 255, [1, 3, 255], 'subtract 1 from all except 255, which is ignored'),
        (3, 255, [0, 127, 254], 'a gray level for each class (0, 127, 254): write the ids 0 to 2 instead'),
        (3, 255, [0, 127, 254, 255], 'a gray level for each class (0, 127, 254): write'),
        (3, 255, [0, 127, 255], 'a gray level for each class (0, 127, 255): write'),
        (4, 255, [0, 85, 170, 255], 'a gray level for each class (0, 85, 170, 255): write'),
        (2, 255, [0, 128], 'a gray level for each class (0, 128): write'),
        (10, 255, range(0, 255, 28), 'a gray level for each class (0, 28, 56, 84, 112, ...): write the ids 0 to 9'),
        (
            3,
            255,
            range(40),
            'which contain 40 ids and were probably interpolated, or saved as JPEG: resize masks by nearest neighbor',
        ),
    ],
)
def test_how_masks_went_wrong(num_classes, ignore_label, ids, words):
    found = MaskIds(num_classes, ignore_label).advice(counts_of(*ids))
    assert words in found
    assert found[-1] != '.'


@pytest.mark.parametrize(
    ('num_classes', 'ignore_label', 'ids'),
    [
        (1, 255, [0, 1]),  # the user with one object: two classes
        (1, 255, [1]),
        (3, 255, [0, 1, 2, 3]),
        (150, 0, range(151)),  # ADE20K with its 0
        (150, 255, range(151)),
        (3, 255, [0, 7, 200]),
        (3, 255, [9]),
        (3, 255, [3]),
        (3, 9, [9]),
        (3, 255, [0, 9]),
        (2, 255, [0, 85, 170, 255]),  # more levels than classes
    ],
)
def test_where_another_number_of_classes_is_as_likely(num_classes, ignore_label, ids):
    assert MaskIds(num_classes, ignore_label).advice(counts_of(*ids)) is None
