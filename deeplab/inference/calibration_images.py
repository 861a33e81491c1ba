"""Images of a folder for 8-bit networks: most of them calibrate, the others are compared with TensorFlow."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Iterator, Sequence

import numpy as np
from absl import logging

from deeplab.errors import DataError, OptionError
from deeplab.inference import image_files, inputs
from deeplab.inference.network import InferenceNetwork
from deeplab.inference.resizing import Resizer, padded
from deeplab.names import counted
from deeplab.wording import option

_MOST_CALIBRATING, _MOST_COMPARED = 100, 10  # images
_LOGGED_SECONDS = 10


class CalibrationError(OptionError):
    """The folder has no image, or one that the network cannot take."""


def paths_in(folder: str) -> list[str]:
    """Returns the paths of the images in a folder; raises `CalibrationError` if there is none."""
    paths = inputs.images_in(folder)
    if not paths:
        given = option('EngineOptions.calibration_dir', folder)
        raise CalibrationError(f'{given}: there is no image in this folder. Pass a folder with images.')
    return paths


class CalibrationImages:
    """Images of a folder, evenly spaced in the order of their names.

    A quarter of them, at most 10, is compared: it shows what 8 bits change on images from which no range was measured.
    At most 100 others calibrate. A single image does both.

    Attributes:
      compared_words: which images are compared, for messages.
      calibrating_words: which ones calibrate.
      digest: digest of the files' bytes.
    """

    def __init__(self, folder: str, network: InferenceNetwork) -> None:
        """Chooses the images; they are decoded when they are needed.

        Args:
          folder: see `EngineOptions.calibration_dir`.
          network: its crop size must be set.

        Raises:
          CalibrationError: there is no image, or a file cannot be read.
        """
        self._given = option('EngineOptions.calibration_dir', folder)
        self._network = network
        chosen = _spaced(paths_in(folder), _MOST_CALIBRATING + _MOST_COMPARED)
        number = min(max(len(chosen) // 4, 1), _MOST_COMPARED)
        self._compared = _spaced(chosen, number + 2)[1:-1] or chosen[:1]
        self._calibrating = [path for path in chosen if path not in self._compared] or chosen
        self.calibrating_words = f"{counted(len(self._calibrating), 'image')} of '{folder}'"
        self.compared_words = f"{counted(len(self._compared), 'other image')} of '{folder}'"
        if len(chosen) == 1:
            self.compared_words = f"the only image of '{folder}', which calibrates, too"
        self.digest = self._digest(chosen)

    def _digest(self, paths: Sequence[str]) -> str:
        digest = hashlib.sha256()
        for path in paths:
            try:
                with open(path, 'rb') as file:
                    digest.update(hashlib.file_digest(file, 'sha256').digest())
            except OSError as error:
                raise self._error(path, f'it cannot be read ({error.strerror})') from error
        return digest.hexdigest()

    def _error(self, path: str, reason: object) -> CalibrationError:
        return CalibrationError(f"{self._given}: '{path}' cannot be used: {reason}. Remove it, or use another folder.")

    def calibrating(self) -> Iterator[np.ndarray]:
        """Yields the images that calibrate as batches, see `Execution.calibration`; logs the progress.

        Raises:
          CalibrationError: an image cannot be read, or has other channels than the network.
        """
        started = logged = time.monotonic()
        for done, batch in enumerate(self._batches(self._calibrating), start=1):
            yield batch
            now, number = time.monotonic(), min(done * len(batch), len(self._calibrating))
            if now - logged > _LOGGED_SECONDS:
                logged, speed = now, number / (now - started)
                left = (len(self._calibrating) - number) / speed
                total = counted(len(self._calibrating), 'image')
                logging.info('Calibrated with %d of %s, %.1f a second, %.0f s left.', number, total, speed, left)

    def compared(self) -> list[np.ndarray]:
        """Returns the images that are compared as batches [n, h, w, channels] float32, 0 to 255.

        Raises:
          CalibrationError: see `calibrating`.
        """
        return [*self._batches(self._compared)]

    def _batches(self, paths: Sequence[str]) -> Iterator[np.ndarray]:
        """Yields images as a network takes them; the last batch is filled up with the first images."""
        network, size = self._network, self._network.batch_size or 1
        assert network.crop_size is not None
        height, width = network.crop_size
        places = np.random.default_rng(0)
        with contextlib.ExitStack() as stack:
            reader = image_files.Reader(network.options.input_channels)
            stack.callback(reader.close)
            resizer = Resizer(network.resize, reader.channels) if network.resize.is_set else None
            stack.callback(resizer.close if resizer else lambda: None)
            for start in range(0, len(paths), size):
                images = []
                for path in (paths[i % len(paths)] for i in range(start, start + size)):
                    try:
                        image = reader.read(path)
                    except DataError as error:
                        raise self._error(path, error) from error
                    image = image if resizer is None else resizer.resized(image)
                    # Of a larger image, which is predicted in windows, any one: those at the top of photos show sky.
                    top, left = places.integers(np.maximum(np.subtract(image.shape[:2], network.crop_size), 0) + 1)
                    window = image[np.newaxis, top : top + height, left : left + width]
                    images.append(padded(window, network.crop_size, np.array(network.mean_pixel, np.float32)))
                yield np.concatenate(images)


def _spaced(paths: Sequence[str], most: int) -> list[str]:
    """Returns up to `most` paths, evenly spaced."""
    return [paths[i] for i in np.unique(np.linspace(0, len(paths) - 1, min(most, len(paths))).astype(np.int64))]
