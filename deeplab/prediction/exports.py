"""Exports of any registered format: recognized, and opened. Importing this module does not load TensorFlow."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from deeplab.errors import CheckpointError, UserError
from deeplab.registry import EXPORT_FORMATS, Exported, ExportFormat
from deeplab.utils import names, packages

_LONGEST_REASON = 200  # characters


def format_of(path: str) -> ExportFormat | None:
    """Returns the format of the export at a path; None if it is none."""
    found = [record for record in EXPORT_FORMATS.records() if record.open is not None and record.recognizes(path)]
    return found[0] if found else None


def is_export(path: str) -> bool:
    """Returns whether a path is an export rather than a checkpoint."""
    return format_of(path) is not None


@contextlib.contextmanager
def opened(path: str, threads: int | None = None, record: ExportFormat | None = None) -> Iterator[Exported]:
    """Opens an export of any format.

    Args:
      path: its file or folder.
      threads: number of threads; None for all cores.
      record: its format; None to recognize it.

    Raises:
      CheckpointError: it cannot be opened.
      OptionError: a package that runs its format is not installed.
    """
    record = record or format_of(path)
    if record is None:
        known = ', '.join(each.noun for each in EXPORT_FORMATS.records() if each.open is not None)
        state = 'is no export that can be run' if os.path.exists(path) else 'cannot be loaded (it does not exist)'
        raise CheckpointError(f"The export '{names.shown(path)}' {state}. Give {known}")
    assert record.open is not None
    packages.require(record.runs_with, f"The export '{path}' ({record.name})", record.install)
    with contextlib.ExitStack() as stack:
        try:
            exported = stack.enter_context(record.open(path, threads))
        except UserError:
            raise
        except Exception as error:  # of the runtime, which has types of its own
            text = ' '.join(str(error).split())[:_LONGEST_REASON] or type(error).__name__
            raise CheckpointError(f"The export '{names.shown(path)}' cannot be loaded ({text})") from None
        yield exported
