"""Further files of vis: overlays, contours, confidences, error maps, legends, and the files of tasks."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.files import output_files, writing
from deeplab.inference.task_decoding import TaskDecoder, TaskPrediction
from deeplab.inference.task_files import RunDocuments
from deeplab.pictures import drawing, legend
from deeplab.registry import TASKS
from deeplab.utils import save_annotation

LEGEND = 'legend'


class Shown(NamedTuple):
    """What vis shows of an image.

    Attributes:
      number: index of the image in the split, from 0.
      image_name: its name in the record.
      name: name for a file, without extension, that no other image has.
      image: [h, w, channels] uint8.
      ids: [h, w] predicted class ids.
      truth: [h, w] true class ids, or the ignore label; None if they were not read.
      confidence: [h, w] float32, probabilities of the predicted classes; None if they were not computed.
      tasks: what the tasks of the network predict; None for a network of classes alone.
    """

    number: int
    image_name: bytes
    name: str
    image: np.ndarray
    ids: np.ndarray
    truth: np.ndarray | None
    confidence: np.ndarray | None
    tasks: TaskPrediction | None = None


class FurtherPictures:
    """Writes NUMBER_KIND.png for each image and kind, and legend.png for all."""

    def __init__(
        self,
        folder: str,
        kinds: Sequence[str],
        descriptor: DatasetDescriptor,
        colormap: np.ndarray,
        overlay_alpha: float,
    ) -> None:
        """Creates the object; writes nothing yet.

        Args:
          folder: existing folder for the pictures.
          kinds: kinds of pictures among `options.VIS_SAVED`.
          descriptor: descriptor of the data set.
          colormap: [n, 3] uint8, colors of the classes.
          overlay_alpha: opacity of the colors of overlays, 0 to 1.
        """
        self._folder, self._kinds, self._descriptor = folder, tuple(dict.fromkeys(kinds)), descriptor
        self._colors, self._alpha = colormap, overlay_alpha
        self._lock = threading.Lock()
        self._pixels = np.zeros(descriptor.num_classes, np.int64)  # of each class in all images

    def write(self, shown: Shown) -> list[str]:
        """Writes the pictures of an image; returns their paths.

        Raises:
          DataError: A file cannot be written.
        """
        return [
            save_annotation.save_image(self._pixels_of(kind, shown), self._folder, f'{shown.number:06d}_{kind}')
            for kind in self._kinds
        ]

    def finish(self) -> list[str]:
        """Writes the legend of all classes, if legends are wanted; returns its path.

        Raises:
          DataError: The file cannot be written.
        """
        if LEGEND not in self._kinds:
            return []
        sheet = legend.drawn(self._entries(self._pixels, range(len(self._pixels))))
        return [save_annotation.save_image(np.asarray(sheet), self._folder, LEGEND)]

    def report(self) -> str:
        """Returns one line about the files, for the user."""
        paths = [f'000000_{kind}.png' for kind in self._kinds]
        if LEGEND in self._kinds:
            paths.append(f'{LEGEND}.png')
        return f'Further pictures: {os.path.join(self._folder, paths[0])}{"".join(f", {path}" for path in paths[1:])}'

    def _pixels_of(self, kind: str, shown: Shown) -> np.ndarray:
        """Returns the picture of a kind, [h, w] or [h, w, 3] uint8."""
        if kind == 'overlay':
            of_task = None if shown.tasks is None else shown.tasks.overlay(shown.image, self._alpha)
            if of_task is not None:
                return of_task
            return drawing.overlay(shown.image, shown.ids, self._colors, self._alpha)
        if kind == 'contours':
            return drawing.contours(shown.image, shown.ids, self._colors)
        if kind == 'confidence':
            assert shown.confidence is not None
            return drawing.shades(shown.confidence)
        if kind == 'errors':
            assert shown.truth is not None
            return drawing.errors(shown.image, shown.ids, shown.truth, self._descriptor.ignore_label)
        pixels = np.bincount(shown.ids.ravel(), minlength=len(self._pixels))
        with self._lock:
            self._pixels += pixels
        ids = np.flatnonzero(pixels)
        order = ids[np.argsort(-pixels[ids], kind='stable')]
        return np.asarray(legend.drawn(self._entries(pixels, order.tolist())))

    def _entries(self, pixels: np.ndarray, classes: Sequence[int]) -> list[legend.Entry]:
        """Returns the lines of a legend: the given classes with their shares of all pixels."""
        total = max(int(pixels.sum()), 1)
        return [
            legend.Entry(self._descriptor.class_name(i), self._colors[i], f'{pixels[i] / total:.1%}') for i in classes
        ]


class TaskFiles:
    """Writes KIND/NAME.png, or with another ending, for each image and kind of file of a task, and KIND.json.

    Attributes:
      documents: the files KIND.json.
    """

    def __init__(self, folder: str, kinds: Sequence[str], decoder: TaskDecoder) -> None:
        """Creates the folders; writes nothing yet.

        Args:
          folder: existing folder for the folders of the kinds.
          kinds: kinds of files of the network's tasks.
          decoder: what decodes the maps of the network.
        """
        self._folder, self._kinds = folder, tuple(dict.fromkeys(kinds))
        files = TASKS.files(decoder.options)
        self._suffixes = {kind: files[kind][1].suffix for kind in self._kinds}
        self.documents = RunDocuments(folder, self._kinds, decoder)
        for kind, suffix in self._suffixes.items():
            path = output_files.make_folder(os.path.join(folder, kind))
            writing.remove_leftovers(path, rf'.+{re.escape(suffix)}')

    def write(self, shown: Shown) -> list[str]:
        """Writes the files of an image; returns their paths.

        Raises:
          DataError: A file cannot be written.
        """
        assert shown.tasks is not None
        paths = []
        for kind, suffix in self._suffixes.items():
            name = shown.name + suffix
            path = os.path.join(self._folder, kind, name)
            with writing.explained(path):
                writing.write(path, shown.tasks.file(kind, shown.image))
            self.documents.add(kind, name, shown.tasks.entry(kind, name))
            paths.append(path)
        return paths

    def finish(self) -> list[str]:
        """Writes the files about all images; returns their paths.

        Raises:
          DataError: A file cannot be written.
        """
        return self.documents.write()

    def report(self) -> str:
        """Returns one line about the files, for the user."""
        paths = [os.path.join(self._folder, kind, f'NAME{suffix}') for kind, suffix in self._suffixes.items()]
        return f'Files of the task: {", ".join([*paths, *self.documents.paths.values()])}'
