"""Runs of the tests of mutants, each in a copy of the checkout."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence

from tests.mutation import relevant_tests
from tests.mutation.mutants import Mutant

# What a test needs of the checkout.
COPIED: tuple[str, ...] = (
    'deeplab',
    'tests',
    'docs',
    'benchmarks',
    'pyproject.toml',
    'setup.py',
    'README.md',
    'CHANGELOG.md',
)
COPIED += ('CONTRIBUTING.md', 'LICENSE', 'mkdocs.yml', '.ci', '.github', '.pre-commit-config.yaml')
TESTS_FAILED, WRONG_ARGUMENTS, NO_TESTS = 1, 4, 5  # statuses of pytest
# What a mutant that runs away may take.
MOST_MEMORY = 8 * 2**30
LARGEST_FILE = 2**30


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a mutant.

    Attributes:
      identity: identity of the mutant.
      digest: hash of the changed source.
      result: 'caught', 'slow' (caught by the time limit), 'survived' or 'invalid' (no test ran).
      seconds: time of all tests.
      details: the test that failed, or what went wrong.
    """

    identity: str
    digest: str
    result: str
    seconds: float = 0.0
    details: str = ''


class Checkout:
    """A copy of the checkout with folders of its own for temporary files.

    Attributes:
      root: folder of the copy.
    """

    def __init__(self, source: pathlib.Path, root: pathlib.Path):
        self.root = root
        skipped = shutil.ignore_patterns('__pycache__', '*.pyc')
        for name in COPIED:
            if (source / name).is_dir():
                shutil.copytree(source / name, root / name, ignore=skipped)
            elif (source / name).exists():
                root.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source / name, root / name)

    def outcome(self, mutant: Mutant, tests: Sequence[str], limit: float) -> Outcome:
        """Applies a mutant, runs test files until a test fails, and takes the mutant back.

        Plain tests run first, then slow ones, as in .ci/run.

        Args:
          mutant: the change.
          tests: test files, those that are likely to fail first.
          limit: seconds without the end of a test after which the mutant counts as caught.
        """
        path = self.root / mutant.file
        source, times = path.read_bytes(), path.stat()
        path.write_bytes(mutant.applied(source))
        started = time.monotonic()
        try:
            status, lines = self.run_tests(['-x', *tests], limit)
            if status in (0, NO_TESTS):
                slow_status, slow_lines = self.run_tests(['-x', '-m', 'slow', *tests], limit)
                if slow_status != NO_TESTS:
                    status, lines = slow_status, slow_lines
        finally:
            path.write_bytes(source)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # the compiled original is valid again
        seconds = round(time.monotonic() - started, 1)
        outcome = Outcome(mutant.identity, digest_of(mutant, source), 'caught', seconds)
        if status is None:
            return dataclasses.replace(outcome, result='slow', details=f'no test ended within {limit:.0f} s')
        if status == 0:
            return dataclasses.replace(outcome, result='survived')
        if status in (WRONG_ARGUMENTS, NO_TESTS) and not any(line.startswith('E ') for line in lines):
            return dataclasses.replace(outcome, result='invalid', details='\n'.join(lines[-3:]))
        failed = [line for line in lines if line.startswith(('FAILED', 'ERROR'))]
        return dataclasses.replace(outcome, details=failed[0].partition(' - ')[0] if failed else f'status {status}')

    def run_tests(self, words: Sequence[str], limit: float | None = None) -> tuple[int | None, list[str]]:
        """Runs pytest; returns its status (None if no test ended within the limit) and the lines that it printed."""
        command = [sys.executable, '-m', 'pytest', '-n', '0', '--dist=no', '-q', '-p', 'no:cacheprovider', *words]
        with tempfile.TemporaryDirectory(prefix='t', dir=self.root, ignore_cleanup_errors=True) as temporary:
            path = os.pathsep.join([str(self.root), *filter(None, [os.environ.get('PYTHONPATH')])])
            output = pathlib.Path(temporary) / 'output'
            with open(output, 'wb') as file:
                process = subprocess.Popen(
                    command,
                    cwd=self.root,
                    env={**os.environ, 'PYTHONPATH': path, 'TMPDIR': temporary, 'TF_CPP_MIN_LOG_LEVEL': '3'},
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=_limit_resources,
                )
                try:
                    status = _wait(process, output, limit)
                finally:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)  # the programs that the tests have started, too
                    process.wait()
            return status, output.read_text(errors='replace').splitlines()


def _wait(process: subprocess.Popen[bytes], output: pathlib.Path, limit: float | None) -> int | None:
    """Returns the status of pytest; None if it printed nothing for `limit` seconds, for which no test ended."""
    size, changed = 0, time.monotonic()
    while limit is None or time.monotonic() - changed < limit:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(1)
        if output.stat().st_size > size:
            size, changed = output.stat().st_size, time.monotonic()
    return None


def _limit_resources() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))


def digest_of(mutant: Mutant, source: bytes) -> str:
    """Returns a hash of the changed source."""
    return hashlib.sha256(mutant.applied(source)).hexdigest()[:16]


def read_journal(path: pathlib.Path) -> dict[str, Outcome]:
    """Returns the outcomes of earlier runs by identity, the latest of each."""
    outcomes = {}
    if path.exists():
        for line in path.read_text().splitlines():
            with contextlib.suppress(ValueError, TypeError):  # a killed run may leave half a line
                outcome = Outcome(**json.loads(line))
                outcomes[outcome.identity] = outcome
    return outcomes


def run_all(
    mutants: Sequence[Mutant],
    root: pathlib.Path,
    journal: pathlib.Path,
    jobs: int,
    limit: float,
    report: Callable[[Mutant, Outcome], None],
) -> None:
    """Runs the tests of mutants, `jobs` at the same time, and adds each outcome to the journal.

    Args:
      mutants: what to test.
      root: folder of the checkout, which is not changed.
      journal: file with a line for each outcome.
      jobs: number of copies and of processes.
      limit: seconds without the end of a test after which a mutant counts as caught.
      report: function that is called with each outcome.
    """
    with _copies(root, jobs) as checkouts, concurrent.futures.ThreadPoolExecutor(jobs) as threads:
        free = collections.deque(checkouts)

        def run(mutant: Mutant) -> Outcome:
            checkout = free.popleft()
            try:
                return checkout.outcome(mutant, relevant_tests.for_module(root, mutant.file), limit)
            finally:
                free.append(checkout)

        futures = {threads.submit(run, mutant): mutant for mutant in mutants}
        try:
            for future in concurrent.futures.as_completed(futures):
                with open(journal, 'a', encoding='utf-8') as file:
                    file.write(json.dumps(dataclasses.asdict(future.result())) + '\n')
                report(futures[future], future.result())
        finally:
            for future in futures:
                future.cancel()


def failing_tests(root: pathlib.Path, files: Sequence[str], jobs: int) -> list[str]:
    """Returns the tests in these files that fail without a mutant."""
    with _copies(root, 1) as (checkout,):
        status, lines = checkout.run_tests([*files, '-n', str(jobs), '--dist=worksteal'])
    failed = [line for line in lines if line.startswith(('FAILED', 'ERROR'))]
    return failed or ([] if status == 0 else lines[-3:])


@contextlib.contextmanager
def _copies(root: pathlib.Path, number: int) -> Iterator[list[Checkout]]:
    with tempfile.TemporaryDirectory(prefix='mutation-', ignore_cleanup_errors=True) as folder:
        yield [Checkout(root, pathlib.Path(folder) / str(i)) for i in range(number)]
