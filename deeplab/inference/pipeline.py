"""Prediction of many files: reading, network and writing overlap, each with a bounded number of images waiting."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

import numpy as np
import tqdm

from deeplab.errors import DataError
from deeplab.inference import videos
from deeplab.inference.any_size import batches
from deeplab.inference.inputs import Failure, InputFile
from deeplab.inference.prediction import Prediction
from deeplab.inference.predictor import Predictor
from deeplab.system import processors

_MOST_BYTES = 128 << 20  # of images that are read or wait; one always may be
_FRAMES_AHEAD = 4

Write = Callable[[InputFile, int | None, Prediction], None]


class PredictionSummary(NamedTuple):
    """What was predicted.

    Attributes:
      images: number of images and frames.
      failures: files that could not be read or predicted, in order.
      seconds: how long it took.
    """

    images: int
    failures: tuple[Failure, ...]
    seconds: float


class _Sample(NamedTuple):
    """An image that was read, or why it could not be."""

    item: InputFile
    number: int | None
    image: np.ndarray | None
    error: DataError | None = None


def run(
    predictor: Predictor, items: Sequence[InputFile], write: Write, batch_size: int, with_confidence: bool
) -> PredictionSummary:
    """Predicts files; those that cannot be read do not stop it.

    Args:
      predictor: the network.
      items: the files.
      write: called in threads, with the file, the number of a video's frame (or None) and the prediction.
      batch_size: images of the same size to predict at a time.
      with_confidence: whether the confidence will be needed.

    Raises:
      UserError: What `write` raises.
    """
    started = time.monotonic()
    failures: list[Failure] = []
    images = 0
    total = None if any(item.is_video for item in items) else len(items)
    bar = tqdm.tqdm(total=total, desc='predict', unit='image', disable=None)
    with bar, _Writer(write) as writer, contextlib.closing(_samples(predictor, items)) as samples:
        for batch in batches(samples, batch_size, _shape_of):
            bar.update(len(batch))
            failed = _predict(predictor, batch, writer, with_confidence)
            failures += failed
            images += len(batch) - len(failed)
            batch.clear()  # an image may be large, and the next one is read now
    return PredictionSummary(images, tuple(failures), time.monotonic() - started)


def _shape_of(sample: _Sample) -> tuple[int, ...] | None:
    return None if sample.image is None else sample.image.shape


def _predict(predictor: Predictor, batch: Sequence[_Sample], writer: _Writer, with_confidence: bool) -> list[Failure]:
    """Predicts samples of the same shape and adds them to the writer; returns those that failed."""
    failures = [Failure(sample.item.path, str(sample.error)) for sample in batch if sample.error]
    good = [sample for sample in batch if sample.image is not None]
    if not good:
        return failures
    try:
        predictions = predictor.predict([s.image for s in good if s.image is not None], with_confidence)
    except DataError as error:
        return [*failures, *(Failure(sample.item.path, str(error)) for sample in good)]
    for sample, prediction in zip(good, predictions, strict=True):
        writer.add(sample, prediction)
    return failures


def _samples(predictor: Predictor, items: Sequence[InputFile]) -> Generator[_Sample, None, None]:
    """Yields the images of all files in order; the next ones are read in threads."""
    threads = min(processors.available_cores(), 4)
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        waiting: collections.deque[tuple[int, concurrent.futures.Future[_Sample]]] = collections.deque()
        try:
            for item in items:
                if item.is_video:
                    while waiting:
                        yield waiting.popleft()[1].result()
                    with contextlib.closing(_ahead(_frames(predictor, item))) as frames:
                        yield from frames
                    continue
                size = predictor.bytes_of_file(item.path)
                while waiting and (len(waiting) > threads or size + sum(each for each, _ in waiting) > _MOST_BYTES):
                    yield waiting.popleft()[1].result()
                waiting.append((size, pool.submit(_read, predictor, item)))
            while waiting:
                yield waiting.popleft()[1].result()
        finally:
            for _, future in waiting:
                future.cancel()


def _read(predictor: Predictor, item: InputFile) -> _Sample:
    """Reads an image file."""
    try:
        return _Sample(item, None, predictor.read_file(item.path))
    except DataError as error:
        return _Sample(item, None, None, error)


def _frames(predictor: Predictor, item: InputFile) -> Generator[_Sample, None, None]:
    """Yields the frames of a video."""
    try:
        for number, frame in enumerate(videos.frames(item.path)):
            yield _Sample(item, number, predictor.read(frame))
    except DataError as error:
        yield _Sample(item, None, None, error)


def _ahead(samples: Generator[_Sample, None, None]) -> Generator[_Sample, None, None]:
    """Yields samples that a thread reads ahead."""
    waiting: queue.Queue[_Sample | BaseException | None] = queue.Queue(_FRAMES_AHEAD)
    stopped = threading.Event()

    def put(sample: _Sample | BaseException | None) -> None:
        while not stopped.is_set():
            with contextlib.suppress(queue.Full):
                waiting.put(sample, timeout=0.1)
                return

    def read() -> None:
        end: BaseException | None = None
        try:
            with contextlib.closing(samples):
                for sample in samples:
                    put(sample)
                    if stopped.is_set():
                        return
        except BaseException as error:  # raised in the other thread
            end = error
        put(end)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        while isinstance(sample := waiting.get(), _Sample):
            yield sample
        if sample is not None:
            raise sample
    finally:
        stopped.set()
        thread.join()


class _Writer:
    """Writes predictions in threads."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._threads = min(processors.available_cores(), 4)
        self._pool = concurrent.futures.ThreadPoolExecutor(self._threads)
        self._waiting: collections.deque[tuple[int, concurrent.futures.Future[None]]] = collections.deque()

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Waits until everything is written; after an error, cancels what has not begun."""
        self._pool.shutdown(cancel_futures=kind is not None)
        if kind is None:
            self._wait_until(0, 0)

    def add(self, sample: _Sample, prediction: Prediction) -> None:
        """Adds a prediction; raises the error of an earlier one, if any."""
        size = prediction.image.nbytes + prediction.labels.nbytes
        self._wait_until(2 * self._threads - 1, max(_MOST_BYTES - size, 0))
        self._waiting.append((size, self._pool.submit(self._write, sample.item, sample.number, prediction)))

    def _wait_until(self, count: int, size: int) -> None:
        """Waits until at most `count` predictions of `size` bytes wait."""
        while self._waiting and (len(self._waiting) > count or sum(each for each, _ in self._waiting) > size):
            self._waiting.popleft()[1].result()
