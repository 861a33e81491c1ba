"""Options of report and compare."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from deeplab.options.fields import LocalPath, Options, PathText, declared
from deeplab.options.inference import EvalOptions

MOST_IMAGES = 500


@dataclasses.dataclass(frozen=True)
class ReportedRun:
    """One run in a report.

    Attributes:
      path: log folder of a training, or a checkpoint.
      evaluation: how its checkpoint is evaluated; None without records.
      no_records: why there are none, as a sentence; empty if there are.
      network: options of the network that are given, by 'Class.field', if its variables are to identify the others, as
        in predict; None for the network of `evaluation`.
    """

    path: str
    evaluation: EvalOptions | None = None
    no_records: str = ''
    network: Mapping[str, Any] | None = None


@dataclasses.dataclass(frozen=True)
class ReportOptions(Options):
    """Options of `deeplab report` and `deeplab compare`.

    Attributes:
      runs: the runs; others are compared with the first.
      command: words of the command line, for the page.
    """

    runs: tuple[ReportedRun, ...]
    path: LocalPath = declared(meaning='HTML file to write.', flag='output')
    images: int = declared(30, 'Largest number of images on the page, at most 500.', range=f'[1, {MOST_IMAGES}]')
    metrics_dirs: tuple[PathText, ...] = declared(
        (),
        'Folder with additional metrics-STEP.json files of a run, such as the {EvalOptions.eval_logdir} of eval; one '
        'flag per run, in the order of the runs. Not set: only the files in the run.',
        flag='metrics_dir',
        kind='repeated string',
    )
    max_miou_loss: float | None = declared(
        None,
        'Largest allowed loss of mean IoU, 0 to 1, from the first checkpoint to another one; the exit status is 1 if '
        'one loses more. Not set: no limit.',
        range='[0, inf)',
    )
    command: tuple[str, ...] = dataclasses.field(default=(), compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(
            not self.path.lower().endswith('.json'),
            'path',
            'it names the page, whose figures are written beside it, with .json. Use a path that ends in .html',
        )
        self._require(
            len(self.metrics_dirs) in (0, len(self.runs)),
            'metrics_dirs',
            f'pass one folder for each of the {len(self.runs)} runs',
        )
