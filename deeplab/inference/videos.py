"""Frames of videos, cameras and streams, read by imageio with its ffmpeg plugin (the extra `video`)."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from deeplab.errors import DataError
from deeplab.system import packages

_CAMERA = re.compile(r'camera:(.+)|(/dev/video\d+)')
_STREAM = re.compile(r'(https?|rtsps?|rtmps?|rtp|srt|tcp|udp)://\S+', re.IGNORECASE)
_PASSWORD = re.compile(r'(?<=://)[^/@\s]+@')
_POLL_SECS = 0.1
_FAILURES = (OSError, ValueError, RuntimeError, IndexError, KeyError, AssertionError)  # of imageio and ffmpeg


class VideoFacts(NamedTuple):
    """What a file says of its video: frames per second, 25 if it does not say, and whether it has sound."""

    rate: float
    has_sound: bool


def require() -> None:
    """Raises `OptionError` if the packages that read videos are missing."""
    packages.require(('imageio', 'imageio_ffmpeg'), 'A video', "'deeplab-toolkit[video]'")


def is_live(text: str) -> bool:
    """Returns whether an input is a camera (`camera:0`, /dev/video0) or the address of a stream, not a file."""
    return bool(_CAMERA.fullmatch(text) or _STREAM.fullmatch(text))


def without_password(text: str) -> str:
    """Returns the address of a stream without the user's name and password."""
    return _PASSWORD.sub('', text)


def facts_of(path: str) -> VideoFacts:
    """Reads what a file says of its video.

    Raises:
      DataError: It is no video. The message continues a sentence that names the file.
    """
    import imageio_ffmpeg

    reader = imageio_ffmpeg.read_frames(path)
    try:
        facts = next(reader)
    except _FAILURES as error:
        raise DataError(f'it cannot be read as a video ({_line(error)})') from None
    finally:
        reader.close()
    return VideoFacts(float(facts.get('fps') or 25.0), bool(facts.get('audio_codec')))


def frames(path: str) -> Iterator[np.ndarray]:
    """Yields the frames of a video, [h, w, 3] uint8, as a player shows them.

    Raises:
      DataError: It is no video, or is damaged. The message continues a sentence that names the file.
    """
    from imageio import v2

    try:
        reader: Any = v2.get_reader(path, 'ffmpeg')
    except _FAILURES as error:
        raise DataError(f'it cannot be read as a video ({_line(error)})') from None
    count = 0
    try:
        with reader:
            for frame in reader:
                count += 1
                yield np.asarray(frame)
    except _FAILURES as error:
        raise DataError(f'it is damaged after {count} frames ({_line(error)})') from None
    if not count:
        raise DataError('it has no frames')


class _Newest(threading.Thread):
    """Reads a camera or stream and keeps its newest frame; older ones that nobody has taken are dropped."""

    def __init__(self, reader: Generator[Any, None, None]) -> None:
        super().__init__(daemon=True)
        self._reader = reader
        self._changed = threading.Condition()
        self._frame: np.ndarray | None = None
        self._is_closed = self._has_ended = False
        self.error: BaseException | None = None

    def run(self) -> None:
        """Reads until the source ends, fails or is no longer wanted."""
        try:
            width, height = next(self._reader)['size']
            for content in self._reader:
                if self._is_closed:
                    break
                with self._changed:
                    self._frame = np.frombuffer(content, np.uint8).reshape(height, width, 3)
                    self._changed.notify()
        except _FAILURES as error:
            self.error = error
        finally:
            self._reader.close()
            with self._changed:
                self._has_ended = True
                self._changed.notify()

    def taken(self, stop: threading.Event) -> np.ndarray | None:
        """Waits for a frame and returns it; None after the end, or if `stop` is set."""
        with self._changed:
            while self._frame is None and not self._has_ended and not stop.is_set():
                self._changed.wait(_POLL_SECS)
            frame, self._frame = self._frame, None
        return None if stop.is_set() else frame

    def close(self) -> None:
        """Ends the thread with the next frame; a source that sends nothing more is left to the end of the process."""
        self._is_closed = True
        self.join(2.0)


def live_frames(source: str, stop: threading.Event) -> Generator[np.ndarray, None, None]:
    """Yields frames of a camera or stream, [h, w, 3] uint8: the newest one at the time when it is asked for.

    Args:
      source: see `is_live`.
      stop: ends the frames when it is set.

    Raises:
      DataError: It cannot be opened, or fails before its first frame. The message continues a sentence that names it.
    """
    import imageio_ffmpeg

    name, parameters = _ffmpeg_input(source)
    thread = _Newest(imageio_ffmpeg.read_frames(name, input_params=parameters))
    thread.start()
    count = 0
    try:
        while (frame := thread.taken(stop)) is not None:
            count += 1
            yield frame
    finally:
        thread.close()
    reason = without_password(_line(thread.error)) if thread.error else 'it has no frames'
    if not count and not stop.is_set():
        raise DataError(f'it cannot be opened ({reason})')
    if thread.error:
        logging.warning("'%s' has ended after %d frames (%s).", without_password(source), count, reason)


def _ffmpeg_input(source: str) -> tuple[str, list[str]]:
    """Returns what ffmpeg calls a camera or stream, and the arguments before it."""
    camera = _CAMERA.fullmatch(source)
    if camera is None:
        return source, ['-rtsp_transport', 'tcp'] if source.lower().startswith('rtsp') else []
    name = camera[1] or camera[2]
    if sys.platform.startswith('linux'):
        return f'/dev/video{name}' if name.isdecimal() else name, ['-f', 'v4l2']
    if sys.platform == 'darwin':
        return name, ['-f', 'avfoundation', '-framerate', '30']
    return f'video={name}', ['-f', 'dshow']


def _line(error: BaseException) -> str:
    """Returns the last line of an error, where ffmpeg names the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
