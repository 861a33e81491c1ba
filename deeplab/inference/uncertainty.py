"""How uncertain networks are about an image, from their predictions of several views of it.

With the probabilities p_m of class c at a pixel in M predictions (of checkpoints, scales and mirrored images), their
mean p, and the entropy H(p) = -sum_c p(c) log p(c), the uncertainty of the pixel is one of

    entropy  H(p) / log C                                   Shannon entropy of the mean prediction
    margin   1 - (p(first) - p(second))                     of the two most probable classes
    spread   (H(p) - mean_m H(p_m)) / log C                 mutual information of prediction and member (BALD)

each from 0 to 1. The spread is large only where the predictions disagree, each of them with confidence.

Sources: T. Scheffer et al., Active hidden Markov models for information extraction, 2001 (margin); B. Settles, Active
learning literature survey, 2009 (section 3.1: margin, entropy); N. Houlsby et al., arXiv:1112.5745 (BALD); W. Beluch et
al., The power of ensembles for active learning in image classification, CVPR 2018 (members of an ensemble).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
from PIL import Image

from deeplab.inference.predictor import Predictor
from deeplab.options.ranking import MEASURES

_SIDE = 160  # about the longest side of the grid of pixels that are looked at
_MAP_SIDE = 40  # longest side of the map for the page
_FEATURES = 256  # about the most numbers that describe what an image shows
_CELLS = 4  # most cells of them across
_LEAST = 1e-7  # probability


@dataclasses.dataclass(frozen=True)
class Uncertainty:
    """Uncertainty about an image.

    Attributes:
      shares: [classes], share of each class in the mean prediction; their sum is 1.
      by_class: [3, classes], for each of `MEASURES` the mean over all pixels of the uncertainty times the probability
        of the class: the sum over the classes is the mean uncertainty of the image.
      features: [d] float32 of length 1, what the image shows where: square roots of the probabilities of the classes in
        cells of the image, so that the product of the features of two images is their Bhattacharyya coefficient.
      map: [h, w] uint8, the entropy of parts of the image, 255 for 1.
    """

    shares: np.ndarray
    by_class: np.ndarray
    features: np.ndarray
    map: np.ndarray


def of_members(maps: Sequence[np.ndarray]) -> Uncertainty:
    """Returns the uncertainty of several predictions of one image.

    Args:
      maps: [h, w, classes] float32, the probabilities of each prediction, at least 2 classes.
    """
    mean = np.clip(np.mean(maps, axis=0), _LEAST, 1)
    most = np.log(mean.shape[2])
    entropy = _entropy(mean) / most
    two = np.partition(mean, -2, axis=2)[..., -2:]  # the two largest, in ascending order
    margin = 1 - (two[..., 1] - two[..., 0])
    spread = np.maximum(entropy - np.mean([_entropy(np.clip(each, _LEAST, 1)) for each in maps], axis=0) / most, 0)
    by_measure = dict(zip(('entropy', 'margin', 'spread'), (entropy, margin, spread), strict=True))
    measures = np.stack([by_measure[name] for name in MEASURES])  # [3, h, w]
    by_class = np.einsum('mhw,hwc->mc', measures, mean) / entropy.size
    cells = min(_CELLS, max(int(np.sqrt(_FEATURES / mean.shape[2])), 1))
    features = np.sqrt(pooled(mean, (min(cells, mean.shape[0]), min(cells, mean.shape[1])))).ravel()
    scale = _MAP_SIDE / max(entropy.shape)
    small = pooled(entropy[..., np.newaxis], tuple(max(min(round(side * scale), side), 1) for side in entropy.shape))
    return Uncertainty(
        mean.mean(axis=(0, 1)),
        by_class,
        (features / np.linalg.norm(features)).astype(np.float32),
        np.rint(small[..., 0] * 255).astype(np.uint8),
    )


def _entropy(probabilities: np.ndarray) -> np.ndarray:
    """Returns the entropy of [h, w, classes] probabilities above 0: [h, w], in nats."""
    entropy: np.ndarray = -(probabilities * np.log(probabilities)).sum(axis=2)
    return entropy


def pooled(values: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    """Returns the means of the cells of a grid: [h, w, c] to [*size, c], with sizes of at most h and w."""
    for axis, cells in enumerate(size):
        starts = np.arange(cells) * values.shape[axis] // cells
        counts = np.diff(np.append(starts, values.shape[axis]))
        shape = [1, 1, 1]
        shape[axis] = cells
        values = np.add.reduceat(values, starts, axis=axis) / counts.reshape(shape)
    return values


class Members:
    """Predictions of an image that ought to be equal: by several networks, in several scales, and mirrored."""

    def __init__(self, predictors: Sequence[Predictor], scales: Sequence[float], is_flipped: bool) -> None:
        """Creates it.

        Args:
          predictors: networks of the same classes; the caller closes them.
          scales: scales in addition to 1; without an effect on networks that resize their images.
          is_flipped: whether the mirrored image is predicted, too.
        """
        self._predictors, self._scales, self._is_flipped = predictors, scales, is_flipped

    def maps(self, image: np.ndarray, first: np.ndarray) -> list[np.ndarray]:
        """Returns the probabilities of all members on one grid of the image's pixels.

        Args:
          image: [h, w, channels], 0 to 255, as the networks take it.
          first: [h, w, classes], what the first network predicts for the image as it is.

        Returns:
          [rows, columns, classes] float32 of each.
        """
        step = max(max(image.shape[:2]) // _SIDE, 1)
        rows, columns = (np.arange(step // 2, side, step) for side in image.shape[:2])
        maps = [_at(first, rows, columns, image.shape)]
        for predictor in self._predictors:
            for view, is_mirrored in self._views(image, predictor):
                if view is image and predictor is self._predictors[0]:
                    continue
                (prediction,) = predictor.predict([view])
                scores = prediction.probabilities
                maps.append(_at(scores[:, ::-1] if is_mirrored else scores, rows, columns, image.shape))
        return maps

    def _views(self, image: np.ndarray, predictor: Predictor) -> Iterator[tuple[np.ndarray, bool]]:
        """Yields the views of an image, and whether each is mirrored."""
        yield image, False
        if self._is_flipped:
            yield np.ascontiguousarray(image[:, ::-1]), True
        for scale in self._scales:
            if scale != 1 and not predictor.resizes:
                yield _resized(image, scale), False


def _at(scores: np.ndarray, rows: np.ndarray, columns: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Returns the probabilities of a view at pixels of the image, whose shape begins with height and width."""
    places = []
    for axis, pixels in enumerate((rows, columns)):
        places.append(np.minimum((pixels + 0.5) * scores.shape[axis] / shape[axis], scores.shape[axis] - 1).astype(int))
    chosen: np.ndarray = scores[places[0]][:, places[1]]
    return chosen


def _resized(image: np.ndarray, scale: float) -> np.ndarray:
    """Resizes an image bilinearly: [h, w, channels], 0 to 255, to float32 of about `scale` times its size."""
    size = [max(round(side * scale), 1) for side in image.shape[:2]]
    channels = [
        np.asarray(
            Image.fromarray(image[..., channel].astype(np.float32)).resize(size[::-1], Image.Resampling.BILINEAR)
        )
        for channel in range(image.shape[2])
    ]
    return np.stack(channels, axis=2)
