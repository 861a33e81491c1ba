"""Exports of any registered format: recognized, and opened. Importing this module does not load TensorFlow."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from deeplab import names
from deeplab.errors import CheckpointError, UserError
from deeplab.registry import EXPORT_FORMATS, Exported, ExportFormat
from deeplab.system import packages, processors

_LONGEST_REASON = 200  # characters


def format_of(path: str) -> ExportFormat | None:
    """Returns the format of the export at a path; None if it is none."""
    formats = [record for record in EXPORT_FORMATS.records() if record.open is not None and record.recognizes(path)]
    return formats[0] if formats else None


@contextlib.contextmanager
def opened(path: str, threads: int | None = None, record: ExportFormat | None = None) -> Iterator[Exported]:
    """Opens an export of any format.

    Args:
      path: path of the export.
      threads: number of threads; None for as many as TensorFlow may have in this process.
      record: format of the export; None to recognize it.

    Raises:
      CheckpointError: it cannot be opened.
      OptionError: a package that runs its format is not installed.
    """
    record = record or format_of(path)
    if record is None:
        raise CheckpointError(not_recognized(path))
    assert record.open is not None
    packages.require(record.runs_with, f"The export '{path}' ({record.name})", record.install)
    with contextlib.ExitStack() as stack:
        try:
            exported = stack.enter_context(record.open(path, threads or _limit()))
        except UserError:
            raise
        except Exception as error:  # of the runtime, which has types of its own
            text = ' '.join(str(error).split())[:_LONGEST_REASON] or type(error).__name__
            raise CheckpointError(f"The export '{names.shown(path)}' cannot be loaded ({text})") from None
        yield exported


def not_recognized(path: str) -> str:
    """Returns the message about a path that is no export."""
    nouns = [each.noun for each in EXPORT_FORMATS.records() if each.open is not None]
    state = 'is no export that can be run' if os.path.exists(path) else 'cannot be loaded (it does not exist)'
    return f"The export '{names.shown(path)}' {state}. Give {', '.join(nouns[:-1])} or {nouns[-1]}"


def default_threads() -> int:
    """Returns the number of threads with which an export runs if none is given."""
    return _limit() or processors.available_cores()


def _limit() -> int | None:
    """Returns the number of threads to which --num_threads or the user limits TensorFlow; None for no limit."""
    text = os.environ.get('TF_NUM_INTRAOP_THREADS', '')
    return int(text) or None if text.isdecimal() else None
