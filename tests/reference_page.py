"""docs/reference.md, made from the records of the registries: `python -m tests.reference_page` writes it anew."""

import pathlib

from deeplab.registry import REGISTRIES

PAGE = pathlib.Path(__file__).parent.parent / 'docs' / 'reference.md'
INTRODUCTION = """\
# Reference

What can be chosen by name, with its parameters. A test compares this page with the records in the code;
`python -m tests.reference_page` writes it anew. `deeplab train --helpfull` shows the same, including what plugins add
([extending.md](extending.md)).
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
    return f'| `--{parameter.flag_name}` | {default} | {allowed} | {meaning} |'


if __name__ == '__main__':
    PAGE.write_text(content(), encoding='utf-8')
