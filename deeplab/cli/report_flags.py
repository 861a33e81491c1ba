"""Flags and options of report and compare."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from deeplab import options
from deeplab.cli.data_flags import data_group
from deeplab.cli.inference_flags import PREDICTION, WINDOWS, engine_group
from deeplab.cli.links import filled, of
from deeplab.cli.network_flags import HEAD, NETWORK
from deeplab.cli.parse import parse_flags
from deeplab.cli.plugin_flags import EVERY_PROGRAM
from deeplab.cli.program import find_program
from deeplab.cli.repeat import seen_from_here
from deeplab.cli.to_options import given_network
from deeplab.cli.values import Values
from deeplab.cli.words import Flag, Group, UsageError, normalized
from deeplab.files import run_manifests

_OWN = ('run', 'output', 'images', 'metrics_dir')
# Flags with which a report may have images of other sizes than a validation.
_OTHER_SIZES = frozenset(
    ('dataset_dir', 'eval_split', 'min_resize_value', 'max_resize_value', 'resize_factor')
    + ('window', 'window_stride', 'whole_pixels')
)
_RESIZE = {'min_resize_value': 'min_value', 'max_resize_value': 'max_value', 'resize_factor': 'factor'}


def report_groups(runs: str, output: str) -> tuple[Group, ...]:
    """Returns the flags of a program that writes a page.

    Args:
      runs: meaning of its positional words.
      output: name of its page, in the current folder.
    """
    return (
        Group(
            'Page',
            (
                Flag('run', 'repeated string', None, f'{runs}; --run= may be omitted.', is_path=True),
                Flag(
                    'output',
                    'string',
                    output,  # of the program; the options have no default
                    'HTML file to write.',
                    fields=('ReportOptions.path',),
                    is_path=True,
                ),
                of(options.ReportOptions),
            ),
        ),
        _data(),
        PREDICTION,
        WINDOWS,
        Group(
            'Network; if not given, as in the run.json of each run', (of(options.EvalOptions, 'use_moving_average'),)
        ),
        NETWORK,
        HEAD,
        engine_group(),
        *EVERY_PROGRAM,
    )


def _data() -> Group:
    """Returns the flags of the data of eval; here, the crop size follows from the images unless it is given."""
    group = data_group('eval', 'val', of(options.EvalOptions, 'batch_size'))
    meaning = (
        'Height and width, in pixels, of the input of the network: 513,513, or one flag for each. Not set: the '
        'size of the validations of the training or, of several runs, if it was the same; else the smallest suitable '
        'size into which every image fits.'
    )
    entries = (
        dataclasses.replace(entry, default=None, meaning=meaning)
        if isinstance(entry, Flag) and entry.name == 'eval_crop_size'
        else entry
        for entry in group.entries
    )
    return dataclasses.replace(group, entries=tuple(entries))


def report_options(values: Values) -> options.ReportOptions:
    """Returns the options of report."""
    return _options(values, 'report')


def compare_options(values: Values) -> options.ReportOptions:
    """Returns the options of compare."""
    made = _options(values, 'compare')
    if len(made.runs) < 2:
        raise UsageError('compare requires two checkpoints or more: deeplab compare A B --dataset_dir=tfrecord.')
    missing = next((run.no_records for run in made.runs if run.evaluation is None), '')
    if missing:
        raise UsageError(f'compare requires records. {missing}')
    return made


def _options(values: Values, program: str) -> options.ReportOptions:
    paths = values.texts('run')
    given = dict(normalized(values.words, values.known))
    return filled(
        options.ReportOptions,
        values,
        runs=tuple(_run(path, values, given, _crop_of_validations(paths, given)) for path in paths),
        command=('deeplab', program, *values.words),
    )


def _crop_of_validations(paths: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """Returns the flag of the crop size that all runs set for their validations, whose figures are found again so.

    Returns:
      Nothing if they differ, or if the command line may select images of other sizes.
    """
    sizes = set()
    for path in paths:
        beside = run_manifests.beside(path)
        trained = _mapping(beside[1].get('options')) if beside else {}
        crop_size = _mapping(trained.get('validation')).get('crop_size')
        is_size = isinstance(crop_size, list) and len(crop_size) == 2
        sizes.add(','.join(map(str, crop_size or ())) if is_size else None)
    crop = sizes.pop() if len(sizes) == 1 else None
    return {'eval_crop_size': crop} if crop and _OTHER_SIZES.isdisjoint(given) else {}


def _run(path: str, values: Values, given: Mapping[str, str], crop: Mapping[str, str]) -> options.ReportedRun:
    """Returns a run with its evaluation: as the command line says, otherwise as its run.json and with `crop`."""
    beside = run_manifests.beside(path)
    taken = {**_from_manifest(beside[1]), **crop} if beside else {}
    flags = {name: value for name, value in taken.items() if name not in given}
    directory = values.path('dataset_dir') or flags.get('dataset_dir')
    if not directory:
        return options.ReportedRun(
            path, no_records=f'--dataset_dir is not given, and {path} has no run.json that names the records.'
        )
    if 'dataset_dir' not in given and not os.path.isdir(directory):
        return options.ReportedRun(
            path, no_records=f"The records of run.json, in '{directory}', do not exist here; give --dataset_dir."
        )
    network = None if beside else given_network(values)
    return options.ReportedRun(path, _evaluation(path, flags, values), network=network)


def _evaluation(path: str, flags: Mapping[str, str], values: Values) -> options.EvalOptions:
    """Returns the options of eval for one run, and adds its notes to the program's notes."""
    flags_of_eval = find_program('eval').flags
    words = [
        f'--{name}={value}'
        for name, value in normalized(values.words, values.known)
        if name in flags_of_eval and name not in _OWN
    ]
    more = [f'--{name}={value}' for name, value in flags.items()]
    parsed = parse_flags(find_program('eval'), [f'--checkpoint_dir={path}', '--eval_logdir=.', *more, *words])
    values.notes.extend(note for note in parsed.notes if note not in values.notes)
    made: options.EvalOptions = find_program('eval').to_options(parsed)
    if parsed.given('eval_crop_size'):
        return made
    return dataclasses.replace(made, model=dataclasses.replace(made.model, crop_size=None))  # the size of the images


def _from_manifest(run: Mapping[str, Any]) -> dict[str, str]:
    """Returns the flags of eval for the records that a training validated on, as far as it names them."""
    folder, trained = str(run.get('folder') or ''), _mapping(run.get('options'))
    dataset, validation, resize = (_mapping(trained.get(name)) for name in ('dataset', 'validation', 'resize'))
    found: dict[str, Any] = {
        'dataset_dir': dataset.get('directory'),
        'dataset': dataset.get('name'),
        'eval_split': validation.get('split'),
        **{flag: resize.get(field) for flag, field in _RESIZE.items()},
    }
    texts = {name: str(value) for name, value in found.items() if value not in (None, '')}
    return {name: seen_from_here(name, value, folder) for name, value in texts.items()}


def _mapping(value: Any) -> Mapping[str, Any]:
    """Returns an object of a run manifest; empty for anything else, as the file may come from anywhere."""
    return value if isinstance(value, Mapping) else {}
