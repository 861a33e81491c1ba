r"""Reader of a checkpoint's tensors, for paths with any characters.

TensorFlow's reader treats the path of a checkpoint as a pattern: in a folder `br[1]x` or `a\b` it finds nothing, or a
file in another folder. Such a checkpoint is read through links in a temporary folder without special characters.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref

import numpy as np
import tensorflow as tf

from deeplab.errors import CheckpointError, reason_of

# Errors that TensorFlow's reader raises for damaged files.
_UNREADABLE = (tf.errors.OpError, ValueError, RuntimeError, OSError, IndexError)

_PATTERN_SIGNS = frozenset('*?[\\')
_PLAIN_FOLDERS = ('/tmp', '/var/tmp', '/dev/shm')
# Parts of errors about files that cannot be opened or read, but may be intact.
_ACCESS_FAILURES = (
    'Failed to find any matching files',
    'Permission denied',
    'Operation not permitted',
    'Too many open files',
    'Input/output error',
    'Cannot allocate memory',
    'Stale file handle',
    'Connection timed out',
)


def is_access_failure(reason: str) -> bool:
    """Returns whether a reason (see `reason_of`) is that files cannot be accessed, as opposed to damaged content."""
    return any(words in reason for words in _ACCESS_FAILURES)


def files_of(prefix: str) -> list[str]:
    """Returns the paths of a checkpoint's files: its data files in order, then its index.

    A checkpoint of TensorFlow's first format is a single file.
    """
    folder, name = os.path.split(prefix)
    names = sorted(os.listdir(folder or '.'))
    data = [other for other in names if other.startswith(f'{name}.data-') and '.tempstate' not in other]
    index = [other for other in (f'{name}.index', name) if other in names]
    return [os.path.join(folder, other) for other in (*data, *index)]


class UnreadableError(CheckpointError):
    """A checkpoint, or a tensor in it, cannot be read.

    Attributes:
      reason: the cause, see `reason_of`.
      is_damage: whether the content is damaged, as opposed to files that cannot be accessed.
    """

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.is_damage = not is_access_failure(reason)


class Reader:
    """The tensors of one checkpoint, with the methods of TensorFlow's own reader."""

    def __init__(self, prefix: str) -> None:
        """Reads the index of an existing checkpoint.

        Raises:
          UnreadableError: the index cannot be read.
          CheckpointError: there is no temporary folder to link the files in.
        """
        self._prefix = self._opened = prefix
        try:
            if _PATTERN_SIGNS.intersection(prefix):
                self._opened = _linked(prefix)
                weakref.finalize(self, shutil.rmtree, os.path.dirname(self._opened), ignore_errors=True)
            reader = tf.train.load_checkpoint(self._opened)
        except CheckpointError:
            raise
        except _UNREADABLE as error:
            raise self._unreadable(error) from error
        self._reader = reader
        self.has_tensor = reader.has_tensor
        self.get_variable_to_shape_map = reader.get_variable_to_shape_map
        self.get_variable_to_dtype_map = reader.get_variable_to_dtype_map

    def _unreadable(self, error: Exception) -> UnreadableError:
        """Returns the error that TensorFlow's reader has raised, with the checkpoint's own path."""
        reason = reason_of(error).replace(self._opened, self._prefix)
        damaged = '' if is_access_failure(reason) else ': it is damaged'
        return UnreadableError(f"The checkpoint '{self._prefix}' cannot be read{damaged} ({reason})", reason)

    def get_tensor(self, name: str) -> np.ndarray:
        """Returns the value of a tensor, with its checksum verified.

        Raises:
          UnreadableError: it cannot be read.
        """
        try:
            value: np.ndarray = self._reader.get_tensor(name)
        except _UNREADABLE as error:
            raise self._unreadable(error) from error
        return value


def _linked(prefix: str) -> str:
    """Links the checkpoint at `prefix` in a new temporary folder whose path has no pattern characters."""
    folder = _plain_folder(prefix)
    linked = os.path.join(folder, 'checkpoint')
    for path in files_of(prefix):
        target = linked + path.removeprefix(prefix)
        try:
            os.symlink(os.path.abspath(path), target)
        except (OSError, NotImplementedError):  # a file system without links
            shutil.copyfile(path, target)
    return linked


def _plain_folder(prefix: str) -> str:
    """Creates a temporary folder whose path has no pattern characters."""
    for parent in (tempfile.gettempdir(), *_PLAIN_FOLDERS):
        if not _PATTERN_SIGNS.intersection(parent):
            try:
                return tempfile.mkdtemp(prefix='deeplab-', dir=parent)
            except OSError:
                continue
    raise CheckpointError(
        f"The path of the checkpoint '{prefix}' contains one of {' '.join(sorted(_PATTERN_SIGNS))}, so it is read "
        'through links in a temporary folder, but no temporary folder is writable. Set TMPDIR to a writable folder'
    )
