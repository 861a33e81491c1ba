"""Repeats the flags of an earlier run: --from=run.json."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

from deeplab.cli import plugin_flags
from deeplab.cli.program import find_program
from deeplab.cli.words import UsageError, normalized
from deeplab.core import scopes
from deeplab.datasets import descriptor
from deeplab.files import run_manifests
from deeplab.training import run_manifest

# Flags whose value is a path that training reads, a name or such a path (which has one of the suffixes), or a path
# that it writes.
_READ_PATHS = ('dataset_dir', 'unlabeled_dir', 'tf_initial_checkpoint', 'dense_prediction_cell_json')
_READ_FILES = {'dataset': descriptor.PATH_SUFFIXES, 'checkpoint_rename_map': scopes.FILE_SUFFIXES}
_WRITTEN_PATHS = ('train_logdir', 'profile_logdir', 'log_dir')


def with_repeated(words: Sequence[str], omitted: Collection[str] = ()) -> list[str]:
    """Returns the flags of the run in --from=FILE, followed by the given words, which override them.

    An empty value resets a flag to "not set", also if a recipe or preset of the run sets it. `omitted` flags of the run
    are not repeated.
    """
    flags = find_program('train').flags
    given = dict(normalized(words, flags))
    if 'from' not in given:
        return list(words)
    run = run_manifest.load(os.path.expanduser(given['from']))
    if not run['command']:
        raise UsageError(f'--from={given["from"]} cannot be repeated: that run was started from Python, without flags.')
    folder = run_manifests.folder_of(run)
    plugins = []
    if 'plugins' not in given:  # the user repeats a run of their own
        plugins = plugin_flags.repeated(run['command'], folder if folder != os.getcwd() else '')
        plugin_flags.load(plugins)
        flags = find_program('train').flags
    recorded = [word for word in run['command'] if not word.startswith('--plugins=')]
    repeated = [
        f'--{name}={seen_from_here(name, value, folder)}' if name in flags else name
        for name, value in normalized(recorded, flags)
        if name not in given and name not in omitted
    ]
    return [*plugins, *repeated, *words]


def with_run_of_checkpoints(words: Sequence[str]) -> list[str]:
    """Returns the flags of the training that wrote the first checkpoint of a command line, followed by the words."""
    flags = find_program('average_checkpoints').flags
    read = normalized(words, flags)
    others = flags.keys() - {'checkpoints'}
    paths = (value if name == 'checkpoints' else name for name, value in read if name not in others)
    path = next((os.path.expanduser(path) for path in paths if path and not path.startswith('-')), None)
    beside = None if path is None or any(name == 'from' for name, _ in read) else run_manifests.beside(path)
    return with_repeated([*words, *([f'--from={beside[0]}'] if beside else [])])


def seen_from_here(name: str, value: str, folder: str) -> str:
    """Returns the value of a flag that was given in `folder`; a relative path becomes absolute."""
    there = os.path.join(folder, os.path.expanduser(value))
    is_path = name in _WRITTEN_PATHS
    if name in _READ_PATHS or value.endswith(_READ_FILES.get(name, ())):
        is_path = os.path.exists(there) or os.path.exists(f'{there}.index')
    return there if value and is_path and folder != os.getcwd() else value
