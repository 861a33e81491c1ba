"""Progress of a download: a bar on a terminal, otherwise log lines."""

from __future__ import annotations

import sys
import time
from typing import Any

import tqdm
from absl import logging

from deeplab import names

_LOG_SECS = 10


class Progress:
    """Shows how much has arrived, the speed and the time left, within a `with` block."""

    def __init__(self, title: str, start: int, size: int | None) -> None:
        """Starts.

        Args:
          title: of the bar.
          start: number of bytes that have arrived before.
          size: number of all bytes; None if unknown.
        """
        self._title, self._start, self._done, self._size = title, start, start, size
        self._is_live = sys.stderr.isatty()
        self._bar: Any = None

    def __enter__(self) -> Progress:
        self._bar = tqdm.tqdm(
            desc=self._title,
            initial=self._start,
            total=self._size,
            unit='B',
            unit_scale=True,
            disable=not self._is_live,
        )
        self._began = self._logged = time.monotonic()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()

    def add(self, size: int) -> None:
        """Counts `size` further bytes."""
        self._done += size
        self._bar.update(size)
        now = time.monotonic()
        if not self._is_live and now - self._logged >= _LOG_SECS:
            self._logged = now
            logging.info('%s', self.line(now - self._began))

    def line(self, seconds: float) -> str:
        """Returns the progress after `seconds` as a line of the log."""
        speed = max(self._done - self._start, 1) / max(seconds, 1e-6)
        done = f'{self._title}: {names.byte_size(self._done)}'
        if self._size is None:
            return f'{done} ({names.byte_size(speed)}/s)'
        left = (self._size - self._done) / speed
        return f'{done} of {names.byte_size(self._size)} ({names.byte_size(speed)}/s, {names.duration(left)} left)'
