"""What a program writes: folders looked at before the work begins, and failures told in one line."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator

import tensorflow as tf
from absl import logging

from deeplab.core.reasons import reason_of
from deeplab.errors import DataError, OptionError

# What Python and TensorFlow raise where a file cannot be written. The last two are what the writer of event files makes
# of a full disk and of a file that is too large.
FAILURES = (OSError, tf.errors.OpError, RuntimeError, IndexError)


def make_folder(path: str) -> str:
    """Makes a folder, with those above it, unless it is there; returns `path`.

    Raises:
      DataError: It cannot be made.
    """
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise DataError(f"Cannot make the folder '{path}': {error.strerror}. Give another one.") from None
    return path


def require_folder(path: str, flag: str) -> None:
    """Looks whether a folder is there and can be written, or could be made. Makes nothing.

    Args:
      path: of the folder.
      flag: name of the flag that it comes from.

    Raises:
      OptionError: it cannot.
    """
    existing = os.path.abspath(path)
    while not os.path.lexists(existing) and existing != os.path.dirname(existing):
        existing = os.path.dirname(existing)
    if not os.path.isdir(existing):
        raise OptionError(
            f"--{flag}: the folder '{path}' cannot be made: '{existing}' is no folder. Give another path, or move "
            'that away'
        )
    if not os.access(existing, os.W_OK | os.X_OK):
        raise OptionError(
            f"--{flag}: nothing can be written to the folder '{path}': '{existing}' is read-only for this user. Give "
            'another path, or the permission to write there'
        )


def require_own(path: str, flag: str, kind: str, is_own: Callable[[str], bool]) -> None:
    """Looks whether `path` is free for a file of ours, or holds an earlier one, which is replaced, or nothing.

    Args:
      path: of the file.
      flag: name of the flag that it comes from.
      kind: what is written there, with its article.
      is_own: of the path of a file with content, whether it is such a file.

    Raises:
      OptionError: something else is there.
    """
    if not os.path.exists(path):
        return
    with contextlib.suppress(OSError):  # what cannot be read is not known to be one
        if os.path.isfile(path) and (not os.path.getsize(path) or is_own(path)):
            return
    raise OptionError(
        f"--{flag}: '{path}' exists and is not {kind}, so it is not overwritten. Give another path, or move it away"
    )


@contextlib.contextmanager
def writing_to(path: str, flag: str) -> Iterator[None]:
    """Turns a failure to write into the folder `path`, which comes from the flag named `flag`, into one line.

    Raises:
      OptionError: in the place of what Python and TensorFlow raise.
    """
    try:
        yield
    except FAILURES as error:
        raise OptionError(
            f"--{flag}: the folder '{path}' cannot be written ({reason_of(error)}). Is the disk full, or the folder "
            'read-only? Make room, or give another path'
        ) from error


class Dispensable:
    """Files that training goes on without: a failure to write them is told once, and they are written no more.

    Attributes:
      is_on: whether they are written still.
    """

    def __init__(self, path: str) -> None:
        """Fails nothing yet; `path` of the file, or of the folder that holds them, is for the warning."""
        self._path = path
        self.is_on = True

    def attempt(self, write: Callable[[], None]) -> None:
        """Calls `write`, unless that has failed before."""
        if not self.is_on:
            return
        try:
            write()
        except FAILURES as error:
            self.is_on = False
            logging.warning(
                "'%s' cannot be written (%s). Training goes on, and writes nothing more there.",
                self._path,
                reason_of(error),
            )
