"""Frames of videos, read by imageio with its ffmpeg plugin (the extra `video`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from deeplab.errors import DataError
from deeplab.system import packages


def require() -> None:
    """Raises `OptionError` if the packages that read videos are missing."""
    packages.require(('imageio', 'imageio_ffmpeg'), 'A video', "'deeplab-toolkit[video]'")


def frames(path: str) -> Iterator[np.ndarray]:
    """Yields the frames of a video, [h, w, 3] uint8, as a player shows them.

    Raises:
      DataError: It is no video, or is damaged. The message continues a sentence that names the file.
    """
    from imageio import v2

    try:
        reader: Any = v2.get_reader(path, 'ffmpeg')
    except (OSError, ValueError, RuntimeError, IndexError) as error:
        raise DataError(f'it cannot be read as a video ({_line(error)})') from None
    count = 0
    try:
        with reader:
            for frame in reader:
                count += 1
                yield np.asarray(frame)
    except (OSError, ValueError, RuntimeError, IndexError) as error:
        raise DataError(f'it is damaged after {count} frames ({_line(error)})') from None
    if not count:
        raise DataError('it has no frames')


def _line(error: BaseException) -> str:
    """Returns the last line of an error, where ffmpeg names the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
