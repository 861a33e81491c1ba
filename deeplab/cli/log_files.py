"""Log files (--log_dir) and the threshold of standard error (--stderrthreshold)."""

from __future__ import annotations

import logging as standard_logging
import os
import time

from absl import logging

from deeplab.cli import escapes
from deeplab.cli.words import UsageError

_LEVELS = {
    'debug': standard_logging.DEBUG,
    'info': standard_logging.INFO,
    'warning': standard_logging.WARNING,
    'error': standard_logging.ERROR,
    'fatal': standard_logging.CRITICAL,
}
_FILTER = escapes.LogFilter()
_OTHER_NAMES = {'warn': 'warning', '0': 'info', '1': 'warning', '2': 'error', '3': 'fatal'}


class _LogFile(standard_logging.FileHandler):
    """One file of --log_dir."""


def level_of(threshold: str | None) -> int:
    """Returns the minimum logging level of messages on standard error.

    Args:
      threshold: a value of --stderrthreshold: a name in any case, or a number from 0 to 3; None for all messages.

    Raises:
      UsageError: for any other value.
    """
    if threshold is None:
        return standard_logging.NOTSET
    name = threshold.lower()
    level = _LEVELS.get(_OTHER_NAMES.get(name, name))
    if level is None:
        raise UsageError(
            f'--stderrthreshold={threshold} is not allowed: it must be one of {", ".join(_LEVELS)}, or a number from 0 '
            '(info) to 3 (fatal).'
        )
    return level


def start(program: str, folder: str | None, threshold: str | None) -> None:
    """Sets the threshold of standard error, and logs to a new file if a folder is given.

    The file and the link to the newest one are named as absl does: PROGRAM.HOST.USER.log.INFO.TIME.PID and
    PROGRAM.INFO. The file contains all messages, whatever the threshold.

    Args:
      program: name of the program.
      folder: value of --log_dir; created if it does not exist; None for no file.
      threshold: value of --stderrthreshold; None for all messages.

    Raises:
      UsageError: if the threshold is invalid or the file cannot be created.
    """
    stop()
    handler = logging.get_absl_handler()
    handler.setLevel(level_of(threshold))
    handler.python_handler.addFilter(_FILTER)
    if not folder:
        return
    try:
        os.makedirs(folder, exist_ok=True)
        directory, prefix, link_name = logging.find_log_dir_and_names(program, folder)
        path = os.path.join(directory, f'{prefix}.INFO.{time.strftime("%Y%m%d-%H%M%S")}.{os.getpid()}')
        file = _LogFile(path, encoding='utf-8', errors='backslashreplace')
    except OSError as error:
        raise UsageError(
            f'--log_dir={folder} cannot be written ({error.strerror or error}). Give another folder, or omit the flag.'
        ) from None
    file.setFormatter(logging.PythonFormatter())
    file.addFilter(_FILTER)
    standard_logging.getLogger().addHandler(file)
    _link(path, os.path.join(directory, f'{link_name}.INFO'))


def stop() -> None:
    """Closes the log file of an earlier run in this process."""
    root = standard_logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _LogFile)]:
        root.removeHandler(handler)
        handler.close()


def _link(path: str, link: str) -> None:
    """Makes `link` point to the newest file, if the file system supports links."""
    try:
        if os.path.islink(link):
            os.unlink(link)
        os.symlink(os.path.basename(path), link)
    except OSError:
        pass
