"""Entry point of the command line: runs a program, prints its report, returns the exit status."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import logging

import deeplab
from deeplab import names, overview, start, wording
from deeplab.cli import early, escapes, first_import, recipes
from deeplab.cli.help import program_help
from deeplab.cli.logs import log_notes, start_logging, without_import_chatter
from deeplab.cli.parse import load_plugins, options_of, parse_flags
from deeplab.cli.program import Program, find_program, names_in_messages
from deeplab.cli.values import Values
from deeplab.cli.words import UsageError
from deeplab.errors import LostWorkerError, OutputError, UserError
from deeplab.files import run_manifests, storage
from deeplab.inference import videos
from deeplab.options import EvalOptions, VisOptions
from deeplab.system import interrupts, watched_process

USAGE_STATUS = 2
ERROR_STATUS = 1
_OF_STREAMS = 'PredictOptions.inputs'  # field of the addresses of streams, which ffmpeg opens
# Fields of folders of records and of descriptions, which may be in any storage.
_OF_DATA_SETS = {
    *('DatasetOptions.directory', 'DatasetOptions.name', 'DoctorOptions.data', 'DoctorOptions.dataset'),
    *('ListDatasetsOptions.directory', 'PredictorOptions.dataset', 'ProofOptions.dataset', 'ProofOptions.dataset_dir'),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line `deeplab ARGV...`.

    Args:
      argv: the arguments of `deeplab`; None for the arguments of this process.

    Returns:
      The exit status: 0, 1 for an error while running, 2 for an invalid command line, 128 plus the number of the
      signal that stopped the program (130 for Ctrl-C).
    """
    words = list(sys.argv[1:] if argv is None else argv)
    escapes.expect(words)
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, 'reconfigure'):
            stream.reconfigure(errors='backslashreplace')  # escapes for an output that is ASCII only
    try:
        return _dispatch(words)
    except BrokenPipeError:
        # The reader of the output has closed it (`deeplab train --help | head`); nothing may be written at exit either.
        _drop_output()
        return 0
    except OutputError as error:
        return _fail('deeplab', error, ERROR_STATUS)


def _open_streams() -> None:
    """Opens the standard streams as empty devices if the process was started without them.

    In this order they get their own descriptors. Native code writes to the descriptor of standard error, whatever file
    has it.
    """
    for name, mode in (('stdin', 'r'), ('stdout', 'w'), ('stderr', 'w')):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))


def _dispatch(words: Sequence[str]) -> int:
    """Prints help or the version, or runs a program."""
    name, *rest = words or ['--help']
    if name == 'help':
        name, *rest = [*rest, '--help']
    if name in overview.HELP_WORDS:
        _write(overview.text())
        return 0 if words else USAGE_STATUS
    if name == '--version':
        _write(f'deeplab {deeplab.__version__}')
        return 0
    try:
        program = find_program(name)
    except UsageError as error:
        return _fail('deeplab', error, USAGE_STATUS)
    if any(word in overview.HELP_WORDS for word in rest):
        is_full = overview.ALL_FLAGS in rest
        return _help(program, [word for word in rest if word not in overview.HELP_WORDS], is_full)
    if 'recipe' in program.flags and recipes.are_listed_by(rest):
        _write(recipes.explanation())
        return 0
    with wording.flag_names(names_in_messages(program)):
        try:
            values = parse_flags(program, rest)
            program_options = program.to_options(values)
            early.limit_threads(values)
            early.share_gpus()
        except UserError as error:
            return _fail(f'deeplab {program.name}', error, USAGE_STATUS)
        return _run(program, values, program_options)


def _run(program: Program, values: Values, program_options: Any) -> int:
    """Runs `program` with the options of a command line and prints its report; returns the exit status."""
    try:
        start_logging(program.name, values)
        log_notes(values.notes, values.warnings)
        program.begin(program_options)
        run = _imported(program)
        _require_known_schemes(values)
        start.begin_to_run()
        with interrupts.raised():
            program_options = with_awaited_run(program, values, program_options)
            result = run(program_options, run_program) if program.runs_others else run(program_options)
    except UserError as error:
        if isinstance(error, OutputError) and error.report:
            _write(error.report)
        if isinstance(error, LostWorkerError) and _may_run_again(error, program_options.clones.restarts):
            return watched_process.AGAIN_STATUS
        return _fail(f'deeplab {program.name}', error, ERROR_STATUS)
    except KeyboardInterrupt as error:
        return _fail(f'deeplab {program.name}', str(error) or 'interrupted', interrupts.status_of(error))
    _write_report(result)
    # A program that was stopped by a signal returns its report and the status of the signal.
    return getattr(result, 'status', 0)


def _may_run_again(error: LostWorkerError, restarts: int) -> bool:
    """Returns whether a worker that has lost another one begins again, and logs which time it is.

    Without a parent that starts it again, it is up to a scheduler, whose starts are not counted.
    """
    runs = watched_process.earlier_runs()
    if restarts <= (runs or 0):
        return False
    if runs is None:
        logging.warning('%s. It ends with exit status %d to be started again.', error, watched_process.AGAIN_STATUS)
    else:
        logging.warning('%s. Restart %d of %d: waiting for the others.', error, runs + 1, restarts)
    return True


def with_awaited_run(program: Program, values: Values, program_options: Any) -> Any:
    """Waits for the first checkpoint if there is no run.json yet, and then takes network flags from run.json.

    Otherwise eval and vis would run the default network if they were started before the training, but the training's
    network if they were started after it.

    Args:
      program: the program.
      values: the values of its flags, as they are without that run.json.
      program_options: its options, as they are without that run.json.

    Returns:
      The options with those flags.

    Raises:
      UserError: there are no records, or no checkpoint appears in time.
    """
    if not isinstance(program_options, (EvalOptions, VisOptions)):
        return program_options
    folder = program_options.checkpoint_dir
    if isinstance(program_options, EvalOptions) and program_options.ensemble:  # all of its checkpoints exist
        return program_options
    if os.path.isfile(folder) or os.path.isfile(f'{folder}.index') or run_manifests.beside(folder):
        return program_options
    from deeplab.datasets.segmentation_dataset import DataSource
    from deeplab.evaluation import waiting
    from deeplab.inference import network_source

    if network_source.at(folder).exists():
        return program_options
    DataSource(program_options.dataset).split()  # a mistake is not to wait
    next(waiting.rounds(folder, program_options.wait))
    if run_manifests.beside(folder) is None:
        return program_options
    anew = parse_flags(program, values.words)
    log_notes(
        [note for note in anew.notes if note not in values.notes],
        [warning for warning in anew.warnings if warning not in values.warnings],
    )
    return program.to_options(anew)


def _imported(program: Program) -> Callable[..., Any]:
    """Imports a program, and TensorFlow with most of them; returns its `run`."""
    with without_import_chatter(), first_import.shortened():
        run: Callable[..., Any] = importlib.import_module(program.module).run
    return run


def _require_known_schemes(values: Values) -> None:
    """Raises `DataError` if a path has a scheme, such as foo://, that cannot be read.

    Programs would wait for checkpoints there, or find no file.
    """
    given = [(flag, values[name] or ()) for name, flag in values.known.items() if flag.is_path]
    paths = [(flag, path) for flag, value in given for path in ([value] if isinstance(value, str) else value)]
    streams = {path for flag, path in paths if _OF_STREAMS in flag.fields and videos.is_live(path)}
    remote = [(flag, path) for flag, path in paths if storage.is_remote(path) and path not in streams]
    if remote:
        with without_import_chatter(), first_import.shortened():
            for flag, path in remote:
                is_of_slim = not flag.fields and flag.name == 'dataset_dir'
                storage.require_known_scheme(path, is_of_slim or not _OF_DATA_SETS.isdisjoint(flag.fields))


def _help(program: Program, words: Sequence[str], is_full: bool) -> int:
    """Prints the help of a program, with the flags of the plugins that `words` name."""
    before = set(program.flags)
    try:
        load_plugins(words)
    except UserError as error:
        return _fail(f'deeplab {program.name}', error, USAGE_STATUS)
    _write(program_help(program, is_full, program.flags.keys() - before))
    return 0


def run_program(name: str, words: Sequence[str]) -> Any:
    """Runs a program in this process, as its command line would, and prints its report. For programs that run others.

    Raises:
      UserError: for an invalid command line, or raised by the program.
    """
    program = find_program(name)
    program_options = options_of(name, words)
    run = _imported(program)
    with wording.flag_names(names_in_messages(program)):
        result = run(program_options)
    _write_report(result)
    return result


def _write_report(result: Any) -> None:
    """Prints the report of a result, or a list of what a builder wrote."""
    if not isinstance(result, Mapping):
        if report := getattr(result, 'report', ''):
            _write(report)
        return
    lines = [f'Written to {result["output_dir"]}:']
    for split, facts in result.get('splits', {}).items():
        masks = '' if facts['labeled'] else ', without masks'
        lines.append(
            f'  {split}: {names.counted(facts["images"], "image")} in {names.counted(facts["shards"], "shard")}{masks}'
        )
    if 'masks' in result:
        lines.append(f'  {names.counted(result["masks"], "mask")}')
    if 'description' in result:
        lines.append(f'  {result["description"]}: {result["num_classes"]} classes')
    if 'note' in result:
        lines.append(result['note'])
    _write('\n'.join(lines))


def _write(text: str) -> None:
    """Prints `text`; raises `OutputError` if standard output cannot be written, `BrokenPipeError` if it is closed."""
    try:
        print(escapes.cleaned(text), flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        _drop_output()
        raise OutputError(f'standard output cannot be written ({error.strerror}). Is the disk full?') from None


def _drop_output() -> None:
    """Discards buffered standard output, which Python would try to write again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(who: str, message: Any, status: int) -> int:
    """Prints an error on standard error; returns `status`."""
    text = str(message)
    if isinstance(message, Exception) and text and not text.endswith(('.', '?', '!', ':')):
        text += '.'  # other messages with this text continue the sentence
    with contextlib.suppress(OSError):  # the status reports it if standard error cannot be written either
        print(escapes.cleaned(f'{who}: error: {text}'), file=sys.stderr, flush=True)
    return status
