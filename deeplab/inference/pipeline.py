"""Prediction of many files: reading, network and writing overlap, each with a bounded number of images waiting."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

import numpy as np
import tqdm
from absl import logging

from deeplab.errors import DataError
from deeplab.inference import model_source, videos
from deeplab.inference.any_size import batches
from deeplab.inference.inputs import Failure, InputFile
from deeplab.inference.prediction import Prediction
from deeplab.inference.predictor import Predictor
from deeplab.system import overlap, processors
from deeplab.wording import option

_MOST_BYTES = 128 << 20  # of images that are read or wait; one always may be
_FRAMES_AHEAD = 4
_OTHER_SCALE = 2  # an image whose longer side is more than this multiple of the longest in training is warned about

Write = Callable[[InputFile, int | None, Prediction], None]
_Writer = overlap.Background[[InputFile, int | None, Prediction]]


class PredictionSummary(NamedTuple):
    """What was predicted.

    Attributes:
      images: number of images and frames.
      failures: files that could not be read or predicted, in order.
      seconds: how long it took; at least 0.001, so that rates can be computed, also after rounding to milliseconds.
    """

    images: int
    failures: tuple[Failure, ...]
    seconds: float


class _Sample(NamedTuple):
    """An image that was read, or why it could not be."""

    item: InputFile
    number: int | None
    image: np.ndarray | DataError

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of the image; None for an error."""
        return None if isinstance(self.image, DataError) else self.image.shape


def run(
    predictor: Predictor,
    items: Sequence[InputFile],
    write: Write,
    batch_size: int,
    with_confidence: bool,
    ended: Callable[[InputFile, int], None] = lambda item, count: None,
    stop: threading.Event | None = None,
) -> PredictionSummary:
    """Predicts files; unreadable files do not stop it.

    Args:
      predictor: the network.
      items: the files.
      write: called in threads, with the file, the number of a video's frame (or None) and the prediction.
      batch_size: images of the same size to predict at a time.
      with_confidence: whether the confidence will be needed.
      ended: called with a video and the number of its frames, when all of them are read.
      stop: ends a camera or stream when it is set.

    Raises:
      UserError: What `write` or `ended` raises.
    """
    started = time.monotonic()
    failures: list[Failure] = []
    images = 0
    total = None if any(item.is_video for item in items) else len(items)
    bar = tqdm.tqdm(total=total, desc='predict', unit='image', disable=None)
    largest_side = None if predictor.resizes else model_source.largest_side_in_training(predictor.source)

    def bytes_of(item: InputFile, number: int | None, prediction: Prediction) -> int:
        return prediction.nbytes

    writing = overlap.Background(write, _threads(), 2 * _threads(), bytes_of, _MOST_BYTES)
    with (
        bar,
        writing as writer,
        contextlib.closing(_samples(predictor, items, ended, stop or threading.Event())) as samples,
    ):
        for batch in batches(samples, batch_size, lambda sample: sample.shape):
            bar.update(len(batch))
            if largest_side is not None and max(batch[0].shape or (0,)) > _OTHER_SCALE * largest_side:
                _warn_of_scale(batch[0], largest_side)
                largest_side = None  # once is enough
            failed = _predict(predictor, batch, writer, with_confidence)
            failures += failed
            images += len(batch) - len(failed)
            batch.clear()  # an image may be large, and the next one is read now
    return PredictionSummary(images, tuple(failures), max(time.monotonic() - started, 0.001))


def _warn_of_scale(sample: _Sample, largest_side: int) -> None:
    """Warns of an image that is much larger than the images of the training were."""
    assert sample.shape is not None
    height, width, *_ = sample.shape
    logging.warning(
        '%s has %d x %d pixels (height x width); the longest side of a training image had %d. If the training images '
        'were downscaled, objects have another scale here: downscale this image, too, or set %s. If they were cut out '
        'of larger images, ignore this.',
        sample.item.shown,
        height,
        width,
        largest_side,
        option('ResizeOptions.max_value', largest_side),
    )


def _predict(predictor: Predictor, batch: Sequence[_Sample], writer: _Writer, with_confidence: bool) -> list[Failure]:
    """Predicts samples of the same shape and adds them to the writer; returns the failures."""
    pixels = [sample.image for sample in batch if not isinstance(sample.image, DataError)]
    if not pixels:  # none could be read
        return [Failure(sample.item.shown, str(sample.image)) for sample in batch]
    try:
        predictions = predictor.predict(pixels, with_confidence)
    except DataError as error:
        return [Failure(sample.item.shown, str(error)) for sample in batch]
    for sample, prediction in zip(batch, predictions, strict=True):
        writer.add(sample.item, sample.number, prediction)
    return []


def _samples(
    predictor: Predictor,
    items: Sequence[InputFile],
    ended: Callable[[InputFile, int], None],
    stop: threading.Event,
) -> Generator[_Sample, None, None]:
    """Yields the images of all files in order; the next ones are read in threads."""

    def read(item: InputFile) -> _Sample:
        try:
            return _Sample(item, None, predictor.read_file(item.path))
        except DataError as error:
            return _Sample(item, None, error)

    for is_video, group in itertools.groupby(items, lambda item: item.is_video):
        if is_video:
            for item in group:
                ahead = 1 if item.is_live else _FRAMES_AHEAD  # a frame that waits is not the newest one
                count = 0
                with contextlib.closing(overlap.read_ahead(_frames(predictor, item, stop), ahead)) as frames:
                    for sample in frames:
                        count += sample.number is not None
                        yield sample
                ended(item, count)
        else:
            images = overlap.map_in_order(
                read, group, _threads(), _threads(), lambda item: predictor.bytes_of_file(item.path), _MOST_BYTES
            )
            with contextlib.closing(images):
                yield from images


def _threads() -> int:
    """Returns the number of threads that read files, and of threads that write them."""
    return min(processors.available_cores(), 4)


def _frames(predictor: Predictor, item: InputFile, stop: threading.Event) -> Generator[_Sample, None, None]:
    try:
        frames = videos.live_frames(item.path, stop) if item.is_live else videos.frames(item.path)
        for number, frame in enumerate(frames):
            yield _Sample(item, number, predictor.read(frame))
    except DataError as error:
        yield _Sample(item, None, error)
