"""Registry of loggers: what a training tells an experiment tracker."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from deeplab.registry.records import Record, Registry

FINISHED, STOPPED, FAILED = 'finished', 'stopped', 'failed'  # how a training ends


class LoggedRun(NamedTuple):
    """A training that begins.

    Attributes:
      directory: folder of its checkpoints and logs. A logger that is to continue a tracker's run after a resume keeps
        the run's identity there, in a file of its own.
      step: steps done by earlier runs in the folder.
      manifest: its entry in run.json: options, command, versions, git revision, records and machine.
    """

    directory: str
    step: int
    manifest: Mapping[str, Any]

    def options(self) -> dict[str, Any]:
        """Returns the values of all options by their path, such as 'optimizer.learning_rate.base'."""
        return dict(_flat(self.manifest['options'], ''))


def _flat(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f'{prefix}{name}.')
        else:
            yield prefix + name, value


class RunLogger:
    """Base class of what logs one training; each method is optional.

    The methods are called in the thread of the training, one after the other. A logger that raises an exception is
    dropped with a warning, and the training continues.
    """

    def scalars(self, step: int, values: Mapping[str, Any]) -> None:
        """Logs `loss`, `learning_rate`, speeds and further numbers of metrics.jsonl, every --log_steps steps."""

    def summary(self, step: int, summary: Any) -> None:
        """Logs a `tf.compat.v1.Summary` with scalars, histograms and images, if `Logger.takes_summaries`."""

    def validation(self, step: int, figures: Mapping[str, float]) -> None:
        """Logs the figures of a validation by tag, such as `eval/miou_1.0_overall`, as `deeplab eval` names them."""

    def end(self, status: str, reason: str) -> None:
        """Ends the log.

        Args:
          status: FINISHED; STOPPED by a signal, to be resumed later; or FAILED.
          reason: of a failure, one line; empty otherwise.
        """


@dataclasses.dataclass(frozen=True, kw_only=True)
class Logger(Record):
    """An experiment tracker, a name in --logger.

    Attributes:
      create: called before the first step; takes the `LoggedRun`, and the parameters as keywords; returns a
        `RunLogger`.
      takes_summaries: whether it takes summaries, which the training otherwise does not compute.
    """

    create: Callable[..., RunLogger]
    takes_summaries: bool = False


LOGGERS: Registry[Logger] = Registry('logger', 'LoggerOptions.names', 'deeplab.training.loggers')
