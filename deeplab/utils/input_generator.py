"""Input pipeline (tf.data): from the records of a split to batched samples.

The order depends on the sample position alone (docs/architecture.md, Order and randomness): a pipeline that starts at
position p yields the same samples from p on as one from position 0.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from deeplab import common, input_preprocess, names
from deeplab.core import sessions
from deeplab.datasets import example, images
from deeplab.datasets import planes as planes_lib
from deeplab.datasets.record_index import Records
from deeplab.errors import DataError, UserError
from deeplab.system import processors
from deeplab.wording import option

# The parts of a sample that a training batch needs.
_TRAINING_KEYS = (common.IMAGE, common.LABEL, common.IMAGE_NAME, common.RECORD)
# How many of the last records read are remembered, to find one that cannot be decoded; more than a pipeline can
# process at the same time.
_REMEMBERED_READS = 4096
PREFETCHED_BATCHES = 2

_Parts = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # a record's number, its `common.VALID` or draw, its bytes


class Pipeline(NamedTuple):
    """A built input pipeline.

    Attributes:
      samples: batched sample, by the keys of `common`; each evaluation takes the next batch.
      initializer: operation that (re)starts the pipeline at its first position.
      batches: number of batches; None for endless ones.
    """

    samples: input_preprocess.Sample
    initializer: tf.Operation
    batches: int | None


@dataclasses.dataclass(eq=False)
class RecordReader:
    """Reads records for a pipeline, and remembers errors.

    TensorFlow turns an exception in a pipeline into text, and does not know the record of a file that it cannot decode;
    `explain_input_errors` finds both here.

    Attributes:
      index: the records.
      channels: channels of the images.
      bits: bits of the images, as for `example.decode`.
      planes: what samples have beside image and label, as for `example.decode`.
      failure: the first error of reading, of the record or its storage; None for none.
    """

    index: Records
    channels: int = 3
    bits: int = 8
    planes: Sequence[planes_lib.Plane] = ()
    failure: UserError | None = dataclasses.field(default=None, init=False)
    _recent: deque[int] = dataclasses.field(default_factory=lambda: deque(maxlen=_REMEMBERED_READS), init=False)

    def decode(self, serialized: tf.Tensor | bytes, with_label: bool) -> input_preprocess.Sample:
        """Decodes a serialized record (`example.decode`)."""
        sample: input_preprocess.Sample = example.decode(serialized, with_label, self.channels, self.bits, self.planes)
        return sample

    def read(self, record: int) -> bytes:
        """Reads a record.

        Raises:
          DataError: It cannot be read.
          StorageError: The storage does not answer.
        """
        self._recent.append(int(record))
        try:
            return self.index.read(int(record))
        except UserError as error:
            self.failure = self.failure or error
            raise

    def find_undecodable(self) -> str | None:
        """Decodes the last records again; describes the one that cannot be decoded, or returns None if all can."""
        for record in reversed(dict.fromkeys(self._recent)):
            serialized = self.index.read(record)
            content = example.parse(serialized)
            name = f'{self.index.name_of(record)} (image {names.shown(content.image_name)})'
            if lack := planes_lib.missing(self.planes, content.features):
                return f'{name} {lack}. {planes_lib.FIX}.'
            try:
                self.decode(serialized, with_label=content.label_bytes is not None)
            except (tf.errors.OpError, DataError) as error:
                text = str(error) if isinstance(error, DataError) else error.message or ''
                reason = text.split('\n')[0].rstrip('.')
                if plane_error := self._plane_error(content):
                    return f'Cannot decode {name}: {plane_error}. {planes_lib.FIX}.'
                return (
                    f'Cannot decode {name}: {reason}. Rebuild the records from an intact file, or skip the record with '
                    f'{option("DatasetOptions.skip_corrupt_records", True)}.'
                )
        return None

    def _plane_error(self, content: example.Example) -> str | None:
        """Returns why a plane does not fit its image; None if all do, or the image cannot be read."""
        try:
            size = images.read_whole(content.image_bytes).size
        except DataError:
            return None
        for plane in self.planes:
            try:
                planes_lib.read(plane, content.features, size)
            except DataError as error:
                return str(error)
        return None


@functools.lru_cache(maxsize=4)
def permutation(n: int, seed: int, epoch: int) -> np.ndarray:
    """Returns the order of `n` records in an epoch: [n] int64, independent of the NumPy version."""
    # NumPy never changes the stream of a RandomState; the stream of a Generator may change.
    order = np.random.RandomState([seed % 2**32, epoch % 2**32, 0x64617461]).permutation(n).astype(np.int64)
    order.setflags(write=False)
    return order


def record_at(position: int, n: int, seed: int) -> tuple[int, int]:
    """Returns which record is used at a sample position of training.

    Args:
      position: samples used before, from the start of training.
      n: number of records, 1 or more.
      seed: seed of the run.

    Returns:
      The epoch, and which of the n records, 0 to n - 1. Each epoch uses every record once.
    """
    epoch, place = divmod(int(position), n)
    return epoch, int(permutation(n, seed, epoch)[place])


def get(
    reader: RecordReader,
    steps: Sequence[input_preprocess.Step],
    batch_size: int,
    is_training: bool,
    records: Sequence[int] | np.ndarray | None = None,
    seed: int = 0,
    first_position: int | tf.Tensor = 0,
    with_label: bool = True,
    num_parallel: int | None = None,
    prefetch_batches: int = PREFETCHED_BATCHES,
    is_taken: Callable[[tf.Tensor], tf.Tensor] | None = None,
    device: str | None = None,
    before: Sequence[tf.Tensor] = (),
) -> Pipeline:
    """Builds the input pipeline in the current graph.

    Args:
      reader: reads the records.
      steps: preprocessing of each sample (`input_preprocess`); samples must have one shape after them, except for
        `common.ORIGINAL_IMAGE`, which is padded with zeros to the largest of its batch.
      batch_size: samples in a batch.
      is_training: endless, shuffled by epoch and with seeds for the steps; else each record once, in order, the last
        batch padded with its last record (`common.VALID` marks the others).
      records: numbers of the records to take; None for all.
      seed: seed of order and random steps.
      first_position: sample position to start at, in training; a scalar int64 tensor is evaluated by `initializer`.
      with_label: whether to decode masks.
      num_parallel: samples to work on at the same time; None to let tf.data choose.
      prefetch_batches: finished batches that may wait.
      is_taken: returns for a scalar int64 position, in training, whether it is used or left to others; None for all.
      device: where as many finished batches again wait, in its own memory, and where the samples are; None for the CPU.
      before: what is computed before a batch is taken.

    Returns:
      The pipeline. Its iterator has to be initialized, and its first dimension is `batch_size`.

    Raises:
      DataError: There is no record to take.
    """
    chosen = np.arange(len(reader.index)) if records is None else np.asarray(records, np.int64)
    if not len(chosen):
        raise DataError(f'There is no record to read in {reader.index.where}.')
    batches = None if is_training else -(-len(chosen) // batch_size)
    last = np.iinfo(np.int64).max if batches is None else batches * batch_size
    data = tf.data.Dataset.range(first_position if is_training else 0, last)
    if is_taken is not None:
        data = data.filter(_as_written(is_taken))
    read = _reading(reader, chosen, seed if is_training else None)

    def sample_of(*parts: tf.Tensor) -> input_preprocess.Sample:
        sample = _decoded(reader, parts, seed if is_training else None, with_label)
        sample = input_preprocess.apply_steps(sample, steps, functools.partial(_drawn, reader, chosen, with_label))
        return _for_training(sample) if is_training else sample

    data = _in_parallel(data, read, sample_of, num_parallel, reader.index.parallel_reads)
    data = _batched(data, batch_size, prefetch_batches, device, reader.planes)
    iterator = tf.compat.v1.data.make_initializable_iterator(data)
    with tf.control_dependencies(list(before)):
        return Pipeline(iterator.get_next(sessions.NEXT_BATCH), iterator.initializer, batches)


def _for_training(sample: input_preprocess.Sample) -> input_preprocess.Sample:
    """Returns the parts of a sample that a training batch needs: image, label and names, and the targets of tasks."""
    return {
        key: value for key, value in sample.items() if key in _TRAINING_KEYS or key.startswith(common.TARGET_PREFIX)
    }


def _in_parallel(
    positions: tf.data.Dataset,
    read: Callable[[tf.Tensor], _Parts],
    sample_of: Callable[..., input_preprocess.Sample],
    num_parallel: int | None,
    reads: int,
) -> tf.data.Dataset:
    """Returns the samples at positions; `reads` records are read ahead of the steps at the same time, if it is not 0.

    Order stays whatever the number of threads; no stage holds more than a few batches, or `reads` records.
    """
    if not reads:
        both = _as_written(lambda position: sample_of(*read(position)))
        return positions.map(both, num_parallel_calls=num_parallel or tf.data.AUTOTUNE, deterministic=True)
    cores = processors.available_cores()
    options = tf.data.Options()
    options.threading.private_threadpool_size = reads + cores  # a read waits in a thread
    records = positions.map(_as_written(read), num_parallel_calls=reads, deterministic=True)
    samples = records.map(_as_written(sample_of), num_parallel_calls=num_parallel or cores, deterministic=True)
    return samples.with_options(options)


def _batched(
    data: tf.data.Dataset,
    batch_size: int,
    prefetch_batches: int,
    device: str | None,
    planes: Sequence[planes_lib.Plane],
) -> tf.data.Dataset:
    """Returns the samples in batches, of which some wait: on the CPU and, if there is one, on the device.

    What has several shapes is padded to the largest of its batch: lists of `planes` with `Plane.padding`, else zeros.
    """
    batch = functools.partial(data.batch, batch_size, drop_remainder=True)
    if not all(spec.shape.is_fully_defined() for spec in data.element_spec.values()):
        padding = {plane.key: plane.padding for plane in planes if plane.is_list}
        values = {key: padding.get(key) for key in data.element_spec}
        batch = functools.partial(data.padded_batch, batch_size, padding_values=values, drop_remainder=True)
    data = batch().prefetch(prefetch_batches).with_options(_pipeline_options())
    if device is None:
        return data
    with tf.device(None):  # what wraps the pipeline is placed by TensorFlow
        return data.apply(tf.data.experimental.prefetch_to_device(device, prefetch_batches))


def _as_written(function: Callable[..., Any]) -> Callable[..., Any]:
    """Keeps tf.data from rewriting a function with AutoGraph, which no step needs and which takes two seconds."""
    unconverted: Callable[..., Any] = tf.autograph.experimental.do_not_convert(function)
    return unconverted


def _pipeline_options() -> tf.data.Options:
    """Returns tf.data's defaults, but for two: what joins map and batch, and what tunes the parallelism.

    Joined, map and batch finish more and more batches ahead. The thread of the tuning sleeps for up to some seconds,
    and the end of a session waits for it.
    """
    options = tf.data.Options()
    options.experimental_optimization.map_and_batch_fusion = False
    options.autotune.enabled = False
    return options


def _reading(reader: RecordReader, records: np.ndarray, seed: int | None) -> Callable[[tf.Tensor], _Parts]:
    """Returns a function of a position that reads the record there.

    With a seed, its draw gives the seed of its random steps; else whether the record is valid is in its place.
    """

    def read(position: np.ndarray) -> tuple[np.int64, np.int64 | np.bool_, bytes]:
        if seed is None:
            record = records[min(int(position), len(records) - 1)]
            return np.int64(record), np.bool_(position < len(records)), reader.read(record)
        epoch, place = record_at(int(position), len(records), seed)
        record = records[place]
        return np.int64(record), np.int64(epoch * len(reader.index) + record), reader.read(record)

    def parts_at(position: tf.Tensor) -> _Parts:
        kinds = [tf.int64, tf.bool if seed is None else tf.int64, tf.string]
        record, valid_or_draw, serialized = tf.numpy_function(read, [position], kinds)
        for tensor in (record, valid_or_draw, serialized):
            tensor.set_shape([])
        return record, valid_or_draw, serialized

    return parts_at


def _decoded(
    reader: RecordReader, parts: Sequence[tf.Tensor], seed: int | None, with_label: bool
) -> input_preprocess.Sample:
    """Returns the sample of a record that `_reading` has read, with its number.

    With a seed, it has the seed of its random steps (`common.SEED`); else `common.VALID`.
    """
    record, valid_or_draw, serialized = parts
    sample = {**reader.decode(serialized, with_label), common.RECORD: record}
    if seed is None:
        return {**sample, common.VALID: valid_or_draw}
    return {**sample, common.SEED: tf.stack([tf.constant(seed, tf.int64), valid_or_draw])}  # [2]


def _drawn(reader: RecordReader, records: np.ndarray, with_label: bool, seed: tf.Tensor) -> input_preprocess.Sample:
    """Returns the decoded sample of a random one of `records`, with `seed`, two integers, for its random steps."""

    def read(place: np.ndarray) -> tuple[np.int64, bytes]:
        return np.int64(records[place]), reader.read(records[place])

    place = tf.random.stateless_uniform([], seed, 0, len(records), tf.int64)
    record, serialized = tf.numpy_function(read, [place], [tf.int64, tf.string])
    for tensor in (record, serialized):
        tensor.set_shape([])
    return {**reader.decode(serialized, with_label), common.RECORD: record, common.SEED: seed}


@contextlib.contextmanager
def explain_input_errors(
    reader: RecordReader, last_checkpoint: Callable[[], str | None] = lambda: None
) -> Iterator[None]:
    """Turns an error of the pipeline into one that names file, record and image.

    Args:
      reader: the pipeline's reader.
      last_checkpoint: returns the path of a training's newest checkpoint, for the message; None without one.

    Raises:
      DataError: A TensorFlow error arose inside, and a record cannot be read or decoded. Any other error passes.
    """
    try:
        yield
    except tf.errors.OpError as error:
        # A new thread runs TensorFlow eagerly, whatever graph the current one is building.
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            undecodable = None if reader.failure is not None else thread.submit(reader.find_undecodable).result()
        message = undecodable if reader.failure is None else str(reader.failure)
        if message is None:
            raise
        path = last_checkpoint()
        saved = f' No step is lost: {path} is saved, and the same command resumes from it.' if path else ''
        raise DataError(f'{message}{saved}') from (None if reader.failure is not None else error)
