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


def test_an_image_that_stands_for_many_uncertain_ones_comes_before_a_more_uncertain_outlier():
    # Similarities, 1 - sqrt(1 - cos): 0.975 at 2 degrees, 0.951 at 4, 0 at 120. Gains: 2 degrees stands for
    # 0.6 + 2 * 0.6 * 0.975 = 1.77, the outlier for 1; then little of the three is left.
    order = diversity.order(np.array([0.6, 0.6, 0.6, 1.0]), appearance([0, 2, 4, 120]), 2)
    assert order.places[:2] == [1, 3] and order.chosen == 2 and not order.duplicates


def test_the_choice_is_the_greedy_one(monkeypatch):
    random = np.random.default_rng(0)
    angles, scores = random.uniform(0, 90, 40), random.uniform(0, 1, 40)
    images = appearance(angles)
    similar = 1 - np.sqrt(np.clip(1 - np.cos(np.radians(angles[:, np.newaxis] - angles)), 0, 1))
    covered, greedy = np.zeros(40), []
    for _ in range(12):
        gains = np.maximum(similar - covered, 0) @ scores
        gains[greedy] = -1
        greedy.append(int(gains.argmax()))
        covered = np.maximum(covered, similar[greedy[-1]])
    assert diversity.order(scores, images, 12).places[:12] == greedy
    monkeypatch.setattr(diversity, '_BLOCK', 7 * 40)  # blocks of seven rows
    monkeypatch.setattr(diversity, '_AT_ONCE', 3)
    assert diversity.order(scores, images, 12).places[:12] == greedy


def test_images_that_are_not_chosen_follow_by_their_score():
    order = diversity.order(np.array([0.2, 0.9, 0.4, 0.8]), appearance([0, 90, 30, 80]), 1)
    assert order.places == [3, 1, 2, 0] and order.chosen == 1


def test_near_duplicates_are_not_chosen():
    images = appearance([0, 90, 45, 60])
    twins = [images.thumbnails[0], images.thumbnails[1], images.thumbnails[0], images.thumbnails[3]]
    order = diversity.order(np.array([1.0, 0.2, 0.4, 0.1]), appearance([0, 90, 45, 60], twins), 4)
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


def test_chosen_images_stand_for_those_that_are_sought():
    sought = diversity.Sought(np.array([1.0, 0.5]), appearance([80, 20]))
    assert diversity.order(np.ones(4), appearance([0, 25, 45, 85]), 2, sought=sought).places[:2] == [3, 1]


def test_it_ends_when_all_that_is_sought_is_covered(monkeypatch):
    """From then on all gains are 0: the largest one must be among the gains that are computed again."""
    similarity, calls = diversity._similarity, []

    def counted(first, second):
        calls.append(len(first))
        assert len(calls) < 1000
        return similarity(first, second)

    monkeypatch.setattr(diversity, '_similarity', counted)
    angles = np.random.default_rng(0).uniform(0, 90, 150)
    sought = diversity.Sought(np.ones(10), appearance(angles[:10]))
    order = diversity.order(np.linspace(0, 1, 150), appearance(angles), 100, sought=sought)
    assert order.chosen == 100 and sorted(order.places) == list(range(150))


def test_of_many_images_some_stand_for_all(monkeypatch):
    monkeypatch.setattr(diversity, '_MOST', 10)
    order = diversity.order(np.ones(90), appearance(np.arange(90)), 3)
    assert len(set(order.places)) == 90 and order.chosen == 3
    assert 30 <= order.places[0] <= 60  # near the middle
