"""Decoding of the maps of all outputs of a network into the results of its tasks, and the files of results."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from deeplab import common
from deeplab.options import ModelOptions
from deeplab.registry import TASKS, TaskContext


def by_output(maps: np.ndarray, options: ModelOptions) -> dict[str, np.ndarray]:
    """Returns the maps of all outputs, [..., channels], as views by the name of the output."""
    outputs = TASKS.outputs(options)
    ends = np.cumsum([output.channels for output in outputs])[:-1]
    return {output.name: part for output, part in zip(outputs, np.split(maps, ends, axis=-1), strict=True)}


def channels_of(options: ModelOptions) -> dict[str, int]:
    """Returns the channels of the outputs of a network of other tasks than `semantic`, by name; empty for others."""
    return {} if options.is_semantic else {output.name: output.channels for output in TASKS.outputs(options)}


def resized(maps: np.ndarray, options: ModelOptions, size: tuple[int, int]) -> np.ndarray:
    """Resizes the maps of all outputs bilinearly, with aligned corners; lengths change with the size.

    Args:
      maps: the maps of an image, [h, w, channels] float32.
      options: the network.
      size: the new height and width.
    """
    height, width = maps.shape[:2]
    if (height, width) == size:
        return maps
    rows = _interpolated(maps, size[0])
    large = _interpolated(rows.swapaxes(0, 1), size[1]).swapaxes(0, 1)  # [*size, channels]
    factors = {'y': (size[0] - 1) / max(height - 1, 1), 'x': (size[1] - 1) / max(width - 1, 1)}
    for output, values in zip(TASKS.outputs(options), by_output(large, options).values(), strict=True):
        for i, axis in enumerate(output.axes):
            values[..., i] *= np.float32(factors[axis])
    return large


def _interpolated(values: np.ndarray, size: int) -> np.ndarray:
    """Returns `size` rows between the first and the last of [n, ...]."""
    places = np.linspace(0, len(values) - 1, size, dtype=np.float32)
    first = np.minimum(places.astype(np.int64), max(len(values) - 2, 0))
    share = (places - first)[:, np.newaxis, np.newaxis]
    mixed: np.ndarray = values[first] * (1 - share) + values[np.minimum(first + 1, len(values) - 1)] * share
    return mixed


@dataclasses.dataclass(frozen=True)
class TaskDecoder:
    """Decodes the maps of a network of other tasks than `semantic`.

    Attributes:
      options: the network.
      context: what the tasks know of the data set.
    """

    options: ModelOptions
    context: TaskContext

    def calibrated(self, calibration: Mapping[str, Any]) -> TaskDecoder:
        """Returns the decoder with what the tasks have chosen for a checkpoint, by their names."""
        return dataclasses.replace(self, context=self.context._replace(calibration=calibration))

    def __call__(self, maps: np.ndarray) -> TaskPrediction:
        """Returns the result of each task that has one; takes the maps of an image, [h, w, channels] float32."""
        named = by_output(maps, self.options)
        results = {}
        for task in TASKS.chosen(self.options):
            if task.decode is not None:
                of_task = {output.name: named[output.name] for output in task.outputs(self.options)}
                results[task.name] = task.decode(of_task, self.context)
        return TaskPrediction(results, self)


class TaskPrediction(NamedTuple):
    """What the tasks of a network predict for an image: the result of each task by its name, and what decoded them."""

    results: Mapping[str, Mapping[str, Any]]
    decoder: TaskDecoder

    def kept(self, is_kept: np.ndarray) -> TaskPrediction:
        """Returns the results without the classes that are not kept; takes whether each of 256 ids is, [256] bool."""
        results = {
            name: result if (keep := TASKS.get(name).keep) is None else keep(result, is_kept, self.decoder.context)
            for name, result in self.results.items()
        }
        return self._replace(results=results)

    def overlay(self, image: np.ndarray, alpha: float) -> np.ndarray | None:
        """Returns the image with the result of the first task, [h, w, 3] uint8; None if that is the classes alone."""
        for task in TASKS.chosen(self.decoder.options):
            if task.decode is None:
                return None
            if task.overlay is not None:
                context = self.decoder.context._replace(overlay_alpha=alpha)
                drawn: np.ndarray = task.overlay(self.results[task.name], image, context)
                return drawn
        return None

    def file(self, kind: str, image: np.ndarray) -> bytes:
        """Returns the content of a file of a kind in `TASKS.files`; `image` is [h, w, channels], 0 to 255."""
        task, file = TASKS.files(self.decoder.options)[kind]
        return encoded(file.content(self.results[task], image, self.decoder.context), file.suffix)

    def entry(self, kind: str, path: str) -> Mapping[str, Any] | None:
        """Returns what the file about all images says of this one; None if the kind has no such file.

        Args:
          kind: kind of file.
          path: path of its file in the folder of the kind, with slashes.
        """
        task, file = TASKS.files(self.decoder.options)[kind]
        return None if file.entry is None else file.entry(self.results[task], path, self.decoder.context)


def has_classes(options: ModelOptions) -> bool:
    """Returns whether a network predicts a class for each pixel."""
    return any(output.name == common.OUTPUT_TYPE for output in TASKS.outputs(options))


def encoded(content: Any, suffix: str) -> bytes:
    """Returns the content of a file.

    Args:
      content: text, or an array; for an image [h, w] uint8 or uint16, or [h, w, 3] uint8.
      suffix: ending of the file; '.npy' for arrays that are not images.
    """
    if isinstance(content, str):
        return content.encode()
    stream = io.BytesIO()
    if suffix == '.npy':
        np.lib.format.write_array(stream, np.asarray(content), allow_pickle=False)
    else:
        kind = Image.registered_extensions()[suffix]
        Image.fromarray(content).save(stream, kind, **({'compress_level': 3} if kind == 'PNG' else {}))
    return stream.getvalue()
