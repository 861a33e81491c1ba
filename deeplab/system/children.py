"""Calls of functions in new processes, to measure their time and memory alone."""

from __future__ import annotations

import contextlib
import importlib
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import deeplab
from deeplab import plugins, wording
from deeplab.errors import UserError
from deeplab.system import system_files

_ROOT = pathlib.Path(deeplab.__file__).parents[1]
_CODE = 'from deeplab.system import children; children.answer()'
_LINES_SHOWN = 4


class ChildError(UserError):
    """A process ended without a result; the message has the end of its log."""


def call(
    function: str, *arguments: Any, plugin_names: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> Any:
    """Calls a function in a new process and returns its result.

    Args:
      function: 'module:name'.
      *arguments: arguments of the function; they and the result must be picklable.
      plugin_names: plugins to import first.
      environment: variables to set.

    Raises:
      ChildError: the process failed.
      UserError: what the function raised.
    """
    with tempfile.TemporaryDirectory() as folder:
        request, response = (os.path.join(folder, name) for name in ('request', 'response'))
        with open(request, 'wb') as file:
            pickle.dump((list(plugin_names), wording.current_flag_names(), function, arguments), file)
        with started([sys.executable, '-c', _CODE, request, response], environment) as (process, log):
            process.wait()
            if process.returncode or not os.path.exists(response):
                raise failure(process.returncode, log.read_text(errors='replace'))
        with open(response, 'rb') as file:
            result = pickle.load(file)
    if isinstance(result, UserError):
        raise result
    return result


def answer() -> None:
    """Calls what a request names and writes the response; the main function of the new process."""
    request, response = sys.argv[1:]
    with open(request, 'rb') as file:
        names, flags, function, arguments = pickle.load(file)
    with wording.flag_names(flags) if flags else contextlib.nullcontext():
        try:
            plugins.load(names)
            module, _, name = function.partition(':')
            result = getattr(importlib.import_module(module), name)(*arguments)
        except UserError as error:
            result = error
    with open(response, 'wb') as file:
        pickle.dump(result, file)


@contextlib.contextmanager
def started(
    command: Sequence[str], environment: Mapping[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], pathlib.Path]]:
    """A process in a session of its own, and the file with its log; all processes of the session end with the block."""
    paths = [str(_ROOT), os.environ.get('PYTHONPATH', '')]
    variables = {**os.environ, 'PYTHONPATH': os.pathsep.join(filter(None, paths)), **(environment or {})}
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder, 'log')
        with open(log, 'wb') as file:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=file, env=variables,
                start_new_session=True,
            )  # fmt: skip
        try:
            yield process, log
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def failure(status: int, log: str) -> ChildError:
    """Returns the error for an exit status, with the last error of the log or the signal that ended the process."""
    if errors := re.findall(r'^deeplab \w+: error: (.*)$', log, re.MULTILINE):
        return ChildError(errors[-1])
    if status == -signal.SIGKILL:
        return ChildError('the process was killed (SIGKILL), probably by the system because it ran out of memory')
    lines = [line for line in log.splitlines() if line.strip()][-_LINES_SHOWN:]
    return ChildError(f'the process ended with status {status}: {" / ".join(lines) or "its log is empty"}')


def peak_bytes(leader: int) -> int | None:
    """Returns the peak resident memory of the largest process of a session; None if unknown."""
    peaks = map(system_files.peak_bytes, _session(leader))
    return max((peak for peak in peaks if peak is not None), default=None)


def _session(leader: int) -> Iterator[int]:
    """Yields the processes of a session."""
    for path in pathlib.Path('/proc').glob('[0-9]*/stat'):
        with contextlib.suppress(OSError):  # it has ended
            fields = path.read_text(errors='replace').rpartition(')')[2].split()
            if int(fields[3]) == leader:  # after state, parent and group
                yield int(path.parent.name)
