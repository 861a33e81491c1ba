"""Mutation testing: applies small mutations to deeplab/ one at a time, and tells which the plain tests catch.

    python tests/mutation/mutate.py --map coverage.json      # once: which test files run which file of deeplab/
    python tests/mutation/mutate.py --use coverage.json      # every mutation of mutations.json
    python tests/mutation/mutate.py --only core --jobs 2     # those of one folder; without a map, by their lists

The checkout itself is never changed: mutations are applied in a copy. See docs/testing.md.
"""

from __future__ import annotations

import argparse
import ast
import collections
import concurrent.futures
import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = pathlib.Path(__file__).parent / 'mutations.json'
# What a test needs of the checkout.
COPIED = ('deeplab', 'tests', 'docs', 'benchmarks', 'pyproject.toml', 'setup.py', 'README.md', 'CHANGELOG.md')
COPIED += ('CONTRIBUTING.md', '.ci', '.github', '.pre-commit-config.yaml')
TESTS_FAILED = 1  # pytest's status; any other but 0 says that the tests did not run


@dataclasses.dataclass(frozen=True)
class Mutation:
    """One small change.

    Attributes:
      file: path in the checkout.
      old: text that occurs there exactly once.
      new: what takes its place.
      breaks: what is wrong then.
      tests: test files that can see it; empty for those that the map of coverage names.
    """

    file: str
    old: str
    new: str
    breaks: str
    tests: tuple[str, ...] = ()

    @property
    def room(self) -> str:
        """The folder of deeplab/ that it changes."""
        return '/'.join(pathlib.PurePosixPath(self.file).parts[1:-1]) or 'deeplab'

    def apply(self, root: pathlib.Path) -> str:
        """Changes the file below `root`; returns its text from before.

        Raises:
          ValueError: the old text does not occur exactly once, or the new text is no Python.
        """
        path = root / self.file
        text = path.read_text(encoding='utf-8')
        if (found := text.count(self.old)) != 1:
            raise ValueError(f'{self.file}: {self.old!r} occurs {found} times, not once')
        mutated = text.replace(self.old, self.new)
        try:
            trees = [ast.dump(ast.parse(each)) for each in (text, mutated)]
        except SyntaxError as error:
            raise ValueError(f'{self.file}: {self.new!r} is no Python: {error}') from None
        if trees[0] == trees[1]:
            raise ValueError(f'{self.file}: {self.new!r} changes nothing')
        path.write_text(mutated, encoding='utf-8')
        return text


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a mutation: `caught`, `survived`, `slow` (caught by the time limit) or `invalid`."""

    mutation: Mutation
    result: str
    seconds: float = 0.0
    details: str = ''


def load(path: pathlib.Path) -> list[Mutation]:
    """The mutations of a JSON list of objects with the fields of `Mutation`."""
    made = [Mutation(**{**each, 'tests': tuple(each.get('tests', ()))}) for each in json.loads(path.read_text())]
    if len({(each.file, each.old, each.new) for each in made}) != len(made):
        raise ValueError(f'{path}: a mutation is in it twice')
    return made


def test_files(mutation: Mutation, covering: Mapping[str, Sequence[str]]) -> list[str]:
    """The test files that can see a mutation, those that name the mutated module first.

    Those that it lists go before those of the map.
    """
    name = pathlib.PurePosixPath(mutation.file).stem
    mapped = sorted(covering.get(mutation.file, ()), key=lambda path: (name not in path, path))
    return list(dict.fromkeys([*mutation.tests, *mapped])) or ['tests']


def copy_checkout(root: pathlib.Path, target: pathlib.Path) -> None:
    """Copies what tests need of the checkout."""
    skipped = shutil.ignore_patterns('__pycache__', '*.pyc', '.pytest_cache')
    for name in COPIED:
        source = root / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=skipped)
        elif source.exists():
            shutil.copy2(source, target / name)


def pytest_command(*words: str) -> list[str]:
    """Runs plain tests in one process, without what could outlast it."""
    return [sys.executable, '-m', 'pytest', '-n', '0', '--dist=no', '-q', '-p', 'no:cacheprovider', *words]


def environment(root: pathlib.Path) -> dict[str, str]:
    """That of tests whose package is below `root`, in subprocesses of theirs too."""
    path = os.pathsep.join([str(root), *filter(None, [os.environ.get('PYTHONPATH')])])
    return {**os.environ, 'PYTHONPATH': path, 'PYTHONDONTWRITEBYTECODE': '1'}


def run(mutation: Mutation, root: pathlib.Path, files: Sequence[str], limit: float) -> Outcome:
    """Applies a mutation in the copy at `root`, runs test files until one fails, and takes it back."""
    started = time.monotonic()
    try:
        before = mutation.apply(root)
    except (OSError, ValueError) as error:
        return Outcome(mutation, 'invalid', 0.0, str(error))
    command = pytest_command('-x', *files)
    try:
        done = subprocess.run(
            command, cwd=root, env=environment(root), timeout=limit, capture_output=True, text=True, check=False
        )
    except subprocess.TimeoutExpired:
        return Outcome(mutation, 'slow', time.monotonic() - started, f'more than {limit:.0f} s')
    finally:
        (root / mutation.file).write_text(before, encoding='utf-8')
    seconds = time.monotonic() - started
    lines = done.stdout.splitlines()
    failed = next((line for line in lines if line.startswith(('FAILED', 'ERROR'))), '')
    # An error while tests are collected is what a user would meet too.
    if done.returncode == 0:
        return Outcome(mutation, 'survived', seconds)
    if done.returncode == TESTS_FAILED or failed:
        return Outcome(mutation, 'caught', seconds, failed.partition(' - ')[0])
    return Outcome(mutation, 'invalid', seconds, f'pytest ended with status {done.returncode}: {lines[-1:]}')


@contextlib.contextmanager
def copies(number: int) -> Iterator[list[pathlib.Path]]:
    """As many copies of the checkout, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix='mutation-') as folder:
        made = [pathlib.Path(folder) / str(i) for i in range(number)]
        for each in made:
            each.mkdir()
            copy_checkout(ROOT, each)
        yield made


def run_all(
    mutations: Sequence[Mutation], covering: Mapping[str, Sequence[str]], jobs: int, limit: float
) -> Iterator[Outcome]:
    """Runs every mutation, `jobs` at the same time; each outcome as it comes."""
    with copies(jobs) as roots, concurrent.futures.ThreadPoolExecutor(jobs) as threads:
        free = collections.deque(roots)

        def one(mutation: Mutation) -> Outcome:
            root = free.popleft()
            try:
                return run(mutation, root, test_files(mutation, covering), limit)
            finally:
                free.append(root)

        for future in concurrent.futures.as_completed([threads.submit(one, each) for each in mutations]):
            yield future.result()


def coverage_map(tests: Sequence[str]) -> dict[str, list[str]]:
    """Test files by the files of deeplab/ that they run beyond imports; needs pytest-cov."""
    found = collections.defaultdict(set)
    with copies(1) as (root,):
        command = pytest_command('--cov=deeplab', '--cov-context=test', '--cov-report=', *tests)
        subprocess.run(command, cwd=root, env=environment(root), check=False)
        report = ['-m', 'coverage', 'json', '--show-contexts', '-q', '-o', 'report.json']
        subprocess.run([sys.executable, *report], cwd=root, check=True)
        for file, facts in json.loads((root / 'report.json').read_text())['files'].items():
            for contexts in facts['contexts'].values():
                found[file] |= {context.partition('::')[0] for context in contexts if '::' in context}
    return {file: sorted(each) for file, each in sorted(found.items()) if each}


def table(outcomes: Iterable[Outcome]) -> str:
    """One line for each mutation, then the sums of each room."""
    outcomes = sorted(outcomes, key=lambda each: (each.mutation.file, each.mutation.breaks))
    lines = []
    for each in outcomes:
        what = f'{each.mutation.file}: {each.mutation.breaks}  {each.details}'
        lines.append(f'{each.result:<9}{each.seconds:>6.0f} s  {what}'.rstrip())
    rooms = collections.defaultdict(collections.Counter)
    for each in outcomes:
        for room in (each.mutation.room, 'all'):
            rooms[room]['caught' if each.result == 'slow' else each.result] += 1
    lines.append('')
    for room, counts in sorted(rooms.items(), key=lambda item: (item[0] == 'all', item[0])):
        total = counts['caught'] + counts['survived']
        share = f'{counts["caught"] / total:.0%}' if total else '-'
        invalid = f', {counts["invalid"]} invalid' if counts['invalid'] else ''
        lines.append(f'{room:<24}{counts["caught"]:>4} of {total:>3} caught ({share}){invalid}')
    return '\n'.join(lines)


def main(words: Sequence[str] | None = None) -> int:
    """Runs what the line says; the status is 0 where every mutation is caught."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--table', type=pathlib.Path, default=TABLE, help='mutations, as JSON')
    parser.add_argument('--map', type=pathlib.Path, help='write which test files run which file, and end')
    parser.add_argument('--use', type=pathlib.Path, help='choose test files by such a map')
    parser.add_argument('--only', default='', help='mutations of files whose path contains this text')
    parser.add_argument('--jobs', type=int, default=2, help='mutations to test at the same time')
    parser.add_argument('--limit', type=float, default=600, help='seconds after which a mutation counts as caught')
    parser.add_argument('--check', action='store_true', help='only look whether every mutation can be applied')
    parser.add_argument('tests', nargs='*', help='with --map: test files; all where none is given')
    given = parser.parse_args(words)
    if given.map:
        given.map.write_text(json.dumps(coverage_map(given.tests), indent=1) + '\n')
        return 0
    mutations = [each for each in load(given.table) if given.only in each.file]
    if given.check:
        return check(mutations)
    covering = json.loads(given.use.read_text()) if given.use else {}
    outcomes = []
    for outcome in run_all(mutations, covering, given.jobs, given.limit):
        outcomes.append(outcome)
        print(f'{len(outcomes)}/{len(mutations)} {outcome.result}: {outcome.mutation.breaks}', file=sys.stderr)
    print(table(outcomes))
    return int(any(each.result in ('survived', 'invalid') for each in outcomes))


def check(mutations: Sequence[Mutation]) -> int:
    """Prints which mutations no longer fit their file; the status is 0 where all do."""
    status = 0
    with copies(1) as (root,):
        for each in mutations:
            try:
                before = each.apply(root)
                (root / each.file).write_text(before, encoding='utf-8')
            except (OSError, ValueError) as error:
                print(error)
                status = 1
    return status


if __name__ == '__main__':
    sys.exit(main())
