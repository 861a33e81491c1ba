"""Standard error of C++ code in this process: lines that concern no user are dropped."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import threading
from collections.abc import Iterator

LEVEL = 'TF_CPP_MIN_LOG_LEVEL'  # the environment variable that TensorFlow reads when it is imported
_ALL = '0'  # its value if users ask for all messages
_NVIDIA_DRIVERS = ('/proc/driver/nvidia', '/dev/dxg')  # of Linux, and of Linux in Windows (WSL2)
_IMPORT_CHATTER = re.compile(rb'I\d{4} |WARNING: All log messages before absl::InitializeLog')
_lock = threading.RLock()  # of two threads, the second would restore the file of the first


@contextlib.contextmanager
def without_lines(pattern: re.Pattern[bytes]) -> Iterator[None]:
    """Drops the lines that begin with a pattern from standard error within the `with` block.

    Everything that is written meanwhile appears at the end of the block. Nothing changes if the environment asks for
    all messages of TensorFlow, if another thread is in such a block, if there is no standard error, or if there is no
    folder for temporary files.
    """
    if os.environ.get(LEVEL) == _ALL or not _lock.acquire(blocking=False):
        yield
        return
    with contextlib.ExitStack() as stack:
        stack.callback(_lock.release)
        try:
            held = stack.enter_context(tempfile.TemporaryFile())
            stderr = os.dup(2)
        except OSError:
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
                    os.write(2, b'' if pattern.match(line) else line)


@contextlib.contextmanager
def without_import_chatter() -> Iterator[None]:
    """Silences TensorFlow's C++ code for an import that may be the first of TensorFlow, and from then on.

    Standard error is held back meanwhile, and messages of level INFO are dropped from it: TensorFlow writes them before
    it reads any setting that could disable them. A level that the environment sets is kept; the environment is the same
    afterwards.
    """
    is_set = LEVEL in os.environ
    os.environ.setdefault(LEVEL, level())
    try:
        with without_lines(_IMPORT_CHATTER):
            yield
    finally:
        if not is_set:
            os.environ.pop(LEVEL, None)


def level() -> str:
    """Returns the least level of messages of TensorFlow's C++ code that concern users.

    Without a GPU, all messages below fatal (3) are about the missing GPU. With one, its warnings (1) say why it is not
    used.
    """
    return '1' if any(map(os.path.exists, _NVIDIA_DRIVERS)) else '3'
