"""The folder of a cross-validation: the log folder of each fold's training, and a file that lists them.

    DIR/cross_validation.json   what is written and read here
    DIR/fold1 ... DIR/foldN     log folder of the training without that fold: checkpoints, run.json

Importing this module does not load TensorFlow.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

from deeplab.errors import CheckpointError, DataError
from deeplab.files import documents, writing
from deeplab.options import split_of_fold
from deeplab.wording import option

FILE = 'cross_validation.json'
_FORMAT = 1


@dataclasses.dataclass(frozen=True)
class Fold:
    """A fold whose network is trained and evaluated.

    Attributes:
      number: which fold, from 1.
      split: its split of the records, on which the network was not trained, such as fold1.
      train_logdir: log folder of the training on the other folds.
      checkpoint: path of the checkpoint that was evaluated, in that folder.
      use_moving_average: whether its moving averages (EMA) of the weights were evaluated.
      miou: mean IoU on the fold, from 0 to 1; None if no class has pixels.
      metrics: path of the JSON file with all metrics on the fold; None if there is none.
    """

    number: int
    split: str
    train_logdir: str
    checkpoint: str
    use_moving_average: bool
    miou: float | None
    metrics: str | None = None


@dataclasses.dataclass(frozen=True)
class CrossValidation:
    """A cross-validation, finished or not.

    Attributes:
      folder: its folder; the paths of `folds` are in it, and begin with it.
      number_of_folds: how many folds the records have.
      folds: those that are finished, by number.
      settings: what each run in the folder must have in common, JSON values by name.
      results: figures over all folds, JSON values by name; empty until the last fold is finished.
    """

    folder: str
    number_of_folds: int
    folds: tuple[Fold, ...] = ()
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    results: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def is_finished(self) -> bool:
        """Whether the networks of all folds are trained and evaluated."""
        return [fold.number for fold in self.folds] == list(range(1, self.number_of_folds + 1))


_PATHS = ('train_logdir', 'checkpoint', 'metrics')  # of a fold; relative in the file, so that the folder can be moved


def is_in(folder: str) -> bool:
    """Returns whether a folder has the file of a cross-validation."""
    return os.path.isfile(os.path.join(folder, FILE))


def require_other(path: str) -> None:
    """Raises `CheckpointError` if a path where a checkpoint is expected is the folder of a cross-validation."""
    if is_in(path):
        fold = os.path.join(path, split_of_fold(1))
        raise CheckpointError(
            f"'{path}' is the folder of a cross-validation. Pass the training run of one fold, such as '{fold}', or "
            f'use all folds with {option("PredictOptions.ensemble")}'
        )


def read(folder: str) -> CrossValidation:
    """Reads a finished cross-validation.

    Raises:
      DataError: there is none in the folder, it is not finished, or its file is damaged.
    """
    cross_validation = load(folder)
    if cross_validation is None:
        raise DataError(
            f"'{folder}' is not the folder of a cross-validation: it has no {FILE}. Pass the output folder of "
            'deeplab cross_validate.'
        )
    if not cross_validation.is_finished:
        number = cross_validation.number_of_folds
        raise DataError(
            f"The cross-validation in '{folder}' is not finished: {len(cross_validation.folds)} of {number} folds are. "
            'Run the same deeplab cross_validate again; it continues.'
        )
    return cross_validation


def load(folder: str) -> CrossValidation | None:
    """Reads a cross-validation, finished or not; None if the folder has none.

    Raises:
      DataError: its file is damaged.
    """
    path = os.path.join(folder, FILE)
    try:
        content = documents.load(path)
        folds = [_fold(folder, each) for each in content['folds']]
        folds.sort(key=lambda fold: fold.number)
        number, settings, results = content['number_of_folds'], content['settings'], content['results']
        return CrossValidation(folder, int(number), tuple(folds), dict(settings), dict(results))
    except FileNotFoundError:
        return None
    except (documents.DocumentError, KeyError, TypeError, ValueError, AttributeError) as error:
        reason = str(error) if isinstance(error, documents.DocumentError) else 'is not the file of a cross-validation'
        raise DataError(
            f"'{path}' {reason}. Remove it; deeplab cross_validate then evaluates all folds again."
        ) from None


def write(cross_validation: CrossValidation) -> str:
    """Writes the file of a cross-validation, which changes as a whole or not at all; returns its path.

    Raises:
      OSError: it cannot be written.
    """
    folder = cross_validation.folder
    folds = [dataclasses.asdict(fold) for fold in cross_validation.folds]
    for fold in folds:
        fold |= {name: os.path.relpath(fold[name], folder) for name in _PATHS if fold[name] is not None}
    content = {
        'format': _FORMAT,
        'number_of_folds': cross_validation.number_of_folds,
        'folds': folds,
        'results': dict(cross_validation.results),
        'settings': dict(cross_validation.settings),
    }
    path = os.path.join(folder, FILE)
    writing.write(path, json.dumps(content, indent=1) + '\n')
    return path


def _fold(folder: str, content: Mapping[str, Any]) -> Fold:
    """Returns a fold of the file; raises `KeyError`, `TypeError` or `AttributeError` if it is none."""
    values = {field.name: content[field.name] for field in dataclasses.fields(Fold)}
    return Fold(**values | {name: os.path.join(folder, values[name]) for name in _PATHS if values[name] is not None})
