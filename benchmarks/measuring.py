"""Measurement of a row: its commands, ours and the original's, in turns."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator

from benchmarks import _data, rows
from benchmarks.processes import Command, FailedError, Figures, Training, run_whole
from benchmarks.rows import Row

ROOT = pathlib.Path(__file__).resolve().parents[1]
OURS, ORIGINAL = 'ours', 'original'
# Instead of the original, where only its interpreter is there: a frozen graph of ours with the original's operations.
OPERATIONS = "original's operations"
REFERENCES = (ORIGINAL, OPERATIONS)
_HERE = pathlib.Path(__file__).resolve().parent
# The original's name of a program's file, where it differs from ours.
_IN_DATASETS = ('build_voc2012_data',)
_WEIGHTS = 'model.ckpt-0'
_WINDOWS = 1  # of log lines that are timed in a turn


@dataclasses.dataclass(frozen=True)
class Setting:
    """What all rows share.

    Attributes:
      workdir: folder for records, weights and outputs.
      data: images in the layout of PASCAL VOC.
      checkpoint: of the network of eval and vis; None for random weights.
      original: folder of a checkout of the original that contains deeplab/ (and slim/); None for none.
      original_python: interpreter with its TensorFlow.
      engines: besides TensorFlow's own, for the rows that take one: NAME or NAME:PRECISION.
      turns: measurements of each command.
      is_quick: whether everything is tiny, to see that it runs.
    """

    workdir: pathlib.Path
    data: pathlib.Path
    checkpoint: pathlib.Path | None = None
    original: pathlib.Path | None = None
    original_python: str | None = None
    engines: tuple[str, ...] = ()
    turns: int = 5
    is_quick: bool = False


def variants(row: Row, setting: Setting) -> list[str]:
    """Returns what is measured for a row: ours, ours with each engine, the original or what stands in for it."""
    found = [OURS]
    if row.takes_engine:
        found += [f'{OURS}, {engine}' for engine in setting.engines]
    if row.has_original and setting.original:
        found.append(ORIGINAL)
    elif row.measures == rows.GRAPH and setting.original_python:
        found.append(OPERATIONS)
    return found


def measure(row: Row, setting: Setting, progress: Callable[[str], None]) -> dict[str, list[Figures]]:
    """Measures a row.

    Args:
      row: what to measure.
      setting: data, interpreters and number of turns.
      progress: called with a line after each measurement.

    Returns:
      the measurements of each variant, in pairs.

    Raises:
      FailedError: a command failed.
    """
    prepare(row, setting)
    names = variants(row, setting)
    if row.measures == rows.STEPS:
        return _measure_steps(row, setting, names, progress)
    found: dict[str, list[Figures]] = {name: [] for name in names}
    for turn in range(setting.turns):
        for name in names if turn % 2 == 0 else reversed(names):
            found[name].append(_measure_once(row, setting, name))
            progress(f'{row.name}: turn {turn + 1} of {setting.turns}, {name}: {found[name][-1].seconds:.3f} s')
    return found


def _measure_once(row: Row, setting: Setting, variant: str) -> Figures:
    """Runs one variant of a row once."""
    if row.measures == rows.GRAPH:
        figures, output = run_whole(_graph_command(row, setting, variant))
        found = json.loads(output.splitlines()[-1])
        return dataclasses.replace(figures, seconds=found['seconds'], cpu_seconds=found.get('cpu_seconds'))
    with _command(row, setting, variant) as command:
        if row.measures == rows.FIRST_STEP:
            with Training(command) as training:
                seconds = training.seconds_to_first_step()
                return Figures(seconds, training.peak_bytes())
        return run_whole(command)[0]


def _measure_steps(
    row: Row, setting: Setting, names: list[str], progress: Callable[[str], None]
) -> dict[str, list[Figures]]:
    """Times the steps of trainings that take turns: while one runs, the others are halted."""
    found: dict[str, list[Figures]] = {name: [] for name in names}
    with contextlib.ExitStack() as stack:
        trainings = {}
        for name in names:
            training = stack.enter_context(Training(stack.enter_context(_command(row, setting, name))))
            progress(f'{row.name}: {name}: first line after {training.seconds_to_first_step():.1f} s')
            training.turn(_WINDOWS)  # warms up
            training.stop()
            trainings[name] = training
        for turn in range(setting.turns):
            for name in names if turn % 2 == 0 else reversed(names):
                trainings[name].go_on()
                found[name].append(trainings[name].turn(_WINDOWS))
                trainings[name].stop()
                progress(f'{row.name}: turn {turn + 1} of {setting.turns}, {name}: {found[name][-1].seconds:.3f} s')
    return found


@contextlib.contextmanager
def _command(row: Row, setting: Setting, variant: str) -> Iterator[Command]:
    """A variant's command, with a new folder for its output that is removed afterwards."""
    with tempfile.TemporaryDirectory(dir=setting.workdir, ignore_cleanup_errors=True) as fresh:
        words = flags_of(row, setting, fresh)
        if row.measures in (rows.STEPS, rows.FIRST_STEP):
            words.append(f'--log_steps={min(row.log_steps, 2) if setting.is_quick else row.log_steps}')
        if variant == ORIGINAL:
            yield original_command(setting, row.program, words)
        elif row.program:
            yield our_command('-m', 'deeplab', row.program, *words, *_engine_flags(variant))
        else:
            yield our_command(*words)


def _engine_flags(variant: str) -> list[str]:
    """Returns the flags for the engine and its precision, with which a variant's name ends, if any."""
    engine, _, precision = variant.partition(', ')[2].partition(':')
    return [f'--engine={engine}'] * bool(engine) + [f'--precision={precision}'] * bool(precision)


def our_command(*words: str) -> Command:
    """Returns a command of this checkout's Python code."""
    return Command((sys.executable, *words), {'PYTHONPATH': str(ROOT)})


def original_command(setting: Setting, program: str, words: list[str]) -> Command:
    """Returns the original's command of the same name and flags."""
    assert setting.original is not None and setting.original_python is not None
    package = setting.original / 'deeplab'
    file = package / ('datasets' if program in _IN_DATASETS else '') / f'{program}.py'
    path = f'{setting.original}:{setting.original / "slim"}'
    return Command((setting.original_python, str(file), *words), {'PYTHONPATH': path}, str(file.parent))


def flags_of(row: Row, setting: Setting, fresh: str) -> list[str]:
    """Returns the words of a row with its folders filled in."""
    words = row.flags.split() if isinstance(row.flags, str) else row.flags
    places = {
        'fresh': fresh,
        'data': str(setting.data),
        'records': str(setting.workdir / 'records'),
        'one': str(setting.workdir / 'one'),
        'checkpoint': str(checkpoint_of(setting)),
        'weights': str(weights_of(row, setting)),
        'crop': crop_of(row, setting),
    }
    return [word.format(**places) for word in words]


def crop_of(row: Row, setting: Setting) -> str:
    """Returns the crop size of a row."""
    return row.quick_crop if setting.is_quick else row.crop


def checkpoint_of(setting: Setting) -> pathlib.Path:
    """Returns the folder of the checkpoint of eval and vis."""
    return setting.checkpoint or setting.workdir / 'weights_eval'


def weights_of(row: Row, setting: Setting) -> pathlib.Path:
    """Returns the checkpoint with random weights of a row's network."""
    return setting.workdir / f'weights_{row.name}' / _WEIGHTS


def prepare(row: Row, setting: Setting) -> None:
    """Makes what a row reads, unless it is there already."""
    _compile(setting)
    needs = row.flags if isinstance(row.flags, str) else ''
    if '{records}' in needs:
        _build_records(setting, setting.data, setting.workdir / 'records')
    if '{one}' in needs:
        one = setting.workdir / 'one_image'
        if not one.exists():
            _data.generate(one, {'val': 1})
        _build_records(setting, one, setting.workdir / 'one')
    if row.weights:
        _write_weights(weights_of(row, setting), f'{row.weights} --crop_size={crop_of(row, setting)}')
    if '{checkpoint}' in needs and setting.checkpoint is None:
        _write_weights(
            checkpoint_of(setting) / _WEIGHTS, f'{rows.CAMVID_NETWORK} --num_classes={_data.CLASSES} --crop_size=65,65'
        )
    if row.measures == rows.GRAPH:
        for variant in variants(row, setting):
            _export(row, setting, variant)


def _compile(setting: Setting) -> None:
    """Compiles the modules of both sides, as an installation by pip does, so that no measured run has to."""
    commands = [our_command('-m', 'compileall', '-q', str(ROOT / 'deeplab'))]
    if setting.original and setting.original_python:
        commands.append(Command((setting.original_python, '-m', 'compileall', '-q', str(setting.original))))
    for command in commands:  # of the original, there may be files for another version of Python
        subprocess.run(command.words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def _build_records(setting: Setting, data: pathlib.Path, folder: pathlib.Path) -> None:
    if folder.exists():
        return
    words = [f'--{name}={path}' for name, path in _data.layout(data).items()]
    run_whole(
        our_command('-m', 'deeplab', 'build_voc2012_data', '--image_format=jpg', *words, f'--output_dir={folder}')
    )


def _write_weights(path: pathlib.Path, flags: str) -> None:
    if not path.with_name(f'{path.name}.index').exists():
        run_whole(our_command('-m', 'benchmarks.random_weights', f'--path={path}', *flags.split()))


def _graph(row: Row, setting: Setting, variant: str) -> pathlib.Path:
    """Returns the frozen graph of a variant; engines run ours."""
    side = {ORIGINAL: 'original', OPERATIONS: 'operations'}.get(variant, 'ours')
    return setting.workdir / f'{row.name}_{side}' / 'frozen_graph.pb'


def _export(row: Row, setting: Setting, variant: str) -> None:
    """Exports the frozen graph of a variant; what does not depend on our code is kept from earlier runs."""
    graph = _graph(row, setting, variant)
    if graph.exists() and variant == ORIGINAL:
        return
    words = flags_of(row, setting, str(graph.parent))
    if variant == ORIGINAL:
        command = original_command(setting, row.program, words)
    elif variant == OPERATIONS:
        command = our_command('-m', 'benchmarks.original_operations', f'--path={graph}', *words)
    else:
        command = our_command('-m', 'deeplab', row.program, *words)
    graph.parent.mkdir(parents=True, exist_ok=True)
    run_whole(command)


def _graph_command(row: Row, setting: Setting, variant: str) -> Command:
    """Returns the command that times a variant's frozen graph."""
    runs = ('--runs=1', '--warm_up=1') if setting.is_quick else ()
    if engine := _engine_flags(variant):
        weights = f'--checkpoint_path={weights_of(row, setting)}'
        network = (*row.weights.split(), f'--crop_size={crop_of(row, setting)}', weights)
        return our_command('-m', 'benchmarks.time_engine', *runs, *engine, f'--cache={setting.workdir}', *network)
    words = (f'--graph={_graph(row, setting, variant)}', f'--size={crop_of(row, setting)}', *runs)
    script = str(_HERE / 'time_frozen_graph.py')
    if variant in REFERENCES:
        assert setting.original_python is not None
        return Command((setting.original_python, script, *words))
    return our_command(script, *words)


__all__ = ['FailedError', 'ORIGINAL', 'OURS', 'Setting', 'measure', 'variants']
