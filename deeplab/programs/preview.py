"""Preview of augmented training samples as one image (`deeplab preview`, with the flags of `deeplab train`)."""

from __future__ import annotations

if __name__ == '__main__':  # `python -m deeplab.preview`; first, so that help does not wait for TensorFlow
    from deeplab import start

    start.run_program('preview')

import dataclasses
import os
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from deeplab import common, input_preprocess, names
from deeplab.core import sessions
from deeplab.datasets import label_checks
from deeplab.datasets.planes import INTEGERS, Plane
from deeplab.datasets.segmentation_dataset import DataSource
from deeplab.evaluation.runner import CheckedSplit
from deeplab.files import output_files
from deeplab.options import AugmentOptions, PreviewOptions, TrainOptions
from deeplab.pictures import drawing, plane_pictures, preview_sheet
from deeplab.pictures.legend import Entry
from deeplab.registry import CROP, PREPROCESSINGS, Augmentation
from deeplab.registry.augmentations import (
    JOIN_PLANES,
    NUMBERS,
    PAD,
    PREPROCESS,
    RESIZE,
    SCALE_AND_CROP,
    SPLIT_PLANES,
    percent,
)
from deeplab.training import split_input, train_run
from deeplab.utils import input_generator, save_annotation

# For data sets with more classes, only those that occur in the samples are shown.
_MOST_CLASSES_SHOWN = 40
_IGNORED = 'ignored'
_LONGEST_NAME = 60  # characters of an image's name that a caption may have
_PLANE = f'{common.TARGET_PREFIX}/'  # first part of the keys of planes; no task has an empty name


@dataclasses.dataclass(frozen=True)
class PreviewResult:
    """Result of a preview.

    Attributes:
      report: report for the user.
      path: path of the image.
      class_shares: share of each class among the labeled pixels of the samples; empty without masks of classes.
      ignored_share: share of ignored pixels among all their pixels; 0 without masks.
    """

    report: str
    path: str
    class_shares: tuple[float, ...]
    ignored_share: float


# A column of the image: its heading, and preprocessing steps.
View = tuple[preview_sheet.Column, list[input_preprocess.Step]]


def run(options: PreviewOptions) -> PreviewResult:
    """Draws the preview.

    Raises:
      UserError: options or data are invalid, as for training; or the image cannot be written, or its path is another
        file.
    """
    training = options.train
    source = DataSource(training.dataset)
    train_run.check_options(training, source)
    output_files.require_own(options.path, 'PreviewOptions.path', 'an image of deeplab preview', drawing.is_sheet)
    data = split_input.open_data(training, source)
    if data.has_labels:
        checked, split = data.check_result, training.dataset.split
        of_split = checked.class_pixels, checked.ignored_pixels, len(checked.records)
        for line in label_checks.labels(data.descriptor, *of_split, split, training.loss):
            logging.warning('%s', line)
    columns = views(training, data)
    everything = list(split_input.input_steps(training, data).values())
    with tf.Graph().as_default(), input_generator.explain_input_errors(data.reader):
        *rows, samples = _look(options, data, [*(steps for _, steps in columns), everything])
    shares, ignored = _shares(samples, data)
    legend = _legend(shares, ignored, data)
    content = preview_sheet.Content(
        title=(
            f'{data.descriptor.name}, split {training.dataset.split}: {len(data.records)} images; seed {training.seed}'
        ),
        columns=[column for column, _ in columns],
        rows=[[first, *(cell._replace(caption='') for cell in others)] for first, *others in zip(*rows, strict=True)],
        samples=[cell._replace(caption=f'{i}: {cell.caption}') for i, cell in enumerate(samples, start=1)],
        samples_title=f'The first samples of training, {_crop_size(training)}, with all augmentations',
        legend=legend,
        legend_title='Classes: share of the pixels in these samples (in the whole split)',
        palette=data.descriptor.palette,
        ignore_label=data.ignore_label,
    )
    report = _report(legend, len(samples), len(shares)) if legend else f'{names.counted(len(samples), "sample")} drawn.'
    sheet = preview_sheet.compose(content)
    with output_files.writing_to(options.path, 'PreviewOptions.path', report):
        os.makedirs(os.path.dirname(options.path) or '.', exist_ok=True)
        drawing.write(options.path, sheet)
    logging.info('Wrote %s.', options.path)
    report = f'{report}\nPreview: {options.path}'
    return PreviewResult(report, options.path, tuple(float(share) for share in shares), ignored)


def views(training: TrainOptions, data: CheckedSplit) -> list[View]:
    """Returns a view of the unchanged record, and one for each augmentation: that augmentation alone, on every record.

    An augmentation uses the random numbers of the first epoch of training. If training augments only a share of the
    images, the view shows all of them augmented, and its caption gives the share.
    """
    augment = training.augment
    active = {record.name: record for record in augment.active}
    crops = [record for record in active.values() if record.stage == CROP]
    always = augment.changed(**{k: v for record in active.values() for k, v in record.preview.items()})
    no_crops = always.changed(**{p.name: p.default for record in crops for p in record.parameters})
    steps = _steps(training, data, no_crops)
    details = 'unchanged; below, with its mask' if data.has_labels else 'unchanged'
    views: list[View] = [(preview_sheet.Column('Record', details), _chosen(steps))]
    unchanged = _steps(training, data, augment)
    for name in unchanged:  # for a classifier, fewer than `active`
        if name == PREPROCESS:
            chosen = PREPROCESSINGS.of_network(training.model)
            assert chosen is not None
            details = f'{chosen.name}, {_crop_size(training)}'
            views.append((preview_sheet.Column('Preprocessing', details), _chosen(unchanged, name)))
        elif name == SCALE_AND_CROP:
            scales = f'{augment.min_scale_factor:g} to {augment.max_scale_factor:g} times'
            details = f'{scales}, {_crop_size(training)}'
            views.append((preview_sheet.Column('Scale and crop', details), _chosen(steps, name)))
            aimed = _steps(training, data, always)
            views += [(_column(record, augment), _chosen(aimed, name)) for record in crops]
        elif name in active:
            views.append((_column(active[name], augment), _chosen(steps, name)))
    return views


def _keeping(planes: Sequence[Plane]) -> input_preprocess.Step:
    """Returns a step that keeps planes among the targets, which are all of a sample that a training needs."""

    def step(sample: input_preprocess.Sample) -> input_preprocess.Sample:
        return {**sample, **{f'{_PLANE}{plane.key}': sample[plane.key] for plane in planes}}

    return step


def _steps(training: TrainOptions, data: CheckedSplit, augment: AugmentOptions) -> dict[str, input_preprocess.Step]:
    return split_input.input_steps(dataclasses.replace(training, augment=augment), data)


def _chosen(steps: dict[str, input_preprocess.Step], name: str = NUMBERS) -> list[input_preprocess.Step]:
    """Returns the step of a name with those that it requires, in order; without a name, the unchanged record."""
    wanted = {name, JOIN_PLANES, NUMBERS, SPLIT_PLANES}
    wanted |= ({RESIZE} if name != NUMBERS else set()) | ({PAD} if name == SCALE_AND_CROP else set())
    return [step for other, step in steps.items() if other in wanted]


def _column(record: Augmentation, augment: AugmentOptions) -> preview_sheet.Column:
    return preview_sheet.Column(record.title or record.name, record.caption(augment.settings_of(record)))


def _crop_size(training: TrainOptions) -> str:
    height, width = training.model.crop_size or (0, 0)
    return f'{height} x {width}'


def _look(
    options: PreviewOptions, data: CheckedSplit, all_steps: Sequence[list[input_preprocess.Step]]
) -> list[list[preview_sheet.Cell]]:
    """Applies each list of steps to the first records of training; the last list to as many as samples are drawn."""
    images = min(options.images, len(data.records))
    counts = [*[images] * (len(all_steps) - 1), options.samples]
    pipelines = [
        input_generator.get(
            data.reader,
            [*steps, _keeping(data.reader.planes)],
            batch_size=1,
            is_training=True,
            records=data.records,
            seed=options.train.seed,
            with_label=data.has_labels,
            num_parallel=1,
            prefetch_batches=1,
        )
        for steps in all_steps
    ]
    with sessions.open_session() as running:
        running.run([pipeline.initializer for pipeline in pipelines])
        return [
            [_cell(running.run(pipeline.samples), data) for _ in range(count)]
            for pipeline, count in zip(pipelines, counts, strict=True)
        ]


def _cell(batch: dict[str, np.ndarray], data: CheckedSplit) -> preview_sheet.Cell:
    """Returns a batch of one as a cell of the image."""
    name = names.shown(batch[common.IMAGE_NAME][0], _LONGEST_NAME)
    class_ids = [batch[f'{_PLANE}{plane.key}'][0] for plane in data.reader.planes if plane.kind == INTEGERS]
    if class_ids:
        name = f'{", ".join(map(data.descriptor.class_name, class_ids[0].tolist()))} ({name})'
    pixels = drawing.in_rgb(save_annotation.rounded(batch[common.IMAGE][0]))
    ids = batch[common.LABEL][0, ..., 0] if data.has_labels else None
    return preview_sheet.Cell(name, pixels, ids, _further(batch, pixels, ids, data))


def _further(
    batch: dict[str, np.ndarray], pixels: np.ndarray, ids: np.ndarray | None, data: CheckedSplit
) -> plane_pictures.Pictures:
    """Draws the planes and the targets of a batch of one; a target that is the mask or a plane is not drawn again."""
    pictures: plane_pictures.Pictures = {}
    shown = [] if ids is None else [ids[..., np.newaxis]]
    for plane in data.reader.planes:
        shown.append(batch[f'{_PLANE}{plane.key}'][0])
        pictures |= plane_pictures.of_plane(plane, shown[-1], pixels, data.descriptor.palette)
    targets = {key: values[0] for key, values in batch.items() if key.startswith(common.TARGET_PREFIX)}
    for key, values in targets.items():
        if not key.startswith(_PLANE) and not any(np.array_equal(values, each) for each in shown):
            pictures |= plane_pictures.of_target(key.removeprefix(common.TARGET_PREFIX), values, pixels)
    return pictures


def _shares(samples: Sequence[preview_sheet.Cell], data: CheckedSplit) -> tuple[np.ndarray, float]:
    """Returns each class's share of the labeled pixels, [num_classes], and the share of ignored pixels among all."""
    masks = [cell.ids for cell in samples if cell.ids is not None]
    if not masks:
        return np.zeros(0), 0.0
    counts = sum((np.bincount(ids.ravel(), minlength=256) for ids in masks), np.zeros(256, np.int64))
    classes = counts.astype(np.float64)
    classes[data.ignore_label] = 0
    shares = classes[: data.descriptor.num_classes] / max(classes.sum(), 1)
    return shares, float(counts[data.ignore_label] / max(counts.sum(), 1))


def _legend(shares: np.ndarray, ignored: float, data: CheckedSplit) -> list[Entry]:
    """Returns the classes with their shares in samples and split, then the ignored pixels; nothing without masks.

    Of many classes, only those in the samples are returned.
    """
    if not len(shares):
        return []
    name, palette = data.descriptor.class_name, data.descriptor.palette
    pixels, ignored_pixels = data.check_result.class_pixels, data.check_result.ignored_pixels
    labeled = int(pixels.sum())
    split, ignored_of_split = pixels / max(labeled, 1), ignored_pixels / max(ignored_pixels + labeled, 1)
    classes = [
        Entry(name(i), palette[i], f'{percent(shares[i])} ({percent(split[i])})')
        for i in range(len(shares))
        if len(shares) <= _MOST_CLASSES_SHOWN or shares[i] > 0
    ]
    return [*classes, Entry(_IGNORED, None, f'{percent(ignored)} ({percent(ignored_of_split)})')]


def _report(legend: list[Entry], samples: int, num_classes: int) -> str:
    *classes, ignored = ((line.name, line.figures) for line in legend)
    hidden = num_classes - len(classes)
    *lines, last = names.aligned([*classes, (ignored[0], f'{ignored[1]} of all pixels')], left=(0, 1))
    lines += [f'and {hidden} classes that do not occur in them'] if hidden else []
    title = f'Share of the pixels in the {samples} samples drawn (in the whole split):'
    return '\n  '.join([title, *lines, last])
