"""Models of other runtimes: one form for all of them, as an engine runs them and as exports are opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from deeplab.registry import Engine, Execution, Exported, Outputs
from deeplab.system import processors


def exported(
    run: Callable[[np.ndarray, bool], Sequence[np.ndarray]],
    shape: Sequence[int | None],
    num_outputs: int,
    num_classes: int | None,
    metadata: Mapping[str, Any],
) -> Exported:
    """Returns a model as an open network, which predicts as many images at a time as the model takes.

    Args:
      run: predicts images [n, h, w, channels]; takes them, and whether probabilities are wanted; returns labels, then
        probabilities.
      shape: shape of its input, (n, h, w, channels); None for a side that is known only when it runs.
      num_outputs: 1 for labels, 2 for labels and probabilities.
      num_classes: last side of the probabilities; None if it is unknown.
      metadata: metadata of the export; empty for none.
    """
    batch, height, width, channels = shape
    assert channels is not None

    def predict(images: np.ndarray, with_probabilities: bool) -> Outputs:
        step = batch or max(len(images), 1)
        parts = [run(images[i : i + step], with_probabilities) for i in range(0, len(images), step)]
        labels, scores = joined(parts)
        return Outputs(
            labels.astype(np.int32, copy=False), None if scores is None else scores.astype(np.float32, copy=False)
        )

    return Exported(
        predict=predict,
        size=None if height is None or width is None else (height, width),
        takes_smaller=False,
        channels=channels,
        num_classes=len(metadata['class_names']) if metadata.get('class_names') else num_classes,
        has_probabilities=num_outputs > 1,
        bits=int(metadata.get('image_bits', 8)),
        metadata=metadata,
    )


def joined(parts: Sequence[Sequence[np.ndarray | None]]) -> Outputs:
    """Returns the outputs of consecutive batches, labels and probabilities of each (or labels alone), as one batch."""
    given = [[array for array in part if array is not None] for part in parts]
    return Outputs(*(given[0] if len(given) == 1 else map(np.concatenate, zip(*given, strict=True))))


def opener(engine: Engine) -> Callable[[str, int | None], AbstractContextManager[Exported]]:
    """Returns the function with which a format opens its exports in an engine, see `ExportFormat.open`."""
    load: Any = engine.load
    return lambda path, threads: load(path, Execution(threads=threads or processors.available_cores()))


def in_type(images: np.ndarray, kind: type) -> np.ndarray:
    """Returns images, 0 to 255, in the type of an input, rounded if it is uint8."""
    return np.rint(images).astype(kind) if kind == np.uint8 else images.astype(kind, copy=False)
