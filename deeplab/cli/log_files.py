"""Where the log goes: --log_dir and --stderrthreshold, which absl gives to every program."""

from __future__ import annotations

import logging as standard_logging
import os
import time

from absl import logging

from deeplab.cli.words import UsageError

_LEVELS = {
    'debug': standard_logging.DEBUG,
    'info': standard_logging.INFO,
    'warning': standard_logging.WARNING,
    'error': standard_logging.ERROR,
    'fatal': standard_logging.CRITICAL,
}
_OTHER_NAMES = {'warn': 'warning', '0': 'info', '1': 'warning', '2': 'error', '3': 'fatal'}


class _LogFile(standard_logging.FileHandler):
    """One file of --log_dir."""


def level_of(threshold: str | None) -> int:
    """The level from which on messages reach standard error; all do where `threshold` is None.

    Args:
      threshold: a value of --stderrthreshold: a name in any case, or a number.

    Raises:
      UsageError: it is neither.
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
    """Sends the log of one run to standard error, from a level on, and to a new file where a folder is given.

    The file and the link to the newest one are called as absl calls them: PROGRAM.HOST.USER.log.INFO.TIME.PID and
    PROGRAM.INFO. The file has all that is logged, whatever reaches standard error.

    Args:
      program: name of the program.
      folder: value of --log_dir, made where it is missing; None for no file.
      threshold: value of --stderrthreshold; None for all.

    Raises:
      UsageError: the threshold is none, or nothing can be written to the folder.
    """
    stop()
    handler = logging.get_absl_handler()
    handler.setLevel(level_of(threshold))
    if not folder:
        return
    try:
        os.makedirs(folder, exist_ok=True)
        directory, prefix, link_name = logging.find_log_dir_and_names(program, folder)
        path = os.path.join(directory, f'{prefix}.INFO.{time.strftime("%Y%m%d-%H%M%S")}.{os.getpid()}')
        file = _LogFile(path, encoding='utf-8', errors='backslashreplace')
    except OSError as error:
        raise UsageError(
            f'--log_dir={folder}: no file can be written there ({error.strerror or error}). Give another folder, or '
            'omit the flag.'
        ) from None
    file.setFormatter(logging.PythonFormatter())
    standard_logging.getLogger().addHandler(file)
    _link(path, os.path.join(directory, f'{link_name}.INFO'))


def stop() -> None:
    """Closes the file that an earlier run in this process has logged to."""
    root = standard_logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _LogFile)]:
        root.removeHandler(handler)
        handler.close()


def _link(path: str, link: str) -> None:
    """Makes `link` point to the newest file; where that cannot be, there is none."""
    try:
        if os.path.islink(link):
            os.unlink(link)
        os.symlink(os.path.basename(path), link)
    except OSError:
        pass
