"""Logging flags, and the start of logging."""

from __future__ import annotations

import contextlib
import logging as standard_logging
import os
import sys
import textwrap
from collections.abc import Sequence

from absl import flags, logging  # noqa: TID251 (flags are allowed in this package)

from deeplab.cli.values import Values
from deeplab.cli.words import Flag, Group
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
LOG = Group('Log', _LOG_FLAGS)


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


def start_logging(values: Values) -> None:
    """Logs to standard error, from level INFO on, and silences messages of libraries that do not concern users.

    This is called when a program runs, never at import, so that importing the package changes no settings.
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
