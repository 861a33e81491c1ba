"""Exports of any registered format: recognized, opened, and described in one form that all runtimes share.

Importing this module does not load TensorFlow.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import numpy as np

from deeplab import names
from deeplab.errors import CheckpointError, UserError
from deeplab.inference import export_metadata
from deeplab.registry import EXPORT_FORMATS, Engine, Execution, Exported, ExportFormat, Outputs
from deeplab.system import packages, processors

T = TypeVar('T')

_LONGEST_REASON = 200  # characters


def format_of(path: str) -> ExportFormat | None:
    """Returns the format of the export at a path; None if it is none."""
    formats = [record for record in EXPORT_FORMATS.records() if record.open is not None and record.recognizes(path)]
    return formats[0] if formats else None


def required_format(path: str) -> ExportFormat:
    """Returns the format of the export at a path; raises `CheckpointError` if it is none."""
    record = format_of(path)
    if record is None:
        nouns = [each.noun for each in EXPORT_FORMATS.records() if each.open is not None]
        state = 'is no export that can be run' if os.path.exists(path) else 'cannot be loaded (it does not exist)'
        raise CheckpointError(f"The export '{names.shown(path)}' {state}. Give {', '.join(nouns[:-1])} or {nouns[-1]}")
    return record


@contextlib.contextmanager
def opened(path: str, threads: int | None = None, record: ExportFormat | None = None) -> Iterator[Exported]:
    """Opens an export of any format.

    Args:
      path: path of the export.
      threads: number of threads; None for as many as TensorFlow may have in this process.
      record: format of the export; None to recognize it.

    Raises:
      CheckpointError: it cannot be opened.
      OptionError: a package that runs its format is not installed.
    """
    record = record or required_format(path)
    assert record.open is not None
    packages.require(record.runs_with, f"The export '{path}' ({record.name})", record.install)
    with contextlib.ExitStack() as stack:
        try:
            exported = stack.enter_context(record.open(path, threads or _limit()))
        except UserError:
            raise
        except Exception as error:  # of the runtime, which has types of its own
            text = ' '.join(str(error).split())[:_LONGEST_REASON] or type(error).__name__
            raise CheckpointError(f"The export '{names.shown(path)}' cannot be loaded ({text})") from None
        yield exported


def default_threads() -> int:
    """Returns the number of threads with which an export runs if none is given."""
    return _limit() or processors.available_cores()


def _limit() -> int | None:
    """Returns the number of threads to which --num_threads or the user limits TensorFlow; None for no limit."""
    text = os.environ.get('TF_NUM_INTRAOP_THREADS', '')
    return int(text) or None if text.isdecimal() else None


def of_model(
    run: Callable[[np.ndarray, bool], Sequence[np.ndarray]],
    shape: Sequence[int | None],
    num_outputs: int,
    num_classes: int | None,
    metadata: Mapping[str, Any],
) -> Exported:
    """Returns a model as an open network, which predicts as many images at a time as the model takes.

    Args:
      run: predicts images [n, h, w, channels]; takes them, and whether probabilities are wanted; returns labels, then
        probabilities or maps.
      shape: shape of its input, (n, h, w, channels); None for a side that is known only when it runs.
      num_outputs: 1 for labels, 2 for labels and probabilities, more for maps.
      num_classes: last side of the probabilities; None if it is unknown.
      metadata: metadata of the export; empty for none.
    """
    batch, height, width, channels = shape
    assert channels is not None

    def predict(images: np.ndarray, with_probabilities: bool) -> Outputs:
        labels, scores = in_batches(lambda part: joined(run(part, with_probabilities)), images, batch)
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


def in_order(
    outputs: Iterable[T], described: Callable[[T], tuple[int, Collection[str]]], metadata: Mapping[str, Any]
) -> list[T]:
    """Returns the outputs of a model: labels, then probabilities, or the maps in the order of the metadata.

    Args:
      outputs: the outputs in any order.
      described: returns the number of dimensions of an output, and its names.
      metadata: metadata of the model; empty for none.
    """
    maps = export_metadata.maps_of(metadata)
    if not maps:
        return sorted(outputs, key=lambda output: described(output)[0])
    by_name = {name: output for output in outputs for name in described(output)[1]}
    return [by_name[name] for name in (export_metadata.LABELS, *maps)]


def joined(outputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """Returns labels, and probabilities or all maps in one array [n, h, w, channels], of the outputs of a model."""
    return outputs if len(outputs) < 3 else (outputs[0], np.concatenate(outputs[1:], axis=-1))


def in_batches(
    run: Callable[[np.ndarray], Sequence[np.ndarray | None]], images: np.ndarray, batch_size: int | None
) -> Outputs:
    """Predicts images [n, h, w, channels] in batches, and returns the outputs as one batch.

    Args:
      run: returns labels and probabilities (or labels alone) of a batch.
      images: the images.
      batch_size: images at a time; None for all.
    """
    step = batch_size or max(len(images), 1)
    parts = [run(images[i : i + step]) for i in range(0, len(images), step)]
    given = [[array for array in part if array is not None] for part in parts]
    return Outputs(*(given[0] if len(given) == 1 else map(np.concatenate, zip(*given, strict=True))))


def opener(engine: Engine) -> Callable[[str, int | None], AbstractContextManager[Exported]]:
    """Returns the function with which a format opens its exports in an engine, see `ExportFormat.open`."""
    load: Any = engine.load
    return lambda path, threads: load(path, Execution(threads=threads or processors.available_cores()))


def in_type(images: np.ndarray, kind: type) -> np.ndarray:
    """Returns images, 0 to 255, in the type of an input: rounded if it is uint8, 0 to 65535 if it is uint16."""
    if kind == np.uint16:
        images = images.astype(np.float32) * 257
    return (np.rint(images) if images.dtype.kind == 'f' and kind != np.float32 else images).astype(kind, copy=False)
