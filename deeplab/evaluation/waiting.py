"""Waiting for new checkpoints, between two rounds of eval and vis."""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Iterator

from absl import logging

from deeplab.core import checkpoints
from deeplab.errors import CheckpointError
from deeplab.files import cross_validation, folder_lock
from deeplab.inference import network_source
from deeplab.names import shown
from deeplab.options import WaitOptions
from deeplab.wording import option

_POLL_SECS = 1.0
_REMIND_SECS = 300.0
# How long a run over a given number of checkpoints waits for a training to begin if no timeout is set. A script may
# start both at once; a folder without a training, such as a mistyped one, never gets a checkpoint.
START_SECS = 60.0


def rounds(checkpoint_dir: str, wait: WaitOptions) -> Iterator[str]:
    """Yields the path of the newest checkpoint whenever there is a new one.

    Args:
      checkpoint_dir: folder in which checkpoints appear, or an archive as it was unpacked, or the path of a single
        checkpoint.
      wait: interval, number of rounds, and timeout.

    Yields:
      Checkpoint paths. Ends after `wait.max_rounds`, or when no further checkpoint appears within `wait.timeout_secs`.
      Without a timeout, a run of `wait.max_rounds` waits as long as a training runs in the folder, and `START_SECS` for
      one to begin; a run without a number of rounds waits forever.

    Raises:
      CheckpointError: No first checkpoint appears in that time, or the path is one of a checkpoint's files, or
        the path of a single checkpoint that does not exist.
    """
    cross_validation.require_other(checkpoint_dir)
    if network_source.at(checkpoint_dir).is_single():
        yield checkpoint_dir
        return
    checkpoint_dir = checkpoints.as_unpacked(checkpoint_dir)
    done, last, waiting = 0, None, _Waiting(checkpoint_dir, wait)
    while wait.max_rounds is None or done < wait.max_rounds:
        checkpoint = waiting.for_new(last)
        if checkpoint is None:
            if done:
                return
            raise CheckpointError(waiting.in_vain())
        path, last = checkpoint
        started = time.monotonic()
        yield path
        done += 1
        if wait.max_rounds is None or done < wait.max_rounds:
            pause = max(0.0, started + wait.interval_secs - time.monotonic())
            if pause >= _POLL_SECS:
                logging.info(
                    'Next check for a new checkpoint at %s (%s).', _clock(pause), option('WaitOptions.interval_secs')
                )
            time.sleep(pause)


class _Waiting:
    """Looks for new checkpoints in a folder, and logs what it waits for and until when."""

    def __init__(self, directory: str, wait: WaitOptions) -> None:
        self._directory = directory
        self._wait = wait
        self._training: folder_lock.Owner | None = None
        self._has_seen_training = False
        self._until: float | None = None

    def for_new(self, last: tuple[str, float] | None) -> tuple[str, tuple[str, float]] | None:
        """Returns the newest checkpoint and its identity as soon as that is not `last`; None after the timeout."""
        timeout = self._wait.timeout_secs
        self._until = None if timeout is None else time.monotonic() + timeout
        said, said_at = '', 0.0
        while True:
            self._set_patience(is_next=last is not None)  # first: a training that has ended has left its last one
            path = checkpoints.newest(self._directory)
            identity = _identity(path) if path else None
            if path is not None and identity is not None and identity != last:
                return path, identity
            now = time.monotonic()
            if self._until is not None and now >= self._until:
                return None
            what = self._what_is_awaited(last is not None)
            if what != said or now - said_at >= _REMIND_SECS:
                logging.info('%s (%s).', what, self._how_long())
                said, said_at = what, now
            rest = _POLL_SECS if self._until is None else min(_POLL_SECS, self._until - now)
            time.sleep(max(rest, 0.01))

    def _set_patience(self, is_next: bool) -> None:
        """Checks whether a training runs in the folder; without a timeout, how long to wait depends on that."""
        self._training = _training_in(self._directory)
        self._has_seen_training |= self._training is not None
        if self._wait.timeout_secs is not None:
            return
        if self._wait.max_rounds is None or self._training is not None or (is_next and not self._has_seen_training):
            self._until = None
        elif self._until is None:
            self._until = time.monotonic() + (0.0 if is_next else START_SECS)

    def _what_is_awaited(self, is_next: bool) -> str:
        what = 'a new checkpoint' if is_next else 'a first checkpoint'
        missing = '' if os.path.isdir(self._directory) else ', which does not exist yet'
        training = f' of the training run there, {self._training}' if self._training else ''
        return f"Waiting for {what} in '{self._directory}'{missing}{training}"

    def _how_long(self) -> str:
        timeout = option('WaitOptions.timeout_secs')
        if self._until is None:
            if self._training and self._wait.max_rounds is not None:
                return f'as long as it runs; set {timeout} to wait for a given time'
            return f'forever; stop with Ctrl-C, or set {timeout}'
        rest = self._until - time.monotonic()
        if self._wait.timeout_secs is not None:
            return f'until {_clock(rest)}, {option("WaitOptions.timeout_secs", self._wait.timeout_secs)}'
        return f'until {_clock(rest)}, because no training run is active there; set {timeout} to wait longer'

    def in_vain(self) -> str:
        """Returns the error message if no first checkpoint appeared."""
        timeout = option('WaitOptions.timeout_secs')
        within = 'of the training run that was active there'
        if self._wait.timeout_secs is not None:
            within = f'within {self._wait.timeout_secs:g} seconds ({timeout})'
        elif not self._has_seen_training:
            within = f'within {START_SECS:g} seconds, and no training run is active there'
        missing = '' if os.path.isdir(self._directory) else ' The folder does not exist.'
        others = _folders_with_checkpoints(os.path.dirname(os.path.abspath(self._directory)))
        hint = f' Folders next to it with checkpoints: {", ".join(others)}.' if others else ''
        return (
            f"No checkpoint appeared in '{self._directory}' {within}.{missing} Set "
            f'{option("EvalOptions.checkpoint_dir")} to the log folder of a training run that has saved one, or '
            f'increase {timeout}.{hint}'
        )


def _training_in(directory: str) -> folder_lock.Owner | None:
    """Returns the training that runs in `directory` or its parent, for the folder best/ of a training."""
    above = os.path.dirname(os.path.abspath(directory))
    return folder_lock.owner(directory, 'train') or folder_lock.owner(above, 'train')


def _folders_with_checkpoints(parent: str, most: int = 3) -> list[str]:
    """Returns the names of some folders in `parent` that have checkpoints."""
    folders = sorted(glob.glob(os.path.join(glob.escape(parent), '*', 'checkpoint')))
    return [shown(os.path.basename(os.path.dirname(path))) for path in folders[:most]]


def _identity(path: str) -> tuple[str, float] | None:
    """Returns path and time, which identify a checkpoint; None if it has just been removed."""
    try:
        return path, os.path.getmtime(f'{path}.index')
    except OSError:
        return None


def _clock(seconds: float) -> str:
    """Returns the local time in so many seconds."""
    return time.strftime('%H:%M:%S', time.localtime(time.time() + seconds))
