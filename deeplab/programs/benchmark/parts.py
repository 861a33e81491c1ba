"""Speed of the parts around the network: reading and decoding records, writing predictions."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from deeplab import common, vis
from deeplab.core import sessions
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.datasets.record_index import Records
from deeplab.datasets.segmentation_dataset import DataSource
from deeplab.evaluation import runner
from deeplab.export.speed import timed
from deeplab.options import DatasetOptions, ResizeOptions
from deeplab.pictures.sample_image import sample_image
from deeplab.programs.benchmark.figures import Parts
from deeplab.utils import input_generator

_SECONDS = 2.0
_MOST_RECORDS = 500
_KEPT = (common.IMAGE, common.LABEL)


def measure(dataset: DatasetOptions, size: tuple[int, int], folder: str) -> Parts:
    """Measures reading a split, and writing images of a size to a folder for files that nobody needs afterwards.

    Raises:
      UserError: there is no such split, or a record cannot be read.
    """
    data = DataSource(dataset).split()
    return Parts(_reading(data.descriptor, data.open_records()), _writing(data.descriptor, size, folder))


def _reading(descriptor: DatasetDescriptor, index: Records) -> float:
    """Returns images per second of reading and decoding, with all cores."""
    reader = input_generator.RecordReader(index, descriptor.image_channels, descriptor.image_bits)
    records = range(min(len(index), _MOST_RECORDS))

    def keep(sample: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return {key: value for key, value in sample.items() if key in _KEPT}

    with tf.Graph().as_default(), input_generator.explain_input_errors(reader), sessions.open_session() as session:
        pipeline = input_generator.get(reader, [keep], 1, False, records)
        fetches = [value.op for value in pipeline.samples.values()]

        def batches() -> Iterator[None]:
            while True:
                session.run(pipeline.initializer)
                for _ in range(pipeline.batches or 0):
                    session.run(fetches)
                    yield

        _, *seconds = timed(batches().__next__, _SECONDS)  # the first one warms up
        return len(seconds) / sum(seconds)


def _writing(descriptor: DatasetDescriptor, size: tuple[int, int], folder: str) -> float:
    """Returns images per second of what vis writes: image, colored prediction and class ids."""
    height, width = size
    image, mask = sample_image(size, descriptor.image_channels, num_classes=descriptor.num_classes)
    image, labels = image.astype(np.float32), mask.astype(np.int32)
    pictures_dir, raw_dir = (os.path.join(folder, name) for name in (vis.PICTURES, vis.RAW_PREDICTIONS))
    for path in (pictures_dir, raw_dir):
        os.makedirs(path, exist_ok=True)
    pictures = vis.Pictures(pictures_dir, raw_dir, descriptor, ResizeOptions(), descriptor.palette)
    started = time.perf_counter()
    with (writer := vis.Writer(pictures.write)):
        for count in itertools.count(1):
            sample = {
                common.IMAGE: image, common.IMAGE_NAME: f'image_{count}'.encode(), common.HEIGHT: np.int32(height),
                common.WIDTH: np.int32(width), runner.PREDICTION: labels,
            }  # fmt: skip
            writer.add_batch({key: np.array([value]) for key, value in sample.items()})
            if time.perf_counter() > started + _SECONDS:
                break
    return count / (time.perf_counter() - started)
