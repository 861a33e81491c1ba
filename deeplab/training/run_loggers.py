"""The loggers of a training run: each is told what happens, and dropped with a warning if it fails."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
from absl import logging

from deeplab.errors import reason_of
from deeplab.options import LoggerOptions
from deeplab.registry import LOGGERS, LoggedRun, Logger, RunLogger
from deeplab.registry.loggers import FAILED, FINISHED, STOPPED
from deeplab.training.train_loop import Hook, TrainResult


class RunLoggers(Hook):
    """The loggers that the options name; training continues without one that raises an exception."""

    def __init__(self, options: LoggerOptions) -> None:
        """Looks the loggers up; they are created when training begins."""
        self._options = options
        self._records: list[Logger] = [LOGGERS.get(name) for name in options.names]
        self._run: LoggedRun | None = None
        self._loggers: dict[str, RunLogger] = {}

    @property
    def takes_summaries(self) -> bool:
        """Whether summaries are to be computed: for a logger that takes them and has not failed."""
        return any(record.takes_summaries for record in self._records)

    def run(self, logged: LoggedRun, train: Callable[[], TrainResult]) -> TrainResult:
        """Calls `train`, with this object as one of its hooks, and tells the loggers how it ended.

        Args:
          logged: the training.
          train: runs it.
        """
        self._run = logged
        status, reason = FAILED, ''
        try:
            result = train()
            status = STOPPED if result.status else FINISHED
            return result
        except BaseException as error:
            reason = reason_of(error)
            raise
        finally:
            self._tell(lambda logger, record: logger.end(status, reason))

    def begin(self, session: tf.compat.v1.Session, step: int) -> None:
        """Creates the loggers, of a training that is known to begin."""
        for record in list(self._records):
            self._attempt(record, functools.partial(self._create, record))

    def _create(self, record: Logger) -> None:
        assert self._run is not None
        self._loggers[record.name] = record.create(self._run, **self._options.settings_of(record))

    def scalars(self, step: int, values: Mapping[str, Any]) -> None:
        """Logs numbers of a step, see `RunLogger.scalars`."""
        self._tell(lambda logger, record: logger.scalars(step, values))

    def summary(self, step: int, summary: tf.compat.v1.Summary) -> None:
        """Logs a summary, see `RunLogger.summary`."""
        self._tell(lambda logger, record: logger.summary(step, summary) if record.takes_summaries else None)

    def validation(self, step: int, figures: Mapping[str, float | None]) -> None:
        """Logs the figures of a validation that are not None, see `RunLogger.validation`."""
        determined = {tag: value for tag, value in figures.items() if value is not None}
        self._tell(lambda logger, record: logger.validation(step, determined))

    def _tell(self, call: Callable[[RunLogger, Logger], Any]) -> None:
        """Calls a method of each logger."""
        for record in list(self._records):
            if record.name in self._loggers:
                self._attempt(record, functools.partial(call, self._loggers[record.name], record))

    def _attempt(self, record: Logger, call: Callable[[], Any]) -> None:
        """Calls a function of a logger; drops the logger with a warning if it fails."""
        try:
            call()
        except Exception as error:  # of a tracker's package, which has types of its own
            self._records.remove(record)
            logging.warning(
                'The logger %s has failed (%s: %s). Training continues without it.',
                record.name,
                type(error).__name__,
                reason_of(error),
            )
