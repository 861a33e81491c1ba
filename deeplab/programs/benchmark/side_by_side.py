"""Exports side by side: size, time to load, speed and memory of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from absl import logging

from deeplab import names
from deeplab.export import speed
from deeplab.export.speed import ExportFigures
from deeplab.inference import exports as formats
from deeplab.options import BenchmarkOptions
from deeplab.system import processors


@dataclasses.dataclass(frozen=True)
class Measured:
    """An export that was measured, with the name of its format."""

    path: str
    format: str
    figures: ExportFigures


@dataclasses.dataclass(frozen=True)
class ExportBenchmark:
    """Result of the program for exports.

    Attributes:
      exports: one for each export, number of threads and batch size.
      path: path of the JSON file.
      report: text for the user.
    """

    exports: tuple[Measured, ...]
    path: str
    report: str


def measured(options: BenchmarkOptions, path: str) -> ExportBenchmark:
    """Measures each export in processes of their own.

    Args:
      options: exports, threads, batch sizes and size.
      path: path of the JSON file.

    Raises:
      UserError: something is no export, or cannot be run.
    """
    # All are recognized before any of them is measured.
    formats_by_path = {each: formats.required_format(each).name for each in options.exports}
    exports = []
    for each, name in formats_by_path.items():
        for threads in options.threads or (None,):
            for batch in options.batch:
                logging.info('%s with %s threads, batch %d.', each, threads or 'all', batch)
                figures = speed.measured(each, name, threads, batch, options.size, options.train.plugins)
                exports.append(Measured(each, name, figures))
    return ExportBenchmark(tuple(exports), path, '\n'.join(_report(exports, path)))


def _report(exports: Sequence[Measured], path: str) -> Iterator[str]:
    rows = [['export', 'threads', 'batch', 'size', 'load', 'first', 'batch time', 'images/s', 'peak memory']]
    for each in exports:
        figures = each.figures
        *cells, peak = figures.cells
        counts = (str(figures.threads), str(figures.batch_size))
        rows.append([names.shown(each.path), *counts, *cells, f'{figures.images_per_second:.1f}', peak])
    yield f'On {processors.name()}:'
    yield from names.aligned(rows)
    yield f'Written to {path}.'
