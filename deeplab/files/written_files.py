"""A list of the files that a program wrote into a folder, so that its next run can replace all of them."""

from __future__ import annotations

import contextlib
import json
import os
import threading

from absl import logging

from deeplab.errors import DataError
from deeplab.files import documents, writing


class WrittenFiles:
    """The files of one program in one folder, listed in FOLDER/.PROGRAM_files, one JSON array per line.

    A file counts as the program's own if its size and time match the list; a file that was changed since is not
    removed. Safe to use from several threads.
    """

    def __init__(self, folder: str, program: str) -> None:
        """Creates the object; reads and removes nothing yet."""
        self._folder = folder
        self._path = os.path.join(folder, f'.{program}_files')
        self._lock = threading.Lock()
        self._has_begun = False
        self._listed: dict[str, tuple[int, int]] | None = None  # as read by `is_own`

    def begin(self) -> None:
        """Removes the files of earlier runs, at the first call.

        Raises:
          DataError: A file cannot be removed.
        """
        with self._lock:
            if not self._has_begun:
                self._remove_earlier()
                self._has_begun = True

    def add(self, path: str) -> None:
        """Adds a file that was just written to the list.

        Raises:
          DataError: The list cannot be written.
        """
        name = os.path.relpath(path, self._folder)
        with writing.explained(self._path):
            stamp = _stamp(os.stat(path))
            line = json.dumps([name, *stamp]) + '\n'
            with self._lock, open(self._path, 'a', encoding='utf-8') as file:
                file.write(line)
                if self._listed is not None:
                    self._listed[name] = stamp

    def names(self) -> list[str]:
        """Returns the listed files, as paths in the folder."""
        return list(self._read())

    def is_own(self, path: str) -> bool:
        """Returns whether a file is in the list, and unchanged since it was written."""
        with self._lock:
            if self._listed is None:
                self._listed = self._read()
            stamp = self._listed.get(os.path.relpath(path, self._folder))
        with contextlib.suppress(OSError):
            return _stamp(os.lstat(path)) == stamp
        return False

    def _remove_earlier(self) -> None:
        """Removes the files in the list that are unchanged, then the list."""
        removed, changed = 0, 0
        try:
            for name, stamp in self._read().items():
                path = os.path.join(self._folder, name)
                with contextlib.suppress(FileNotFoundError):
                    if _stamp(os.lstat(path)) == stamp:
                        os.remove(path)
                        removed += 1
                    else:
                        changed += 1
            with contextlib.suppress(FileNotFoundError):
                os.remove(self._path)
        except OSError as error:
            raise DataError(f"Cannot remove '{error.filename}' of an earlier run: {error.strerror}.") from None
        if removed:
            logging.info("Removed %d files that an earlier run wrote to '%s'.", removed, self._folder)
        if changed:
            logging.warning(
                "%d files that an earlier run wrote to '%s' have been changed since. They are kept, unless this run "
                'writes files of the same names.',
                changed,
                self._folder,
            )

    def _read(self) -> dict[str, tuple[int, int]]:
        """Reads size and time by name; ignores incomplete lines and files outside of the folder."""
        stamps: dict[str, tuple[int, int]] = {}
        with contextlib.suppress(FileNotFoundError):
            for line in documents.load_lines(self._path):
                with contextlib.suppress(ValueError, TypeError):
                    name, size, time_ns = line
                    if not os.path.isabs(name) and '..' not in name.split(os.sep):
                        stamps[name] = (size, time_ns)
        return stamps


def _stamp(stat: os.stat_result) -> tuple[int, int]:
    """Returns what tells whether a file has changed: its size and its time in nanoseconds."""
    return stat.st_size, stat.st_mtime_ns
