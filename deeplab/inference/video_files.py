"""Videos that `deeplab predict` writes: the overlay of each frame, over or beside the frame, as MP4 without sound."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from deeplab.errors import DataError
from deeplab.files import output_files, writing
from deeplab.inference import videos
from deeplab.inference.inputs import InputFile
from deeplab.inference.prediction import Prediction
from deeplab.options import BESIDE, VIDEO, PredictOptions
from deeplab.pictures import drawing

_SUFFIX = '.mp4'
_LIVE_RATE = 25.0  # of videos of cameras and streams, in which a frame is repeated until the next one
_MOST_WAITING = 64  # frames that wait for one before them, which the network may have failed to predict
_QUALITY = 7  # 1 to 10, of the encoder


class VideoFile(NamedTuple):
    """A video that was written: its path, number of frames, and frames per second."""

    path: str
    frames: int
    rate: float


class _Video:
    """A video file: frames arrive from several threads and are written in order; it has its name when it is complete.

    All frames have the size of the first one, with sides made even, as the encoder requires.
    """

    def __init__(self, path: str, rate: float, is_live: bool) -> None:
        self.path, self.frames, self.rate = path, 0, rate
        self._is_live = is_live
        self._temporary = writing.temporary_name(path)
        self._waiting: dict[int, np.ndarray] = {}
        self._next, self._count = 0, -1
        self._encoder: Generator[None, Any, None] | None = None
        self._canvas = np.zeros((0, 0, 3), np.uint8)
        self._started = 0.0
        self._lock = threading.Lock()
        self.is_complete = False

    def put(self, number: int, picture: np.ndarray) -> None:
        """Adds the picture of a frame, [h, w, 3] uint8; writes those whose turn it is."""
        with self._lock:
            self._waiting[number] = picture
            self._write_waiting()

    def end(self, count: int) -> None:
        """States how many frames the video has; it is complete when they are written."""
        with self._lock:
            self._count = count
            self._write_waiting()

    def finish(self) -> None:
        """Writes what waits, and completes the file."""
        with self._lock:
            for number in sorted(self._waiting):
                self._write(self._waiting.pop(number))
            if not self.is_complete:
                self._complete()

    def abort(self) -> None:
        """Removes the file, unless it is complete."""
        with self._lock:
            if self.is_complete:
                return
            self._waiting.clear()
            if self._encoder is not None:
                self._encoder.close()
            with contextlib.suppress(OSError):
                writing.remove(self._temporary)

    def _write_waiting(self) -> None:
        while self._waiting and (self._next in self._waiting or len(self._waiting) > _MOST_WAITING):
            number = min(self._waiting)
            self._write(self._waiting.pop(number))
            self._next = number + 1
        if self._next == self._count and not self.is_complete:
            self._complete()

    def _write(self, picture: np.ndarray) -> None:
        with self._explained():
            if self._encoder is None:
                self._open(picture)
            height, width, _ = (min(sides) for sides in zip(self._canvas.shape, picture.shape, strict=True))
            self._canvas[:height, :width] = picture[:height, :width]
            for _ in range(self._repeats()):
                assert self._encoder is not None
                self._encoder.send(self._canvas)
                self.frames += 1

    def _repeats(self) -> int:
        """Returns how often a frame is written: once, or as long as the frame before it was the newest one."""
        if not self._is_live:
            return 1
        return max(0, 1 + round((time.monotonic() - self._started) * self.rate) - self.frames)

    def _open(self, picture: np.ndarray) -> None:
        import imageio_ffmpeg

        height, width = (side + side % 2 for side in picture.shape[:2])
        self._canvas = np.zeros((height, width, 3), np.uint8)
        self._started = time.monotonic()
        self._encoder = imageio_ffmpeg.write_frames(
            self._temporary,
            (width, height),
            fps=self.rate,
            quality=_QUALITY,
            macro_block_size=2,
            output_params=['-f', 'mp4', '-movflags', '+faststart'],
        )
        self._encoder.send(None)

    def _complete(self) -> None:
        if self._encoder is None:  # without a frame
            return
        with self._explained():
            self._encoder.close()
            try:
                videos.facts_of(self._temporary)  # ffmpeg does not report a full disk when it closes the file
            except DataError as error:
                raise OSError(str(error)) from None
            os.replace(self._temporary, self.path)
        self.is_complete = True

    def _explained(self) -> contextlib.AbstractContextManager[None]:
        return writing.explained(self.path, 'The disk may be full, or the folder read-only.')


class VideoFiles:
    """The videos of a run, FOLDER/video/NAME.mp4; several threads may add frames."""

    def __init__(self, options: PredictOptions) -> None:
        """Creates the object; writes nothing yet."""
        self._options = options
        self._videos: dict[str, _Video] = {}
        self._cleaned: set[str] = set()
        self._lock = threading.Lock()

    def path_of(self, item: InputFile) -> str:
        """Returns the path of the video of an input."""
        name = item.name if item.name.lower().endswith(_SUFFIX) else item.name + _SUFFIX
        return os.path.join(self._options.output_dir, VIDEO, *name.split('/'))

    def put(self, item: InputFile, number: int, prediction: Prediction) -> None:
        """Adds a frame.

        Raises:
          DataError: The video cannot be written.
        """
        picture = prediction.overlay_picture(self._options.overlay_alpha, self._options.overlay_legend)
        if self._options.video_layout == BESIDE:
            rows = np.zeros((picture.shape[0], prediction.image.shape[1], 3), np.uint8)
            rows[: prediction.image.shape[0]] = drawing.in_rgb(prediction.image)
            picture = np.concatenate([rows, picture], axis=1)
        self._video_of(item).put(number, picture)

    def _video_of(self, item: InputFile) -> _Video:
        with self._lock:
            if item.path not in self._videos:
                facts = videos.VideoFacts(_LIVE_RATE, False) if item.is_live else videos.facts_of(item.path)
                path = self.path_of(item)
                output_files.make_folder(os.path.dirname(path))
                if (folder := os.path.dirname(path)) not in self._cleaned:  # once: later, own videos are unfinished
                    self._cleaned.add(folder)
                    writing.remove_leftovers(folder, rf'.+\{_SUFFIX}')
                if facts.has_sound:
                    logging.info("The sound of '%s' is not copied to '%s'.", item.path, path)
                self._videos[item.path] = _Video(path, facts.rate, item.is_live)
            return self._videos[item.path]

    def end(self, item: InputFile, count: int) -> None:
        """States how many frames of an input are predicted, so that its video can be completed.

        Raises:
          DataError: The video cannot be written.
        """
        if count:
            self._video_of(item).end(count)

    def finish(self) -> dict[str, VideoFile]:
        """Completes all videos; returns those with a frame by the path of the input.

        Raises:
          DataError: A video cannot be written.
        """
        for video in self._videos.values():
            video.finish()
        return {
            path: VideoFile(video.path, video.frames, video.rate)
            for path, video in self._videos.items()
            if video.is_complete
        }

    def abort(self) -> None:
        """Removes the videos that are not complete."""
        for video in self._videos.values():
            video.abort()
