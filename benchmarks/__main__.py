"""The table of speed and memory: ours, and beside it the original.

    python -m benchmarks [--rows=NAMES] [--turns=5] [--quick] [--camvid=DIR] [--engines=NAMES]
        [--original=FOLDER --original_python=PYTHON] [--against=FILE] [--output=FILE]

FOLDER contains deeplab/ and slim/ of the original, with the data set camvid registered; PYTHON has its TensorFlow. Both
run the same flags on the same records, in turns: the ratio is that of the medians, with the interval that holds 95 % of
those of resampled pairs. With PYTHON alone, the rows of frozen exports compare with a graph of ours that has the
original's operations, in its TensorFlow. Every measurement, the machine, its load and the versions are written as JSON.
Run it on an idle machine.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from benchmarks import _data, _machine, measuring, report, rows
from benchmarks.processes import FailedError

CHECKPOINT = _data.CAMVID.parents[1] / 'goldens/checkpoints/mobilenet_v2_camvid'
_QUICK_IMAGES = {'train': 6, 'val': 2}
_BUSY = 0.2  # cores
# Runs under Python 3.6 and later.
_ORIGINAL_VERSIONS = """
import sys
try:
    from importlib.metadata import version
except ImportError:
    import pkg_resources
    version = lambda name: pkg_resources.get_distribution(name).version
print(sys.version.split()[0], version('tensorflow'))
"""


def main(words: Sequence[str] | None = None) -> int:
    """Measures the chosen rows; returns the exit status."""
    parser = _parser()
    arguments = parser.parse_args(words)
    try:
        chosen = rows.chosen(arguments.rows)
        stored = report.load(arguments.against) if arguments.against else None
    except ValueError as error:
        parser.error(str(error))
    if arguments.original and not arguments.original_python:
        parser.error('--original needs --original_python, the interpreter with its TensorFlow.')
    with contextlib.ExitStack() as stack:
        workdir = arguments.workdir or pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        workdir.mkdir(parents=True, exist_ok=True)
        setting = _setting(arguments, workdir.resolve())
        results, document = _measure_all(chosen, setting, arguments.output)
    if arguments.quick:
        _say('--quick: sizes are tiny, and the figures mean nothing.')
    print('\n'.join(report.table(results)))
    if stored:
        _warn_of_differences(document['machine'], stored.get('machine', {}))
        print(f'\nCompared with {arguments.against}:')
        print('\n'.join(report.comparison(results, stored)))
    print(f'\nWritten to {arguments.output}.')
    return int(len(results) < len(chosen))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        'python -m benchmarks', description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add('--rows', metavar='NAMES', help=f'comma-separated: {", ".join(row.name for row in rows.ROWS)}; default: all')
    add('--turns', type=int, default=5, help='measurements of each command (default: 5)')
    add('--quick', action='store_true', help='tiny sizes and few images, to see that everything runs')
    add('--camvid', type=pathlib.Path, default=_data.CAMVID, metavar='DIR', help='CamVid in the layout of PASCAL VOC')
    add('--checkpoint', type=pathlib.Path, default=CHECKPOINT, metavar='DIR', help='of the network of eval and vis')
    add(
        '--engines',
        default='',
        metavar='NAMES',
        help='engines to measure besides TensorFlow: NAME,NAME:PRECISION',
    )
    add('--original', type=pathlib.Path, metavar='FOLDER', help='checkout of the original')
    add('--original_python', metavar='PYTHON', help='interpreter of the original')
    add('--workdir', type=pathlib.Path, metavar='DIR', help='folder for records and weights, which a later run reuses')
    add('--against', metavar='FILE', help='JSON of an earlier run, to compare with')
    add('--output', type=pathlib.Path, default=_machine.RESULTS / 'benchmarks.json', metavar='FILE', help='JSON')
    return parser


def _setting(arguments: argparse.Namespace, workdir: pathlib.Path) -> measuring.Setting:
    """Returns what all rows share; writes generated images where CamVid is missing or too large."""
    data = arguments.camvid
    if arguments.quick or not _data.is_there(data):
        if not arguments.quick:
            _say(f'There is no CamVid in {data}: generated images of the same size are used. Set --camvid=DIR.')
        data = workdir / 'images'
        if not data.exists():
            _data.generate(data, _QUICK_IMAGES if arguments.quick else _data.IMAGES)
    return measuring.Setting(
        workdir=workdir,
        data=data.resolve(),
        checkpoint=arguments.checkpoint.resolve() if arguments.checkpoint.exists() else None,
        original=arguments.original.resolve() if arguments.original else None,
        original_python=arguments.original_python,
        engines=tuple(filter(None, arguments.engines.split(','))),
        turns=1 if arguments.quick else arguments.turns,
        is_quick=arguments.quick,
    )


def _measure_all(
    chosen: Sequence[rows.Row], setting: measuring.Setting, output: pathlib.Path
) -> tuple[dict[str, tuple[rows.Row, report.Measured]], dict[str, Any]]:
    """Measures rows and writes the results after each; a row that fails is reported and omitted."""
    results: dict[str, tuple[rows.Row, report.Measured]] = {}
    document: dict[str, Any] = {
        'commit': _commit(),
        'quick': setting.is_quick,
        'turns': setting.turns,
        'generated_images': setting.data.is_relative_to(setting.workdir),
        'original': _original(setting),
        'machine': _machine.describe(),
        'rows': {},
    }
    for row in chosen:
        load = _machine.load()
        if load['busy_cores'] > _BUSY:
            _say(f'{row.name}: {load["busy_cores"]:.1f} cores are busy with other work. Times will be too long.')
        try:
            measured = measuring.measure(row, setting, _say)
        except FailedError as error:
            _say(f'{row.name} failed: {error}')
            continue
        results[row.name] = row, measured
        document['rows'][row.name] = report.as_json(row, measured, load)
        _machine.write_json(output, document)
    return results, document


def _original(setting: measuring.Setting) -> dict[str, str] | None:
    """Returns the versions of Python and TensorFlow of the original; None without one."""
    if setting.original_python is None:
        return None
    command = [setting.original_python, '-c', _ORIGINAL_VERSIONS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    versions = done.stdout.split()
    return dict(zip(('python', 'tensorflow'), versions, strict=False))


def _commit() -> str | None:
    """Returns the commit of this checkout; None if it is none."""
    command = ['git', 'describe', '--always', '--dirty', '--exclude=*']
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        return subprocess.check_output(command, cwd=measuring.ROOT, text=True, stderr=subprocess.DEVNULL).strip()
    return None


def _warn_of_differences(now: dict[str, Any], before: dict[str, Any]) -> None:
    """Warns if a stored run is of another machine."""
    for name in ('processor', 'cores'):
        if now.get(name) != before.get(name):
            _say(f'The stored run is of another machine ({name} {before.get(name)}): times do not compare.')


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == '__main__':
    sys.exit(main())
