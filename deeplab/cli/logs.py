"""Logging flags, and the start of logging: standard error, log files (--log_dir), --stderrthreshold."""

from __future__ import annotations

import contextlib
import logging as standard_logging
import os
import sys
import textwrap
import time
from collections.abc import Sequence

from absl import flags, logging  # noqa: TID251 (flags are allowed in this package)

from deeplab.cli import escapes
from deeplab.cli.values import Values
from deeplab.cli.words import Flag, Group, UsageError
from deeplab.system import standard_error

_WIDTH = 110  # of the lines of notes
_LOG_FLAGS = (
    Flag(
        'logtostderr',
        'boolean',
        False,
        'Accepted for compatibility with old command lines; the log always goes to standard error.',
    ),
    Flag('alsologtostderr', 'boolean', False, 'The same as --logtostderr.'),
    Flag('v', 'integer', None, 'Verbosity of the log: 1 debug, 0 info, -1 warnings and errors only.'),
    Flag('verbosity', 'integer', None, 'The same as --v.'),
    Flag('showprefixforinfo', 'boolean', True, 'Prefix log messages with time and source line.'),
    Flag('log_dir', 'string', None, 'Folder for a copy of the log in a file. Not set: no file.'),
    Flag(
        'stderrthreshold',
        'string',
        None,
        'Minimum severity of messages on standard error: info, warning, error or fatal, or 0 to 3. Not set: all '
        'messages.',
    ),
)
LOG = Group('Log', *_LOG_FLAGS)
_LEVELS = {
    'debug': standard_logging.DEBUG,
    'info': standard_logging.INFO,
    'warning': standard_logging.WARNING,
    'error': standard_logging.ERROR,
    'fatal': standard_logging.CRITICAL,
}
_FILTER = escapes.LogFilter()
_OTHER_NAMES = {'warn': 'warning', '0': 'info', '1': 'warning', '2': 'error', '3': 'fatal'}


class _TerminalFormatter(standard_logging.Formatter):
    """Short lines for people: `15:31:11 message`, with the level if it is not INFO.

    Files and pipes get the prefix of absl and the original, which scripts parse.
    """

    def format(self, record: standard_logging.LogRecord) -> str:
        """Returns the line of a message."""
        is_info = record.levelno == standard_logging.INFO
        if is_info and not flags.FLAGS['showprefixforinfo'].value:
            return super().format(record)
        level = '' if is_info else f'{record.levelname}: '
        return f'{self.formatTime(record, "%H:%M:%S")} {level}{super().format(record)}'


class _LogFile(standard_logging.FileHandler):
    """One file of --log_dir."""


def start_logging(program: str, values: Values) -> None:
    """Logs to standard error, from level INFO on, and silences messages of libraries that do not concern users.

    This is called when a program runs, never at import, so that importing the package changes no settings.

    Args:
      program: name of the program.
      values: values of its flags.

    Raises:
      UsageError: the file of --log_dir cannot be created.
    """
    # Deprecation warnings of TensorFlow concern developers of this project, who see them in its tests.
    standard_logging.getLogger('tensorflow').setLevel(standard_logging.ERROR)
    # absl's logging reads the global FLAGS; the values of a program are copied below.
    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()
    logging.use_absl_handler()
    handler = logging.get_absl_handler()
    handler.python_handler.setStream(sys.stderr)
    handler.setFormatter(_TerminalFormatter() if sys.stderr.isatty() else logging.PythonFormatter())
    logging.set_verbosity(logging.INFO)
    for flag in _LOG_FLAGS:
        if values.given(flag.name):
            setattr(flags.FLAGS, flag.name, values[flag.name])
    handler.setLevel(level_of(values['stderrthreshold']))
    handler.python_handler.addFilter(_FILTER)
    stop_files()
    if folder := values.path('log_dir'):
        _start_file(program, folder)


def level_of(threshold: str | None) -> int:
    """Returns the minimum logging level of messages on standard error.

    Args:
      threshold: a value of --stderrthreshold: a name in any case, or a number from 0 to 3; None or empty for all
        messages.

    Raises:
      UsageError: for any other value.
    """
    if not threshold:
        return standard_logging.NOTSET
    name = threshold.lower()
    level = _LEVELS.get(_OTHER_NAMES.get(name, name))
    if level is None:
        raise UsageError(
            f'--stderrthreshold={threshold} is not allowed: it must be one of {", ".join(_LEVELS)}, or a number from 0 '
            '(info) to 3 (fatal).'
        )
    return level


def _start_file(program: str, folder: str) -> None:
    """Logs to a new file, too, which contains all messages, whatever the threshold of standard error.

    The file and the link to the newest one are named as absl does: PROGRAM.HOST.USER.log.INFO.TIME.PID and
    PROGRAM.INFO.
    """
    try:
        os.makedirs(folder, exist_ok=True)
        directory, prefix, link_name = logging.find_log_dir_and_names(program, folder)
        path = os.path.join(directory, f'{prefix}.INFO.{time.strftime("%Y%m%d-%H%M%S")}.{os.getpid()}')
        file = _LogFile(path, encoding='utf-8', errors='backslashreplace')
    except OSError as error:
        raise UsageError(
            f'--log_dir={folder} cannot be written ({error.strerror or error}). Use another folder, or omit the flag.'
        ) from None
    file.setFormatter(logging.PythonFormatter())
    file.addFilter(_FILTER)
    standard_logging.getLogger().addHandler(file)
    link = os.path.join(directory, f'{link_name}.INFO')
    with contextlib.suppress(OSError):  # file systems without links
        if os.path.islink(link):
            os.unlink(link)
        os.symlink(os.path.basename(path), link)


def stop_files() -> None:
    """Closes the log file of an earlier run in this process."""
    root = standard_logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _LogFile)]:
        root.removeHandler(handler)
        handler.close()


def log_notes(notes: Sequence[str], warnings: Sequence[str]) -> None:
    """Logs what the command line has to say, long notes on several lines."""
    for note in notes:
        logging.info('%s', '\n  '.join(textwrap.wrap(note, _WIDTH, break_long_words=False, break_on_hyphens=False)))
    for warning in warnings:
        logging.warning('%s', warning)


def without_import_chatter() -> contextlib.AbstractContextManager[None]:
    """Returns `standard_error.without_import_chatter()`, and sets the level for processes that this one starts."""
    os.environ.setdefault(standard_error.LEVEL, standard_error.level())
    return standard_error.without_import_chatter()
