"""Processes that begin with TensorFlow loaded, which saves four seconds of a processor for each.

They are forks of a server that has imported TensorFlow and has only one thread. A test about the start of a program, or
about its parent, starts `python -m deeplab` instead.
"""

import contextlib
import multiprocessing
import os
import pathlib
import signal
import sys
from multiprocessing import connection, forkserver

ROOT = pathlib.Path(__file__).parents[2]
_context = multiprocessing.get_context('forkserver')


class Forked:
    """A process that calls a function; its methods are those of `subprocess.Popen`."""

    def __init__(self, function, *arguments, stdout, stderr, stdin=None, cwd=ROOT, env=None):
        """Starts it.

        Args:
          function: one of a module; what it returns is the exit status.
          arguments: what is given to it.
          stdout: an open file or descriptor that its output goes to; `stdout` and `stderr` as in `subprocess.Popen`.
          stderr: the same.
          stdin: an open file or descriptor that it reads, or None.
          cwd: the folder in which it runs.
          env: further environment variables.
        """
        streams = {0: stdin, 1: stdout, 2: stderr}
        # Connections, because these are what a process can be given; they own duplicates.
        given = {
            number: connection.Connection(os.dup(stream if isinstance(stream, int) else stream.fileno()))
            for number, stream in streams.items()
            if stream is not None
        }
        self._process = _context.Process(target=_run, args=[function, arguments, str(cwd), given, dict(env or {})])
        _begin_server()
        self._process.start()
        for each in given.values():
            each.close()
        self.pid = self._process.pid

    def wait(self, timeout=None):
        self._process.join(timeout)
        assert self._process.exitcode is not None, f'process {self.pid} runs after {timeout} s'
        return self._process.exitcode

    def poll(self):
        return self._process.exitcode

    def kill(self):
        self._process.kill()

    def send_signal(self, number):
        os.kill(self.pid, number)


def _begin_server():
    """Starts the server, unless it runs: in the folder of the checkout, from which it imports."""
    with contextlib.chdir(ROOT):
        before = os.environ.get('OPENBLAS_NUM_THREADS')
        os.environ['OPENBLAS_NUM_THREADS'] = '1'  # NumPy and SciPy would start threads, which a fork lacks
        try:
            forkserver.set_forkserver_preload(['deeplab.train', 'deeplab.deployment.worker_group'])
            forkserver.ensure_running()
        finally:
            del os.environ['OPENBLAS_NUM_THREADS']
            if before is not None:
                os.environ['OPENBLAS_NUM_THREADS'] = before


def _run(function, arguments, folder, streams, environment):
    for number, stream in streams.items():
        os.dup2(stream.fileno(), number)
        stream.close()
    if 0 in streams:
        sys.stdin = open(0, closefd=False)
    os.environ.update(environment)
    os.chdir(folder)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(function(*arguments))


def deeplab(words):
    """The command line `deeplab WORDS...`, and what a test adds to it."""
    from deeplab import start

    return start.main(words)
