"""Preprocessing of samples between record and network, as a list of small steps.

A sample is a dict keyed by the names in `common`; a step takes a sample and returns a new one. Image and label move
together; a sample without a label passes through every step. Random steps draw from the sample's own seed.

Further planes that a task needs move as further planes of the label: the first step joins them to [h, w, planes] int32
(floats as their bits), the last one takes them apart. Points, [n, k, 2] rows and columns, move by themselves.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from deeplab import common
from deeplab.core import preprocess_utils
from deeplab.datasets.planes import DEPTHS, IDS, Plane
from deeplab.errors import OptionError
from deeplab.options import AugmentOptions, ResizeOptions
from deeplab.registry import (
    AFTER_CROP,
    AFTER_PADDING,
    AUGMENTATIONS,
    BEFORE_CROP,
    CROP,
    MIX,
    Augmentation,
    AugmentContext,
    Preprocessing,
    Task,
    TaskContext,
)
from deeplab.registry.augmentations import (
    CROP_SEED,
    JOIN_PLANES,
    NUMBERS,
    PAD,
    PREPROCESS,
    PREPROCESS_SEED,
    RESIZE,
    SCALE_AND_CROP,
    SCALE_SEED,
    SPLIT_PLANES,
)

Sample = dict[str, tf.Tensor]
Step = Callable[[Sample], Sample]
Draw = Callable[[tf.Tensor], Sample]  # a random sample for a seed


def fill_of(planes: Iterable[Plane], ignore_label: int) -> tuple[int, ...]:
    """Returns what each plane of a joined label has beyond the image, class ids first."""
    return (ignore_label, *(plane.fill for plane in planes for _ in range(plane.channels)))


def join_planes(planes: Sequence[Plane], ignore_label: int) -> Step:
    """Joins planes to the label, [h, w, planes] int32; a sample without a label gets one of the ignore label."""

    def step(sample: Sample) -> Sample:
        parts = {plane.key: sample[plane.key] for plane in planes}
        label = sample.get(common.LABEL)
        if label is None:
            label = tf.fill([*preprocess_utils.size_of(sample[common.IMAGE]), 1], ignore_label)
        ids = [tf.bitcast(part, tf.int32) if part.dtype == tf.float32 else part for part in parts.values()]
        joined = tf.concat([tf.cast(part, tf.int32) for part in (label, *ids)], axis=2)  # [h, w, planes]
        return {key: value for key, value in sample.items() if key not in parts} | {common.LABEL: joined}

    return step


def split_planes(planes: Sequence[Plane]) -> Step:
    """Takes the planes that `join_planes` has joined apart: integers as int32, floats as float32."""

    def step(sample: Sample) -> Sample:
        label, *parts = tf.split(sample[common.LABEL], [1, *(plane.channels for plane in planes)], axis=2)
        moved = {common.LABEL: label}
        for plane, part in zip(planes, parts, strict=True):
            moved[plane.key] = tf.bitcast(part, tf.float32) if plane.kind == DEPTHS else part
        return sample | moved

    return step


def train_steps(
    crop_size: tuple[int, int],
    resize: ResizeOptions,
    augment: AugmentOptions,
    mean_pixel: Sequence[float],
    ignore_label: int,
    class_pixels: Sequence[int] | None = None,
    planes: Sequence[Plane] = (),
) -> dict[str, Step]:
    """Returns the steps of training by name, in order: resize, scale and crop, pad, and the augmentations that are on.

    Only sides smaller than the crop are padded, and only larger ones are cropped, so the two commute: cropping comes
    first, while there is less to copy. For the same reason types are changed after it. Where each augmentation runs is
    the stage of its record (`registry.Augmentation`).

    Args:
      crop_size: rows and columns of the network's input.
      resize: range of the sides after resizing.
      augment: the random changes.
      mean_pixel: RGB, 0 to 255; the pixel that the network normalizes to zero.
      ignore_label: label of padded pixels.
      class_pixels: number of pixels of each class in the split, for crops at rare classes; None to count them in each
        image.
      planes: what samples have beside the label; lists, such as points, move by themselves.

    Source: arXiv:1706.05587, section 4 (data augmentation).
    """
    lists = [plane.key for plane in planes if plane.is_list]
    planes = [plane for plane in planes if not plane.is_list]
    kinds = [plane.kind for plane in planes for _ in range(plane.channels)]
    ids = tuple(number for number, kind in enumerate(kinds, start=1) if kind == IDS)  # 0 has the class ids
    context = AugmentContext(crop_size, mean_pixel, ignore_label, class_pixels, fill_of(planes, ignore_label), ids)

    def of_stage(stage: str) -> dict[str, Step]:
        records = [record for record in augment.active if record.stage == stage]
        if stage == MIX and records and lists:
            raise OptionError(
                f"The augmentation '{records[0].name}' mixes samples, which it cannot do with lists of this task "
                f'({", ".join(lists)}). Switch it off.'
            )
        kind = Mixing if stage == MIX else change
        return {record.name: kind(record, augment, context) for record in records}

    return {
        **({JOIN_PLANES: join_planes(planes, ignore_label)} if planes else {}),
        RESIZE: resize_to_range(resize),
        **of_stage(BEFORE_CROP),
        SCALE_AND_CROP: scale_and_crop(augment, context),
        NUMBERS: to_numbers,
        **of_stage(MIX),
        **of_stage(AFTER_CROP),
        PAD: pad_to(crop_size, mean_pixel, context.label_fill),
        **of_stage(AFTER_PADDING),
        **({SPLIT_PLANES: split_planes(planes)} if planes else {}),
    }


def train_steps_per_image(
    preprocessing: Preprocessing, crop_size: tuple[int, int], augment: AugmentOptions, mean_pixel: Sequence[float]
) -> dict[str, Step]:
    """Returns the steps of training by name, in order, for a network with a vector for each image.

    Besides the preprocessing, those augmentations run whose parameters are not at their defaults.

    Args:
      preprocessing: changes images to the size of the network's input.
      crop_size: rows and columns of this.
      augment: the random changes.
      mean_pixel: see `train_steps`.

    Raises:
      OptionError: such an augmentation places crops, or has no meaning for an image as a whole.
    """
    replaced = AUGMENTATIONS.get('flip') if preprocessing.flips else None
    settings = {} if replaced is None else augment.settings_of(replaced)

    def preprocess(sample: Sample) -> Sample:
        image = preprocessing.train(sample[common.IMAGE], seed_of(sample, PREPROCESS_SEED), crop_size, **settings)
        return {**sample, common.IMAGE: image}

    steps: dict[str, Step] = {PREPROCESS: preprocess}
    context = AugmentContext(crop_size, mean_pixel, ignore_label=0)
    for record in augment.active:
        defaults = {parameter.name: parameter.default for parameter in record.parameters}
        if record is not replaced and augment.settings_of(record) != defaults:
            if record.stage == CROP:
                raise OptionError(
                    f"The augmentation '{record.name}' places crops, which this task does not have. Switch it off."
                )
            if reason := record.not_per_image(crop_size):
                raise OptionError(f"The augmentation '{record.name}' is not for this task: {reason}. Switch it off.")
            steps[record.name] = (Mixing if record.stage == MIX else change)(record, augment, context)
    return steps


def resize_for(resize: ResizeOptions | Preprocessing, crop_size: tuple[int, int] | None) -> Step:
    """Returns the step that changes the size of an image before evaluation.

    Args:
      resize: range of the sides after resizing; or the preprocessing of a network with a vector for each image.
      crop_size: rows and columns of the network's input, for preprocessing.
    """
    if isinstance(resize, ResizeOptions):
        return resize_to_range(resize)
    return lambda sample: {**sample, common.IMAGE: resize.evaluate(sample[common.IMAGE], crop_size)}


def eval_steps(
    crop_size: tuple[int, int] | None,
    resize: ResizeOptions | Preprocessing,
    mean_pixel: Sequence[float],
    ignore_label: int,
    keep_original: bool = False,
    keep_bytes: bool = False,
    planes: Sequence[Plane] = (),
) -> list[Step]:
    """Returns the steps of evaluation and visualization: resize, note the size, pad, without a crop.

    Args:
      crop_size: rows and columns of the network's input; no image may be larger (after resizing). None leaves
        images in their size, and in the type of small numbers in which they were decoded.
      resize: range of the sides after resizing.
      mean_pixel: RGB, 0 to 255; the pixel that the network normalizes to zero.
      ignore_label: label of padded pixels.
      keep_original: whether the sample also contains image and label as decoded, with their size.
      keep_bytes: whether images of 8 bits that are not resized keep their type, for `images_of` on the device of the
        network: a quarter of the memory, and of the time of a copy.
      planes: see `train_steps`.
    """
    planes = [plane for plane in planes if not plane.is_list]
    fill = fill_of(planes, ignore_label)
    return [
        *([note_original] if keep_original else []),
        *([join_planes(planes, ignore_label)] if planes else []),
        resize_for(resize, crop_size),
        note_size,
        *([] if crop_size is None else [pad_decoded_to(crop_size, mean_pixel, fill, keep_bytes)]),
        *([split_planes(planes)] if planes else []),
    ]


def apply_steps(sample: Sample, steps: Iterable[Step], draw: Draw | None = None) -> Sample:
    """Runs a sample through steps, one after the other.

    Args:
      sample: the sample.
      steps: the steps.
      draw: returns a random sample for a seed; only for `Mixing`, whose other samples run through the steps before it.
    """
    before: list[Step] = []
    for step in steps:
        if isinstance(step, Mixing):
            assert draw is not None
            sample = step(sample, functools.partial(_drawn, draw, tuple(before)))
        else:
            sample = step(sample)
            before.append(step)
    return sample


def _drawn(draw: Draw, steps: Sequence[Step], seed: tf.Tensor) -> Sample:
    return apply_steps(draw(seed), steps)


def to_numbers(sample: Sample) -> Sample:
    """Converts the image to float32 (still 0 to 255) and the label to int32."""
    image = tf.cast(sample[common.IMAGE], tf.float32)
    label = sample.get(common.LABEL)
    return _with_both(sample, image, None if label is None else tf.cast(label, tf.int32))


def note_original(sample: Sample) -> Sample:
    """Stores image and label as decoded, and their size."""
    sized = note_size(sample)
    original = {
        common.ORIGINAL_IMAGE: sample[common.IMAGE],
        common.ORIGINAL_HEIGHT: sized[common.HEIGHT],
        common.ORIGINAL_WIDTH: sized[common.WIDTH],
    }
    return sample | original | ({common.ORIGINAL_LABEL: sample[common.LABEL]} if common.LABEL in sample else {})


def note_size(sample: Sample) -> Sample:
    """Stores the current rows and columns of the image, before padding."""
    height, width = preprocess_utils.size_of(sample[common.IMAGE])
    return {
        **sample,
        common.HEIGHT: tf.convert_to_tensor(height, tf.int32),
        common.WIDTH: tf.convert_to_tensor(width, tf.int32),
    }


def resize_to_range(resize: ResizeOptions) -> Step:
    """Resizes the sides of the image into a range; does nothing if neither bound is set."""

    def step(sample: Sample) -> Sample:
        if not resize.is_set:
            return sample
        image, label = _both(sample)
        height, width = preprocess_utils.size_of(image)
        size = preprocess_utils.size_in_range(height, width, resize.min_value, resize.max_value, resize.factor)
        label = None if label is None else preprocess_utils.resize_label(label, size)
        sample = _with_points(sample, lambda points: _resized_points(points, (height, width), size))
        return _with_both(sample, preprocess_utils.resize_image(image, size), label)

    return step


def size_in_range(resize: ResizeOptions, height: int, width: int) -> tuple[int, int]:
    """Returns the size of an image after `resize_to_range`."""
    if not resize.is_set:
        return height, width
    sides = preprocess_utils.size_in_range(height, width, resize.min_value, resize.max_value, resize.factor)
    return int(sides[0]), int(sides[1])


def scale_and_crop(augment: AugmentOptions, context: AugmentContext) -> Step:
    """Scales by a random factor and cuts a window of the crop size; a side that is smaller stays whole.

    The window is a random one, unless an augmentation that is on places it.
    """
    crops = [record for record in augment.active if record.stage == CROP]

    def step(sample: Sample) -> Sample:
        scale = preprocess_utils.random_scale_value(
            augment.min_scale_factor,
            augment.max_scale_factor,
            augment.scale_factor_step_size,
            seed_of(sample, SCALE_SEED),
        )
        size = preprocess_utils.scaled_size(*preprocess_utils.size_of(sample[common.IMAGE]), scale)
        seed = seed_of(sample, CROP_SEED)
        if points_of(sample):
            sample = _points_in_window(sample, size, crops[0] if crops else None, augment, context, seed)
        if crops:
            return change(crops[0], augment, context._replace(scaled_size=size, crop_seed=seed))(sample)
        window = preprocess_utils.window_in(size, context.crop_size)
        corner = preprocess_utils.random_window(size, window, seed)
        return _with_both(sample, *preprocess_utils.resize_and_crop(*_both(sample), size, corner, window))

    return step


def change(record: Augmentation, augment: AugmentOptions, context: AugmentContext) -> Step:
    """Changes image and label as an augmentation does, drawing from its own seed."""
    values = augment.settings_of(record)

    def step(sample: Sample) -> Sample:
        seed = seed_of(sample, record.seed_purpose)
        image, label = _both(sample)
        if not record.takes_planes and label is not None and label.shape[-1] != 1:
            raise OptionError(_unmovable(record, 'takes_planes'))
        if record.stage != CROP and points_of(sample):
            move = record.move_points
            if move is None:
                raise OptionError(_unmovable(record, 'move_points'))
            size = preprocess_utils.size_of(image)
            sample = _with_points(sample, lambda points: move(points, size, seed, context, **values))
        return _with_both(sample, *record.function(image, label, seed, context, **values))

    return step


@dataclasses.dataclass(frozen=True)
class Mixing:
    """A step that mixes a sample with others, as an augmentation of the stage `MIX` does.

    Mixing within a batch would tie a sample to the others in its batch: to the batch size, the clones and the workers.
    So a sample draws the others from its own seed, as all that is random: each is a record of the split, read again,
    with a seed of its own. The order of the data is as it is without, and a resumed training repeats the mixtures. The
    price is that a mixed sample takes the time of several.

    Attributes:
      record: the augmentation.
      augment: the values of its parameters.
      context: what it is told.
    """

    record: Augmentation
    augment: AugmentOptions
    context: AugmentContext

    def __call__(self, sample: Sample, draw: Draw | None = None) -> Sample:
        """Mixes a fraction of the samples; `draw` returns other samples after the steps before this one."""
        assert draw is not None
        record, values = self.record, self.augment.settings_of(self.record)
        if points_of(sample) or not record.takes_planes:
            raise OptionError(_unmovable(record, 'another stage' if record.takes_planes else 'takes_planes'))
        seeds = tf.random.experimental.stateless_split(seed_of(sample, record.seed_purpose), 3 + record.others)
        of_chance, of_change, of_class, *of_others = tf.unstack(seeds)
        mixed_keys = [key for key in (common.IMAGE, common.LABEL, common.CLASS_LABEL) if key in sample]

        def mixed() -> list[tf.Tensor]:
            samples = [sample, *map(draw, of_others)]
            labels = self._labels(samples)
            image, label = record.function(
                [each[common.IMAGE] for each in samples], labels, of_change, self.context, **values
            )
            parts = {common.IMAGE: image, common.LABEL: label}
            if common.CLASS_LABEL in sample:
                parts[common.CLASS_LABEL] = _class_of_a_pixel(label, samples, of_class)
            return [parts[key] for key in mixed_keys]

        is_mixed = tf.random.stateless_uniform([], of_chance) < values[record.parameters[0].name]
        parts = tf.cond(is_mixed, mixed, lambda: [tf.identity(sample[key]) for key in mixed_keys])
        return {**sample, **dict(zip(mixed_keys, parts, strict=True))}

    def _labels(self, samples: Sequence[Sample]) -> list[tf.Tensor] | None:
        """Returns the labels, with different ids of instances, or what stands for them (see `Augmentation.stage`)."""
        if common.CLASS_LABEL in samples[0]:
            sizes = [preprocess_utils.size_of(each[common.IMAGE]) for each in samples]
            return [tf.fill([*size, 1], number) for number, size in enumerate(sizes)]
        if common.LABEL not in samples[0]:
            return None
        labels = [each[common.LABEL] for each in samples]
        if self.context.id_planes:
            is_id = tf.constant([number in self.context.id_planes for number in range(labels[0].shape[-1])])
            largest = tf.reduce_max(tf.where(is_id, labels[0], 0))  # of all images so far: some have no instances
            for number, label in enumerate(labels[1:], start=1):
                labels[number] = tf.where(is_id & (label > 0), label + largest, label)
                largest = tf.maximum(largest, tf.reduce_max(tf.where(is_id, labels[number], 0)))
        return labels


def _class_of_a_pixel(sources: tf.Tensor, samples: Sequence[Sample], seed: tf.Tensor) -> tf.Tensor:
    """Returns the classes of the sample that a random pixel comes from.

    In the mean, the classes of each sample count as much as its share of the area, as in arXiv:1905.04899, section 3.1.

    Args:
      sources: [h, w, 1] int32, places of the samples.
      samples: samples with classes for the whole image.
      seed: two integers.
    """
    flat = tf.reshape(sources, [-1])
    source = flat[tf.random.stateless_uniform([], seed, 0, tf.size(flat), tf.int32)]
    return tf.switch_case(source, [lambda each=each: tf.identity(each[common.CLASS_LABEL]) for each in samples])


def _unmovable(record: Augmentation, needed: str) -> str:
    """Returns the message about an augmentation that cannot move what the samples have."""
    return (
        f"The augmentation '{record.name}' moves the image and its class ids, but not the other parts of a sample that "
        f'this task needs. Switch it off, or give its record {needed} (registry.Augmentation).'
    )


def points_of(sample: Sample) -> dict[str, tf.Tensor]:
    """Returns the points of a sample by key: each [n, k, 2] float32, rows and columns in pixels of the image."""
    return {key: value for key, value in sample.items() if key.startswith(common.POINTS_PREFIX)}


def _with_points(sample: Sample, move: Callable[[tf.Tensor], tf.Tensor]) -> Sample:
    """Moves all points of a sample by a function of [n, 2]."""
    moved = {}
    for key, points in points_of(sample).items():
        moved[key] = tf.reshape(move(tf.reshape(points, [-1, 2])), tf.shape(points))  # [n, k, 2]
        moved[key].set_shape(points.shape)
    return {**sample, **moved}


def _resized_points(points: tf.Tensor, old: Sequence[Any], new: Sequence[Any]) -> tf.Tensor:
    """Returns points [n, 2] of an image that is resized with its corners aligned."""
    old_sides, new_sides = (tf.cast(tf.stack(tuple(size)), tf.float32) - 1.0 for size in (old, new))
    return points * new_sides / tf.maximum(old_sides, 1.0)


def _points_in_window(
    sample: Sample,
    size: tuple[tf.Tensor, tf.Tensor],
    crop: Augmentation | None,
    augment: AugmentOptions,
    context: AugmentContext,
    crop_seed: tf.Tensor,
) -> Sample:
    """Moves points as scaling and cropping move the image; `crop` is the augmentation that places the window."""
    if crop is None:
        window = preprocess_utils.window_in(size, context.crop_size)
        corner = preprocess_utils.random_window(size, window, crop_seed)
    elif crop.corner is None:
        raise OptionError(_unmovable(crop, 'corner'))
    else:
        here = context._replace(scaled_size=size, crop_seed=crop_seed, points=points_of(sample))
        seed, values = seed_of(sample, crop.seed_purpose), augment.settings_of(crop)
        corner = crop.corner(sample.get(common.LABEL), seed, here, **values)
    old = preprocess_utils.size_of(sample[common.IMAGE])
    start = tf.cast(tf.stack(corner), tf.float32)
    return _with_points(sample, lambda points: _resized_points(points, old, size) - start)


def add_targets(tasks: Sequence[Task], context: TaskContext) -> Step:
    """Adds the targets of tasks, under keys that begin with `common.TARGET_PREFIX`."""

    def step(sample: Sample) -> Sample:
        targets: Sample = {}
        for task in tasks:
            made = {} if task.targets is None else task.targets(sample, context)
            targets |= {f'{common.TARGET_PREFIX}{task.name}/{name}': value for name, value in made.items()}
        return {**sample, **targets}

    return step


def targets_of(task: Task, batch: Mapping[str, tf.Tensor]) -> Sample:
    """Returns the targets of a task, which `add_targets` has added to the samples of a batch, by name."""
    prefix = f'{common.TARGET_PREFIX}{task.name}/'
    return {key.removeprefix(prefix): values for key, values in batch.items() if key.startswith(prefix)}


def pad_to(crop_size: tuple[int, int], mean_pixel: Sequence[float], label_fill: Sequence[int] | int) -> Step:
    """Pads at the bottom and right to the crop size; a larger image is an error."""

    def step(sample: Sample) -> Sample:
        return _with_both(sample, *preprocess_utils.pad_both(*_both(sample), *crop_size, mean_pixel, label_fill))

    return step


def pad_decoded_to(
    crop_size: tuple[int, int], mean_pixel: Sequence[float], label_fill: Sequence[int] | int, keep_bytes: bool
) -> Step:
    """Converts to numbers and pads; with `keep_bytes`, pads images of type uint8 with zeros (`images_of`) instead."""

    def step(sample: Sample) -> Sample:
        image, label = _both(sample)
        if not keep_bytes or image.dtype != tf.uint8:
            return pad_to(crop_size, mean_pixel, label_fill)(to_numbers(sample))
        label = None if label is None else tf.cast(label, tf.int32)
        return _with_both(sample, *preprocess_utils.pad_both(image, label, *crop_size, (0.0,), label_fill))

    return step


def images_of(batch: Sample, mean_pixel: Sequence[float] | None) -> tf.Tensor:
    """Returns the images of a batch as the network takes them, on the current device.

    Args:
      batch: samples of `eval_steps`; images of type uint8 are padded with zeros beyond their rows and columns.
      mean_pixel: RGB, 0 to 255, with which they are padded instead; None to return the images as they are.

    Returns:
      [n, h, w, channels], 0 to 255, float32 unless `mean_pixel` is None.
    """
    images = batch[common.IMAGE]
    if mean_pixel is None or images.dtype != tf.uint8:
        return images
    height, width = preprocess_utils.size_of(images[0])
    rows = tf.range(height) < batch[common.HEIGHT][:, tf.newaxis]  # [n, h]
    columns = tf.range(width) < batch[common.WIDTH][:, tf.newaxis]  # [n, w]
    is_inside = rows[:, :, tf.newaxis] & columns[:, tf.newaxis]  # [n, h, w]
    pixel = tf.constant(mean_pixel, tf.float32)
    return tf.where(is_inside[..., tf.newaxis], tf.cast(images, tf.float32), pixel)  # [n, h, w, channels]


def _both(sample: Sample) -> tuple[tf.Tensor, tf.Tensor | None]:
    return sample[common.IMAGE], sample.get(common.LABEL)


def _with_both(sample: Sample, image: tf.Tensor, label: tf.Tensor | None) -> Sample:
    return {**sample, common.IMAGE: image} | ({} if label is None else {common.LABEL: label})


def seed_of(sample: Sample, purpose: int) -> tf.Tensor:
    """Returns a seed for one random choice: without the purpose, scale, crop and flip would be correlated."""
    return tf.random.experimental.stateless_fold_in(sample[common.SEED], purpose)
