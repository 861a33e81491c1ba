"""--plugins: imports modules of the user before the flags of a program are defined."""

from __future__ import annotations

import os
from collections.abc import Sequence

from deeplab import plugins
from deeplab.cli.log_flags import LOG
from deeplab.cli.words import Flag, Group, normalized

_PLUGINS = Flag(
    'plugins',
    'string',
    None,
    'Comma-separated Python files or modules to import first: what they register, such as a loss or a backbone, is '
    'known by name to all flags. Not set: none.',
)
EVERY_PROGRAM = (Group('Plugins', (_PLUGINS,)), LOG)


def named_in(words: Sequence[str]) -> list[str]:
    """Returns the plugins that a command line names, in order.

    Args:
      words: the command line without the program's name.
    """
    values = [value for name, value in normalized(words, {_PLUGINS.name: _PLUGINS}) if name == _PLUGINS.name]
    names = [name.strip() for value in values[-1:] for name in value.split(',')]
    return [os.path.expanduser(name) for name in names if name]


def load(words: Sequence[str]) -> None:
    """Imports the plugins that a command line names.

    Raises:
      OptionError: a plugin is missing or raises an error.
    """
    plugins.load(named_in(words))


def without(words: Sequence[str]) -> list[str]:
    """Returns the words of a recorded command line, whose flags have the form --NAME=VALUE, without --plugins."""
    return [word for word in words if not word.startswith(f'--{_PLUGINS.name}=')]
