"""Names of files that are being written, and removal of those whose process has ended.

A file is written as `NAME.PID.partial` and renamed when it is complete. A process that is killed leaves such a file
behind; the next run removes it, unless a process of that number is still running.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil

_NAME = re.compile(r'(?P<target>.+)\.(?P<pid>\d+)\.partial', re.DOTALL)


def name_for(path: str) -> str:
    """The name under which this process writes `path` before it is complete."""
    return f'{path}.{os.getpid()}.partial'


def left(folder: str, targets: str | re.Pattern[str]) -> list[str]:
    """Finds unfinished files and folders that processes which have ended left behind.

    Those of a running process are not among them. This process must not have begun to write any: whatever bears its
    number was left by an earlier process of the same number.

    Args:
      folder: where to look; need not exist.
      targets: matches the whole final names of the files that the caller writes. Other files are never touched.

    Returns:
      Their paths, sorted.
    """
    try:
        names = sorted(os.listdir(folder or '.'))
    except OSError:
        return []
    found = []
    for name in names:
        match = _NAME.fullmatch(name)
        if match is None or not re.fullmatch(targets, match['target']):
            continue
        pid = int(match['pid'])
        if pid == os.getpid() or not is_running(pid):
            found.append(os.path.join(folder, name))
    return found


def remove_left(folder: str, targets: str | re.Pattern[str]) -> list[str]:
    """Removes what `left` finds; returns the paths that were removed."""
    removed = []
    for path in left(folder, targets):
        with contextlib.suppress(OSError):
            remove(path)
            removed.append(path)
    return removed


def is_running(pid: int) -> bool:
    """Whether there is a process of that number on this machine."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it belongs to somebody else
        return True
    return True


def remove(path: str) -> None:
    """Removes a file, or a folder with all that is in it; does nothing where there is none."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):  # a read-only disk refuses to remove what is not there
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)
