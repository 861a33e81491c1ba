"""Parses the words of a command line to the values of its flags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from absl import flags  # noqa: TID251 (flags are allowed in this package)

from deeplab import names, wording
from deeplab.cli import early, log_files, plugin_flags, recipes, run_flags
from deeplab.cli.flag_types import define
from deeplab.cli.network_flags import HEAD, NETWORK
from deeplab.cli.program import Program, find_program, names_in_messages, owners_of, with_flags
from deeplab.cli.repeat import seen_from_here
from deeplab.cli.values import Values
from deeplab.cli.words import UsageError, check_words, with_named, without_undefined
from deeplab.datasets import description_file, descriptor
from deeplab.errors import UserError
from deeplab.files import run_manifests, storage
from deeplab.names import shown
from deeplab.zoo import catalog

_CHECKPOINTS = ('checkpoint_dir', 'checkpoint_path')
_RESIZE = ('min_resize_value', 'max_resize_value', 'resize_factor')


def parse_flags(program: Program, words: Sequence[str]) -> Values:
    """Parses the flags of a program.

    Args:
      program: the program.
      words: the command line without the program's name.

    Returns:
      The values of all flags of the program.

    Raises:
      UsageError: for an invalid command line.
    """
    values = flags.FlagValues()
    values.set_gnu_getopt(True)
    try:
        words = load_plugins(words)  # before the flags of what they register are defined
        words = program.prepare(without_undefined(words, program.flags))
        program.check_flags()
        known, flag_names = program.flags, program.flag_names  # both are made anew whenever they are read
        wording.add_flag_names(flag_names)  # those of the plugins
        for flag in known.values():
            define(flag, values)
        if program.positional:
            words = with_named(words, known, program.positional)
        check_words(words, program.name, known, owners_of)
        values([program.name, *words])
    except flags.Error as error:
        raise _usage_error(error) from error
    parsed = Values(values, words, known, flag_names)
    log_files.level_of(parsed['stderrthreshold'])
    is_dataset_given = 'dataset' in values and values['dataset'].present
    if 'preset' in values and parsed['preset']:
        _apply_preset(parsed['preset'], program, values)
    if 'recipe' in values and parsed['recipe']:
        recipes.apply(parsed['recipe'], values, parsed)
    _check_required(program, parsed)
    _apply_description(values, parsed, bool(is_dataset_given))
    _apply_run(values, parsed)
    return parsed


def _usage_error(error: flags.Error) -> UsageError:
    """Returns an error of absl without the mark before some of its messages."""
    return UsageError(f'{str(error).removeprefix("ERROR:: ")}.')


def load_plugins(words: Sequence[str]) -> list[str]:
    """Imports the plugins that a command line names; returns it with the flags in files (--flagfile=FILE, one a line).

    Raises:
      OptionError: a file or a plugin cannot be used.
    """
    try:
        words = flags.FlagValues().read_flags_from_files(list(words), force_gnu=True)
    except flags.Error as error:
        raise _usage_error(error) from error
    plugin_flags.load(words)
    return words


def _apply_run(values: flags.FlagValues, parsed: Values) -> None:
    """Sets network flags that are not given, nor set by a preset, as in the training that wrote the checkpoint."""
    beside = _run_of_checkpoint(parsed)
    if beside is None:
        return
    file, run = beside
    command = run['command']
    folder = run.get('folder') or ''
    missing = plugin_flags.missing(command, folder, parsed.words)
    if missing:  # they are not imported: the file may come from anywhere
        parsed.notes.append(
            f'The training in {file} used --plugins={",".join(missing)}. If you trust these files, pass the flag here '
            'too: what they define is unknown without it.'
        )
    try:
        # A recipe may set other flags in this version than in that of the training, which noted them.
        explicit = recipes.without(plugin_flags.without(command))
        trained = parse_flags(find_program('train'), [*explicit, *(run.get('recipe_flags') or ())])
    except UserError as error:
        if not missing:  # else the flags of the plugins are unknown, as the note above explains
            parsed.notes.append(f'The flags in {file} cannot be used: {error}')
        return
    _warn_of_resizing(file, trained, values, parsed)
    names = [flag.name for group in (NETWORK, HEAD) for flag in group.flags if trained.given(flag.name)]
    found = {name: trained[name] for name in names if name not in ('preset', 'batch_norm_decay')}
    if found.get('dense_prediction_cell_json'):
        cell = found['dense_prediction_cell_json']
        found['dense_prediction_cell_json'] = seen_from_here('dense_prediction_cell_json', cell, folder)
    found |= run_flags.facts_of_data(run)
    if 'image_bits' in parsed.known:
        found |= run_flags.bits_of_data(file, run)
    taken = []
    for name, value in found.items():
        if name in parsed.known and not values[name].present and values[name].value != value:
            values[name].value = value
            shown = ','.join(str(part) for part in value) if isinstance(value, (list, tuple)) else value
            taken.append(f'--{name}={str(shown).lower() if isinstance(shown, bool) else shown}')
    if taken:
        parsed.notes.append(f'Flags from {file}, as they are not given: {" ".join(taken)}')


def _warn_of_resizing(file: str, trained: Values, values: flags.FlagValues, parsed: Values) -> None:
    """Warns if the training resized images, and eval or vis is not to do so."""
    if not {'eval_logdir', 'vis_logdir'} & parsed.known.keys() or any(values[name].present for name in _RESIZE):
        return
    if given := [f'--{name}={trained[name]}' for name in _RESIZE if trained[name] is not None]:
        parsed.warnings.append(
            f'The training in {file} resized images: {" ".join(given)}. Without these flags, images are predicted at '
            'another scale here.'
        )


def _apply_description(values: flags.FlagValues, parsed: Values, is_given: bool) -> None:
    """Sets --dataset, unless it is given, to the description that lies beside the records; compares one that is.

    Without a description it is the data set of the training that wrote the checkpoint. Where a training starts from a
    preset, the description replaces the data set of the preset; other programs run the network of the preset, which
    has its classes.
    """
    if not {'dataset', 'dataset_dir'} <= parsed.known.keys():
        return
    folder = parsed.path('dataset_dir')
    if folder and storage.is_remote(folder):
        early.use_one_dnn()  # before TensorFlow, which reads the folder, is imported
    path = description_file.beside(folder) if folder else None
    if path is None:
        if not values['dataset'].present:
            _apply_dataset_of_run(values, parsed)
        return
    only_starts_from_preset = 'tf_initial_checkpoint' in parsed.known
    if not is_given and (only_starts_from_preset or not values['dataset'].present):
        values['dataset'].value = path
        parsed.notes.append(f'Flag from the folder of the records, as it is not given: --dataset={path}')
    elif parsed.path('dataset') != path and (found := _differences(path, parsed.path('dataset'))):
        parsed.warnings.append(
            f'--dataset={parsed["dataset"]} contradicts the description beside the records, {path}: there, '
            f'{"; ".join(found)}. --dataset is used.'
        )


def _apply_dataset_of_run(values: flags.FlagValues, parsed: Values) -> None:
    """Sets --dataset as in the training that wrote the checkpoint; where that is not known, notes what is assumed."""
    assumed = values['dataset'].default
    if assumed is None or parsed.known.keys().isdisjoint(_CHECKPOINTS):  # a training says on which data set it is
        return
    beside = _run_of_checkpoint(parsed)
    trained = None if beside is None else descriptor.trusted_name_in_run(*beside)
    if beside is not None and trained is not None:
        values['dataset'].value = trained
        if trained != assumed:
            parsed.notes.append(f'Flag from {beside[0]}, as it is not given: --dataset={trained}')
        return
    reason = 'The data set is not stated'
    if beside is not None and (name := descriptor.name_in_run(beside[1])) is not None:
        reason = f"The data set of {beside[0]}, '{shown(name)}', is not known here"
    number = descriptor.load(assumed).num_classes
    parsed.notes.append(f'{reason}: --dataset={assumed} with {number} classes is assumed. Give --dataset if it is not.')


def _run_of_checkpoint(parsed: Values) -> tuple[str, run_manifests.Run] | None:
    """Returns the run.json of the checkpoint of a command line, and the newest run in it; None without one."""
    path = next((parsed.path(name) for name in _CHECKPOINTS if name in parsed.known), None)
    return run_manifests.beside(path) if path else None


def _differences(path: str, name: str) -> list[str]:
    """Returns in what a description differs from a data set; nothing if one of them is invalid or of a plugin."""
    try:
        return description_file.differences(path, descriptor.load(name))
    except UserError:  # the data set is loaded, and the error reported, later
        return []


def _apply_preset(name: str, program: Program, values: flags.FlagValues) -> None:
    """Sets the flags of a preset that are not given on the command line."""
    given = {flag: values[flag].value for flag in program.flags if values[flag].present}
    for flag, texts in catalog.settings(catalog.get(name), program.name, given).items():
        for text in texts if flag in values else ():
            values[flag].parse(text)


def _check_required(program: Program, values: Values) -> None:
    """Raises `UsageError` with the names and meanings of all missing required flags."""
    missing = [values.known[name] for name in program.required if not values[name]]
    if missing:
        flags = names_in_messages(program)
        missing = [with_flags(flag, flags) for flag in missing]
        shown = ' and '.join(
            f'--{flag.name} ({names.lower_first(flag.meaning.partition(". ")[0]).rstrip(".")})' for flag in missing
        )
        raise UsageError(f'{program.name} requires {shown}.')


def options_of(name: str, words: Sequence[str]) -> Any:
    """Returns the options of a command line: `options_of('train', ['--train_logdir=...', ...])`.

    Raises:
      UserError: for an invalid command line.
    """
    program = find_program(name)
    with wording.flag_names(names_in_messages(program)):
        return program.to_options(parse_flags(program, words))
