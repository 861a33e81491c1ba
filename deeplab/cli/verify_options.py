"""Options of verify: one set of settings for each published evaluation."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from deeplab import options
from deeplab.cli.data_flags import RESIZE
from deeplab.cli.links import filled
from deeplab.cli.network_flags import HEAD, NETWORK
from deeplab.cli.parse import parse_flags
from deeplab.cli.program import find_program
from deeplab.cli.to_options import dataset_and_model
from deeplab.cli.values import Values
from deeplab.cli.words import Group, UsageError
from deeplab.zoo import catalog

_STRIDE = 'output_stride'


def verify_options(values: Values) -> options.VerifyOptions:
    """Returns the options of verify.

    Raises:
      UsageError: nothing is published for the split.
    """
    rows = _published(values)
    has_stride = any(name == _STRIDE for name, _ in values.line)
    chosen = [row for row in rows if row.split == values['eval_split']]
    if has_stride:
        chosen = [row for row in chosen if row.output_stride == values[_STRIDE]]
    if not chosen:
        published = '; '.join(f'{row.split} at output stride {row.output_stride}' for row in rows)
        raise UsageError(
            f'Nothing is published for --eval_split={values["eval_split"]}'
            + (f' at --output_stride={values[_STRIDE]}' if has_stride else '')
            + f'. Known: {published}.'
        )
    return filled(
        options.VerifyOptions,
        values,
        cases=tuple(_case(row, values) for row in chosen),
        dataset=dataset_and_model(values)[0],
        preset=values['preset'],
        fits_crop_size=not values.given('eval_crop_size'),
        other_predictions=tuple(options.PredictionOptions(row.scales, row.flips) for row in rows),
    )


def _published(values: Values) -> list[catalog.Published]:
    """Returns the published evaluations, from a file or from the preset, with the names of splits in the records."""
    preset = catalog.get(values['preset']) if values['preset'] else None
    if values['published']:
        rows = catalog.read_published(values.path('published'))
    elif preset is not None:
        rows = preset.published
    else:
        raise UsageError('verify requires --preset (a published checkpoint) or --published (a file with figures).')
    return [dataclasses.replace(row, split=catalog.split_of(preset, row.split)) if preset else row for row in rows]


def _case(row: catalog.Published, values: Values) -> options.VerifyCase:
    """Returns the settings of one published evaluation, and those without the flags that override the preset."""
    case = _settings(row, values.words)
    flags = (*NETWORK.flags, *HEAD.flags, *Group('Sizes', RESIZE).flags)
    names = {flag.name for flag in flags} | {'eval_crop_size'}
    overrides = tuple(f'--{name}={text}' for name, text in values.line if name in names - {'preset', _STRIDE})
    if not values['preset'] or not overrides:
        return case
    kept = ('preset', 'plugins', 'dataset', 'dataset_dir', 'published')
    published = _settings(row, [f'--{name}={text}' for name, text in values.line if name in kept])
    return case if published == case else dataclasses.replace(case, as_published=published, overrides=overrides)


def _settings(row: catalog.Published, words: Sequence[str]) -> options.VerifyCase:
    """Returns the settings of a published evaluation with the network of a command line."""
    values = parse_flags(find_program('verify'), [*words, f'--{_STRIDE}={row.output_stride}'])
    prediction = options.PredictionOptions(row.scales, row.flips)
    _, model = dataset_and_model(values)
    return options.VerifyCase(row.miou, model, filled(options.ResizeOptions, values), prediction)
