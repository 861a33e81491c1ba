"""Figures of exports: export.json beside them, and a table."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from typing import Any

from deeplab import names
from deeplab.export.proof import Verified
from deeplab.export.speed import ExportFigures
from deeplab.files import documents, writing
from deeplab.inference.comparison import Comparison
from deeplab.system import processors

FILE = 'export.json'


@dataclasses.dataclass(frozen=True)
class Proof:
    """An export that was compared with its checkpoint and measured.

    Attributes:
      format: format of the export.
      variant: variant of the export.
      path: where it lies.
      checkpoint: path of the checkpoint.
      comparison: predictions on sample images.
      figures: speed and memory.
      verified: mean IoU; None if it was not asked for.
    """

    format: str
    variant: str
    path: str
    checkpoint: str
    comparison: Comparison
    figures: ExportFigures
    verified: Verified | None = None


def write(folder: str, proof: Proof) -> str:
    """Adds the proof of an export in a folder to export.json, which keeps earlier entries; returns its path."""
    path = os.path.join(folder, FILE)
    entries = {name: entry for name, entry in _earlier(path).items() if os.path.exists(os.path.join(folder, name))}
    entry = dataclasses.asdict(proof)
    del entry['path']
    if not proof.comparison.differences:  # of the task `semantic`
        del entry['comparison']['differences']
        entry['verified'] and entry['verified'].pop('figures')
    _write(path, entries | {os.path.relpath(proof.path, folder): entry})
    return path


def forget(export: str) -> None:
    """Removes the figures of an earlier export from export.json, if another one without figures has replaced it."""
    folder, name = os.path.split(export)
    path = os.path.join(folder, FILE)
    entries = _earlier(path)
    if entries.pop(name, None) is not None:
        _write(path, entries)


def _write(path: str, entries: dict[str, Any]) -> None:
    writing.write(path, json.dumps({'exports': entries, 'machine': processors.facts()}, indent=1) + '\n')


def _earlier(path: str) -> dict[str, Any]:
    """Returns the entries of an earlier file; none if there is no such file."""
    try:
        content = documents.load(path)
    except (OSError, documents.DocumentError):
        return {}
    entries = content.get('exports') if isinstance(content, dict) else None
    return entries if isinstance(entries, dict) else {}


def table(proofs: Sequence[Proof]) -> list[str]:
    """Returns the lines of a table with one row for each export."""
    rows = [['export', 'size', 'load', 'first', 'image', 'peak memory', 'equal labels', 'probabilities', 'mIoU']]
    if any(proof.comparison.differences for proof in proofs):
        rows[0][-2] = 'outputs'
    headlines = dict.fromkeys(name for proof in proofs if proof.verified for name in proof.verified.figures)
    rows[0] += [name.removeprefix('-') for name in headlines]
    for proof in proofs:
        compared, miou = proof.comparison, '-'
        figures = ['-'] * len(headlines)
        if proof.verified is not None:
            figures = [_change(*proof.verified.figures[name]) for name in headlines]
        if proof.verified is not None and proof.verified.miou is not None:
            value, low, high = proof.verified.difference
            interval = '' if low is None else f', 95 %: {low:+.4f} to {high:+.4f}'
            miou = f'{proof.verified.miou:.4f} ({value:+.4f}{interval})'
        most = '-' if compared.difference is None else f'{compared.difference:.1g}'
        export = f'{proof.format}:{proof.variant}'
        rows.append([export, *proof.figures.cells, f'{compared.agreement:.3%}', most, miou, *figures])
    return [*names.aligned(rows), *_of_outputs(proofs)]


def _change(before: float | None, after: float | None) -> str:
    """Returns a figure of an export, and its difference from the figure of the checkpoint."""
    if before is None or after is None:
        return '-'
    return f'{after:.4f} ({after - before:+.4f})'


def _of_outputs(proofs: Sequence[Proof]) -> list[str]:
    """Returns the lines of a table with the largest difference of each output; none for the task `semantic`."""
    outputs = [*proofs[0].comparison.differences] if proofs else []
    rows = [['largest difference', *outputs]]
    for proof in proofs:
        values = [f'{value:.1g}' for value in proof.comparison.differences.values()]
        rows.append([f'{proof.format}:{proof.variant}', *values])
    return ['', *names.aligned(rows)] if outputs else []
