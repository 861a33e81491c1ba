"""Speed and memory of an export, measured in a process that loads nothing but its runtime."""

from __future__ import annotations

import dataclasses
import importlib
import os
import pathlib
import statistics
import time
from collections.abc import Callable

import numpy as np

import deeplab
from deeplab import names
from deeplab.errors import OptionError
from deeplab.files import writing
from deeplab.inference import exports
from deeplab.options import crop_sizes
from deeplab.registry import EXPORT_FORMATS, Exported
from deeplab.system import children, processors, system_files
from deeplab.wording import option

_LEAST_RUNS = 3
_SECONDS = 2.0  # of later batches
_USUAL_SIZE = (513, 513)  # for an export that takes any size


@dataclasses.dataclass(frozen=True)
class ExportFigures:
    """How fast and with how much memory an export runs; times in seconds.

    Attributes:
      threads: number of threads.
      batch_size: images at a time.
      size: height and width of the images.
      bytes: size of its files.
      import_seconds: time to load the runtime.
      load_seconds: time to open the export.
      first_seconds: time of the first batch.
      seconds: time of a later batch, median.
      peak_bytes: peak resident memory of the process.
    """

    threads: int
    batch_size: int
    size: tuple[int, int]
    bytes: int
    import_seconds: float
    load_seconds: float
    first_seconds: float
    seconds: float
    peak_bytes: int | None

    @property
    def images_per_second(self) -> float:
        """Images per second of later batches."""
        return self.batch_size / self.seconds

    @property
    def cells(self) -> list[str]:
        """Size, time to load, time of the first batch, time of a later batch and peak memory, for a table."""
        times = (f'{1000 * seconds:.0f} ms' for seconds in (self.first_seconds, self.seconds))
        return [names.byte_size(self.bytes), f'{self.load_seconds:.2f} s', *times, names.byte_size(self.peak_bytes)]


def measured(
    path: str,
    format_name: str,
    threads: int | None = None,
    batch_size: int = 1,
    size: tuple[int, int] | None = None,
    plugins: tuple[str, ...] = (),
) -> ExportFigures:
    """Measures an export in a process of its own.

    Args:
      path: path of the export.
      format_name: name of its format.
      threads: number of threads; None for all cores.
      batch_size: images at a time.
      size: height and width of the images; None for the size of the export.
      plugins: plugins to import in the process; without any, the file that registered the format, if it is a plugin.

    Raises:
      UserError: it cannot be opened, or takes no images of this size.
    """
    pool = {} if threads is None else processors.thread_limit(threads)
    arguments = (path, format_name, threads, batch_size, size)
    figures: ExportFigures = children.call(
        'deeplab.export.speed:measure', *arguments, plugin_names=plugins or _plugin_of(format_name), environment=pool
    )
    return figures


def _plugin_of(format_name: str) -> tuple[str, ...]:
    """Returns the file that has registered a format; nothing for one of this package."""
    file = EXPORT_FORMATS.file_of(format_name)
    is_own = not file or pathlib.Path(file).is_relative_to(pathlib.Path(deeplab.__file__).parent)
    return () if is_own else (file,)


def measure(
    path: str,
    format_name: str,
    threads: int | None = None,
    batch_size: int = 1,
    size: tuple[int, int] | None = None,
) -> ExportFigures:
    """Measures an export; the function that the new process runs. For the arguments see `measured`."""
    record = EXPORT_FORMATS.get(format_name)
    started = time.perf_counter()
    for name in record.runs_with if record.is_portable else ('tensorflow',):
        importlib.import_module(name)
    imported = time.perf_counter()
    with exports.opened(path, threads, record) as exported:
        load = time.perf_counter() - imported
        size = _size(path, size, exported)
        shape = (batch_size, *size, exported.channels)
        images = np.random.default_rng(0).integers(0, 256, shape).astype(np.float32)
        first, *later = timed(lambda: exported.predict(images, False), _SECONDS)
    return ExportFigures(
        threads=threads or exports.default_threads(),
        batch_size=batch_size,
        size=size,
        bytes=writing.size_of(path),
        import_seconds=imported - started,
        load_seconds=load,
        first_seconds=first,
        seconds=statistics.median(later),
        peak_bytes=system_files.peak_bytes(os.getpid()),
    )


def _size(path: str, size: tuple[int, int] | None, exported: Exported) -> tuple[int, int]:
    own, takes_smaller = exported.size, exported.takes_smaller
    if own is None:
        return crop_sizes.above(size or _USUAL_SIZE, exported.metadata.get('output_stride', 1))
    if size is None or size == own:
        return own
    if exported.resizes or (takes_smaller and size[0] <= own[0] and size[1] <= own[1]):
        return size
    raise OptionError(
        f"{option('BenchmarkOptions.size', size)}: '{path}' takes images of {own[0]} x {own[1]} pixels "
        f'{"or less " if takes_smaller else ""}only. Omit it, or export the network with another '
        f'{option("ModelOptions.crop_size")}'
    )


def timed(run: Callable[[], object], seconds: float) -> list[float]:
    """Returns the seconds of each run: of the first one, then of as many as begin within `seconds`, at least three."""
    times: list[float] = []
    until = 0.0
    while len(times) <= _LEAST_RUNS or time.perf_counter() < until:
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
        until = until or time.perf_counter() + seconds
    return times
