"""Results of each image of a split: pixel counts in memory, predictions in a temporary file."""

from __future__ import annotations

import contextlib
import tempfile
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from deeplab.core import metrics
from deeplab.core.metrics import confusion_matrix
from deeplab.errors import OutputError, reason_of

_FAST = 1  # level of the compression


class TemporaryContents(contextlib.AbstractContextManager['TemporaryContents']):
    """Compressed contents in a temporary file without a name, which ends with the process.

    It is in the folder for temporary files (`TMPDIR`). Where that is a file system in memory, as /tmp is on some
    systems, the contents take memory.
    """

    def __init__(self) -> None:
        """Creates the file.

        Raises:
          OutputError: No folder for temporary files is usable.
        """
        with _explained():
            self._file = tempfile.TemporaryFile()
        self._places: list[tuple[int, int]] = []

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, content: bytes) -> None:
        """Adds a content.

        Raises:
          OutputError: It cannot be written, such as on a full disk.
        """
        compressed = zlib.compress(content, _FAST)
        with _explained():
            offset = self._file.seek(0, 2)
            self._file.write(compressed)
        self._places.append((offset, len(compressed)))

    def read(self, number: int) -> bytes:
        """Returns the content that was added as number `number`, from 0."""
        offset, size = self._places[number]
        with _explained():  # the last contents are written when the place changes
            self._file.seek(offset)
            compressed = self._file.read(size)
        return zlib.decompress(compressed)


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Raises `OutputError` for an error of the temporary file."""
    try:
        yield
    except OSError as error:
        try:
            place = f"in the folder '{tempfile.gettempdir()}' "
        except OSError:
            place = ''
        raise OutputError(
            f'The predictions cannot be kept in a temporary file {place}({reason_of(error)}). Free '
            'some space there, or set the environment variable TMPDIR to another folder'
        ) from error


class ImageResults(contextlib.AbstractContextManager['ImageResults']):
    """Results of a network on each image of a split, in the order of the records.

    Attributes:
      num_classes: number of classes.
      names: names of the images.
      sizes: height and width of each image.
      pairs: for each image, label * num_classes + prediction of the pairs that occur, ascending.
      pair_pixels: for each image, the number of pixels of each of these pairs.
    """

    def __init__(self, num_classes: int, ignore_label: int) -> None:
        """Creates a file for the predicted ids; raises as `TemporaryContents` does."""
        self.num_classes = num_classes
        self._ignore_label = ignore_label
        self.names: list[str] = []
        self.pairs: list[np.ndarray] = []
        self.pair_pixels: list[np.ndarray] = []
        self._predictions = TemporaryContents()
        self.sizes: list[tuple[int, int]] = []

    def __exit__(self, *_: object) -> None:
        self._predictions.__exit__()

    def __len__(self) -> int:
        return len(self.names)

    def add(self, name: str, labels: np.ndarray | None, predictions: np.ndarray) -> None:
        """Adds an image: labels and predictions are ids [h, w], predictions 0 to 255; labels None if none count."""
        pixels = np.zeros(0, np.int64)
        if labels is not None:
            matrix = confusion_matrix.of_images(labels[None], predictions[None], self.num_classes, self._ignore_label)
            pixels = matrix.reshape(-1)
        pairs = np.flatnonzero(pixels)
        self.names.append(name)
        self.pairs.append(pairs.astype(np.int32))
        self.pair_pixels.append(pixels[pairs])
        self._predictions.add(np.ascontiguousarray(predictions, np.uint8).tobytes())
        height, width = predictions.shape
        self.sizes.append((height, width))

    def prediction(self, image: int) -> np.ndarray:
        """Returns the predicted ids of an image, [h, w] uint8."""
        return np.frombuffer(self._predictions.read(image), np.uint8).reshape(self.sizes[image])

    def confusion(self) -> np.ndarray:
        """Returns the number of pixels [label, prediction] over all images, int64."""
        total = np.zeros(self.num_classes**2, np.int64)
        for pairs, pixels in zip(self.pairs, self.pair_pixels, strict=True):
            total[pairs] += pixels
        return total.reshape(self.num_classes, self.num_classes)

    def counts(self) -> np.ndarray:
        """Returns pixels that are right, of the label, of the prediction: [images, 3, classes] int64."""
        counts = np.zeros((len(self), 3, self.num_classes), np.int64)
        for image, pairs, pixels in zip(counts, self.pairs, self.pair_pixels, strict=True):
            of_label, of_prediction = np.divmod(pairs, self.num_classes)
            same = of_label == of_prediction
            image[0, of_label[same]] = pixels[same]
            np.add.at(image[1], of_label, pixels)
            np.add.at(image[2], of_prediction, pixels)
        return counts

    def scores(self) -> np.ndarray:
        """Returns the mean IoU of each image, over the classes in its labels or predictions: [images].

        It is NaN for an image without labels.
        """
        return metrics.mean_of_known(metrics.class_iou(self.counts()))

    def pixels_of_pair(self, label: int, prediction: int) -> np.ndarray:
        """Returns the pixels with that label and prediction in each image: [images]."""
        wanted = label * self.num_classes + prediction
        return np.array(
            [pixels[pairs == wanted].sum() for pairs, pixels in zip(self.pairs, self.pair_pixels, strict=True)],
            np.int64,
        )

    def cells(self, image: int) -> list[list[Any]]:
        """Returns the pairs of an image with their pixels, as [[label * num_classes + prediction, pixels], ...]."""
        return [[int(pair), int(count)] for pair, count in zip(self.pairs[image], self.pair_pixels[image], strict=True)]
