"""Exports side by side: size, time to load, speed and memory of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from absl import logging

from deeplab import names
from deeplab.errors import CheckpointError
from deeplab.export import speed
from deeplab.export.speed import ExportFigures, ExportRequest
from deeplab.inference import exports as formats
from deeplab.options import BenchmarkOptions
from deeplab.system import processors


@dataclasses.dataclass(frozen=True)
class Measured:
    """An export that was measured.

    Attributes:
      path: path of the export.
      format: name of its format.
      figures: what was measured.
    """

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
    report: str = ''


def measured(options: BenchmarkOptions, path: str) -> ExportBenchmark:
    """Measures each export in processes of their own.

    Args:
      options: exports, threads, batch sizes and size.
      path: path of the JSON file.

    Raises:
      UserError: something is no export, or cannot be run.
    """
    formats_by_path = {}
    for each in options.exports:  # before any of them is measured
        record = formats.format_of(each)
        if record is None:
            raise CheckpointError(formats.not_recognized(each))
        formats_by_path[each] = record.name
    exports = []
    for each, name in formats_by_path.items():
        for threads in options.threads or (None,):
            for batch in options.batch:
                logging.info('%s with %s threads, batch %d.', each, threads or 'all', batch)
                request = ExportRequest(each, name, threads, batch, options.size)
                exports.append(Measured(each, name, speed.measured(request, options.train.plugins)))
    result = ExportBenchmark(tuple(exports), path)
    return dataclasses.replace(result, report='\n'.join(_report(result)))


def as_json(result: ExportBenchmark) -> dict[str, Any]:
    """Returns the result as JSON values."""
    return {
        'machine': processors.facts(),
        'exports': [dataclasses.asdict(each) for each in result.exports],
    }


def _report(result: ExportBenchmark) -> Iterator[str]:
    """Yields the lines of the report."""
    rows = [('export', 'threads', 'batch', 'size', 'load', 'first', 'batch time', 'images/s', 'peak memory')]
    for each in result.exports:
        figures = each.figures
        rows.append(
            (
                names.shown(each.path),
                str(figures.threads),
                str(figures.batch_size),
                names.byte_size(figures.bytes),
                f'{figures.load_seconds:.2f} s',
                f'{1000 * figures.first_seconds:.0f} ms',
                f'{1000 * figures.seconds:.0f} ms',
                f'{figures.images_per_second:.1f}',
                names.byte_size(figures.peak_bytes),
            )
        )
    yield f'On {processors.name()}:'
    yield from names.aligned(rows)
    yield f'Written to {result.path}.'
