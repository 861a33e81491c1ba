"""Loading of users' Python modules, with errors that name file and line."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import pathlib
import sys
import traceback
import types

from deeplab.errors import OptionError

SUFFIX = '.py'


def find(name: str, folder: str = '') -> pathlib.Path | None:
    """Returns the file of a module given by path or by dotted name; None if there is none.

    Args:
      name: such as 'birds', 'birds.py', './birds.py', 'data.birds' or 'data/birds.py'.
      folder: folder in which it is looked for; empty for the current one.
    """
    paths = [pathlib.Path(name)] if name.endswith(SUFFIX) else []
    if all(part.isidentifier() for part in name.split('.')):
        paths.append(pathlib.Path(*name.split('.')).with_suffix(SUFFIX))
    return next((pathlib.Path(folder, path) for path in paths if os.path.isfile(os.path.join(folder, path))), None)


def run_file(path: pathlib.Path, what: str) -> types.ModuleType:
    """Runs the module in a file, once for each state of the file. Its folder is first on the import path.

    Args:
      path: path of the file.
      what: what the module is, for messages, such as 'data set'.

    Raises:
      OptionError: it raises an error; the message names file and line.
    """
    try:
        return _run_file(os.path.realpath(path), os.stat(path).st_mtime_ns)
    except Exception as error:
        raise OptionError(f'The {what} {path} cannot be loaded: {_where(error)}.') from error


@functools.cache
def _run_file(path: str, changed: int) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem, path)
    assert spec is not None and spec.loader is not None  # it ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(path))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(os.path.dirname(path))
    return module


def import_by_name(name: str, what: str) -> types.ModuleType | None:
    """Imports a module by its dotted name; returns None if there is none.

    Args:
      name: name of the module.
      what: what the module is, for messages, such as 'data set'.

    Raises:
      OptionError: it raises an error; the message names file and line.
    """
    try:
        return importlib.import_module(name)
    except Exception as error:
        absent = error.name if isinstance(error, ModuleNotFoundError) else None
        if absent is not None and f'{name}.'.startswith(f'{absent}.'):
            return None
        raise OptionError(f"The {what} '{name}' cannot be loaded: {_where(error)}.") from error


def _where(error: Exception) -> str:
    """Returns the innermost file and line of the user's own code in a traceback, and the error."""
    said = str(error).strip().rstrip('.').splitlines()
    what = f'{type(error).__name__}: {said[0]}' if said else type(error).__name__
    if isinstance(error, OptionError):  # complete by itself
        what = said[0]
    if isinstance(error, SyntaxError) and error.filename:
        return f'{error.filename}, line {error.lineno}: {type(error).__name__}: {error.msg}'
    package = str(pathlib.Path(__file__).parents[1])
    libraries = (package, os.path.dirname(os.__file__), '<')  # '<' of frozen and generated code
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(libraries)]
    own = [frame for frame in frames if 'site-packages' not in frame.filename]
    return f'{own[-1].filename}, line {own[-1].lineno}: {what}' if own else what
