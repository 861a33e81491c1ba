"""Frames of one sequence in two splits: by names with neighboring numbers, and by how alike they look."""

import numpy as np
import pytest

from deeplab.checks import similarity
from deeplab.checks.facts import ImageSummary

LENGTH = 60


def film(numbers, name='film_{:04}.jpg', step=1):
    """Frames of a camera that turns by `step` of the 17 columns of a thumbnail from number to number."""
    scene = np.random.default_rng(0).integers(0, 256, (17, 5 + step * LENGTH // 4), np.uint8).repeat(4, axis=1)
    frames = {number: scene[:, step * number : step * number + 17] for number in numbers}
    return [
        ImageSummary(
            f'record {place}', name.format(number), place, bytes([number]), b'', thumbnail, None, None, (17, 17)
        )
        for place, (number, thumbnail) in enumerate(frames.items())
    ]


def names(pairs):
    return [(one.stem, other.stem) for one, other in pairs]


def test_neighbors_in_a_film_that_is_distributed_over_both_splits():
    train, val = film([n for n in range(LENGTH) if n % 5]), film(range(0, LENGTH, 5))
    found = names(similarity.shared_neighbors(train, val))
    assert len(found) == 12
    assert found[:2] == [('film_0001.jpg', 'film_0000.jpg'), ('film_0004.jpg', 'film_0005.jpg')]


@pytest.mark.parametrize('val', [range(40, 60), range(20, 40)])
def test_parts_of_a_film_are_no_finding(val):
    assert not similarity.shared_neighbors(film([n for n in range(LENGTH) if n not in val]), film(val))


def test_photos_with_mixed_numbers_are_no_finding():
    """Frames so far apart that they show nothing in common."""
    train, val = film([n for n in range(LENGTH) if n % 5], step=20), film(range(0, LENGTH, 5), step=20)
    assert not similarity.shared_neighbors(train, val)


def test_films_of_other_names_have_no_neighbors():
    train, val = film([n for n in range(LENGTH) if n % 5]), film(range(0, LENGTH, 5), name='other_{:04}.jpg')
    assert not similarity.shared_neighbors(train, val)


def test_few_neighbors_are_no_finding():
    assert not similarity.shared_neighbors(film([n for n in range(45) if n % 5]), film(range(0, 45, 5)))


def test_images_of_one_class_look_alike_without_being_frames_of_one_film():
    random = np.random.default_rng(0)
    drawings = random.integers(0, 200, (2, 17, 17))

    def photos(numbers, with_classes):
        made = []
        for place, number in enumerate(numbers):
            class_id = number // LENGTH
            pixels = (drawings[class_id] + random.integers(0, 50, (17, 17))).astype(np.uint8)
            stem, digest = f'{class_id}/{number:04}', bytes([number])
            summary = ImageSummary(f'record {place}', stem, place, digest, b'', pixels, None, None, (17, 17))
            made.append(summary._replace(class_ids=(class_id,) if with_classes else ()))
        return made

    numbers = range(2 * LENGTH)
    for with_classes in (True, False):
        train, val = ([n for n in numbers if bool(n % 5) == is_train] for is_train in (True, False))
        pairs = similarity.shared_neighbors(photos(train, with_classes), photos(val, with_classes))
        assert bool(pairs) != with_classes


@pytest.mark.parametrize('name', ['{}', 'a/b/{:06}.png', 'seq1_{}_left.png', '9_{}.x.jpg', 'frame.{:04}'])
def test_the_last_number_of_a_name_counts(name):
    train, val = film([n for n in range(LENGTH) if n % 5], name=name), film(range(0, LENGTH, 5), name=name)
    assert len(similarity.shared_neighbors(train, val)) == 12


def test_names_without_numbers():
    assert not similarity.shared_neighbors(film(range(20), name='a.jpg'), film(range(20), name='b.jpg'))
