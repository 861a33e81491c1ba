"""What tasks choose for a checkpoint on a split for validation, such as thresholds: a file beside the checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from absl import logging

from deeplab.core import checkpoints
from deeplab.errors import DataError
from deeplab.files import documents, writing

_SPLITS = 'val'  # first part of the names of splits for validation


def load(checkpoint: str) -> dict[str, Any]:
    """Returns what the tasks have chosen for a checkpoint, by name of the task; empty if there is no such file.

    It is for `datasets.task_data.context_of`, and for the metadata of an export.

    Raises:
      DataError: the file is broken.
    """
    path = checkpoint + checkpoints.CALIBRATION
    try:
        content = documents.load(path)
    except FileNotFoundError:
        return {}
    except documents.DocumentError as error:
        raise DataError(f"'{path}' {error}. Remove it, and evaluate the checkpoint again.") from None
    return content if isinstance(content, dict) else {}


def is_for_validation(split: str) -> bool:
    """Returns whether choices on a split are for predictions: its name begins with "val".

    Choices on a training split would be too good, and choices on a test split would be learned from the test.
    """
    return split.startswith(_SPLITS)


def save(checkpoint: str, calibration: Mapping[str, Any]) -> None:
    """Writes what the tasks have chosen beside its checkpoint, if there is anything."""
    if not calibration:
        return
    path = checkpoint + checkpoints.CALIBRATION
    try:
        writing.write(path, json.dumps(dict(calibration)))
    except OSError as error:  # the evaluation of a checkpoint in a folder of others goes on
        logging.warning("'%s' cannot be written (%s): predictions use the defaults.", path, error.strerror)
    else:
        logging.info('The thresholds of %s for predictions are in %s.', ' and '.join(calibration), path)
