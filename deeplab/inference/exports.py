"""Exports of any registered format: recognized, and opened. Importing this module does not load TensorFlow."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from typing import Any, TypeVar

from deeplab import names
from deeplab.errors import CheckpointError, OptionError, UserError
from deeplab.options import EngineOptions, EvalOptions, PredictionOptions, VisOptions, WindowOptions
from deeplab.registry import EXPORT_FORMATS, Exported, ExportFormat
from deeplab.system import packages, processors
from deeplab.wording import option

EvaluationOptions = TypeVar('EvaluationOptions', EvalOptions, VisOptions)

_LONGEST_REASON = 200  # characters


def format_of(path: str) -> ExportFormat | None:
    """Returns the format of the export at a path; None if it is none."""
    formats = [record for record in EXPORT_FORMATS.records() if record.open is not None and record.recognizes(path)]
    return formats[0] if formats else None


def is_export(path: str) -> bool:
    """Returns whether a path is an export rather than a checkpoint."""
    return format_of(path) is not None


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


def step_of(path: str) -> int:
    """Returns the step of a checkpoint, or of the checkpoint of an export; 0 for an export that does not state it."""
    if not is_export(path):
        from deeplab.core import checkpoints

        return checkpoints.step_of(path)
    with opened(path) as exported:
        return int(exported.metadata.get('global_step') or 0)


def set_fields(options: Any) -> list[str]:
    """Returns the fields of an options object that differ from their defaults, as 'Class.field'."""
    changed = [field.name for field in dataclasses.fields(options) if getattr(options, field.name) != field.default]
    return [f'{type(options).__name__}.{name}' for name in changed]


def checked(options: EvaluationOptions) -> EvaluationOptions:
    """Returns the options of eval or vis as they apply to an export; the same options for a checkpoint.

    An export predicts images of any size, in windows if they are larger than its input.

    Raises:
      CheckpointError: see `check_evaluation`.
      OptionError: see `check_evaluation`.
    """
    path = options.checkpoint_dir
    if not is_export(path):
        return options
    averages = f'{type(options).__name__}.use_moving_average' if options.use_moving_average else None
    check_evaluation(path, options.model.num_classes, options.prediction, options.engine, averages)
    model = dataclasses.replace(options.model, crop_size=None)
    return dataclasses.replace(
        options, model=model, windows=options.windows or WindowOptions(), use_moving_average=False
    )


def check_evaluation(
    path: str, num_classes: int, prediction: PredictionOptions, engine: EngineOptions, averages: str | None = None
) -> None:
    """Checks that an export can be evaluated in the place of a checkpoint.

    Args:
      path: path of the export.
      num_classes: number of classes of the data set.
      prediction: scales and flips that are asked for.
      engine: engine and precision that are asked for.
      averages: 'Class.field' of the option that asks for moving averages of the weights; None if they are not asked
        for.

    Raises:
      CheckpointError: it cannot be opened, or has other classes.
      OptionError: an option asks for what the export determines itself.
    """
    unused = [*set_fields(prediction), *set_fields(dataclasses.replace(engine, threads=None))]
    unused += [averages] if averages else []
    if unused:
        shown = ', '.join(map(option, unused))
        raise OptionError(
            f"'{path}' is an export, which has its own network and weights: {shown} cannot be set. Omit it"
        )
    with opened(path) as exported:
        classes = exported.num_classes
        if classes is not None and classes != num_classes:
            raise CheckpointError(
                f"The export '{names.shown(path)}' has {classes} classes, the data set {num_classes}. Give the "
                'data set on which it was trained'
            )
