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
        is_there = os.path.exists(path)
        state = 'is not an export that this program can run' if is_there else 'cannot be loaded (it does not exist)'
        raise CheckpointError(f"The export '{names.shown(path)}' {state}. Pass {', '.join(nouns[:-1])} or {nouns[-1]}")
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
    run: Callable[[np.ndarray, list[T]], Sequence[np.ndarray]],
    shape: Iterable[int | None],
    outputs: Iterable[T],
    described: Callable[[T], tuple[Sequence[int | None], Collection[str]]],
    metadata: Mapping[str, Any],
) -> Exported:
    """Returns a model as an open network, which predicts as many images at a time as the model takes.

    Args:
      run: predicts images [n, h, w, channels]; takes them and the outputs that are wanted, and returns these.
      shape: shape of its input, (n, h, w, channels); None for a side that is known only when it runs.
      outputs: labels, and probabilities or the maps that the metadata names, in any order.
      described: returns the shape of an output, as of the input, and its names.
      metadata: metadata of the export; empty for none.
    """
    batch, height, width, channels = shape
    assert channels is not None
    maps = export_metadata.maps_of(metadata)
    if maps:
        by_name = {name: output for output in outputs for name in described(output)[1]}
        ordered = [by_name[name] for name in (export_metadata.LABELS, *maps)]
    else:
        ordered = sorted(outputs, key=lambda output: len(described(output)[0]))
    num_classes = described(ordered[1])[0][-1] if len(ordered) > 1 else None

    def of_batch(part: np.ndarray, wanted: list[T]) -> Sequence[np.ndarray]:
        labels, *further = run(part, wanted)
        return labels, *([np.concatenate(further, axis=-1)] if len(further) > 1 else further)

    def predict(images: np.ndarray, with_probabilities: bool) -> Outputs:
        wanted = ordered if with_probabilities else ordered[:1]
        labels, scores = in_batches(lambda part: of_batch(part, wanted), images, batch)
        return Outputs(
            labels.astype(np.int32, copy=False), None if scores is None else scores.astype(np.float32, copy=False)
        )

    return Exported(
        predict=predict,
        size=None if height is None or width is None else (height, width),
        takes_smaller=False,
        channels=channels,
        num_classes=len(metadata['class_names']) if metadata.get('class_names') else num_classes,
        has_probabilities=len(ordered) > 1,
        bits=int(metadata.get('image_bits', 8)),
        metadata=metadata,
    )


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
