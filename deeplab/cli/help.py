"""Help text of `deeplab PROGRAM --help`, and of --helpfull."""

from __future__ import annotations

import textwrap
from collections.abc import Collection

from deeplab import names
from deeplab.cli.program import Program, names_in_messages, with_flags
from deeplab.cli.words import Flag
from deeplab.wording import as_text

HELP_WIDTH = 100


def program_help(program: Program, is_full: bool = False, added: Collection[str] = ()) -> str:
    """Returns the text of `deeplab PROGRAM --help`, or of --helpfull, which has all flags.

    Args:
      program: the program.
      is_full: whether all flags are shown.
      added: names of flags that are always shown.
    """
    lines = [f'deeplab {program.name}: {names.lower_first(program.summary)}', '']
    lines += [
        f'Usage: deeplab {program.name}{_positional(program)} --flag=value ...',
        f'Example: deeplab {program.name} {program.example}',
    ]
    shown = set(program.flags) if is_full else _common(program) | {*added}
    names_of_flags = names_in_messages(program)
    for group in program.all_groups:
        flags = [flag for flag in group.flags if flag.name in shown]
        if flags:
            lines += ['', f'{group.title}:']
        for flag in flags:
            lines += _flag_help(with_flags(flag, names_of_flags), flag.name in program.required)
    if not is_full:
        lines += ['', f'deeplab {program.name} --helpfull lists all {len(program.flags)} flags.']
    return '\n'.join(lines)


def _common(program: Program) -> set[str]:
    """Returns the names of the flags that most users need."""
    if program.common:
        return {*program.common.split(), *program.required}
    return {flag.name for group in program.groups for flag in group.flags}


def _positional(program: Program) -> str:
    """Returns the positional argument of a program as its usage shows it: ` FILE`, ` RUN ...` or ` [NAME]`."""
    if not program.positional:
        return ''
    flag = program.flags[program.positional]
    text = flag.name.removesuffix('s').upper() + (' ...' if flag.kind.startswith('repeated') else '')
    return f' {text}' if flag.name in program.required else f' [{text}]'


def _flag_help(flag: Flag, is_required: bool) -> list[str]:
    shapes = {'string': 'TEXT', 'integer': 'N', 'float': 'X', 'enum': '|'.join(flag.choices), 'list': 'N,N'}
    shapes |= {'repeated integer': 'N', 'repeated float': 'X', 'repeated string': 'TEXT'}
    head = f'  --[no]{flag.name}' if flag.kind == 'boolean' else f'  --{flag.name}={shapes[flag.kind]}'
    if flag.kind.startswith('repeated'):
        head += ' (may be repeated)'
    default = f'Default: {as_text(flag.default) or "empty"}.'
    if flag.default is None:
        default = '' if 'not set' in flag.meaning.lower() else 'Default: not set.'
    text = f'{flag.meaning} {"Required." if is_required else default}'.rstrip()
    return [head, *textwrap.wrap(text, HELP_WIDTH, initial_indent=' ' * 6, subsequent_indent=' ' * 6)]
