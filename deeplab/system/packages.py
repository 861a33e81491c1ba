"""Optional packages: whether what a choice of the user needs is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable

from deeplab.errors import OptionError


def missing(names: Iterable[str]) -> list[str]:
    """Returns the modules that cannot be found."""
    return [name for name in names if not _is_installed(name)]


def require(names: Iterable[str], chosen: str, install: str) -> None:
    """Raises `OptionError` if a module is missing.

    Args:
      names: the modules.
      chosen: what needs them, such as '--export_format=onnx'.
      install: what `pip install` needs for them; empty for the modules' names.
    """
    absent = missing(names)
    if absent:
        raise OptionError(
            f'{chosen} needs {" and ".join(absent)}, which cannot be imported. '
            f'Install it: pip install {install or " ".join(absent)}'
        )


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ModuleNotFoundError, ValueError):  # no package that contains it; a test, or a user, has replaced it by None
        return False
