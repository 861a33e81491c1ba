"""--plugins: imports modules of the user before the flags of a program are defined."""

from __future__ import annotations

import os
from collections.abc import Sequence

from deeplab import plugins
from deeplab.cli.logs import without_import_chatter
from deeplab.cli.program import PLUGINS, PROGRAMS
from deeplab.cli.words import UsageError, normalized
from deeplab.files import user_modules


def named_in(words: Sequence[str]) -> list[str]:
    """Returns the plugins that a command line names, in order.

    Raises:
      UsageError: --plugins has no value.
    """
    values = [value for name, value in normalized(words, {PLUGINS.name: PLUGINS}) if name == PLUGINS.name]
    if values and values[-1].startswith('-'):  # the next flag: plugins are read before the other flags are known
        raise UsageError(f'--{PLUGINS.name} has no value: write --{PLUGINS.name}=FILE.py.')
    names = [name.strip() for value in values[-1:] for name in value.split(',')]
    return [os.path.expanduser(name) for name in names if name]


def load(words: Sequence[str]) -> None:
    """Imports the plugins that a command line names.

    Raises:
      OptionError: a plugin is missing, raises an error, or has a parameter with the name of another flag.
    """
    for name in named_in(words):
        with without_import_chatter():  # plugins import TensorFlow before the program does
            plugins.load([name])
        try:
            for program in PROGRAMS:
                program.check_flags()
        except UsageError as error:
            raise UsageError(f"The plugin '{name}' cannot be used. {error}") from error


def missing(trained: Sequence[str], folder: str, words: Sequence[str]) -> list[str]:
    """Returns the plugins of a training that a command line does not name.

    Args:
      trained: the plugins as they were named.
      folder: folder in which they were named.
      words: the command line.
    """
    given = set(map(os.path.realpath, _seen_from_here(named_in(words), os.getcwd())))
    return [name for name in _seen_from_here(trained, folder) if os.path.realpath(name) not in given]


def repeated(words: Sequence[str], folder: str) -> list[str]:
    """Returns --plugins of a recorded command line, as seen from the current folder; nothing if it has none.

    Args:
      words: the command line.
      folder: folder in which it was given, if not the current one.
    """
    named = _seen_from_here(named_in(words), folder)
    return [f'--{PLUGINS.name}={",".join(named)}'] if named else []


def _seen_from_here(names: Sequence[str], folder: str) -> list[str]:
    """Returns plugins that were named in another folder, files with their paths; the names as they are without one."""
    return [str(user_modules.find(name, folder) or name) if folder else name for name in names]
