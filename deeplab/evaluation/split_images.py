"""Images of a split with their truth, read without a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from deeplab import common, input_preprocess
from deeplab.core import sessions
from deeplab.evaluation import runner
from deeplab.utils import input_generator


class Sample(NamedTuple):
    """An image without padding.

    Attributes:
      name: name in its record.
      image: [h, w, channels] float32, 0 to 255.
      truth: [h, w] ids; all 0 without class ids.
      parts: class ids [h, w, 1] and further planes, by the names in `common` and their keys.
    """

    name: bytes
    image: np.ndarray
    truth: np.ndarray
    parts: Mapping[str, np.ndarray]


def samples(split: runner.Split, steps: Sequence[input_preprocess.Step], images: Sequence[int]) -> Iterator[Sample]:
    """Yields the images with the given numbers in the split.

    Raises:
      DataError: An image cannot be decoded.
    """
    for batch in batches(split.reader, steps, [split.records[image] for image in images], split.has_labels):
        sample = {key: value[0] for key, value in batch.items()}
        height, width = int(sample[common.HEIGHT]), int(sample[common.WIDTH])
        padded = sample[common.IMAGE].shape[:2]
        parts = {key: each[:height, :width] if np.shape(each)[:2] == padded else each for key, each in sample.items()}
        truth = parts.get(common.LABEL, np.zeros((height, width, 1), np.int32))
        yield Sample(sample[common.IMAGE_NAME], parts[common.IMAGE], truth[..., 0], parts)


def batches(
    reader: input_generator.RecordReader,
    steps: Sequence[input_preprocess.Step],
    records: Sequence[int] | np.ndarray,
    with_label: bool,
) -> Iterator[runner.Batch]:
    """Yields images as batches of one, with all that their records have.

    Args:
      reader: where they come from.
      steps: preprocessing of each image.
      records: numbers of their records.
      with_label: whether masks are decoded.

    Raises:
      DataError: An image cannot be decoded.
    """
    with tf.Graph().as_default():
        pipeline = input_generator.get(reader, steps, 1, False, records, with_label=with_label)
        with sessions.open_session() as running, input_generator.explain_input_errors(reader):
            running.run(pipeline.initializer)
            for _ in records:
                yield running.run(pipeline.samples)
