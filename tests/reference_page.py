"""docs/reference.md and docs/api_options.md, made from records and declarations: `python -m tests.reference_page`."""

import dataclasses
import inspect
import pathlib
import re

from deeplab import cli, options
from deeplab.options import fields
from deeplab.options.parameters import OptionsWithSettings
from deeplab.registry import REGISTRIES

DOCS = pathlib.Path(__file__).parent.parent / 'docs'
PAGE = DOCS / 'reference.md'
OPTIONS_PAGE = DOCS / 'api_options.md'
OPTIONS_INTRODUCTION = """\
# Options in Python

The options of the programs are frozen dataclasses in `deeplab.options`, which check their values when they are created.
A flag of the command line sets a field of one of them. The parameters of what is chosen by name, plugins included, are
values of `settings`: `LossOptions(formula='focal', settings={'focal_gamma': 3.0})`; they are attributes, too. A test
compares this page with the declarations in the code; `python -m tests.reference_page` regenerates it.
"""
THEMES = {
    'Data': ('data', 'builders'),
    'Network': ('network',),
    'Training': ('training', 'unlabeled', 'loss', 'optimization', 'machines'),
    'Evaluation and visualization': ('inference', 'verification', 'panoptic', 'reports'),
    'Prediction': ('prediction',),
    'Export': ('export',),
    'Tools': ('doctor', 'tools', 'benchmark'),
}
INTRODUCTION = """\
# Reference

Losses, optimizers, backbones and other components that flags select by name, with their parameters. A test compares
this page with the records in the code; `python -m tests.reference_page` regenerates it. `deeplab train --helpfull`
shows the same, including what plugins add ([extending.md](extending.md)).
"""
TITLES = {
    'loss': ('Losses', '`--loss`'),
    'optimizer': ('Optimizers', '`--optimizer`'),
    'learning policy': ('Learning rate schedules', '`--learning_policy`'),
    'augmentation': ('Augmentations', 'each is switched on by its parameters'),
    'backbone': ('Backbones', '`--model_variant`'),
    'head': ('Heads', 'tried in this order; the first that applies to the options is used'),
    'metric': ('Metrics', '`--metrics` of eval'),
    'export format': ('Export formats', '`--export_format`'),
    'engine': ('Inference engines', '`--engine`'),
    'data set': ('Data sets', '`--dataset`'),
    'task': ('Tasks', '`--task`'),
    'preprocessing': ('Classifier preprocessing', '`--preprocessing_name`'),
    'logger': ('Experiment trackers', '`--logger`'),
}


def content() -> str:
    """Returns the text of the page."""
    return '\n'.join([INTRODUCTION, *(_section(registry) for registry in REGISTRIES.values())])


def _section(registry):
    title, flag = TITLES[registry.kind]
    lines = [f'## {title}', '', f'Flag: {flag}.' if flag.startswith('`') else f'{flag.capitalize()}.', '']
    lines += ['| name | description | source |', '|---|---|---|']
    lines += [f'| `{record.name}` | {record.summary} | {record.source} |' for record in registry.records()]
    parameters = registry.parameters()
    if parameters:
        lines += ['', '| flag | default | range | meaning |', '|---|---|---|---|']
        lines += [_parameter(parameter, registry.meaning_of(parameter)) for parameter in parameters.values()]
    return '\n'.join([*lines, ''])


def _parameter(parameter, meaning):
    allowed = parameter.range or ', '.join(parameter.choices)
    default = str(parameter.default).lower() if isinstance(parameter.default, bool) else parameter.default
    meaning = re.sub(r'\{(\w+)\}', r'`--\1`', meaning)
    return f'| `--{parameter.flag_name}` | {default} | {allowed} | {meaning} |'


def options_content() -> str:
    """Returns the text of the page about options."""
    kinds = [kind for kind in vars(options).values() if inspect.isclass(kind) and issubclass(kind, fields.Options)]
    lines = [OPTIONS_INTRODUCTION]
    for title, modules in THEMES.items():
        lines += [f'## {title}', '']
        for module in modules:
            of_module = [kind for kind in kinds if kind.__module__ == f'deeplab.options.{module}']
            for kind in sorted(of_module, key=lambda kind: inspect.getsourcelines(kind)[1]):
                lines += _options_section(kind)
    return '\n'.join(lines)


def _options_section(kind):
    """Yields the lines about an options class; inherited fields are listed with the class that declares them."""
    inherited = {
        name for base in kind.__bases__ if dataclasses.is_dataclass(base) for name in vars(base)['__dataclass_fields__']
    }
    declared = [each for each in fields.declarations(kind).values() if each.name not in inherited]
    own = [field for field in dataclasses.fields(kind) if field.name not in inherited]
    parts = [field for field in own if 'Options' in str(field.type)]
    rows = [f'| `{field.name}` | | | | `{field.type}` |'.replace(' | None', ' or None') for field in parts]
    rows += [_option(each, kind) for each in declared]
    if issubclass(kind, OptionsWithSettings):
        kinds = ', '.join(f'{registry.kind}' for registry in kind.registries)
        rows.append(f'| `settings` | | | | Values of [parameters](reference.md) by name: {kinds}. |')
    summary = inspect.getdoc(kind).split('\n\n')[0].replace('\n', ' ')
    table = ['| field | default | allowed | flag | meaning |', '|---|---|---|---|---|', *rows] if rows else []
    return [f'### {kind.__name__}', '', summary, '', *table, *([''] if table else [])]


def _option(each, kind):
    default = (
        'required' if each.default is dataclasses.MISSING else 'not set' if each.default in (None, ()) else each.default
    )
    allowed = each.range or ', '.join(each.allowed)
    names = NAMES.get(f'{kind.__name__}.{each.name}', [])
    text = each.text.replace('; 0: ', '; `None` (as a flag 0): ') if each.unset else each.text
    meaning = fields.with_names(fields.qualified(text, kind.__name__), lambda field: f'`{field}`').replace('|', '\\|')
    return f'| `{each.name}` | {default} | {allowed} | {", ".join(f"`--{name}`" for name in names)} | {meaning} |'


def _names():
    """Returns the names of flags by fields, of all programs."""
    names: dict[str, list[str]] = {}
    for program in cli.PROGRAMS:
        for field, name in program.flag_names.items():
            # TF-Slim's programs name flags of other programs for messages: "NAME (of deeplab train)".
            if ' (of ' not in name and name not in names.setdefault(field, []):
                names[field].append(name)
    return names


NAMES = _names()

if __name__ == '__main__':
    OPTIONS_PAGE.write_text(options_content(), encoding='utf-8')
    PAGE.write_text(content(), encoding='utf-8')
