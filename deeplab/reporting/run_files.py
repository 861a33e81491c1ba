"""A run of a report, with the files of its training: metrics.jsonl, metrics-STEP.json and run.json."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from deeplab.files import run_manifests
from deeplab.names import shell_quoted
from deeplab.reporting import evaluation_files
from deeplab.reporting.inference import Pass
from deeplab.training import metrics_file, run_manifest

MOST_POINTS = 1500  # of a curve; more cannot be told apart on a screen
CURVES = ('loss', 'learning_rate', 'gradient_norm', 'images_per_second')


@dataclasses.dataclass
class Run:
    """One run of a report.

    Attributes:
      name: a name unlike the names of the other runs.
      points: lines of metrics.jsonl with a loss: at most `MOST_POINTS`, the first and the last included.
      manifest: newest run of run.json; empty if there is none.
      notes: sentences for the page.
      result: what its checkpoint predicts; None without records.
    """

    name: str
    folder: str
    points: Sequence[Mapping[str, Any]]
    curve: evaluation_files.Curve
    manifest: Mapping[str, Any]
    notes: list[str] = dataclasses.field(default_factory=list)
    result: Pass | None = None

    @property
    def of_classes(self) -> Pass | None:
        """The result if it has class ids."""
        return self.result if self.result is not None and self.result.has_classes else None


def read(name: str, folder: str, further: Sequence[str] = ()) -> Run:
    """Reads the files of a run, except missing and unreadable ones.

    Args:
      name: name of the run.
      folder: log folder of a training, or a folder with checkpoints.
      further: more folders with metrics-STEP.json, such as the --eval_logdir of eval.
    """
    lines = [line for line in metrics_file.read(os.path.join(folder, metrics_file.FILE)) if 'loss' in line]
    chosen = np.linspace(0, len(lines) - 1, min(len(lines), MOST_POINTS)).round().astype(int)  # at equal distances
    points = [{key: number(lines[i].get(key)) for key in ('step', *CURVES)} for i in chosen]
    folders = (folder, os.path.join(folder, run_manifests.EVAL_FOLDER), *further)
    manifest = run_manifests.newest_in(folder) or {}
    return Run(name, folder, points, evaluation_files.read(folders), manifest)


def number(value: Any) -> float | None:
    """Returns a finite number; None for anything else."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return value if good else None


def facts(run: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns what was run on what, as pairs of a label and a text, of a run of run.json; empty for an empty one."""
    machine, git, versions = (_mapping(run.get(key)) for key in ('machine', 'git', 'versions'))
    gpus: list[Any] = machine['gpus'] if isinstance(machine.get('gpus'), list) else []
    rows = [
        ('Started', run.get('started')),
        ('Command line', run.get('command_line')),
        ('Folder', run.get('folder')),
        ('First step', run.get('first_step') or None),
        ('Seed', run.get('seed')),
        ('Training records', _records(run.get('records'))),
        ('Validation records', _records(run.get(run_manifest.VALIDATION_RECORDS))),
        ('Images without labels', _records(run.get(run_manifest.UNLABELED_RECORDS))),
        ('Initial checkpoint', _with_digest(run.get(run_manifest.INITIAL_CHECKPOINT), 'path')),
        ('Versions', ', '.join(f'{name} {version}' for name, version in versions.items())),
        (
            'Git revision',
            git.get('revision') and f'{git["revision"]}{" with changes" if git.get("is_changed") else ""}',
        ),
        ('Processor', machine.get('processor') and f'{machine["processor"]}, {machine.get("cores")} cores'),
        ('Memory', machine.get('memory_gb') and f'{machine["memory_gb"]} GB'),
        ('GPUs', ', '.join(str(gpu) for gpu in gpus if gpu) or ('none' if machine else None)),
        ('System', machine.get('system')),
    ]
    return [(label, str(value)) for label, value in rows if value not in (None, '')]


def repeat_line(run: Run) -> str:
    """Returns the command line that repeats a run; empty if it was not started from a command line."""
    if not run.manifest.get('command'):
        return ''
    folder = os.path.abspath(run.folder)  # which has a name, unlike '.'
    manifest = os.path.join(folder, run_manifests.FILE)
    return ' '.join(map(shell_quoted, ['deeplab', 'train', f'--from={manifest}', f'--train_logdir={folder}_again']))


def _mapping(value: Any) -> Mapping[str, Any]:
    """Returns an object of a manifest; empty for anything else."""
    return value if isinstance(value, Mapping) else {}


def _records(records: Any) -> str:
    if not isinstance(records, Mapping):
        return ''
    return _with_digest({**records, 'name': f'{records.get("images")} images of split {records.get("split")}'}, 'name')


def _with_digest(entry: Any, key: str) -> str:
    """Formats an entry of the manifest and the start of its digest."""
    if not isinstance(entry, Mapping) or not entry.get(key):
        return ''
    digest = str(entry.get('digest') or '')
    return f'{entry[key]}{f" ({digest[:19]}...)" if digest else ""}'
