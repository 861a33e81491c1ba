"""Instances in the demo: panoptic quality without predicted instances, and their pictures."""

from __future__ import annotations

import pathlib

import numpy as np

from deeplab.core import connected_components, segment_overlaps
from deeplab.core.panoptic_quality import PanopticQuality
from deeplab.core.segment_overlaps import PanopticClasses
from deeplab.pictures import drawing, instance_overlay
from deeplab.programs.demo import dataset, scenes
from deeplab.programs.demo.canvas import IGNORE_LABEL

KINDS = ('class_ids', 'instances')  # folders that vis writes for the task `panoptic`
_OPACITY = 0.75


def components_quality(folder: pathlib.Path, predictions: pathlib.Path) -> float | None:
    """Returns what predicted classes are worth without predicted instances: a baseline.

    The connected components of the things are the instances; objects of one class that touch are one.

    Args:
      folder: the scenes, as `dataset.write_dataset` writes them with instances.
      predictions: folder of the predicted class ids of the scenes in the split val, NAME.png.

    Returns:
      The mean panoptic quality of the classes, 0 to 1; None without scenes.
    """
    classes = PanopticClasses(len(scenes.CLASS_NAMES), scenes.THINGS, IGNORE_LABEL)
    quality = PanopticQuality(len(scenes.CLASS_NAMES), scenes.THINGS)
    for stem in (folder / dataset.LISTS / 'val.txt').read_text('utf-8').split():
        truth = classes.truth(*dataset.true_ids(folder, stem))
        class_ids = dataset.pixels(predictions / f'{stem}.png')
        components = connected_components.thing_components(class_ids, scenes.THINGS)
        quality.update(segment_overlaps.overlaps(truth, classes.prediction(class_ids, components)))
    return quality.result()['pq']


def drawn(image: np.ndarray, class_ids: np.ndarray, instance_ids: np.ndarray) -> np.ndarray:
    """Draws classes, instances and ignored pixels over a scene; all are [h, w, ...], the result is [h, w, 3] uint8."""
    colors = drawing.colored(np.arange(256), scenes.PALETTE)  # [256, 3]
    return instance_overlay.drawn(image, class_ids, instance_ids, colors, _OPACITY)
