"""Flags of the log, and how a program starts logging."""

from __future__ import annotations

import contextlib
import logging as standard_logging
import os
import re
import sys
import tempfile
from collections.abc import Iterator

from absl import flags, logging  # noqa: TID251 (this is the one file that may)

from deeplab.cli.values import Values
from deeplab.cli.words import (
    Flag,
    Group,
)

_NVIDIA_DRIVER = '/proc/driver/nvidia'
_IMPORT_CHATTER = re.compile(rb'I\d{4} |WARNING: All log messages before absl::InitializeLog')
_LOG_FLAGS = (
    Flag('logtostderr', 'boolean', False, 'Accepted for old command lines: the log goes to standard error anyway.'),
    Flag('alsologtostderr', 'boolean', False, 'The same.'),
    Flag('v', 'integer', None, 'How much is logged: 1 more, 0 as usual, -1 warnings and errors alone.'),
    Flag('verbosity', 'integer', None, 'The same as --v.'),
    Flag('showprefixforinfo', 'boolean', True, 'Begin each line of the log with time and place.'),
    Flag('log_dir', 'string', None, 'Folder that gets a file with the log, too. Not set: no file.'),
    Flag(
        'stderrthreshold',
        'string',
        None,
        'Least severity that reaches standard error: info, warning, error or fatal, or 0 to 3. Not set: all that is '
        'logged.',
    ),
)
LOG = Group('Log', _LOG_FLAGS)


def start_logging(values: Values) -> None:
    """Sends the log to standard error, from level INFO on; and quiets the libraries' own chatter.

    This happens when a program runs, never at import: other users of this process keep their settings until then.
    """
    # Without a GPU, all that TensorFlow's C++ has to say (3: nothing less than fatal) is that there is none. With one,
    # its warnings (1) say why it is not used.
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '1' if os.path.exists(_NVIDIA_DRIVER) else '3')
    # Which of TensorFlow's functions are deprecated concerns this project, and its tests, but no user.
    standard_logging.getLogger('tensorflow').setLevel(standard_logging.ERROR)
    # absl's logging reads its flags from the global FLAGS; ours have values of their own (cli only hands them on).
    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()
    logging.use_absl_handler()
    logging.get_absl_handler().python_handler.setStream(sys.stderr)
    logging.set_verbosity(logging.INFO)
    for flag in _LOG_FLAGS:
        if values.given(flag.name):
            setattr(flags.FLAGS, flag.name, values[flag.name])


@contextlib.contextmanager
def without_import_chatter() -> Iterator[None]:
    """Holds standard error back during an import, and lets pass all but TensorFlow's C++ messages of level INFO.

    They come before any setting of theirs can be read, so this is the only place to stop them.
    """
    with contextlib.ExitStack() as stack:
        try:
            held = stack.enter_context(tempfile.TemporaryFile())
            stderr = os.dup(2)
        except OSError:  # there is no standard error, or no folder for temporary files
            held = None
        if held is None:
            yield
            return
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            held.seek(0)
            for line in held:
                with contextlib.suppress(OSError):
                    os.write(2, b'' if _IMPORT_CHATTER.match(line) else line)
