"""Random panoptic maps, true and predicted."""

import numpy as np

NUM_CLASSES, THINGS, IGNORE_LABEL = 5, (1, 2, 4), 255


def random_pair(rng, size=(60, 80), instances=12):
    """Returns a true map and a prediction that is partly like it, each class ids and instance ids [h, w].

    Both have void pixels, stuff with instance ids that mean nothing, and thing pixels with instance id 0.
    """
    truth = _background(rng, size)
    prediction = tuple(ids.copy() for ids in (truth if rng.random() < 0.8 else _background(rng, size)))
    for number in range(1, instances + 1):
        box = np.concatenate([rng.integers(0, size), rng.integers(3, np.array(size) // 2)])
        category = rng.choice(THINGS)
        _paint(truth, box, category, number * (rng.random() > 0.15))
        if rng.random() < 0.8:
            moved = box + rng.integers(-2, 3, 4) * (rng.random() < 0.7)
            _paint(prediction, moved, category if rng.random() < 0.9 else rng.choice(THINGS), instances + 1 - number)
    return truth, prediction


def _background(rng, size):
    blocks = rng.choice([0, 3, IGNORE_LABEL, THINGS[0]], (3, 4), p=[0.4, 0.4, 0.15, 0.05])
    classes = blocks.repeat(-(-size[0] // 3), axis=0).repeat(-(-size[1] // 4), axis=1)[: size[0], : size[1]]
    return classes.astype(np.uint8), np.where(classes == 3, 7, 0).astype(np.uint16)


def _paint(maps, box, category, number):
    top, left, height, width = np.maximum(box, 0)
    for ids, value in zip(maps, (category, number), strict=True):
        ids[top : top + height, left : left + width] = value


def scores_of(rng, prediction, levels=10):
    """Returns random scores of the predicted instances by class and instance id; few levels, so that some are equal."""
    pairs = np.unique(prediction[0].astype(int) * 1000 + prediction[1]).tolist()
    instances = [divmod(pair, 1000) for pair in pairs if pair // 1000 in THINGS and pair % 1000]
    return {instance: rng.integers(1, levels + 1) / levels for instance in instances}
