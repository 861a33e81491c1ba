"""Plugins: Python modules of users, imported before a program runs, that register losses, networks and more.

A plugin calls `deeplab.registry.register`; docs/extending.md has examples. On the command line it is named by
`--plugins`.
"""

from __future__ import annotations

from collections.abc import Iterable

import deeplab.options  # noqa: F401 (states which names parameters must not have)
from deeplab.errors import OptionError
from deeplab.files import user_modules

_WHAT = 'plugin'


def load(names: Iterable[str]) -> None:
    """Imports plugins; each file only once, unless it has changed.

    Args:
      names: paths of Python files, their names from the current folder, or dotted names of modules.

    Raises:
      OptionError: there is no such plugin, or it raises an error; the message names file and line.
    """
    for name in names:
        if path := user_modules.find(name):
            user_modules.run_file(path, _WHAT)
        elif name.endswith(user_modules.SUFFIX) or not all(part.isidentifier() for part in name.split('.')):
            raise OptionError(
                f"The plugin '{name}' does not exist. Pass the path of a Python file, or a module's name."
            )
        elif user_modules.import_by_name(name, _WHAT) is None:
            raise OptionError(f"The plugin '{name}' cannot be found. Pass the path of its file, or install it.")
