"""Waiting for checkpoints: what eval and vis do between two rounds."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from absl import logging

from deeplab.core import checkpoints
from deeplab.errors import CheckpointError
from deeplab.options import WaitOptions

_POLL_SECS = 1.0
_REMIND_SECS = 300.0


def rounds(checkpoint_dir: str, wait: WaitOptions) -> Iterator[str]:
    """Yields the path of the newest checkpoint whenever there is a new one.

    Args:
      checkpoint_dir: folder in which checkpoints appear; the path of one checkpoint gives that one alone.
      wait: pace, number of rounds, and patience.

    Yields:
      Checkpoint paths. Ends after `wait.max_rounds`, or when no further checkpoint comes within `wait.timeout_secs`.

    Raises:
      CheckpointError: No first checkpoint comes within `wait.timeout_secs`, or the path is one of a checkpoint's files.
    """
    if _is_one_checkpoint(checkpoint_dir):
        yield checkpoint_dir
        return
    done, last = 0, None
    while wait.max_rounds is None or done < wait.max_rounds:
        found = _wait_for_new(checkpoint_dir, last, wait.timeout_secs)
        if found is None:
            if done:
                return
            raise CheckpointError(
                f"No checkpoint came into '{checkpoint_dir}' within {wait.timeout_secs:g} seconds (--timeout_secs). "
                'Is --checkpoint_dir the --train_logdir of a training that has saved one?'
            )
        path, last = found
        started = time.monotonic()
        yield path
        done += 1
        if wait.max_rounds is None or done < wait.max_rounds:
            time.sleep(max(0.0, started + wait.interval_secs - time.monotonic()))


def _is_one_checkpoint(path: str) -> bool:
    """Whether `path` is a checkpoint rather than a folder; raises `CheckpointError` for one of its files."""
    if os.path.isfile(path):
        checkpoints.check_path(path)
    return os.path.isfile(f'{path}.index')


def _wait_for_new(
    directory: str, last: tuple[str, float] | None, timeout_secs: float | None
) -> tuple[str, tuple[str, float]] | None:
    """The newest checkpoint and its identity, as soon as that is not `last`; None when patience ends."""
    started = time.monotonic()
    reminded = None
    while True:
        path = checkpoints.newest(directory)
        identity = _identity(path) if path else None
        if identity is not None and identity != last:
            return path, identity
        waited = time.monotonic() - started
        if timeout_secs is not None and waited >= timeout_secs:
            return None
        if reminded is None or waited - reminded >= _REMIND_SECS:
            logging.info('%s', _what_is_awaited(directory, last is not None, timeout_secs))
            reminded = waited
        rest = _POLL_SECS if timeout_secs is None else min(_POLL_SECS, timeout_secs - waited)
        time.sleep(max(rest, 0.01))


def _identity(path: str) -> tuple[str, float] | None:
    """What tells this checkpoint from another of the same name; None if it has just gone."""
    try:
        return path, os.path.getmtime(f'{path}.index')
    except OSError:
        return None


def _what_is_awaited(directory: str, is_next: bool, timeout_secs: float | None) -> str:
    """A line that says what the program waits for, and for how long."""
    what = 'a new checkpoint' if is_next else 'a first checkpoint'
    where = f"in '{directory}'" + ('' if os.path.isdir(directory) else ', a folder that does not exist yet')
    how_long = (
        'stop with Ctrl-C, or set --timeout_secs' if timeout_secs is None else f'for at most {timeout_secs:g} seconds'
    )
    return f'Waiting for {what} {where} ({how_long}).'
