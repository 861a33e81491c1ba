"""The page of a cross-validation: figures over the folds, curves of the trainings, images with their predictions."""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

import deeplab
from deeplab import input_preprocess, names
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.evaluation import runner, split_images
from deeplab.evaluation.image_results import ImageResults
from deeplab.files.cross_validation import CrossValidation
from deeplab.pictures import drawing
from deeplab.reporting import choice, content, page, pictures, run_files
from deeplab.utils import save_annotation

_POOLED = 'All folds'


class FoldImages(NamedTuple):
    """The images of a fold with the class ids that the network without the fold has predicted.

    Attributes:
      split: the images.
      steps: how they are read, in the sizes of the predictions.
      masks: path of the PNG file of predictions, in their order.
    """

    split: runner.Split
    steps: Sequence[input_preprocess.Step]
    masks: Sequence[str]


def render(
    validation: CrossValidation, folds: Sequence[FoldImages], descriptor: DatasetDescriptor, most: int, command: str
) -> str:
    """Returns the page.

    Args:
      validation: all folds, and their figures.
      folds: their images; empty for networks that predict no classes.
      descriptor: the data set.
      most: largest number of images on the page.
      command: the command line.

    Raises:
      DataError: an image cannot be read.
      OptionError: the package of the charts is missing.
    """
    library = page.charts_library()
    with contextlib.ExitStack() as stack:
        images = stack.enter_context(ImageResults(descriptor.num_classes, descriptor.ignore_label))
        for fold in folds:
            _add(images, fold)
        groups: choice.Groups = content.chosen_of(images, most) if folds else {}
        data = _content(validation, images if folds else None, groups, descriptor) | {'command': command}
        most_bytes = pictures.share(len(groups), len(library) + len(page.as_json(data)))
        drawn = _pictures(folds, images, groups, len(data['runs']), most_bytes)
        return page.render(data, drawn, library)


def _add(images: ImageResults, fold: FoldImages) -> None:
    """Adds the images of a fold to the results."""
    samples = split_images.samples(fold.split, fold.steps, range(fold.split.num_images))
    for sample, path in zip(samples, fold.masks, strict=True):
        with Image.open(path) as mask:
            images.add(names.shown(sample.name), sample.truth, np.asarray(mask))


def _content(
    validation: CrossValidation, images: ImageResults | None, groups: choice.Groups, descriptor: DatasetDescriptor
) -> dict[str, Any]:
    """Returns the data of the page without its command line."""
    class_names = list(descriptor.names)
    runs: list[dict[str, Any]] = []
    for fold in validation.folds:
        of_fold = content.of_run(run_files.read(f'Fold {fold.number}', fold.train_logdir), class_names)
        runs.append(of_fold | {'classes': []})  # the table of the folds has them
    if images is not None:
        runs.insert(0, content.of_images(images) | {'name': _POOLED})
    now = datetime.datetime.now().astimezone().isoformat(' ', 'minutes')
    results: list[ImageResults | None] = [images, *[None] * len(validation.folds)]
    name = os.path.basename(os.path.abspath(validation.folder))
    return {
        'title': f'Cross-validation {name}: {names.counted(validation.number_of_folds, "fold")}',
        'made': f'Made by deeplab {deeplab.__version__} on {now}.',
        'classes': content.classes(class_names, descriptor.palette),
        'ignore_label': descriptor.ignore_label,
        'runs': runs,
        'differences': [],
        'image_names': [] if images is None else images.names,
        'pictures': content.pictures_of(results, groups),
        'folds': {key: validation.results[key] for key in ('classes', 'figures', 'images')},
    }


def _pictures(
    folds: Sequence[FoldImages], images: ImageResults, groups: choice.Groups, runs: int, most_bytes: int
) -> Iterator[Mapping[str, Any]]:
    """Yields the data of each chosen image; only the first of the runs has predictions."""
    first = np.cumsum([0, *(fold.split.num_images for fold in folds)])
    for image in groups:
        number = int(np.searchsorted(first, image, 'right')) - 1
        (sample,) = split_images.samples(folds[number].split, folds[number].steps, [image - int(first[number])])
        photo = drawing.in_rgb(save_annotation.rounded(sample.image))
        predicted = [images.prediction(image), *[None] * (runs - 1)]
        yield pictures.encoded(photo, sample.truth, predicted, most_bytes)
