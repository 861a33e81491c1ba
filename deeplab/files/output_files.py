"""Output folders and files: checked before the work begins, with write errors reported in one line."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator

from absl import logging

from deeplab.errors import DataError, OptionError, OutputError, reason_of
from deeplab.files import writing
from deeplab.wording import option


def write_failures() -> tuple[type[BaseException], ...]:
    """Returns the exceptions that Python and TensorFlow raise if a file cannot be written.

    The writer of event files raises the last two on a full disk and for a file that is too large.
    """
    tensorflow = sys.modules.get('tensorflow')  # it raises nothing before it is imported
    return (OSError, *((tensorflow.errors.OpError,) if tensorflow else ()), RuntimeError, IndexError)


def make_folder(path: str) -> str:
    """Creates a folder and its parents if they do not exist; returns `path`.

    Raises:
      DataError: It cannot be created.
    """
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise DataError(f"Cannot create the folder '{path}': {error.strerror}. Use another path.") from None
    return path


def require_folder(path: str, field: str) -> None:
    """Checks that a folder exists and is writable, or could be created. Creates nothing.

    Args:
      path: path of the folder.
      field: option that it comes from, as 'Class.field'.

    Raises:
      OptionError: it is not writable, or cannot be created.
    """
    existing = os.path.abspath(path)
    while not os.path.lexists(existing) and existing != os.path.dirname(existing):
        existing = os.path.dirname(existing)
    if not os.path.isdir(existing):
        raise OptionError(
            f"{option(field)}: the folder '{path}' cannot be created: '{existing}' is not a folder. Use another path, "
            'or move that file'
        )
    if not os.access(existing, os.W_OK | os.X_OK):
        raise OptionError(
            f"{option(field)}: the folder '{path}' is not writable: '{existing}' is read-only for this user. Pass "
            'another path, or allow this user to write there'
        )


def require_own(path: str, field: str, kind: str, is_own: Callable[[str], bool]) -> None:
    """Checks that `path` does not exist, is an empty file, or a file of the same kind, which may be overwritten.

    Args:
      path: path of the file.
      field: option that it comes from, as 'Class.field'.
      kind: what the program writes there, with its article.
      is_own: returns whether a file that is not empty is of this kind.

    Raises:
      OptionError: something else exists there.
    """
    if not os.path.exists(path):
        return
    with contextlib.suppress(OSError):  # a file that cannot be read may be anything
        if os.path.isfile(path) and (not os.path.getsize(path) or is_own(path)):
            return
    raise OptionError(
        f"{option(field)}: '{path}' exists and is not {kind}, so it is not overwritten. Use another path, or move it"
    )


@contextlib.contextmanager
def writing_to(path: str, field: str, report: str | None = None) -> Iterator[None]:
    """Turns a failure to write into an error of one line.

    Args:
      path: path of the file or folder that is written.
      field: option that it comes from, as 'Class.field'.
      report: result as text, which the user then still sees; None if there is none yet.

    Raises:
      OptionError: Writing failed, and there is no report.
      OutputError: Writing failed; the error carries the report.
    """
    try:
        yield
    except write_failures() as error:
        message = (
            f"{option(field)}: '{path}' cannot be written: {reason_of(error)}. The disk may be full, or the folder "
            'read-only: free some space, or use another path'
        )
        raise (OptionError(message) if report is None else OutputError(message, report)) from error


def write(path: str, field: str, content: str, report: str | None = None) -> None:
    """Writes a file of results, makes its folder, and removes what a killed run has left of it.

    Args:
      path: path of the file.
      field: option that it comes from, as 'Class.field'.
      content: its text.
      report: as for `writing_to`, which also states the errors.
    """
    with writing_to(path, field, report):
        os.makedirs(os.path.dirname(path) or '.', exist_ok=True)
        writing.remove_leftovers(os.path.dirname(path), re.escape(os.path.basename(path)))
        writing.write(path, content)


class Dispensable:
    """Files that training can continue without: after a failure to write them, it warns once and stops writing them.

    Attributes:
      is_on: whether they are still written.
    """

    def __init__(self, path: str) -> None:
        """Creates the object; `path`, of the file or of the folder of the files, is for the warning."""
        self._path = path
        self.is_on = True

    def attempt(self, write: Callable[[], None]) -> None:
        """Calls `write`, unless it has failed before."""
        if not self.is_on:
            return
        try:
            write()
        except write_failures() as error:
            self.is_on = False
            logging.warning(
                "'%s' cannot be written (%s). Training continues without writing it.",
                self._path,
                reason_of(error),
            )
