"""Proof of an export: its labels, probabilities and mean IoU compared with the network of the checkpoint.

Images of a split are for the comparison, and for the calibration of an export before it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np
import tensorflow as tf
from absl import logging

from deeplab import common, input_preprocess, names
from deeplab.core import metrics, sessions
from deeplab.datasets.segmentation_dataset import DataSource
from deeplab.errors import DataError
from deeplab.evaluation import differences, runner, split_images
from deeplab.evaluation.image_results import ImageResults
from deeplab.export import export_graph, portable
from deeplab.inference.runners import Runner, padded
from deeplab.options import ExportOptions
from deeplab.registry import ExportFormat, Outputs
from deeplab.utils import input_generator
from deeplab.wording import option


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Predictions of an export and its checkpoint on the same images.

    Attributes:
      images: number of images.
      agreement: fraction of the pixels with the same label.
      difference: largest difference of probabilities; None for an export without.
    """

    images: int
    agreement: float
    difference: float | None


@dataclasses.dataclass(frozen=True)
class Verified:
    """Mean IoU of an export and its checkpoint on a split, 0 to 1.

    Attributes:
      split: name of the split.
      images: number of images.
      checkpoint_miou: mean IoU of the checkpoint.
      miou: mean IoU of the export.
      difference: export minus checkpoint, and both ends of its 95 % interval; None for ends that are unknown, as with
        a single image.
    """

    split: str
    images: int
    checkpoint_miou: float
    miou: float
    difference: tuple[float, float | None, float | None]


def calibration_images(options: ExportOptions, source: DataSource, mean_pixel: np.ndarray) -> Iterator[np.ndarray]:
    """Yields images of the calibration split, padded or cut to the crop: [1, h, w, channels] float32, 0 to 255.

    Raises:
      DataError: the split does not exist, or has no image.
    """
    split, number = options.conversion.calibration_split, options.conversion.calibration_images
    crop_size = export_graph.crop_size_of(options)
    for image in images_of(options, source, split, number, 'ConversionOptions.calibration_split'):
        yield padded(image[np.newaxis, : crop_size[0], : crop_size[1]], crop_size, mean_pixel)


def images_of(options: ExportOptions, source: DataSource, split: str, number: int, field: str) -> Iterator[np.ndarray]:
    """Yields images of a split, evenly spaced over it: [h, w, channels] float32, 0 to 255.

    Args:
      options: the channels of the network.
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
            f"{option(field, split)}: the split has no image in '{data.directory}'. Give another split, or build its "
            'records'
        )
    descriptor = data.descriptor
    if descriptor.image_channels != options.model.input_channels:
        raise DataError(
            f'{option(field, split)}: its images have {descriptor.image_channels} channels, the network takes '
            f'{options.model.input_channels}. Give the data set of the training'
        )
    reader = input_generator.RecordReader(index, descriptor.image_channels, descriptor.image_bits)
    records = np.unique(np.linspace(0, count - 1, min(number, count)).astype(np.int64)).tolist()
    steps = [
        input_preprocess.resize_to_range(options.resize),
        input_preprocess.note_size,
        input_preprocess.to_numbers,
    ]
    with tf.Graph().as_default():
        pipeline = input_generator.get(reader, steps, 1, False, records, with_label=False)
        with sessions.open_session() as running, input_generator.explain_input_errors(reader):
            running.run(pipeline.initializer)
            for _ in records:
                sample = running.run(pipeline.samples)
                height, width = int(sample[common.HEIGHT][0]), int(sample[common.WIDTH][0])
                yield sample[common.IMAGE][0, :height, :width]


def compared(predictions: Iterable[tuple[Outputs, Outputs]]) -> Comparison:
    """Compares what an export predicts for images with what its network predicts: pairs of both, image by image."""
    images = equal = pixels = 0
    most: float | None = None
    for outputs, expected in predictions:
        images += 1
        equal += int(np.sum(outputs.labels == expected.labels))
        pixels += expected.labels.size
        if outputs.probabilities is not None:
            difference = np.max(np.abs(outputs.probabilities - expected.probabilities))
            most = float(np.maximum(most or 0.0, difference))  # keeps a difference that is no number
    return Comparison(images, equal / pixels, most)


class Verification:
    """Evaluates exports on a split, and the checkpoint once."""

    def __init__(self, options: ExportOptions, source: DataSource, network: Runner) -> None:
        """Opens the split.

        Raises:
          UserError: it does not exist, is damaged, has other classes or none, or an image that is larger than the crop.
        """
        assert options.proof.verify_split is not None
        self._split_name = options.proof.verify_split
        self._split = runner.open_split(source.split(self._split_name), options.model, options.resize, True, None)
        if not self._split.check_result.class_pixels.any():
            raise DataError(
                f'{option("ProofOptions.verify_split", self._split_name)}: no pixel of its masks has a class, so that '
                'there is no mean IoU. Choose another split'
            )
        self._network = network
        self._counts: np.ndarray | None = None

    def of(self, export: Runner) -> Verified:
        """Evaluates an export."""
        descriptor = self._split.descriptor
        steps = [input_preprocess.note_size, input_preprocess.to_numbers]
        with (
            ImageResults(descriptor.num_classes, descriptor.ignore_label) as first,
            ImageResults(descriptor.num_classes, descriptor.ignore_label) as second,
        ):
            for sample in split_images.samples(self._split, steps, range(self._split.num_images)):
                name = names.shown(sample.name)
                if self._counts is None:
                    # With probabilities, as for the comparison, for which this network is open.
                    first.add(name, sample.truth, self._network.run(sample.image[np.newaxis], True).labels[0])
                second.add(name, sample.truth, export.run(sample.image[np.newaxis], False).labels[0])
            if self._counts is None:
                self._counts = first.counts()
            counts = second.counts()
        difference, _ = differences.paired(self._counts, counts)
        expected, miou = _miou(self._counts), _miou(counts)
        logging.info('%d images of %s evaluated.', self._split.num_images, self._split_name)
        return Verified(
            self._split_name,
            self._split.num_images,
            expected,
            miou,
            (miou - expected, *difference[1:]),
        )


def _miou(counts: np.ndarray) -> float:
    """Returns the mean IoU of [images, 3, classes] counts."""
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
