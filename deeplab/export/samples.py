"""Images of a split, on which an export is calibrated or compared with its checkpoint."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from deeplab import common, input_preprocess
from deeplab.core import sessions
from deeplab.datasets import segmentation_dataset
from deeplab.errors import DataError
from deeplab.export import export_graph
from deeplab.inference.runners import padded
from deeplab.options import ExportOptions
from deeplab.utils import input_generator
from deeplab.wording import option


def calibration(options: ExportOptions, dataset: str, mean_pixel: np.ndarray) -> Iterator[np.ndarray]:
    """Yields images of the calibration split, padded or cut to the crop: [1, h, w, channels] float32, 0 to 255.

    Raises:
      DataError: the split does not exist, or has no image.
    """
    split, number = options.conversion.calibration_split, options.conversion.calibration_images
    crop_size = export_graph.crop_size_of(options)
    for image in of_split(options, dataset, split, number, 'ConversionOptions.calibration_split'):
        yield padded(image[np.newaxis, : crop_size[0], : crop_size[1]], crop_size, mean_pixel)


def of_split(options: ExportOptions, dataset: str, split: str, number: int, field: str) -> Iterator[np.ndarray]:
    """Yields images of a split, evenly spaced over it: [h, w, channels] float32, 0 to 255.

    Args:
      options: the folder of the records, and the channels of the network.
      dataset: name or file of the data set.
      split: name of the split.
      number: the most images that are needed.
      field: option that names the split, for messages.

    Raises:
      DataError: the split does not exist, has no image, or images of other channels.
    """
    directory = options.proof.dataset_dir
    assert directory is not None  # the options have checked it
    data = segmentation_dataset.get_dataset(dataset, split, directory)
    index = data.open_records()
    count = len(index)
    if not count:
        raise DataError(
            f"{option(field, split)}: the split has no image in '{directory}'. Give another split, or build its records"
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
