"""Reading of run manifests (run.json), and the one that belongs to a checkpoint.

`training/run_manifest.py` writes them. Importing this module does not load TensorFlow.
"""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any

from deeplab.files import documents

FILE = 'run.json'
LARGEST_SIDE = 'largest_side'  # key of the records of a run: pixels of the longest side of their images
CLASSES = 'classes'  # key of what a run says of its classes (`DatasetDescriptor.as_json`)
BEST_FOLDER = 'best'  # of the best checkpoint, in the log folder of a training
EVAL_FOLDER = 'eval'  # of the figures of validations, there

_OWN_NAME = re.compile(r'model\.ckpt-\d+')  # of a checkpoint that training wrote

Run = dict[str, Any]


def parse(text: str) -> list[Run]:
    """Returns the runs of a run manifest, the newest last; none if the text is not one."""
    try:
        content = documents.parse_json(text)
    except documents.DocumentError:
        return []
    runs = content.get('runs') if isinstance(content, dict) else None
    return list(runs) if isinstance(runs, list) and all(map(_is_run, runs)) else []


def _is_run(value: Any) -> bool:
    """Returns whether a value of a file is a run: an object with a command and, in most files, further keys."""
    return (
        isinstance(value, dict)
        and 'command' in value
        and isinstance(value.get('first_step', 0), int)
        and isinstance(value.get('given'), dict | None)
        and isinstance(plugins := value.get('plugins', []), list)
        and all(isinstance(plugin, str) for plugin in plugins)
    )


def runs_in(folder: str) -> list[Run]:
    """Reads the runs of the run manifest in `folder`, the newest last; none if there is none that can be read."""
    try:
        return parse(pathlib.Path(folder, FILE).read_text('utf-8'))
    except (OSError, UnicodeDecodeError):
        return []


def newest_in(folder: str) -> Run | None:
    """Reads the newest run of the run manifest in `folder`; None if there is none that can be read."""
    runs = runs_in(folder)
    return runs[-1] if runs else None


def option_of(run: Mapping[str, Any], *names: str) -> Any:
    """Returns a value of the options of a run, such as `option_of(run, 'dataset', 'name')`; None if it has none.

    A file may come from anywhere: what it has may be of any type.
    """
    value = run.get('options')
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def folder_of(run: Mapping[str, Any]) -> str:
    """Returns the folder in which a run was started; empty if it is not known."""
    return str(run.get('folder') or '')


def training_folder(path: str) -> str:
    """Returns the log folder of a training run: `path` itself, or the folder of the checkpoint or of `best`."""
    folder = path if os.path.isdir(path) else os.path.dirname(path) or '.'
    absolute = os.path.abspath(folder)
    return os.path.dirname(absolute) if os.path.basename(absolute) == BEST_FOLDER else folder


def is_own_name(path: str) -> bool:
    """Returns whether a path ends in the name of a checkpoint that training writes."""
    return _OWN_NAME.fullmatch(os.path.basename(path)) is not None


def beside(path: str) -> tuple[str, Run] | None:
    """Returns the path of the run manifest of a checkpoint and the newest run in it; None if there is none.

    A manifest applies to the checkpoints that training writes to its folder and to `best` in it, not to a checkpoint of
    another name that a user has copied there.

    Args:
      path: path of a checkpoint, or of a folder of checkpoints.
    """
    folder = os.path.normpath(path)
    if not os.path.isdir(folder):
        folder, name = os.path.split(folder)
        if not is_own_name(name):
            return None
    candidates = [folder]
    if os.path.basename(os.path.abspath(folder)) == BEST_FOLDER:
        candidates.append(os.path.dirname(os.path.abspath(folder)))
    for candidate in candidates:
        run = newest_in(candidate)
        if run is not None:
            return os.path.join(candidate, FILE), run
    return None
