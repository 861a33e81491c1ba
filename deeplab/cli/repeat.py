"""--from=run.json: the flags of an earlier run, as part of a new line."""

from __future__ import annotations

import os
from collections.abc import Sequence

from deeplab.cli.program import find_program
from deeplab.cli.words import (
    UsageError,
    normalised,
)
from deeplab.core import scopes
from deeplab.datasets import descriptor
from deeplab.training import run_manifest

# Flags whose value is a path; what training reads (some of it by another name too, which only its ending tells from a
# file), and what it writes.
_READ_PATHS = ('dataset_dir', 'tf_initial_checkpoint', 'dense_prediction_cell_json')
_READ_FILES = {'dataset': descriptor.PATH_SUFFIXES, 'checkpoint_rename_map': scopes.FILE_SUFFIXES}
_WRITTEN_PATHS = ('train_logdir', 'profile_logdir')


def with_repeated(words: Sequence[str]) -> list[str]:
    """Lets the flags of the run that --from=FILE names stand before those of the line; one that it has wins.

    One that it has without a value, and that may be not set, stands on neither.
    """
    known = find_program('train').flags
    given = dict(normalised(words, known))
    if 'from' not in given:
        return list(words)
    unset = {name for name, value in given.items() if not value and name in known and known[name].default is None}
    run = run_manifest.load(os.path.expanduser(given['from']))
    if not run['command']:
        raise UsageError(f'--from={given["from"]}: that run was started from Python; there is no line to repeat.')
    repeated = [
        f'--{name}={seen_from_here(name, value, run.get("folder", ""))}' if name in known else name
        for name, value in normalised(run['command'], known)
        if name not in given
    ]
    empty = {f'{dashes}{name}=' for name in unset for dashes in ('-', '--')}
    return [*repeated, *(word for word in words if word not in empty)]


def seen_from_here(name: str, value: str, folder: str) -> str:
    """The value of a flag on a line that was given in `folder`: a relative path becomes one that leads there."""
    there = os.path.join(folder, os.path.expanduser(value))
    is_path = name in _WRITTEN_PATHS
    if name in _READ_PATHS or value.endswith(_READ_FILES.get(name, ())):
        is_path = os.path.exists(there) or os.path.exists(f'{there}.index')
    return there if value and is_path and folder != os.getcwd() else value
