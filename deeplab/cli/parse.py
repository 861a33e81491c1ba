"""Parses the words of a command line to the values of its flags."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags  # noqa: TID251 (flags are allowed in this package)

from deeplab import common, names, wording
from deeplab.cli import early, logs, plugin_flags, recipes
from deeplab.cli.program import Program, find_program, names_in_messages, owners_of, with_flags
from deeplab.cli.repeat import seen_from_here
from deeplab.cli.shared_flags import HEAD, NETWORK, RESIZE_FLAGS
from deeplab.cli.values import Values
from deeplab.cli.words import UsageError, check_value, read_words, without_undefined
from deeplab.datasets import description_file, descriptor
from deeplab.errors import UserError
from deeplab.files import cross_validation, run_manifests, storage
from deeplab.names import shown
from deeplab.options.network import rates_note
from deeplab.wording import as_text
from deeplab.zoo import catalog

_BYTE_ORDER_MARK = '\ufeff'
_CHECKPOINTS = ('checkpoint_dir', 'checkpoint_path')
_NOT_OF_NETWORK = ('preset', 'batch_norm_decay')  # the flags of a preset are given; the decay is of training alone


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
    values = Values(read_words(words, program.name, known, owners_of, program.positional), known, flag_names)
    logs.level_of(values['stderrthreshold'])
    is_dataset_given = values.given('dataset')
    if 'preset' in values and values['preset']:
        given = {flag: values[flag] for flag in program.flags if values.given(flag)}
        for flag, texts in catalog.settings(catalog.get(values['preset']), program.name, given).items():
            for text in texts if flag in values else ():
                values.parse(flag, text)
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
        read = flags.FlagValues().read_flags_from_files(list(words), force_gnu=True)  # type: ignore[no-untyped-call]
    except flags.Error as error:  # some of absl's messages begin with a mark
        raise UsageError(f'{str(error).removeprefix("ERROR:: ")}.') from error
    except UnicodeDecodeError:
        given = ' '.join(word for word in words if 'flagfile' in word)
        raise UsageError(f'{given}: the file, or one that it names, is not text in UTF-8. Save it as UTF-8.') from None
    # Editors on Windows begin files with a byte order mark, before a flag or a comment.
    words = [word.removeprefix(_BYTE_ORDER_MARK) for word in read if not word.startswith(f'{_BYTE_ORDER_MARK}#')]
    plugin_flags.load(words)
    return words


def _apply_run(values: Values) -> None:
    """Sets network flags that are not given, nor set by a preset, as in the training that wrote the checkpoint."""
    beside = _run_of_checkpoint(values)
    if beside is None or 'model_variant' not in values:  # doctor compares the network with the flags of its data
        return
    file, run = beside
    given, plugins = run.get('given'), run.get('plugins')
    if plugins is None:
        plugins = plugin_flags.named_in(run['command'])
    missing = plugin_flags.missing(plugins, run_manifests.folder_of(run), values.words)
    if missing:  # they are not imported: the file may come from anywhere
        values.notes.append(
            f'The training in {file} used --plugins={",".join(missing)}. If you trust these files, pass the flag here '
            'too: what they define is unknown without it.'
        )
    try:
        given = _given_in_command(run) if given is None else given
        trained = {**_network_of_run(given, run, values), **_facts_of_run(file, run, values)}
    except UserError as error:
        if not missing:  # else the flags of the plugins are unknown, as the note above explains
            values.notes.append(f'The flags in {file} cannot be used: {error}')
        return
    _warn_of_resizing(file, given, values)
    _warn_of_rates(run, trained, values)
    trained = {name: value for name, value in trained.items() if not values.given(name)}
    taken = {name: value for name, value in trained.items() if values[name] != value}
    for name, value in trained.items():
        values.assume(name, value)
    if taken:
        shown = ' '.join(f'--{name}={as_text(value)}' for name, value in taken.items())
        values.notes.append(f'Flags from {file}, as they are not given: {shown}')


def given_fields(values: Values) -> dict[str, Any]:
    """Returns the values of the flags that are given, by the option fields that they set: `given` in run.json."""
    return {field: values[name] for name, flag in values.known.items() if values.given(name) for field in flag.fields}


def _given_in_command(run: run_manifests.Run) -> dict[str, Any]:
    """Returns `given` of a run of an older version, whose run.json has the command line alone."""
    # A recipe may set other flags in this version than in the version of the training, which noted them.
    words = [word for word in run['command'] if not word.startswith(('--plugins=', '--recipe='))]
    return given_fields(parse_flags(find_program('train'), [*words, *(run.get('recipe_flags') or ())]))


def _network_of_run(given: Mapping[str, Any], run: run_manifests.Run, values: Values) -> dict[str, Any]:
    """Returns the values of network flags in a run.json, by name; raises `UsageError` for what does not exist here."""
    unknown = given.keys() - find_program('train').flag_names.keys()
    if unknown:
        raise UsageError(f'There is no option {min(unknown)}.')
    network = {}
    for flag in (flag for group in (NETWORK, HEAD) for flag in group.flags):
        if flag.name not in _NOT_OF_NETWORK and flag.name in values and not given.keys().isdisjoint(flag.fields):
            text = seen_from_here(flag.name, as_text(given[flag.fields[0]]), run_manifests.folder_of(run))
            check_value(flag, text)
            network[flag.name] = flag.parsed(text)
    return network


def _facts_of_run(file: str, run: run_manifests.Run, values: Values) -> dict[str, int]:
    """Returns what export_model cannot know without the run: numbers of its data set and its output stride, by flag."""
    facts = {
        'num_classes': run_manifests.option_of(run, 'model', 'outputs_to_num_classes', common.OUTPUT_TYPE),
        'image_channels': run_manifests.option_of(run, 'model', 'input_channels'),
    }
    if (
        'output_stride' in values
        and values.default('output_stride') != find_program('train').flags['output_stride'].default
    ):
        facts['output_stride'] = run_manifests.option_of(run, 'model', 'output_stride')
    dataset = descriptor.trusted_name_in_run(file, run) if 'image_bits' in values else None
    if dataset is not None:
        with contextlib.suppress(UserError):  # which is reported where the data set is needed
            facts['image_bits'] = descriptor.load(dataset).image_bits
    return {name: value for name, value in facts.items() if name in values and isinstance(value, int)}


def _warn_of_resizing(file: str, given: Mapping[str, Any], values: Values) -> None:
    """Warns if the training resized images, and eval or vis is not to do so."""
    if not {'eval_logdir', 'vis_logdir'} & values.known.keys() or any(values.given(name) for name in RESIZE_FLAGS):
        return
    resized = [f'--{name}={given[field]}' for name, field in RESIZE_FLAGS.items() if given.get(field) is not None]
    if resized:
        values.warnings.append(
            f'The training in {file} resized images: {" ".join(resized)}. Without these flags, this program predicts '
            'images at a different scale than in training.'
        )


def _warn_of_rates(run: run_manifests.Run, trained: Mapping[str, Any], values: Values) -> None:
    """Warns if the network gets another output stride than in the training, but the atrous rates of the training."""
    stride = run_manifests.option_of(run, 'model', 'output_stride')
    if 'atrous_rates' not in trained or values.given('atrous_rates') or not values.given('output_stride'):
        return
    if 'inputs' in values.known:  # predict and rank find the network again, and warn then
        return
    if isinstance(stride, int) and (note := rates_note(trained['atrous_rates'], stride, values['output_stride'])):
        values.warnings.append(note)


def _apply_description(values: Values, is_given: bool) -> None:
    """Sets --dataset to the description beside the records; if the flag is given, compares both.

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
    elif values.path('dataset') != path:
        contradictions: list[str] = []
        with contextlib.suppress(UserError):  # the data set is loaded, and the error reported, later
            contradictions = description_file.differences(path, descriptor.load(values.path('dataset')))
        if contradictions:
            values.warnings.append(
                f'--dataset={values["dataset"]} contradicts the description beside the records, {path}: there, '
                f'{"; ".join(contradictions)}. --dataset is used.'
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
    values.notes.append(f'{reason}: --dataset={assumed} with {number} classes is assumed. Set --dataset if not.')


def _run_of_checkpoint(values: Values) -> tuple[str, run_manifests.Run] | None:
    """Returns the run.json of the checkpoint of a command line, and the newest run in it; None without one."""
    # Flags that are translated to flags of another program set no field; its own command line finds the run.
    known = {name: flag for name, flag in values.known.items() if flag.fields}
    name = next((name for name in _CHECKPOINTS if name in known), None)
    if name is None:
        return None
    is_repeated = known[name].kind == 'repeated string'  # each has a run.json of its own; the first one is shown
    path = next(iter(values.texts(name)), None) if is_repeated else values.path(name)
    if path and values.known.get('ensemble') and values['ensemble'] and cross_validation.is_in(path):
        path = cross_validation.read(path).folds[0].train_logdir
    return run_manifests.beside(path) if path else None


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
