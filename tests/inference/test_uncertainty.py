"""Uncertainty of several predictions of an image."""

import numpy as np
import pytest

from deeplab.inference import uncertainty
from deeplab.options import MEASURES


def maps_of(*pixels):
    """Maps of one pixel each, [1, 1, classes]."""
    return [np.array(each, np.float32).reshape(1, 1, -1) for each in pixels]


@pytest.mark.parametrize(
    ('pixels', 'entropy', 'margin', 'spread'),
    [
        ([(1, 0), (0, 1)], 1, 1, 1),  # sure, and of different opinions
        ([(0.5, 0.5), (0.5, 0.5)], 1, 1, 0),  # both are unsure
        ([(1, 0), (1, 0)], 0, 0, 0),
        ([(0.75, 0.25)], 0.811278, 0.5, 0),
        ([(0.5, 0.3, 0.2, 0)], (0.5 + 0.3 * np.log2(1 / 0.3) + 0.2 * np.log2(5)) / 2, 0.8, 0),
    ],
)
def test_measures_of_a_pixel(pixels, entropy, margin, spread):
    made = uncertainty.of_members(maps_of(*pixels))
    values = dict(zip(MEASURES, made.by_class.sum(axis=1), strict=True))
    assert values == pytest.approx({'entropy': entropy, 'margin': margin, 'spread': spread}, abs=1e-4)
    np.testing.assert_allclose(made.by_class, made.by_class.sum(axis=1, keepdims=True) * made.shares, atol=1e-6)


def test_an_image_has_means_of_its_pixels():
    random = np.random.default_rng(0)
    maps = random.dirichlet(np.ones(5), (3, 30, 40))
    made = uncertainty.of_members(list(maps))
    mean = maps.mean(axis=0)
    entropy = -(mean * np.log(mean)).sum(axis=2)
    inner = -(maps * np.log(maps)).sum(axis=3).mean(axis=0)
    expected = {
        'entropy': entropy / np.log(5),
        'spread': (entropy - inner) / np.log(5),
        'margin': 1 - np.sort(mean, axis=2)[..., -1] + np.sort(mean, axis=2)[..., -2],
    }
    for name, row in zip(MEASURES, made.by_class, strict=True):
        np.testing.assert_allclose(row, (expected[name][..., None] * mean).mean(axis=(0, 1)), rtol=1e-5)
    np.testing.assert_allclose(made.shares, mean.mean(axis=(0, 1)), rtol=1e-5)
    assert made.map.shape == (30, 40) and made.features.shape == (4 * 4 * 5,)
    assert np.linalg.norm(made.features) == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(made.map / 255, entropy / np.log(5), atol=1 / 255)


def test_pooling_takes_the_means_of_cells():
    values = np.arange(30.0).reshape(5, 6, 1)
    pooled = uncertainty.pooled(values, (2, 3))
    assert pooled.shape == (2, 3, 1)
    assert pooled[0, 0, 0] == values[:2, :2].mean() and pooled[1, 2, 0] == values[2:, 4:].mean()


class BrightnessPredictor:
    """Predicts the class 1 with a probability that is the brightness of the pixel."""

    resizes = False

    def __init__(self, offset=0.0):
        self.offset, self.seen = offset, []

    def predict(self, images):
        self.seen += [image.shape for image in images]
        shares = [np.clip(image.mean(axis=2) / 255 + self.offset, 0, 1) for image in images]
        return [type('Prediction', (), {'probabilities': np.stack([1 - each, each], axis=2)}) for each in shares]


def ramp():
    """An image that is bright at the right, [24, 40, 3]."""
    return np.broadcast_to(np.linspace(20, 220, 40)[None, :, None], (24, 40, 3)).astype(np.uint8).copy()


def test_views_of_an_image_agree_where_the_network_does_not_care():
    predictor, image = BrightnessPredictor(), ramp()
    (first,) = predictor.predict([image])
    maps = uncertainty.Members([predictor], (0.75,), True).maps(image, first.probabilities)
    assert len(maps) == 3 and {each.shape for each in maps} == {(24, 40, 2)}
    for each in maps[1:]:  # the mirrored view is mirrored back, the small one enlarged
        np.testing.assert_allclose(each, maps[0], atol=0.03)
    assert predictor.seen == [(24, 40, 3), (24, 40, 3), (18, 30, 3)]


def test_every_network_predicts_every_view():
    one, other, image = BrightnessPredictor(), BrightnessPredictor(0.1), ramp()
    (first,) = one.predict([image])
    maps = uncertainty.Members([one, other], (), True).maps(image, first.probabilities)
    assert len(maps) == 4 and len(one.seen) == 2 and len(other.seen) == 2
    np.testing.assert_allclose(maps[2] - maps[0], np.broadcast_to([-0.1, 0.1], maps[0].shape), atol=1e-6)


def test_networks_that_resize_images_have_no_scales():
    predictor = BrightnessPredictor()
    predictor.resizes = True
    (first,) = predictor.predict([ramp()])
    assert len(uncertainty.Members([predictor], (0.75, 1.25), False).maps(ramp(), first.probabilities)) == 1


def test_large_images_are_looked_at_in_steps():
    image = np.zeros((330, 500, 3), np.uint8)
    maps = uncertainty.Members([BrightnessPredictor()], (), False).maps(image, np.zeros((330, 500, 2), np.float32))
    assert maps[0].shape == (110, 167, 2)
