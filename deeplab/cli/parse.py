"""Parses the words of a command line to the values of its flags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from absl import flags  # noqa: TID251 (flags are allowed in this package)

from deeplab import names, wording
from deeplab.cli import early, log_files, plugin_flags, recipes, run_flags
from deeplab.cli.network_flags import HEAD, NETWORK
from deeplab.cli.program import Program, find_program, names_in_messages, owners_of, with_flags
from deeplab.cli.repeat import seen_from_here
from deeplab.cli.values import Values
from deeplab.cli.words import UsageError, read_words, with_named, without_undefined
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
    words = load_plugins(words)  # before the flags of what they register are read
    words = program.prepare(without_undefined(words, program.flags))
    program.check_flags()
    known, flag_names = program.flags, program.flag_names  # both are made anew whenever they are read
    wording.add_flag_names(flag_names)  # flags of plugins included
    if program.positional:
        words = with_named(words, known, program.positional)
    values = Values(words, known, flag_names)
    for name, text in read_words(words, program.name, known, owners_of):
        values.parse(name, text)
    log_files.level_of(values['stderrthreshold'])
    is_dataset_given = 'dataset' in values and values.given('dataset')
    if 'preset' in values and values['preset']:
        _apply_preset(values['preset'], program, values)
    if 'recipe' in values and values['recipe']:
        recipes.apply(values['recipe'], values)
    _check_required(program, values)
    _apply_description(values, is_dataset_given)
    _apply_run(values)
    return values


def load_plugins(words: Sequence[str]) -> list[str]:
    """Imports the plugins that a command line names; returns it with the flags in files (--flagfile=FILE, one a line).

    Raises:
      OptionError: a file or a plugin cannot be used.
    """
    try:
        words = flags.FlagValues().read_flags_from_files(list(words), force_gnu=True)  # type: ignore[no-untyped-call]
    except flags.Error as error:  # some of absl's messages begin with a mark
        raise UsageError(f'{str(error).removeprefix("ERROR:: ")}.') from error
    plugin_flags.load(words)
    return words


def _apply_run(values: Values) -> None:
    """Sets network flags that are not given, nor set by a preset, as in the training that wrote the checkpoint."""
    beside = _run_of_checkpoint(values)
    if beside is None:
        return
    file, run = beside
    command = run['command']
    folder = run.get('folder') or ''
    missing = plugin_flags.missing(command, folder, values.words)
    if missing:  # they are not imported: the file may come from anywhere
        values.notes.append(
            f'The training in {file} used --plugins={",".join(missing)}. If you trust these files, pass the flag here '
            'too: what they define is unknown without it.'
        )
    try:
        # A recipe may set other flags in this version than in the version of the training, which noted them.
        explicit = recipes.without(plugin_flags.without(command))
        trained = parse_flags(find_program('train'), [*explicit, *(run.get('recipe_flags') or ())])
    except UserError as error:
        if not missing:  # else the flags of the plugins are unknown, as the note above explains
            values.notes.append(f'The flags in {file} cannot be used: {error}')
        return
    _warn_of_resizing(file, trained, values)
    names = [flag.name for group in (NETWORK, HEAD) for flag in group.flags if trained.given(flag.name)]
    network_flags = {name: trained[name] for name in names if name not in ('preset', 'batch_norm_decay')}
    if network_flags.get('dense_prediction_cell_json'):
        cell = network_flags['dense_prediction_cell_json']
        network_flags['dense_prediction_cell_json'] = seen_from_here('dense_prediction_cell_json', cell, folder)
    network_flags |= run_flags.facts_of_data(run)
    if 'image_bits' in values.known:
        network_flags |= run_flags.bits_of_data(file, run)
    taken = []
    for name, value in network_flags.items():
        if name in values and not values.given(name) and values[name] != value:
            values.assume(name, value)
            shown = ','.join(str(part) for part in value) if isinstance(value, (list, tuple)) else value
            taken.append(f'--{name}={str(shown).lower() if isinstance(shown, bool) else shown}')
    if taken:
        values.notes.append(f'Flags from {file}, as they are not given: {" ".join(taken)}')


def _warn_of_resizing(file: str, trained: Values, values: Values) -> None:
    """Warns if the training resized images, and eval or vis is not to do so."""
    if not {'eval_logdir', 'vis_logdir'} & values.known.keys() or any(values.given(name) for name in _RESIZE):
        return
    if given := [f'--{name}={trained[name]}' for name in _RESIZE if trained[name] is not None]:
        values.warnings.append(
            f'The training in {file} resized images: {" ".join(given)}. Without these flags, images are predicted at '
            'another scale here.'
        )


def _apply_description(values: Values, is_given: bool) -> None:
    """Sets --dataset, unless it is given, to the description that lies beside the records; compares one that is.

    Without a description it is the data set of the training that wrote the checkpoint. Where a training starts from a
    preset, the description replaces the data set of the preset; other programs run the network of the preset, which
    has its classes.
    """
    if not {'dataset', 'dataset_dir'} <= values.known.keys():
        return
    folder = values.path('dataset_dir')
    if folder and storage.is_remote(folder):
        early.use_one_dnn()  # before TensorFlow, which reads the folder, is imported
    path = description_file.beside(folder) if folder else None
    if path is None:
        if not values.given('dataset'):
            _apply_dataset_of_run(values)
        return
    only_starts_from_preset = 'tf_initial_checkpoint' in values.known
    if not is_given and (only_starts_from_preset or not values.given('dataset')):
        values.assume('dataset', path)
        values.notes.append(f'Flag from the folder of the records, as it is not given: --dataset={path}')
    elif values.path('dataset') != path and (found := _differences(path, values.path('dataset'))):
        values.warnings.append(
            f'--dataset={values["dataset"]} contradicts the description beside the records, {path}: there, '
            f'{"; ".join(found)}. --dataset is used.'
        )


def _apply_dataset_of_run(values: Values) -> None:
    """Sets --dataset as in the training that wrote the checkpoint; where that is not known, notes what is assumed."""
    assumed = values.default('dataset')
    if assumed is None or values.known.keys().isdisjoint(_CHECKPOINTS):  # a training says on which data set it is
        return
    beside = _run_of_checkpoint(values)
    trained = None if beside is None else descriptor.trusted_name_in_run(*beside)
    if beside is not None and trained is not None:
        values.assume('dataset', trained)
        if trained != assumed:
            values.notes.append(f'Flag from {beside[0]}, as it is not given: --dataset={trained}')
        return
    reason = 'The data set is not stated'
    if beside is not None and (name := descriptor.name_in_run(beside[1])) is not None:
        reason = f"The data set of {beside[0]}, '{shown(name)}', is not known here"
    number = descriptor.load(assumed).num_classes
    values.notes.append(f'{reason}: --dataset={assumed} with {number} classes is assumed. Give --dataset if it is not.')


def _run_of_checkpoint(values: Values) -> tuple[str, run_manifests.Run] | None:
    """Returns the run.json of the checkpoint of a command line, and the newest run in it; None without one."""
    path = next((values.path(name) for name in _CHECKPOINTS if name in values.known), None)
    return run_manifests.beside(path) if path else None


def _differences(path: str, name: str) -> list[str]:
    """Returns in what a description differs from a data set; nothing if one of them is invalid or of a plugin."""
    try:
        return description_file.differences(path, descriptor.load(name))
    except UserError:  # the data set is loaded, and the error reported, later
        return []


def _apply_preset(name: str, program: Program, values: Values) -> None:
    """Sets the flags of a preset that are not given on the command line."""
    given = {flag: values[flag] for flag in program.flags if values.given(flag)}
    for flag, texts in catalog.settings(catalog.get(name), program.name, given).items():
        for text in texts if flag in values else ():
            values.parse(flag, text)


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
