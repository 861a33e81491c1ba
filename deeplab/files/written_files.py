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

    A file is regarded as written by the program if its size and time are those in the list; one that was changed since
    is not removed. Safe to use from several threads.
    """

    def __init__(self, folder: str, program: str) -> None:
        """Creates the object; reads and removes nothing yet."""
        self._folder = folder
        self._path = os.path.join(folder, f'.{program}_files')
        self._lock = threading.Lock()
        self._has_begun = False
        self._known: dict[str, tuple[int, int]] | None = None  # as read by `is_own`

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
            stat = os.stat(path)
            line = json.dumps([name, stat.st_size, stat.st_mtime_ns]) + '\n'
            with self._lock, open(self._path, 'a', encoding='utf-8') as file:
                file.write(line)
                if self._known is not None:
                    self._known[name] = (stat.st_size, stat.st_mtime_ns)

    def is_own(self, path: str) -> bool:
        """Returns whether a file is in the list, and unchanged since it was written."""
        with self._lock:
            if self._known is None:
                self._known = self._read()
            stamp = self._known.get(os.path.relpath(path, self._folder))
        try:
            stat = os.lstat(path)
        except OSError:
            return False
        return (stat.st_size, stat.st_mtime_ns) == stamp

    def _remove_earlier(self) -> None:
        """Removes the files in the list that are unchanged, then the list."""
        removed, changed = 0, 0
        try:
            for name, stamp in self._read().items():
                path = os.path.join(self._folder, name)
                with contextlib.suppress(FileNotFoundError):
                    stat = os.lstat(path)
                    if (stat.st_size, stat.st_mtime_ns) == stamp:
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
        identities: dict[str, tuple[int, int]] = {}
        try:
            lines = documents.load_lines(self._path)
        except FileNotFoundError:
            return identities
        for line in lines:
            with contextlib.suppress(ValueError, TypeError):
                name, size, time_ns = line
                if not os.path.isabs(name) and '..' not in name.split(os.sep):
                    identities[name] = (size, time_ns)
        return identities
