"""Inference over a split, for eval and vis: a checked split, and the loop over its images."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import tensorflow as tf
import tqdm
from absl import logging

from deeplab import common, input_preprocess, model, names
from deeplab.checks import record_check
from deeplab.core import sessions
from deeplab.datasets import example, task_data
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.datasets.segmentation_dataset import SegmentationDataset
from deeplab.errors import OptionError
from deeplab.evaluation import engine_run
from deeplab.evaluation.engine_run import EngineNetwork, EngineReport, GraphNetwork, Prepared
from deeplab.inference import network_source
from deeplab.inference.network import InferenceNetwork, in_graph
from deeplab.inference.opening import Weights
from deeplab.options import EngineOptions, ModelOptions, PredictionOptions, ResizeOptions, WindowOptions, crop_sizes
from deeplab.registry import PREPROCESSINGS, Outputs
from deeplab.system import overlap
from deeplab.utils import input_generator, train_utils
from deeplab.wording import option

# Keys in the batches of `run_batches`.
PREDICTION = 'prediction'  # [n, h, w] int32, the predicted ids
CONFIDENCE = 'confidence'  # [n, h, w] float32, their probabilities
MAPS = 'maps'  # [n, h, w, channels] float32, the maps of all outputs of a network of other tasks than `semantic`

_DOING = {'eval': 'Evaluating', 'vis': 'Visualizing'}  # by program

Batch = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class CheckedSplit:
    """A split whose records have been checked.

    Attributes:
      has_labels: whether the masks are read, if there are any.
    """

    descriptor: DatasetDescriptor
    reader: input_generator.RecordReader
    check_result: record_check.CheckResult
    has_labels: bool = dataclasses.field(default=True, kw_only=True)

    @property
    def ignore_label(self) -> int:
        """Label of pixels excluded from loss and metrics."""
        return self.descriptor.ignore_label

    @property
    def records(self) -> np.ndarray:
        """Numbers of the valid records, ascending."""
        return self.check_result.records

    @property
    def num_images(self) -> int:
        """Number of images to read."""
        return len(self.records)

    def selected(self, images: slice | np.ndarray) -> Self:
        """Returns the split with some of its images, by their places."""
        return dataclasses.replace(self, check_result=self.check_result.selected(images))

    def image_names(self) -> list[str]:
        """Reads the names of the images in the valid records."""
        return [example.parse(self.reader.index.read(record)).image_name for record in self.records]

    def stored_names(self) -> list[bytes]:
        """Reads the same as they are stored."""
        parsed = (example.parse(self.reader.index.read(record)) for record in self.records)
        names = (each.features.get(example.FILENAME_KEY, b'') for each in parsed)
        return [name if isinstance(name, bytes) else b'' for name in names]


@dataclasses.dataclass(frozen=True)
class Split(CheckedSplit):
    """A split for evaluation.

    Attributes:
      crop_size: height and width into which each of its images fits.
    """

    crop_size: tuple[int, int]


def checked_split(
    dataset: SegmentationDataset, network: ModelOptions, needs_truth: bool, cache_dir: str | None
) -> CheckedSplit:
    """Opens a split and checks all its records; see `open_split` for the arguments."""
    descriptor = dataset.descriptor
    needs_labels = needs_truth and task_data.needs_labels(network)
    planes = task_data.planes_of(descriptor, network) if needs_truth else ()
    check_result = record_check.check(dataset, network.num_classes, needs_labels, cache_dir, planes)
    reader = input_generator.RecordReader(
        check_result.index,
        descriptor.image_channels,
        descriptor.image_bits,
        planes,
    )
    return CheckedSplit(descriptor, reader, check_result, has_labels=needs_labels or network.is_semantic)


def open_split(
    dataset: SegmentationDataset,
    network: ModelOptions,
    resize: ResizeOptions,
    needs_truth: bool,
    cache_dir: str | None,
    chooses_crop: bool = False,
    crop_field: str = 'ModelOptions.crop_size',
) -> Split:
    """Opens a split and checks it before anything is computed from it.

    Args:
      dataset: the split.
      network: its classes and crop size must match the split.
      resize: how images are resized before the crop.
      needs_truth: whether each image must have the mask and the planes that the tasks of the network need.
      cache_dir: folder that caches the check result of the records; None for no cache.
      chooses_crop: whether a crop size that is not set becomes the smallest aligned one into which every image fits.
      crop_field: option that sets the crop size, as 'Class.field'.

    Raises:
      OptionError: There is no such network, or it has another number of classes than the data set, or no crop size.
      DataError: The split is missing or damaged, lacks labels, or has an image larger than the crop.
    """
    model.check_options(network)  # before the records, which may take long
    descriptor = dataset.descriptor
    if network.num_classes != descriptor.num_classes:
        raise OptionError(
            f"The network has {network.num_classes} classes, the data set '{descriptor.name}' "
            f'{descriptor.num_classes}; they must be equal.'
        )
    require_channels(network, descriptor)
    crop_size = network.crop_size
    if crop_size is not None and not network.is_per_image:
        train_utils.warn_of_crop_size(crop_size, network.output_stride, crop_field)
    elif crop_size is None and not chooses_crop:
        example = option(crop_field, (513, 513))
        raise OptionError(f'{option(crop_field)} is not set. Pass height and width, such as {example}.')
    split = checked_split(dataset, network, needs_truth, cache_dir)
    if crop_size is None:
        crop_size = _smallest_crop(split.check_result, network, resize)
    if not network.is_per_image:
        resized = functools.partial(input_preprocess.size_in_range, resize)
        record_check.require_fit(split.check_result, crop_size, network.output_stride, resized, crop_field)
    return Split(descriptor, split.reader, split.check_result, crop_size, has_labels=split.has_labels)


def open_fitting_split(
    dataset: SegmentationDataset, network: ModelOptions, resize: ResizeOptions, fits_crop_size: bool, cache_dir: str
) -> Split:
    """Opens a split with its masks for images of one crop size; see `open_split`.

    Args:
      dataset: the split.
      network: its crop size is taken if it is set.
      resize: how images are resized before the crop.
      fits_crop_size: whether a crop size into which not every image fits is replaced by the smallest that is enough.
      cache_dir: folder that caches the check result of the records.
    """
    asked = dataclasses.replace(network, crop_size=None) if fits_crop_size else network
    split = open_split(dataset, asked, resize, True, cache_dir, chooses_crop=True)
    if network.crop_size is not None and all(np.less_equal(split.crop_size, network.crop_size)):
        return dataclasses.replace(split, crop_size=network.crop_size)
    return split


def require_channels(network: ModelOptions, descriptor: DatasetDescriptor) -> None:
    """Raises `OptionError` unless the network takes as many channels as the data set's images have."""
    if network.input_channels != descriptor.image_channels:
        raise OptionError(
            f'The network takes images of {network.input_channels} channels, images of the data set '
            f"'{descriptor.name}' have {descriptor.image_channels} (image_channels); they must be equal."
        )


def warn_of_padding(split: Split, network: ModelOptions, resize: ResizeOptions) -> None:
    """Warns of a default crop size with more than twice the area that the images need."""
    smallest = _smallest_crop(split.check_result, network, resize)
    if np.prod(split.crop_size) > 2 * np.prod(smallest) and not network.is_per_image:
        logging.warning(
            'All images fit into %d,%d pixels, but are padded to the default size %d,%d. Padding affects the '
            'predictions and can lower the mIoU: set %s.',
            *smallest,
            *split.crop_size,
            option('ModelOptions.crop_size', smallest),
        )


def _smallest_crop(
    check_result: record_check.CheckResult, network: ModelOptions, resize: ResizeOptions
) -> tuple[int, int]:
    """Returns the smallest crop with sides `output_stride * k + 1`, k at least 1, into which every image fits.

    It is not smaller than the window of the image pooling, which would otherwise not be the one of the training.
    """
    sizes = [input_preprocess.size_in_range(resize, int(h), int(w)) for h, w in np.unique(check_result.sizes, axis=0)]
    sizes.append(network.image_pooling_crop_size or (1, 1))
    return crop_sizes.above(np.max(sizes, axis=0), network.output_stride)


def warn_of_flips(prediction: PredictionOptions, network: ModelOptions) -> None:
    """Warns if flips are enabled but have no effect."""
    if network.is_semantic and prediction.add_flipped_images and prediction.is_single_scale:
        logging.warning(
            '%s has no effect with %s. Use several scales, such as %s.',
            option('PredictionOptions.add_flipped_images'),
            option('PredictionOptions.scales', prediction.scales),
            option('PredictionOptions.scales', (0.75, 1.0, 1.25)),
        )


class Reading(NamedTuple):
    """How the images of a split are read.

    Attributes:
      split: where the images come from.
      steps: preprocessing of each (`input_preprocess.eval_steps`).
      batch_size: images at a time.
      keys: parts of each sample to return, by the names in `common`; masks are decoded if LABEL or
        ORIGINAL_LABEL is one.
      ahead: batches that are read before they are needed.
      mean_pixel: pixel that pads images of type uint8 (`input_preprocess.images_of`); None to leave the
        images as they are.
    """

    split: Split
    steps: Sequence[input_preprocess.Step]
    batch_size: int
    keys: Sequence[str]
    ahead: int = input_generator.PREFETCHED_BATCHES
    mean_pixel: Sequence[float] | None = None


def reading_of(
    split: Split,
    network: InferenceNetwork,
    resize: ResizeOptions,
    keys: Sequence[str],
    windows: WindowOptions | None = None,
    keep_original: bool = False,
) -> Reading:
    """Returns how the images of a split are read for a network.

    Args:
      split: where they come from.
      network: it has the crop size and batch size of the batches, unless there are windows.
      resize: how images are resized.
      keys: see `Reading`.
      windows: sizes of windows, for which images are read one at a time in their own size; None for no windows.
      keep_original: see `input_preprocess.eval_steps`.
    """
    crop_size, batch_size, ahead = network.crop_size, network.batch_size, input_generator.PREFETCHED_BATCHES
    mean_pixel: Sequence[float] | None = network.mean_pixel
    if windows is not None:
        crop_size, batch_size, ahead, mean_pixel = None, 1, 1, None  # images may be large
    if network.options.is_per_image:
        crop_size = network.options.crop_size
    assert batch_size is not None
    steps = input_preprocess.eval_steps(
        crop_size,
        PREPROCESSINGS.of_network(network.options) or resize,
        network.mean_pixel,
        split.descriptor.ignore_label,
        keep_original,
        planes=split.reader.planes,
        keep_bytes=bool(tf.config.list_physical_devices('GPU')),  # without one, it takes more time
    )
    return Reading(split, steps, batch_size, tuple(dict.fromkeys(keys)), ahead, mean_pixel)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckpointPass:
    """A pass of one checkpoint over the images of a split.

    Attributes:
      images: number of images.
      seconds: how long reading and predicting them took, and what was made of the predictions.
      engine: what ran the network; None if that was TensorFlow, as usual.
    """

    checkpoint: str
    global_step: int
    images: int
    seconds: float
    engine: EngineReport | None = None

    def speed_text(self) -> str:
        """Returns the sentence of a report that says how many images were predicted, how fast, and with what."""
        speed = f'{names.counted(self.images, "image")} in {names.duration(self.seconds)}'
        source = f'checkpoint {self.checkpoint} (step {self.global_step})'
        return f'{speed} ({self.images / self.seconds:.1f} images/s), {source}.'


@dataclasses.dataclass(frozen=True)
class Task:
    """What is predicted, and how: the same for each checkpoint.

    Attributes:
      network: the network, which gets the weights of a checkpoint.
      metrics: values of the parameters of each further metric, by names of registered metrics and of parameters.
      master: address of a TensorFlow server, empty for this process.
      use_moving_average: whether to use the moving averages (EMA) of the weights instead.
      cache_dirs: folders for converted networks if the folder of the checkpoint cannot be written.
      windows: sizes of windows for images of any size; None for images of the crop size.
      source: what is evaluated in place of a checkpoint, such as an ensemble; it needs windows. None for checkpoints.
    """

    network: InferenceNetwork
    split: Split
    resize: ResizeOptions
    metrics: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    master: str = ''
    use_moving_average: bool = False
    engine: EngineOptions = EngineOptions()
    cache_dirs: tuple[str, ...] = ()
    windows: WindowOptions | None = None
    source: network_source.NetworkSource | None = None

    def source_at(self, checkpoint: str) -> network_source.NetworkSource:
        """Returns what is evaluated for the path of a checkpoint or of an export."""
        return self.source or network_source.at(checkpoint)


def run_checkpoint(
    checkpoint: str,
    task: Task,
    program: str,
    keys: Sequence[str],
    background: overlap.Background[Any],
    handle: Callable[[Batch], None],
    keep_original: bool = False,
) -> CheckpointPass:
    """Predicts every image of a split with one checkpoint.

    Args:
      checkpoint: its path, or the path of an export, whose images are read in their own size (`Task.windows`).
      task: network and split.
      program: 'eval' or 'vis', for messages.
      keys: see `Reading`.
      background: works on the batches in threads, which have ended when this function returns.
      handle: called with each batch, see `run_batches`; hands it to `background`.
      keep_original: see `input_preprocess.eval_steps`.

    Raises:
      CheckpointError: The checkpoint does not match the network.
      DataError: An image cannot be decoded.
    """
    source = task.source_at(checkpoint)
    step = source.step() or 0
    number = task.split.num_images
    images = names.counted(number, 'image')
    logging.info("%s '%s' (step %d) on %s.", _DOING[program], checkpoint, step, images)
    reading = reading_of(task.split, task.network, task.resize, keys, task.windows, keep_original)
    weights = Weights(checkpoint, task.use_moving_average)
    with engine_run.prepared(task.network, weights, task.engine, task.cache_dirs, task.windows, source) as ready:
        started = time.monotonic()
        with background:
            run_batches(ready, reading, handle, f'{program} step {step}', task.master)
    seconds = time.monotonic() - started
    logging.info('%s in %.1f s (%.1f images/s).', images, seconds, number / seconds)
    engine = None if ready.report.is_default else ready.report
    return CheckpointPass(checkpoint=checkpoint, global_step=step, images=number, seconds=seconds, engine=engine)


def run_batches(
    network: Prepared,
    reading: Reading,
    handle: Callable[[Batch], None],
    title: str,
    master: str = '',
) -> None:
    """Predicts every image of a split, in order; reading the next images overlaps with it.

    TensorFlow predicts `GraphNetwork.at_once` batches at the same time: alone, a small one leaves cores idle.

    Args:
      network: the network with its weights.
      reading: the images and how they are read.
      handle: called with arrays [n, ...] by key, the ids under `PREDICTION` and, from a network with probabilities
        (`of_labels_only`), these under `CONFIDENCE`; n is the batch size, or less at the end.
      title: title of the progress bar.
      master: address of a TensorFlow server, empty for this process.

    Raises:
      DataError: An image cannot be decoded; the message names file, record and image.
    """
    split, steps, batch_size, keys, ahead, mean_pixel = reading
    with tf.Graph().as_default():
        with_label = split.has_labels and not {common.LABEL, common.ORIGINAL_LABEL}.isdisjoint(keys)
        pipeline = input_generator.get(
            split.reader,
            steps,
            batch_size,
            False,
            split.records,
            with_label=with_label,
            num_parallel=ahead if ahead == 1 else None,
            prefetch_batches=ahead,
        )
        fetches = _fetches(network, pipeline.samples, keys, mean_pixel)
        with (
            sessions.open_session(server=sessions.Server(master)) as running,
            input_generator.explain_input_errors(split.reader),
            tqdm.tqdm(total=split.num_images, desc=title, unit='image', disable=None) as bar,
        ):
            running.run(pipeline.initializer)
            read = functools.partial(running.run, fetches)
            if isinstance(network, GraphNetwork):
                predicted = in_order(read, split.records[::batch_size], 1 if master else network.at_once)
            else:
                assert pipeline.batches is not None  # one pass has an end
                predicted = _predicted(network, read, pipeline.batches, ahead)
            with contextlib.closing(predicted):  # its threads end before the session
                for fetched in predicted:
                    valid = fetched.pop(common.VALID)
                    wanted = {key: fetched[key] for key in (*keys, PREDICTION, CONFIDENCE, MAPS) if key in fetched}
                    handle(wanted if valid.all() else {key: values[valid] for key, values in wanted.items()})
                    bar.update(int(valid.sum()))


def _fetches(
    network: Prepared, samples: input_preprocess.Sample, keys: Sequence[str], mean_pixel: Sequence[float] | None
) -> dict[str, tf.Tensor]:
    """Returns what is computed of each batch: predictions, or the images if another engine predicts them."""
    fetches = {key: samples[key] for key in (*keys, common.VALID, common.RECORD)}
    if not isinstance(network, GraphNetwork):
        with tf.device('/device:CPU:0'):
            fetches[common.IMAGE] = input_preprocess.images_of(samples, mean_pixel)
        return fetches
    outputs = in_graph(network.frozen, input_preprocess.images_of(samples, mean_pixel))
    return fetches | _by_key(network, outputs)


def _by_key(network: Prepared, outputs: Outputs) -> dict[str, Any]:
    """Returns the outputs of a network, tensors or arrays, by the keys of a batch."""
    by_key = {PREDICTION: outputs.labels}
    if not network.is_semantic:
        by_key[MAPS] = outputs.probabilities
    elif outputs.probabilities is not None:
        by_key[CONFIDENCE] = outputs.probabilities[..., 0]
    return by_key


def in_order(read: Callable[[], Batch], firsts: np.ndarray, at_once: int) -> Generator[Batch, None, None]:
    """Yields all batches in order, from calls in several threads, each of which may get any of the next batches.

    Args:
      read: returns a batch, by the keys of `common`, `RECORD` among them.
      firsts: first record of each batch, in order; all differ.
      at_once: calls at the same time, 1 or more.
    """
    later = overlap.map_in_order(lambda _: read(), firsts[1:], at_once, at_once)
    with contextlib.closing(later) as batches:
        batch = read()  # alone: in the first run, TensorFlow prepares the graph for all
        done = {_first_record(batch): batch}  # a few
        for first in map(int, firsts):
            while first not in done:
                batch = next(batches)
                done[_first_record(batch)] = batch
            yield done.pop(first)


def _first_record(batch: Batch) -> int:
    return int(batch[common.RECORD][0])


def _predicted(
    network: EngineNetwork, read: Callable[[], Batch], batches: int, ahead: int
) -> Generator[Batch, None, None]:
    """Yields each batch with its predictions, from another engine; a thread reads the next batches meanwhile."""
    read_ahead = overlap.map_in_order(lambda _: read(), range(batches), workers=1, ahead=ahead - 1)
    with contextlib.closing(read_ahead) as read_batches:
        for batch in read_batches:
            yield batch | _by_key(network, network.predict(batch[common.IMAGE]))
