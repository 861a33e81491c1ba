"""The data set of a training, as its run.json names it."""

from __future__ import annotations

import os

from deeplab.datasets import descriptor
from deeplab.files import run_manifests
from deeplab.registry.datasets import DATASETS


def name_in(run: run_manifests.Run) -> str | None:
    """Returns the name of a run's data set as its command line had it: that of a data set, a module or a file."""
    name = ((run.get('options') or {}).get('dataset') or {}).get('name')
    return name if isinstance(name, str) else None


def dataset_of(file: str, run: run_manifests.Run) -> str | None:
    """Returns the data set that a run.json, which may be from anywhere, names; None for one that would run code.

    Args:
      file: path of the run.json.
      run: the run in it.
    """
    dataset = name_in(run)
    if dataset is None:
        return None
    if dataset in DATASETS.names():
        return dataset
    if dataset.endswith(descriptor.FILE_SUFFIXES):
        folders = (os.path.dirname(file), str(run.get('folder') or ''), '')
        candidates = [os.path.join(folder, dataset) for folder in folders]
        return next((path for path in candidates if os.path.isfile(path)), None)
    return None
