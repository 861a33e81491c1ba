"""Opens a network with the weights of a checkpoint in the engine that the options name.

network = InferenceNetwork(options, PredictionOptions(), batch_size=1, with_probabilities=True)
with opening.opened(network, Weights('logs/model.ckpt-30000'), EngineOptions(), cache_dirs) as predict:
    labels, probabilities = predict(images)  # [n, h, w, channels] float32, 0 to 255
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

from deeplab.inference.network import InferenceNetwork
from deeplab.options import EngineOptions
from deeplab.registry import ENGINES, Execution, Predict


@dataclasses.dataclass(frozen=True)
class Weights:
    """The weights of a network.

    Attributes:
      checkpoint: path of a checkpoint.
      use_moving_average: whether its moving averages (EMA) of the weights are used instead of the weights.
    """

    checkpoint: str
    use_moving_average: bool = False


@contextlib.contextmanager
def opened(
    network: InferenceNetwork, weights: Weights, options: EngineOptions, cache_dirs: Sequence[str] = ()
) -> Iterator[Predict]:
    """Opens a network for the `with` block, and gives the function that runs it.

    The function takes images [n, h, w, channels] float32, 0 to 255, as a NumPy array, and returns `Outputs` of NumPy
    arrays. One thread may call it at a time.

    Args:
      network: the network.
      weights: its weights.
      options: the engine, and how it computes.
      cache_dirs: folders for converted networks; the first one that can be written is used.

    Raises:
      CheckpointError: The checkpoint does not match the network.
      OptionError: The engine is not installed, or cannot run the network.
    """
    engine = ENGINES.get(options.engine)
    assert engine.open is not None
    frozen = network.frozen(weights.checkpoint, weights.use_moving_average)
    with engine.open(frozen, Execution()) as predict:
        yield predict
