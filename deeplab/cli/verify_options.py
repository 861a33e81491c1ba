"""Options of verify: one set of settings for each published evaluation."""

from __future__ import annotations

import dataclasses

from deeplab import options
from deeplab.cli.data_flags import RESIZE
from deeplab.cli.links import filled
from deeplab.cli.network_flags import HEAD, NETWORK
from deeplab.cli.parse import parse_flags
from deeplab.cli.program import find_program
from deeplab.cli.to_options import model_of_dataset
from deeplab.cli.values import Values
from deeplab.cli.words import Group, UsageError, normalized
from deeplab.zoo import catalog

_NAME = 'verify'
_STRIDE = 'output_stride'


def verify_options(values: Values) -> options.VerifyOptions:
    """Returns the options of verify.

    Raises:
      UsageError: nothing is published for the split.
    """
    given = {name for name, _ in normalized(values.words, values.known)}
    rows = _published(values)
    strides = {values[_STRIDE]} if _STRIDE in given else {row.output_stride for row in rows}
    chosen = [row for row in rows if _split(row, values) == values['eval_split'] and row.output_stride in strides]
    if not chosen:
        published = '; '.join(f'{_split(row, values)} at output stride {row.output_stride}' for row in rows)
        raise UsageError(
            f'Nothing is published for --eval_split={values["eval_split"]}'
            + (f' at --output_stride={values[_STRIDE]}' if _STRIDE in given else '')
            + f'. Known: {published}.'
        )
    return filled(
        options.VerifyOptions,
        values,
        cases=tuple(_case(row, values, given) for row in chosen),
        dataset=filled(options.DatasetOptions, values),
        preset=values['preset'],
        fetch=filled(options.FetchOptions, values),
        fits_crop_size=not values.given('eval_crop_size'),
        other_predictions=tuple(_prediction(row) for row in rows),
    )


def _published(values: Values) -> tuple[catalog.Published, ...]:
    """Returns the published evaluations, from a file or from the preset."""
    if values['published']:
        return catalog.read_published(values.path('published'))
    if not values['preset']:
        raise UsageError('verify requires --preset (a published checkpoint) or --published (a file with figures).')
    return catalog.get(values['preset']).published


def _split(row: catalog.Published, values: Values) -> str:
    return catalog.split_of(catalog.get(values['preset']), row.split) if values['preset'] else row.split


def _prediction(row: catalog.Published) -> options.PredictionOptions:
    return options.PredictionOptions(row.scales, row.flips)


def _case(row: catalog.Published, values: Values, given: set[str]) -> options.VerifyCase:
    """Returns the settings of one published evaluation, and those without the flags that override the preset."""
    stride = f'--{_STRIDE}={row.output_stride}'
    case = _settings(row, parse_flags(find_program(_NAME), [*values.words, stride]))
    flags = (*NETWORK.flags, *HEAD.flags, *Group('Sizes', RESIZE).flags)
    names = [flag.name for flag in flags] + ['eval_crop_size']
    overrides = [name for name in names if name in given and name not in ('preset', _STRIDE)]
    if not values['preset'] or not overrides:
        return case
    kept = ('preset', 'plugins', 'dataset', 'dataset_dir', 'published')
    words = [f'--{name}={text}' for name, text in normalized(values.words, values.known) if name in kept]
    published = _settings(row, parse_flags(find_program(_NAME), [*words, stride]))
    if published == case:
        return case
    shown = tuple(f'--{name}={text}' for name, text in normalized(values.words, values.known) if name in overrides)
    return dataclasses.replace(case, as_published=published, overrides=shown)


def _settings(row: catalog.Published, values: Values) -> options.VerifyCase:
    """Returns the settings of a published evaluation with the network of a command line."""
    return options.VerifyCase(
        row.miou, model_of_dataset(values), filled(options.ResizeOptions, values), _prediction(row)
    )
