"""Images of any size: predicted whole, or in overlapping windows. For eval, vis and predict."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from deeplab import names
from deeplab.errors import DataError, OptionError
from deeplab.inference import windows
from deeplab.inference.resizing import Size
from deeplab.inference.runners import Runner
from deeplab.options import WindowOptions, crop_sizes
from deeplab.options.rules import require_classes
from deeplab.wording import option

T = TypeVar('T')

WHOLE_PIXELS = 1 << 22  # images of more pixels are predicted in windows
WINDOW = (513, 513)
_LARGEST_IN_MEMORY = 1 << 30  # bytes of probabilities; more are kept in a temporary file


class Scores(NamedTuple):
    """What is computed for an image.

    Attributes:
      labels: [h, w] uint8.
      confidence: [h, w], probabilities of the labels; None if they were not asked for.
      probabilities: [h, w, classes] float32, or the maps of all outputs; None if they were not asked for.
    """

    labels: np.ndarray
    confidence: np.ndarray | None = None
    probabilities: np.ndarray | None = None


class AnySize:
    """Predicts images of any size with a runner of networks."""

    def __init__(self, runner: Runner, options: WindowOptions, batch_size: int = 1) -> None:
        """Creates it.

        Args:
          runner: runs the network; the caller closes it.
          options: sizes of the windows, and which images are predicted in them.
          batch_size: largest number of tiles that are predicted at a time.

        Raises:
          OptionError: The window is larger than the size to which images are padded, the runner resizes images, which
            have no windows then, or the network has more classes than labels of one byte can hold.
        """
        require_classes('The network', runner.num_classes, 'Predict with a network of fewer classes.')
        if runner.resizes and options != WindowOptions():
            name, value = next((name, value) for name, value in vars(options).items() if value is not None)
            raise OptionError(
                f'{option(f"WindowOptions.{name}", value)} is not allowed: the export resizes each image as a whole. '
                'Omit it'
            )
        self._runner, self._options, self._batch_size = runner, options, batch_size
        self.window, self._stride = _sizes(runner, options)

    def window_for(self, height: int, width: int) -> Size | None:
        """Returns the window for images of a size; None to predict them whole."""
        if self._runner.resizes:
            return None
        fixed = self._runner.fixed_size
        if fixed is not None and (height > fixed[0] or width > fixed[1]):
            return self.window
        most = self._options.whole_pixels
        if most is None:
            most = WHOLE_PIXELS if self._options.window is None else 0
        is_larger = height > self.window[0] or width > self.window[1]
        return self.window if is_larger and height * width > most else None

    def predict(
        self,
        images: Sequence[np.ndarray],
        with_confidence: bool = False,
        with_probabilities: bool = False,
        part_of: Size | None = None,
    ) -> list[Scores]:
        """Predicts images of one size.

        Args:
          images: each [h, w, channels], 0 to 255, all of the same shape.
          with_confidence: whether the confidence is computed.
          with_probabilities: whether the probabilities are computed.
          part_of: height and width of the image of which these are parts, which are predicted in windows if that image
            is; None for whole images.

        Raises:
          DataError: They need windows, and the runner gives no probabilities.
        """
        height, width = images[0].shape[:2]
        window = self.window_for(*(part_of or (height, width)))
        if window is not None and not self._runner.has_probabilities:
            raise DataError(
                f'an image of {height} x {width} pixels is predicted in windows of {window[0]} x {window[1]}, for '
                'which the export must give probabilities. Use smaller images, or export the network again, with '
                f'{option("ConversionOptions.outputs", "probabilities")}'
            )
        if window is not None:
            return [self._in_windows(image, with_confidence, with_probabilities) for image in images]
        labels, scores = self._runner.run(np.stack(images), with_confidence or with_probabilities)
        labels = labels.astype(np.uint8)
        return [
            Scores(
                np.ascontiguousarray(labels[i]),
                scores[i, ..., : self._runner.num_classes].max(axis=2) if with_confidence else None,
                scores[i] if with_probabilities else None,
            )
            for i in range(len(images))
        ]

    def _in_windows(self, image: np.ndarray, with_confidence: bool, with_probabilities: bool) -> Scores:
        height, width = image.shape[:2]
        labels = np.empty((height, width), np.uint8)
        most = np.empty((height, width), np.float16) if with_confidence else None  # half the memory of float32
        scores = room((height, width, self._runner.num_channels)) if with_probabilities else None

        def handle(top: int, left: int, part: np.ndarray) -> None:
            place = (slice(top, top + part.shape[0]), slice(left, left + part.shape[1]))
            of_classes = part[..., : self._runner.num_classes]
            labels[place] = of_classes.argmax(axis=2)
            if most is not None:
                most[place] = of_classes.max(axis=2)
            if scores is not None:
                scores[place] = part

        def tiles(places: Sequence[windows.Box]) -> Iterator[np.ndarray]:
            for batch in batches((image[place] for place in places), self._batch_size, np.shape):
                yield from self._runner.run(np.stack(batch), True).probabilities

        alignment = self._runner.alignment if crop_sizes.are_aligned(self.window, self._runner.alignment) else 1
        rows, columns = (
            windows.axis(*sides, alignment) for sides in zip((height, width), self.window, self._stride, strict=True)
        )
        windows.blend(tiles, rows, columns, handle)
        return Scores(labels, most, scores)


def _sizes(runner: Runner, options: WindowOptions) -> tuple[Size, Size]:
    """Returns height and width of a window, and their strides; raises `OptionError` if it is too large."""
    fixed, given = runner.fixed_size, options.window
    if given is None and fixed is not None:
        window = fixed
    else:
        least = zip(given or WINDOW, runner.smallest_window, strict=True)
        window = crop_sizes.above([max(pair) for pair in least], runner.alignment)
        if fixed is not None and (window[0] > fixed[0] or window[1] > fixed[1]):
            raise OptionError(
                f'{option("WindowOptions.window", given)} is larger than the {fixed[0]} x {fixed[1]} pixels of the '
                'input of the network. Pass at most that.'
            )
    stride = options.window_stride or tuple(max(side * 3 // 4, 1) for side in window)
    return window, (min(stride[0], window[0]), min(stride[1], window[1]))


def batches(images: Iterable[T], most: int, shape_of: Callable[[T], object]) -> Iterator[list[T]]:
    """Yields consecutive images of the same shape, as soon as there are `most`.

    Args:
      images: images.
      most: largest number of images at a time.
      shape_of: returns the shape of an image.
    """
    batch: list[T] = []
    for image in images:
        if batch and shape_of(image) != shape_of(batch[0]):
            yield batch
            batch = []
        batch.append(image)
        del image  # the caller may empty the batch to free the images while the next one is read
        if len(batch) == most:
            yield batch
            batch = []
    if batch:
        yield batch


def room(shape: tuple[int, ...]) -> np.ndarray:
    """Returns an array for probabilities; a large one is a temporary file, which is removed with it."""
    size = 4 * math.prod(shape)
    if size <= _LARGEST_IN_MEMORY:
        return np.empty(shape, np.float32)
    with tempfile.TemporaryFile() as file:  # whose content the array keeps
        if hasattr(os, 'posix_fallocate'):  # else a full disk ends the process at the first value that does not fit
            try:
                os.posix_fallocate(file.fileno(), 0, size)
            except OSError as error:
                raise DataError(
                    f'Cannot store the probabilities of an image, {names.byte_size(size)}, in '
                    f"'{tempfile.gettempdir()}': {error.strerror}. Free space there, or set TMPDIR to another folder."
                ) from None
        return np.memmap(file, np.float32, 'w+', shape=shape)


def nearest(values: np.ndarray, height: int, width: int) -> np.ndarray:
    """Resizes [h, w, ...] to [height, width, ...] by nearest neighbor, corners aligned, as TensorFlow does it."""

    def sources(old: int, new: int) -> np.ndarray:
        step = np.float32(old - 1) / np.float32(new - 1) if new > 1 else np.float32(0)
        places = (np.arange(new, dtype=np.float32) * step).astype(np.float64)
        rows: np.ndarray = np.minimum(np.floor(places + 0.5).astype(np.int64), old - 1)
        return rows

    resized: np.ndarray = values[sources(values.shape[0], height)][:, sources(values.shape[1], width)]
    return resized
