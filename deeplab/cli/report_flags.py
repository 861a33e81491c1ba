"""Flags and options of report and compare."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence

from deeplab import options
from deeplab.cli.links import filled, flag_of, of
from deeplab.cli.parse import parse_flags
from deeplab.cli.program import find_program
from deeplab.cli.repeat import seen_from_here
from deeplab.cli.shared_flags import HEAD, NETWORK, PREDICTION, RESIZE_FLAGS, WINDOWS, data_group, engine_group
from deeplab.cli.to_options import given_network
from deeplab.cli.values import Values
from deeplab.cli.words import Flag, Group, UsageError
from deeplab.files import run_manifests
from deeplab.wording import as_text

# Flags with which a report may have images of other sizes than a validation.
_OTHER_SIZES = frozenset(('dataset_dir', 'eval_split', *RESIZE_FLAGS, 'window', 'window_stride', 'whole_pixels'))
# Where the options of a training have the records that it validated on, by flags of eval.
_IN_MANIFEST = {
    'dataset_dir': ('dataset', 'directory'),
    'dataset': ('dataset', 'name'),
    'eval_split': ('validation', 'split'),
    **{flag: ('resize', field.partition('.')[2]) for flag, field in RESIZE_FLAGS.items()},
}
_CROP_SIZE = (
    'Height and width, in pixels, of the network input: 513,513, or one flag for each. Not set: the validation size '
    'of the training or, with several runs, if it was the same for all; else the smallest suitable size into which '
    'every image fits.'
)


def report_groups(runs: str, output: str, without: Sequence[str] = ()) -> tuple[Group, ...]:
    """Returns the flags of a program that writes a page.

    Args:
      runs: meaning of its positional words.
      output: name of its page, in the current folder.
      without: fields of its options without a flag here.
    """
    return (
        Group(
            'Page',
            Flag('run', 'repeated string', None, f'{runs}; --run= may be omitted.', is_path=True),
            flag_of(options.ReportOptions, 'path', default=output),
            of(options.ReportOptions, without=['path', *without]),
        ),
        data_group('eval', 'val', of(options.EvalOptions, 'batch_size'), default=None, meaning=_CROP_SIZE),
        PREDICTION,
        WINDOWS,
        Group('Network; if not given, as in the run.json of each run', of(options.EvalOptions, 'use_moving_average')),
        NETWORK,
        HEAD,
        engine_group(),
    )


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
    given = dict(values.line)
    manifests = {path: run_manifests.beside(path) for path in values.texts('run')}
    # Figures of validations are found again in the size that all runs set for them, unless images have other sizes.
    sizes = {_crop_of_validations(beside[1]) if beside else '' for beside in manifests.values()}
    crop = {'eval_crop_size': sizes.pop()} if len(sizes) == 1 and _OTHER_SIZES.isdisjoint(given) else {}
    runs = []
    for path in values.texts('run'):
        beside = manifests[path]
        trained = {**_from_manifest(beside[1]), **crop} if beside else {}
        runs.append(_run(path, values, {name: value for name, value in trained.items() if value and name not in given}))
    return filled(options.ReportOptions, values, runs=tuple(runs), command=('deeplab', program, *values.words))


def _from_manifest(run: run_manifests.Run) -> dict[str, str]:
    """Returns the flags of eval for the records that a training validated on; empty texts for what it does not name."""
    values = {name: run_manifests.option_of(run, *place) for name, place in _IN_MANIFEST.items()}
    return {
        name: seen_from_here(name, str(value or ''), run_manifests.folder_of(run)) for name, value in values.items()
    }


def _crop_of_validations(run: run_manifests.Run) -> str:
    """Returns the crop size that a training set for its validations, as a flag has it; empty if it set none."""
    size = run_manifests.option_of(run, 'validation', 'crop_size')
    return as_text(size) if isinstance(size, list) and len(size) == 2 else ''


def _run(path: str, values: Values, taken: Mapping[str, str]) -> options.ReportedRun:
    """Returns a run with its evaluation: as the command line says, otherwise as the flags `taken` from its run.json."""
    directory = values.path('dataset_dir') or taken.get('dataset_dir')
    if not directory:
        return options.ReportedRun(
            path, no_records=f'--dataset_dir is not given, and {path} has no run.json that names the records.'
        )
    if not values['dataset_dir'] and not os.path.isdir(directory):
        return options.ReportedRun(
            path, no_records=f"The records of run.json, in '{directory}', do not exist here; set --dataset_dir."
        )
    network = None if run_manifests.beside(path) else given_network(values)
    return options.ReportedRun(path, _evaluation(path, taken, values), network=network)


def _evaluation(path: str, flags: Mapping[str, str], values: Values) -> options.EvalOptions:
    """Returns the options of eval for one run, and adds its notes to the program's notes."""
    flags_of_eval = find_program('eval').flags
    words = [f'--{name}={value}' for name, value in values.line if name in flags_of_eval]
    more = [f'--{name}={value}' for name, value in flags.items()]
    parsed = parse_flags(find_program('eval'), [f'--checkpoint_dir={path}', '--eval_logdir=.', *more, *words])
    for found, told in ((parsed.notes, values.notes), (parsed.warnings, values.warnings)):
        told.extend(text for text in found if text not in told)
    made: options.EvalOptions = find_program('eval').to_options(parsed)
    if parsed.given('eval_crop_size'):
        return made
    return dataclasses.replace(made, model=dataclasses.replace(made.model, crop_size=None))  # the size of the images
