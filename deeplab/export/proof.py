"""Proof of an export: its mean IoU compared with the network of the checkpoint, and the layers that add its error.

Images of a split are for the comparison, and for the calibration of an export before it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from deeplab import common, input_preprocess
from deeplab.core import metrics
from deeplab.core.metrics import confusion_matrix
from deeplab.datasets.segmentation_dataset import DataSource
from deeplab.errors import DataError
from deeplab.evaluation import differences, runner, split_images, task_results
from deeplab.export import export_graph, portable
from deeplab.inference import model_source
from deeplab.inference.resizing import padded
from deeplab.inference.runners import Runner
from deeplab.options import ExportOptions, ResizeOptions
from deeplab.registry import PREPROCESSINGS, TASKS, ExportFormat
from deeplab.utils import input_generator
from deeplab.wording import option


@dataclasses.dataclass(frozen=True)
class Verified:
    """Mean IoU of an export and its checkpoint on a split, 0 to 1, and the figures of further tasks.

    Attributes:
      split: name of the split.
      images: number of images.
      checkpoint_miou: mean IoU of the checkpoint; None for a network without classes.
      miou: mean IoU of the export.
      difference: export minus checkpoint, and both ends of its 95 % interval; None for ends that are unknown, as with
        a single image.
      figures: figures of checkpoint and export by the headlines of the tasks, see `registry.Task.headline`; empty for
        `semantic`.
    """

    split: str
    images: int
    checkpoint_miou: float | None
    miou: float | None
    difference: tuple[float | None, float | None, float | None]
    figures: Mapping[str, tuple[float | None, float | None]] = dataclasses.field(default_factory=dict)

    def losses(self) -> dict[str, tuple[float, float, float]]:
        """Returns by name of a known figure how much worse the export is, its figure, and the checkpoint's."""
        pairs = {'mean IoU': (self.checkpoint_miou, self.miou), **self.figures}
        return {
            name.removeprefix('-'): ((before - after) * (-1 if name.startswith('-') else 1), after, before)
            for name, (before, after) in pairs.items()
            if before is not None and after is not None
        }


def calibration_images(options: ExportOptions, source: DataSource, mean_pixel: np.ndarray) -> Iterator[np.ndarray]:
    """Yields images of the calibration split, padded to the crop: [1, h, w, channels] float32, 0 to 255.

    Raises:
      DataError: the split does not exist, or has no image.
    """
    split, number = options.conversion.calibration_split, options.conversion.calibration_images
    crop_size = export_graph.crop_size_of(options)
    for image in images_of(options, source, split, number, 'ConversionOptions.calibration_split'):
        yield padded(image[np.newaxis], crop_size, mean_pixel)


def images_of(options: ExportOptions, source: DataSource, split: str, number: int, field: str) -> Iterator[np.ndarray]:
    """Yields images of a split, evenly spaced over it: [h, w, channels] float32, 0 to 255.

    They are changed as before the export in use: resized as in the training, and downscaled if they are still larger
    than the crop.

    Args:
      options: channels, crop size and resizing of the network.
      source: the data set.
      split: name of the split.
      number: the most images that are needed.
      field: option that names the split, for messages.

    Raises:
      DataError: the split does not exist, has no image, or images of other channels.
    """
    data = source.split(split)
    index = data.open_records()
    count = len(index)
    if not count:
        raise DataError(
            f"{option(field, split)}: the split has no image in '{data.directory}'. Use another split, or build its "
            'records'
        )
    descriptor = data.descriptor
    if descriptor.image_channels != options.model.input_channels:
        raise DataError(
            f'{option(field, split)}: its images have {descriptor.image_channels} channels, but the network '
            f'expects {options.model.input_channels}. Pass the data set of the training run'
        )
    reader = input_generator.RecordReader(index, descriptor.image_channels, descriptor.image_bits)
    records = np.unique(np.linspace(0, count - 1, min(number, count)).astype(np.int64))
    change, *further = _steps(options)
    for sample in split_images.batches(reader, [change, _shrink(options), *further], records, with_label=False):
        height, width = int(sample[common.HEIGHT][0]), int(sample[common.WIDTH][0])
        image = sample[common.IMAGE][0, :height, :width]
        yield np.rint(image) if options.image_bits == 8 else image  # some exports take integers


def _resizing(options: ExportOptions) -> ResizeOptions:
    """Returns how images of a split are resized: as by the export, or else as in the training of its checkpoint."""
    return options.resize if options.resize.is_set else model_source.resizing_in_training(options.checkpoint_path)


def _steps(options: ExportOptions) -> list[input_preprocess.Step]:
    """Returns the preprocessing of images of a split."""
    resize = PREPROCESSINGS.of_network(options.model) or _resizing(options)
    change = input_preprocess.resize_for(resize, options.model.crop_size)
    return [change, input_preprocess.note_size, input_preprocess.to_numbers]


def _shrink(options: ExportOptions) -> input_preprocess.Step:
    """Returns the step that downscales images larger than the crop, with their aspect ratio, as docs/deployment.md."""
    crop_size = export_graph.crop_size_of(options)

    def step(sample: input_preprocess.Sample) -> input_preprocess.Sample:
        image = sample[common.IMAGE]
        most = tf.minimum(tf.shape(image)[:2], crop_size)
        shrunk = tf.image.resize(image, most, preserve_aspect_ratio=True, antialias=True)
        return {**sample, common.IMAGE: shrunk}

    return step


class Verification:
    """Evaluates exports on a split, and the checkpoint once for each way to pad its images."""

    def __init__(
        self,
        options: ExportOptions,
        source: DataSource,
        calibration: Mapping[str, Any] | None = None,
    ) -> None:
        """Opens the split; see `task_data.context_of` for the calibration.

        Raises:
          UserError: it does not exist, is damaged, has other classes or none, or an image that is larger than the crop.
        """
        assert options.proof.verify_split is not None
        self._model, self._steps = options.model, _steps(options)
        self._calibration = calibration
        self._split_name = options.proof.verify_split
        data = source.split(self._split_name)
        self._split = runner.open_split(data, options.model, _resizing(options), True, None)
        self._has_classes = options.model.is_semantic or self._scores().has_classes
        if self._has_classes and not self._split.check_result.class_pixels.any():
            raise DataError(
                f'{option("ProofOptions.verify_split", self._split_name)}: no pixel of its masks has a class, so that '
                'there is no mean IoU. Choose another split'
            )
        self._of_checkpoint: dict[Runner, tuple[np.ndarray, dict[str, float | None]]] = {}

    def _scores(self) -> task_results.TaskScores:
        return task_results.TaskScores(self._split.descriptor, self._model, self._calibration)

    def of(self, export: Runner, reference: Runner) -> Verified:
        """Evaluates an export, and the checkpoint in `reference`."""
        if reference not in self._of_checkpoint:
            # With probabilities, as for the comparison, for which this network is open.
            self._of_checkpoint[reference] = self._evaluated(reference, True)
        expected, figures = self._of_checkpoint[reference]
        counts, of_export = self._evaluated(export, not self._model.is_semantic)
        logging.info('%d images of %s evaluated.', self._split.num_images, self._split_name)
        pairs = {name: (figure, of_export[name]) for name, figure in figures.items()}
        if not self._has_classes:
            return Verified(self._split_name, self._split.num_images, None, None, (None, None, None), pairs)
        (_, low, high), _ = differences.paired(expected, counts)
        before, after = _miou(expected), _miou(counts)
        return Verified(self._split_name, self._split.num_images, before, after, (after - before, low, high), pairs)

    def _evaluated(self, network: Runner, with_probabilities: bool) -> tuple[np.ndarray, dict[str, float | None]]:
        """Evaluates a network; returns counts as `differences.paired` takes them, and the figures of its tasks."""
        split, descriptor = self._split, self._split.descriptor
        scores = None if self._model.is_semantic else self._scores()
        counts = []
        for batch in split_images.batches(split.reader, self._steps, split.records, split.has_labels):
            outputs = network.run(batch[common.IMAGE], with_probabilities)
            if self._has_classes:
                (matrix,) = confusion_matrix.of_images(
                    batch[common.LABEL][..., 0], outputs.labels, descriptor.num_classes, descriptor.ignore_label
                )
                counts.append([np.diagonal(matrix), matrix.sum(axis=1), matrix.sum(axis=0)])
            if scores is not None:
                scores.update(batch, outputs.probabilities)
        accumulators = {} if scores is None else scores.accumulators
        figures = {
            task.headline: accumulators[task.name].result()[task.headline.removeprefix('-')]
            for task in TASKS.chosen(self._model)
            if task.headline and task.name in accumulators
        }
        return np.array(counts, np.int64), figures


def _miou(counts: np.ndarray) -> float:
    return float(metrics.mean_of_known(metrics.class_iou(counts.sum(axis=0))[None])[0])


def layers_by_error(record: ExportFormat, path: str, exact_path: str, image: np.ndarray) -> list[tuple[str, float]]:
    """Returns the layers of an export with the error that each adds, the largest first.

    The error of a layer is the root mean square of the difference between its activations and the float32 activations,
    divided by their standard deviation. A layer adds the difference between its error and the error of the layer before
    it.

    Args:
      record: format with `activations`.
      path: path of the export.
      exact_path: path of the same network in the same format, in float32.
      image: [1, h, w, channels].
    """
    assert record.activations is not None
    activations, expected = (
        {name.removeprefix(portable.PREFIX): values for name, values in record.activations(each, image).items()}
        for each in (path, exact_path)
    )
    added = []
    before = 0.0
    for name, values in expected.items():
        others = activations.get(name)
        deviation = float(np.std(values))
        if others is None or others.shape != values.shape or deviation == 0.0:
            continue
        error = float(np.sqrt(np.mean(np.square(others - values)))) / deviation
        added.append((name, error - before))
        before = error
    return sorted(added, key=lambda pair: -pair[1])
