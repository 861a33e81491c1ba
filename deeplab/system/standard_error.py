"""Standard error of C++ code in this process: lines that concern no user are dropped."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator


@contextlib.contextmanager
def without_lines(pattern: re.Pattern[bytes]) -> Iterator[None]:
    """Drops the lines that begin with a pattern from standard error within the `with` block.

    Everything that is written meanwhile appears at the end of the block. Nothing changes if there is no standard error,
    or no folder for temporary files.
    """
    with contextlib.ExitStack() as stack:
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
