"""The images without labels of a training: their folder, its check, and two views of each image."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from deeplab import common, input_preprocess, names
from deeplab.checks import record_check
from deeplab.core import feature_extractor, preprocess_utils
from deeplab.core.augmentations import cutmix
from deeplab.datasets import folders, pairs
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.datasets.segmentation_dataset import SegmentationDataset
from deeplab.errors import DataError
from deeplab.evaluation import runner
from deeplab.evaluation.runner import CheckedSplit
from deeplab.options import IMAGE_FORMATS, TrainOptions
from deeplab.registry import AUGMENTATIONS, CROP, MIX, Augmentation, AugmentContext
from deeplab.registry.augmentations import keep_points
from deeplab.utils import input_generator
from deeplab.wording import option

SPLIT = 'unlabeled'
_PARTS_OF_CROP = 4  # an image has at least 1 / n of the rows and columns of the crop
_FIELD = 'UnlabeledOptions.directory'
# Added to the seed, so that an image with labels that is also among those without gets other crops.
_SEED_OFFSET = 0x756E6C61
_RANDOM_SET = 'random_set'
_BOX_SEED = AUGMENTATIONS.get('cutmix').seed_purpose


def open_split(options: TrainOptions, descriptor: DatasetDescriptor) -> CheckedSplit | None:
    """Finds the images without labels and checks them; None if the training uses none.

    Args:
      options: the training.
      descriptor: the data set of the images with labels, which have as many channels.

    Raises:
      DataError: The folder has no image, or one that cannot be read, has other channels or is too small.
    """
    folder = options.unlabeled.directory
    if folder is None:
        return None
    folders.require_folder(folder, _FIELD)
    items = tuple(
        pairs.SourceFiles(path, None, os.path.splitext(os.path.relpath(path, folder))[0])
        for here, files in folders.walk(folder)
        for path in (os.path.join(here, name) for name in files)
        if path.lower().endswith(tuple(f'.{kind}' for kind in IMAGE_FORMATS))
    )
    if not items:
        raise DataError(
            f"There is no image in '{folder}' ({', '.join(IMAGE_FORMATS)}). {folders.summary(folder)} Set "
            f'{option(_FIELD)} to a folder of images.'
        )
    skips = options.dataset.skip_corrupt_records
    dataset = SegmentationDataset(descriptor, SPLIT, folder, (), items, skips)
    cache_dir = options.train_logdir if options.clones.is_chief else None
    try:
        split = runner.checked_split(dataset, options.model, False, cache_dir)
    except DataError as error:
        raise DataError(f'{option(_FIELD, folder)}: {error}') from None
    _require_large(options, split.check_result, folder)
    logging.info('%s without labels in %s.', names.counted(split.num_images, 'image'), folder)
    return split


def _require_large(options: TrainOptions, checked: record_check.CheckResult, folder: str) -> None:
    """Raises `DataError` if crops of an image would be padding for the most part."""
    assert options.model.crop_size is not None
    crop = np.array(options.model.crop_size)
    sizes = np.array([input_preprocess.size_in_range(options.resize, int(h), int(w)) for h, w in checked.sizes])
    is_small = (sizes * _PARTS_OF_CROP < crop).any(axis=1)
    if is_small.any():
        place = int(np.argmin(np.where(is_small, sizes.min(axis=1), np.iinfo(np.int32).max)))
        height, width = sizes[place]
        raise DataError(
            f"{is_small.sum()} of {len(sizes)} images in '{folder}' are too small, such as "
            f"'{checked.index.name_of(int(checked.records[place]))}' with {height} x {width} pixels (height x width). "
            f'Each side must be at least a quarter of {option("ModelOptions.crop_size", tuple(crop.tolist()))}. '
            'Remove these images, or set a smaller crop.'
        )


def view_steps(options: TrainOptions, ignore_label: int) -> list[input_preprocess.Step]:
    """Returns the preprocessing of an image without a label.

    The weak view is made as images with labels are: scaled, cropped, flipped, and changed by whatever else moves pixels
    and is on. The strong view is the weak one, changed by `UnlabeledOptions.augmentations`: both show the same place at
    each pixel. The label is the ignore label at pixels outside the image and at pixels that the strong view hides.

    Args:
      options: the training.
      ignore_label: label of pixels excluded from the loss.

    Returns:
      Steps from a decoded image to the strong view, `common.IMAGE`, with `common.WEAK_IMAGE`, `common.LABEL` and
      `common.MIX_BOX`.

    Source: arXiv:2001.07685, section 2.3 (weak and strong views); arXiv:1909.13719, section 3 (random set).
    """
    assert options.model.crop_size is not None
    unlabeled, crop_size = options.unlabeled, options.model.crop_size
    mean_pixel = feature_extractor.mean_pixel(options.model.model_variant, options.model.input_channels)
    others = [record for record in AUGMENTATIONS.records() if not _is_weak(record)]
    dropped = {parameter.name for record in others for parameter in record.parameters}
    settings = {name: value for name, value in dict(options.augment.settings).items() if name not in dropped}
    weak = dataclasses.replace(options.augment, settings=settings)
    context = AugmentContext(crop_size, mean_pixel, ignore_label)
    return [
        _add_label(ignore_label),
        *input_preprocess.train_steps(crop_size, options.resize, weak, mean_pixel, ignore_label).values(),
        _keep_weak_view,
        input_preprocess.change(AUGMENTATIONS.get(_RANDOM_SET), unlabeled.strong, context),
        _add_mix_box(unlabeled.cutmix_probability),
    ]


def _is_weak(record: Augmentation) -> bool:
    """Returns whether an augmentation is for the weak view: it moves pixels, of one image, wherever its classes are."""
    return record.stage not in (CROP, MIX) and record.name != _RANDOM_SET and record.move_points is not keep_points


def _add_label(ignore_label: int) -> input_preprocess.Step:
    """Adds a label that is not the ignore label anywhere, [h, w, 1] uint8."""
    inside = int(ignore_label == 0)

    def step(sample: input_preprocess.Sample) -> input_preprocess.Sample:
        size = preprocess_utils.size_of(sample[common.IMAGE])
        return {**sample, common.LABEL: tf.fill([*size, 1], tf.constant(inside, tf.uint8))}

    return step


def _keep_weak_view(sample: input_preprocess.Sample) -> input_preprocess.Sample:
    return {**sample, common.WEAK_IMAGE: sample[common.IMAGE]}


def _add_mix_box(probability: float) -> input_preprocess.Step:
    """Adds the box in which the image shows another one: empty but for a fraction of the images."""

    def step(sample: input_preprocess.Sample) -> input_preprocess.Sample:
        seeds = tf.random.experimental.stateless_split(input_preprocess.seed_of(sample, _BOX_SEED), 2)
        is_mixed = tf.random.stateless_uniform([], seeds[0]) < probability
        box = cutmix.box(preprocess_utils.size_of(sample[common.IMAGE]), seeds[1])  # [h, w]
        return {**sample, common.MIX_BOX: (box & is_mixed)[..., tf.newaxis]}

    return step


def build_input(
    options: TrainOptions, split: CheckedSplit, first_position: int | tf.Tensor, **own: Any
) -> input_generator.Pipeline:
    """Builds an input pipeline on this process's CPU, with batches for one clone each.

    Args:
      options: the training.
      split: its images without labels.
      first_position: position among these to start at, the first of a step.
      **own: arguments of `input_generator.get` for a pipeline that reads for a single clone.
    """
    with tf.device('/device:CPU:0'):
        return input_generator.get(
            split.reader,
            view_steps(options, split.ignore_label),
            options.unlabeled_clone_batch_size,
            is_training=True,
            records=split.records,
            seed=options.seed + _SEED_OFFSET,
            first_position=first_position,
            with_label=False,
            **own,
        )
