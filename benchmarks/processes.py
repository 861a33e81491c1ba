"""Processes that are measured: whole runs, and trainings that take turns."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import queue
import re
import resource
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping

STEP_LINE = re.compile(r'global step (\d+): loss')
_MOST_SECONDS = 1800  # without a line of a training, or without an end of a program
_END_OF_OUTPUT_SHOWN = 2000  # characters


class FailedError(Exception):
    """A measured command failed; the message has the end of its output."""


@dataclasses.dataclass(frozen=True)
class Command:
    """A command and its environment, besides this process's.

    Attributes:
      words: program and arguments.
      environment: variables to set.
      folder: working folder; None for this process's.
    """

    words: tuple[str, ...]
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    folder: str | None = None

    def start(self, output: int, errors: int) -> subprocess.Popen:
        """Starts it in a session of its own, so that all of its processes can be found."""
        return subprocess.Popen(
            self.words, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, text=True, errors='replace',
            env={**os.environ, **self.environment}, cwd=self.folder, start_new_session=True,
        )  # fmt: skip

    def failed(self, status: int, output: str) -> FailedError:
        """Returns the error for a run that ended with `status`."""
        return FailedError(f'{" ".join(self.words)}\nended with status {status}:\n{output[-_END_OF_OUTPUT_SHOWN:]}')


@dataclasses.dataclass(frozen=True)
class Figures:
    """What one measurement gives.

    Attributes:
      seconds: of the row's work.
      peak_bytes: the peak resident memory of the largest process; None if it is not measured, or less than that of
        this process.
      cpu_seconds: processor time of all threads and processes for the row's work; None if it is not measured.
    """

    seconds: float
    peak_bytes: int | None = None
    cpu_seconds: float | None = None


def run_whole(command: Command) -> tuple[Figures, str]:
    """Runs a command from start to end; returns its figures and its standard output.

    Raises:
      FailedError: it ended with another status than 0.
    """
    with tempfile.TemporaryFile('w+') as output, tempfile.TemporaryFile('w+') as errors:
        started = time.perf_counter()
        process = command.start(output, errors)
        try:
            status, used = _waited(process)
        except BaseException:
            _kill(process)
            raise
        seconds = time.perf_counter() - started
        output.seek(0)
        if status:
            errors.seek(0)
            raise command.failed(status, errors.read())
        # A process begins with the memory of the one that starts it: a smaller peak is unknown.
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        peak = used.ru_maxrss * 1024 if used.ru_maxrss > own else None
        return Figures(seconds, peak, used.ru_utime + used.ru_stime), output.read()


def _waited(process: subprocess.Popen) -> tuple[int, resource.struct_rusage]:
    """Waits for the end of a process; returns its status and what it and its own children used."""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, used


class Training:
    """A training in a process of its own, whose steps are timed by the arrival of its log lines.

    Several of them share a machine by turns: `stop` halts all of a training's processes, `go_on` continues them.
    """

    def __init__(self, command: Command) -> None:
        self._command = command
        self._errors: list[str] = []
        self._lines: queue.Queue[tuple[float, int] | None] = queue.Queue()
        self._started = time.perf_counter()
        self._process = command.start(subprocess.DEVNULL, subprocess.PIPE)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Training:
        return self

    def __exit__(self, *_: object) -> None:
        _kill(self._process)
        self._reader.join()
        self._process.stderr.close()

    def seconds_to_first_step(self) -> float:
        """Waits for the line of the first step that is logged; returns the seconds from the start of the process."""
        return self._next()[0] - self._started

    def turn(self, windows: int) -> Figures:
        """Runs for a while; returns seconds per step, from one log line to another `windows` lines later.

        The steps up to the first line are not timed: their input was prepared before.
        """
        while not self._lines.empty():
            self._next()
        first_time, first_step = self._next()
        last_time, last_step = first_time, first_step
        for _ in range(windows):
            last_time, last_step = self._next()
        return Figures((last_time - first_time) / (last_step - first_step), self.peak_bytes())

    def stop(self) -> None:
        """Halts all processes of the training."""
        os.killpg(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Continues after `stop`."""
        os.killpg(self._process.pid, signal.SIGCONT)

    def peak_bytes(self) -> int | None:
        """Returns the peak resident memory of the largest of its processes; None without /proc."""
        return max((peak for pid in _session(self._process.pid) if (peak := _peak(pid))), default=None)

    def _next(self) -> tuple[float, int]:
        """Waits for the next line of a step; returns when it came, and its step.

        Raises:
          FailedError: the training ended, or says nothing for long.
        """
        try:
            line = self._lines.get(timeout=_MOST_SECONDS)
        except queue.Empty:
            line = None
        if line is None:
            raise self._command.failed(self._process.poll() or 0, ''.join(self._errors))
        return line

    def _read(self) -> None:
        for line in self._process.stderr:
            if match := STEP_LINE.search(line):
                self._lines.put((time.perf_counter(), int(match[1])))
            else:
                self._errors = [*self._errors[-50:], line]
        self._lines.put(None)


def _kill(process: subprocess.Popen) -> None:
    """Ends a process and all others of its session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _session(leader: int) -> Iterator[int]:
    """Yields the processes of a session."""
    for path in pathlib.Path('/proc').glob('[0-9]*/stat'):
        with contextlib.suppress(OSError):
            fields = path.read_text(errors='replace').rpartition(')')[2].split()
            if int(fields[3]) == leader:  # the session, after state, parent and group
                yield int(path.parent.name)


def _peak(pid: int) -> int | None:
    """Returns the peak resident memory of a process in bytes; None if there is no such process."""
    with contextlib.suppress(OSError):
        match = re.search(r'VmHWM:\s+(\d+) kB', pathlib.Path(f'/proc/{pid}/status').read_text())
        return int(match[1]) * 1024 if match else None
    return None
