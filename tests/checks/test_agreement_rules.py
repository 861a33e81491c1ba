"""Cells of images, and the gain of exchanged labels, against plain loops."""

import math

import numpy as np

from deeplab.checks import agreement_rules, inspection
from deeplab.checks.facts import GRID, Facts


def _kept(exchanged_image, images=24):
    """Cells of images with three classes, whose colors overlap; in one image, two labels are exchanged."""
    random = np.random.default_rng(0)
    kept = []
    for number in range(images):
        ids = random.integers(0, 3, (GRID, GRID))
        codes = ids * 3 + random.integers(0, 5, ids.shape)
        if number == exchanged_image:
            ids = np.choose(ids, [1, 0, 2])
        ids[0, :2] = 255  # excluded
        kept.append(np.stack([codes, ids]).astype(np.uint8))
    return kept


def _naive_gain(kept, place, one, other):
    """Mean gain of the logarithm of the probabilities that the other images give to exchanged labels."""
    bands = np.repeat(np.arange(4), GRID * GRID // 4).reshape(GRID, GRID)
    table = np.zeros((256, 4, 3))
    for number, (codes, ids) in enumerate(kept):
        if number != place:
            for code, label, band in zip(codes.flat, ids.flat, bands.flat, strict=True):
                if label < 3:
                    table[code, band, label] += 1
    share = (table.sum((0, 1)) + 1) / (table.sum() + 3)
    gains = []
    for code, label, band in zip(*(each.flat for each in kept[place]), bands.flat, strict=True):
        if label in (one, other):
            probability = (table[code, band] + 4 * share) / (table[code, band].sum() + 4)
            gains.append(math.log(probability[one + other - label]) - math.log(probability[label]))
    return np.mean(gains)


def test_cells_have_the_color_and_the_id_in_their_middle():
    colors = np.zeros((GRID, GRID, 3), np.uint8)
    colors[1, 2] = 255, 0, 64
    colors[2, 1] = 31, 32, 63
    ids = np.zeros((3 * GRID, 5 * GRID), np.uint8)
    ids[3 * 1 + 1, 5 * 2 + 2] = 7
    codes, labels = inspection.cells(colors, ids)
    assert np.argwhere(codes).tolist() == [[1, 2], [2, 1]]
    assert (codes[1, 2], codes[2, 1]) == (0b111_000_01, 0b000_001_00)
    assert np.argwhere(labels).tolist() == [[1, 2]] and labels[1, 2] == 7


def test_the_gain_of_exchanged_labels():
    kept = [*_kept(5), None]
    ((place, one, other, gain),) = agreement_rules.exchanged(kept, 3, 255)
    assert (place, one, other) == (5, 0, 1)
    assert gain > 1
    np.testing.assert_allclose(gain, _naive_gain(kept[:-1], 5, 0, 1), rtol=1e-4)


def test_nothing_is_exchanged():
    assert not list(agreement_rules.exchanged(_kept(None), 3, 255))
    assert not list(agreement_rules.exchanged(_kept(5, images=agreement_rules.FEWEST_IMAGES - 1), 3, 255))
    assert list(agreement_rules.exchanged(_kept(5, images=agreement_rules.FEWEST_IMAGES), 3, 255))


def test_a_common_shift_shows_in_images_with_weak_edges():
    """The mean agreement grows by 0.3 of a standard deviation; each image has some noise."""
    random = np.random.default_rng(1)
    facts = Facts()
    for _ in range(agreement_rules._FEWEST_IMAGES):
        scores = random.normal(0, 0.01, (9, 9))
        scores[4 + 2, 4 - 3] += 0.3
        facts.add_shifts(5, scores)
    assert agreement_rules.common_shift(facts) == (10, -15)
    assert agreement_rules.common_shift(Facts()) is None
