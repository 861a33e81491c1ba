"""Network flags from the run manifest (run.json) of the training that wrote a checkpoint.

Importing this module does not load TensorFlow.
"""

from __future__ import annotations

import os
import re
from typing import Any

from deeplab import common
from deeplab.training import run_manifest

_BEST_FOLDER = 'best'  # of the best checkpoint, in the log folder of a training
_OWN_NAME = re.compile(r'model\.ckpt-\d+')  # of a checkpoint that training wrote


def run_beside(path: str) -> tuple[str, run_manifest.Run] | None:
    """Returns the path of the run manifest of a checkpoint and the newest run in it; None if there is none.

    A manifest applies to the checkpoints that training writes to its folder and to `best` in it, not to a checkpoint of
    another name that a user has copied there.

    Args:
      path: path of a checkpoint, or of a folder of checkpoints.
    """
    folder = os.path.normpath(path)
    if not os.path.isdir(folder):
        folder, name = os.path.split(folder)
        if not _OWN_NAME.fullmatch(name):
            return None
    candidates = [folder]
    if os.path.basename(os.path.abspath(folder)) == _BEST_FOLDER:
        candidates.append(os.path.dirname(os.path.abspath(folder)))
    for candidate in candidates:
        run = run_manifest.newest_in(candidate)
        if run is not None:
            return os.path.join(candidate, run_manifest.FILE), run
    return None


def facts_of_data(run: run_manifest.Run) -> dict[str, Any]:
    """Returns the numbers of classes and channels of a run's data set, by the names of flags of export_model."""
    model = (run.get('options') or {}).get('model') or {}
    classes = (model.get('outputs_to_num_classes') or {}).get(common.OUTPUT_TYPE)
    found = {'num_classes': classes, 'image_channels': model.get('input_channels')}
    return {name: value for name, value in found.items() if isinstance(value, int)}
