"""An order of uncertain images that differ from each other."""

import numpy as np

from deeplab.inference import diversity
from deeplab.inference.diversity import LABELED, Appearance


def appearance(angles, thumbnails=None):
    """Images whose features are directions in a plane, in degrees; their thumbnails are noise."""
    radians = np.radians(angles)
    features = np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float32)
    noise = [np.random.default_rng(seed).integers(0, 256, (17, 17)).astype(np.uint8) for seed in range(len(angles))]
    return Appearance(features, noise if thumbnails is None else thumbnails)


def test_the_most_uncertain_is_first_then_score_times_distance_counts():
    # Distances from the first image, 0 degrees: sqrt(1 - cos): 0.12 at 10, 0.54 at 45, 1 at 90.
    order = diversity.order(np.array([1.0, 0.9, 0.5, 0.3]), appearance([0, 10, 45, 90]), 4)
    assert order.places == [0, 3, 2, 1] and order.chosen == 4 and not order.duplicates
    # 0.5 * 0.54 < 0.3 * 1; then, at 45 degrees, 0.5 * 0.54 against 0.9 * 0.12 at 10.


def test_images_that_are_not_chosen_follow_by_their_score():
    order = diversity.order(np.array([0.2, 0.9, 0.4, 0.8]), appearance([0, 90, 30, 80]), 1)
    assert order.places == [1, 3, 2, 0] and order.chosen == 1


def test_near_duplicates_are_not_chosen():
    images = appearance([0, 90, 45, 60])
    twins = [images.thumbnails[0], images.thumbnails[1], images.thumbnails[0], images.thumbnails[3]]
    order = diversity.order(np.array([1.0, 0.2, 0.9, 0.1]), appearance([0, 90, 45, 60], twins), 4)
    assert order.places[-1] == 2 and order.duplicates == {2: 0} and order.chosen == 3


def test_labeled_images_keep_similar_ones_behind():
    images = appearance([0, 90, 45])
    scores = np.array([1.0, 0.5, 0.4])
    assert diversity.order(scores, images, 3).places[0] == 0
    like_the_first = Appearance(appearance([5]).features, [np.zeros((17, 17), np.uint8)])
    assert diversity.order(scores, images, 3, like_the_first).places == [1, 2, 0]
    twin = Appearance(appearance([5]).features, [images.thumbnails[1]])
    order = diversity.order(scores, images, 3, twin)
    assert order.duplicates == {1: LABELED} and order.places[-1] == 1 and order.chosen == 2
