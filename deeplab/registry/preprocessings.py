"""Registry of preprocessings: how images of any size become the input of a network with a vector for each image."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from deeplab.registry.networks import Normalization
from deeplab.registry.records import Record, Registry


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preprocessing(Record):
    """How images become the input of a classifier, a value of --preprocessing_name.

    Attributes:
      train: changes a training image randomly: `train(image, seed, size)` takes [h, w, channels] of any type, 0 to 255,
        [2] int64, the source of all random numbers, drawn with `tf.random.stateless_*`, and rows and columns of the
        network's input; returns an image of this size, float32, 0 to 255.
      evaluate: `evaluate(image, size)` does the same without random changes.
      normalization: what the network does to the pixels first; None for zero mean and unit variance of each image.
      flips: whether `train` itself mirrors images, in place of the augmentation `flip`: it takes `flip_probability`.
    """

    train: Callable[..., Any]
    evaluate: Callable[..., Any]
    normalization: Normalization | None
    flips: bool = False


class Preprocessings(Registry[Preprocessing]):
    """The registry of preprocessings."""

    def of_network(self, options: Any) -> Preprocessing | None:
        """Returns the preprocessing that some ModelOptions name; None for a network with maps."""
        return self.get(options.preprocessing_name) if options.is_per_image else None


PREPROCESSINGS = Preprocessings('preprocessing', 'ModelOptions.preprocessing_name', 'deeplab.core.preprocessings')
