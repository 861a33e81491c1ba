"""Benchmark of a network on this machine: speed and memory of inference, training and input (`deeplab benchmark`).

`deeplab benchmark FILE...` measures exports side by side. Otherwise it takes the flags of `deeplab train`. Each
measurement runs in a process of its own; this one never loads TensorFlow.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from absl import logging
from PIL import Image

from deeplab import names
from deeplab.datasets import example, images, shard_names, tfrecord
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.datasets.segmentation_dataset import DataSource
from deeplab.errors import OptionError
from deeplab.files import output_files
from deeplab.inference import exports
from deeplab.options import BenchmarkOptions, DatasetOptions
from deeplab.pictures.sample_image import sample_image
from deeplab.programs.benchmark import side_by_side, training
from deeplab.programs.benchmark.figures import Inference, Parts, Training
from deeplab.system import children, processors
from deeplab.wording import option

_OUTPUT = 'BenchmarkOptions.output'
_LATE = 'the time is up'
_IMAGES = 16  # of the records that are written


@dataclasses.dataclass(frozen=True)
class NetworkBenchmark:
    """Result of the program.

    Attributes:
      inference: one for each number of threads and batch size.
      import_seconds: time from the start of a process until it has loaded TensorFlow.
      training: one for each batch size.
      parts: what stands around the network.
      path: path of the JSON file.
      report: text for the user.
    """

    inference: tuple[Inference, ...]
    import_seconds: float
    training: tuple[Training, ...]
    parts: Parts
    path: str
    report: str = ''


def run(options: BenchmarkOptions) -> NetworkBenchmark | side_by_side.ExportBenchmark:
    """Measures the network, or exports.

    Raises:
      UserError: options, data or checkpoint are invalid.
    """
    path = options.output
    if os.path.isdir(path):
        path = os.path.join(path, 'deeplab_benchmark.json')
    with output_files.writing_to(path, _OUTPUT):
        os.makedirs(os.path.dirname(path) or '.', exist_ok=True)
        tempfile.TemporaryFile(dir=os.path.dirname(path) or '.').close()
    if options.exports:
        compared = side_by_side.measured(options, path)
        figures = [dataclasses.asdict(each) for each in compared.exports]
        _write(path, {'machine': processors.facts(), 'exports': figures}, compared.report)
        return compared
    deadline = time.time() + options.budget_secs
    with tempfile.TemporaryDirectory() as folder:
        dataset = _dataset(options, folder)
        import_seconds, inference = _inference(options, deadline, folder)
        trained = tuple(_training(options, dataset, deadline))
        logging.info('Reading and writing images.')
        measure_parts = 'deeplab.programs.benchmark.parts:measure'
        arguments = (dataset, _image_size(options), folder)
        parts: Parts = children.call(measure_parts, *arguments, plugin_names=options.train.plugins)
    result = NetworkBenchmark(tuple(inference), import_seconds, trained, parts, path)
    result = dataclasses.replace(result, report='\n'.join(_report(result, options)))
    _write(path, _as_json(result, options), result.report)
    return result


def _write(path: str, content: dict[str, Any], report: str) -> None:
    """Writes the JSON file; an error carries the report without its last line, which names the file."""
    output_files.write(path, _OUTPUT, json.dumps(content, indent=1) + '\n', report.rpartition('\n')[0])


def _dataset(options: BenchmarkOptions, folder: str) -> DatasetOptions:
    """Returns the split to read; writes one with generated images if none is given."""
    dataset = options.train.dataset
    if dataset.directory:
        return dataset
    crop_size = options.train.model.crop_size
    assert crop_size is not None
    logging.info('Without %s, generated images are used.', option('DatasetOptions.directory'))
    descriptor = DataSource(dataset).descriptor
    return dataclasses.replace(dataset, directory=write_records(folder, dataset.split, descriptor, crop_size))


def write_records(folder: str, split: str, descriptor: DatasetDescriptor, size: tuple[int, int]) -> str:
    """Writes records of one split with images of colored areas and slight noise; returns the folder.

    Args:
      folder: an existing folder.
      split: name of the split.
      descriptor: the data set, with classes, channels and bits of the records.
      size: height and width.
    """
    path = os.path.join(folder, *shard_names.of(split, 1))
    with open(path, 'wb') as file:
        for number in range(_IMAGES):
            file.write(tfrecord.framed(_record(number, descriptor, size)))
    return folder


def _record(number: int, descriptor: DatasetDescriptor, size: tuple[int, int]) -> bytes:
    channels = descriptor.image_channels
    pixels, mask = sample_image(size, channels, number, descriptor.num_classes, descriptor.ignore_label)
    stream = io.BytesIO()
    if channels == 3 and descriptor.image_bits == 8:
        Image.fromarray(pixels).save(stream, 'JPEG', quality=90)
        kind = 'jpeg'
    else:
        is_wide = descriptor.image_bits == 16
        np.save(stream, pixels.astype(np.uint16) * 257 if is_wide else pixels)
        kind = 'npy'
    label = images.encode_png(mask)
    return example.encode(stream.getvalue(), kind, f'generated_{number}', *size, channels, label)


def _image_size(options: BenchmarkOptions) -> tuple[int, int]:
    size = options.image_size or options.train.model.crop_size
    if size is None:
        raise OptionError(f'The size of the images is not set. Set {option("BenchmarkOptions.image_size", (513, 513))}')
    return size


def _inference(options: BenchmarkOptions, deadline: float, folder: str) -> tuple[float, list[Inference]]:
    """Measures the network that predicts, with each number of threads, all cores first; see `inference.measure`."""
    # In a process that may load TensorFlow.
    find = 'deeplab.export_model:find_checkpoint'
    checkpoint = options.checkpoint_dir and children.call(find, options.checkpoint_dir)
    model = dataclasses.replace(options.train.model, crop_size=_image_size(options))
    numbers = sorted(set(options.threads or (1, exports.default_threads())), reverse=True)
    import_seconds = 0.0
    rows: list[Inference] = []
    for threads in numbers:
        if rows and time.time() > deadline:
            rows += [Inference(threads, size, skipped=_LATE) for size in options.batch_sizes]
            continue
        engine = dataclasses.replace(options.engine, threads=threads)
        logging.info('Inference with %s threads, batch sizes %s.', threads, ', '.join(map(str, options.batch_sizes)))
        request = (model, checkpoint, engine, options.batch_sizes, time.time(), deadline, folder)
        # TensorFlow has one pool of threads for all sessions of a process.
        pool = processors.thread_limit(threads)
        measure = 'deeplab.programs.benchmark.inference:measure'
        seconds, measured = children.call(measure, *request, plugin_names=options.train.plugins, environment=pool)
        import_seconds = import_seconds or seconds
        rows += measured
    return import_seconds, rows


def _training(options: BenchmarkOptions, dataset: DatasetOptions, deadline: float) -> Iterator[Training]:
    """Measures training with each batch size, the smallest first."""
    clones = options.train.clones.num_clones * options.train.accumulation_steps
    usual = options.train.batch_size
    half = usual // 2
    sizes = options.training_batch_sizes or ({half, usual} if half and half % clones == 0 else {usual})
    failed = ''
    for number, batch_size in enumerate(sorted(sizes)):
        late = _LATE if number and time.time() > deadline else ''
        if late or failed:
            yield Training(batch_size, skipped=late or failed)
            continue
        logging.info('Training with batch size %d.', batch_size)
        try:
            yield training.measure(options.train.command, dataset.directory, batch_size)
        except children.ChildError as error:
            failed = str(error)
            yield Training(batch_size, skipped=failed)


def _as_json(result: NetworkBenchmark, options: BenchmarkOptions) -> dict[str, Any]:
    figures = dataclasses.asdict(result)
    del figures['report'], figures['path']
    return {
        'network': options.train.model.model_variant,
        'image_size': _image_size(options),
        'flags': options.train.command,
        'engine': options.engine.engine,
        'precision': options.engine.precision,
        'machine': processors.facts(),
        **figures,
    }


def _report(result: NetworkBenchmark, options: BenchmarkOptions) -> Iterator[str]:
    height, width = _image_size(options)
    network = options.train.model.model_variant
    yield f'{network} on {processors.name()}; {result.import_seconds:.1f} s to load TensorFlow.'
    yield ''
    of_choice = ('engine', 'precision') if options.engine.is_auto else ()
    columns = ('load', 'first batch', 'batch', 'images/s', 'peak memory')
    lines = [('threads', 'batch', *of_choice, *columns)]
    for row in result.inference:
        head = (str(row.threads), str(row.batch_size), *(getattr(row, name) for name in of_choice))
        if row.skipped:
            lines.append((*head, f'skipped: {row.skipped}', '', '', '', ''))
        else:
            times = (f'{each:.3f} s' for each in (row.load_seconds, row.first_seconds, row.seconds))
            lines.append((*head, *times, f'{row.images_per_second:.1f}', names.byte_size(row.peak_bytes)))
    yield f'Inference, {height}x{width}, {options.engine.engine} in {options.engine.precision}:'
    yield from _aligned(lines)
    crop = 'x'.join(map(str, options.train.model.crop_size or ()))
    lines = [('batch', 'first steps after', 'step', 'images/s', 'waits for input', 'peak memory')]
    for step in result.training:
        if step.skipped:
            lines.append((str(step.batch_size), f'skipped: {step.skipped}', '', '', '', ''))
        else:
            share = '-' if step.waiting_share is None else f'{step.waiting_share:.0%}'
            figures = (f'{step.start_seconds:.1f} s', f'{step.seconds:.3f} s', f'{step.images_per_second:.1f}')
            lines.append((str(step.batch_size), *figures, share, names.byte_size(step.peak_bytes)))
    yield ''
    yield f'Training, {crop}:'
    yield from _aligned(lines)
    yield ''
    yield from _bottleneck(result)
    yield f'Written to {result.path}.'


def _bottleneck(result: NetworkBenchmark) -> Iterator[str]:
    """Yields which part of eval and vis the others wait for."""
    network = max((row.images_per_second for row in result.inference), default=0.0)
    if not network:
        return
    rates = {'reading': result.parts.reading, 'the network': network, 'writing': result.parts.writing}
    shown = ', '.join(f'{name} {rate:.1f}' for name, rate in rates.items())
    yield f'Images per second of each part alone: {shown}. The others wait for {min(rates, key=rates.__getitem__)}.'


def _aligned(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yields lines of columns of equal width; the reason for a skipped line may be longer."""
    whole = [line for line in lines if not any(text.startswith('skipped') for text in line)]
    widths = [max(len(line[column]) for line in whole) for column in range(len(lines[0]))]
    for line in lines:
        yield '  ' + '  '.join(text.rjust(width) for text, width in zip(line, widths, strict=True)).rstrip()
