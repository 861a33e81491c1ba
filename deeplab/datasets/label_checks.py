"""Warnings about the label histogram of a split: one line per finding, with the fix.

Each finding may be intended, so none is an error.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.names import listed
from deeplab.options import LossOptions, auto_label_weights_option
from deeplab.wording import option

RARE_SHARE = 1e-4
DOMINANT_SHARE = 0.95
IGNORED_SHARE = 0.9
_SHOWN = 8  # number of classes that a message names

ONE_CLASS = (
    'The data set has one class (num_classes: 1): softmax always predicts it, the loss is always 0, and nothing is '
    'learned. Background counts as a class: set num_classes to 2 in the description of the data set, with masks of 0 '
    '(background) and 1.'
)


class _Consequences(NamedTuple):
    """Consequences for messages: `nothing` if all pixels are ignored, `always` for one class, `unseen` for most."""

    nothing: str
    always: str
    unseen: str


_TRAINING = _Consequences(
    'there is nothing to learn',
    'the network learns to predict {} everywhere',
    'the network learns nothing about them',
)
_BUILDING = _Consequences(
    'there is nothing to learn or to measure',
    'a network learns to predict {} everywhere',
    'a network learns nothing about them',
)
_VALIDATION = _Consequences(
    'there is nothing to measure',
    'a network that predicts {} everywhere has an mIoU of 1',
    'they are excluded from the metrics',
)


def labels(
    descriptor: DatasetDescriptor, pixels: np.ndarray, ignored: int, images: int, split: str, loss: LossOptions
) -> list[str]:
    """Returns warnings about the masks of a training split.

    Args:
      descriptor: description of the data set.
      pixels: [num_classes], pixels of each class in the masks, without ignored pixels.
      ignored: number of pixels of ignore_label.
      images: number of records.
      split: name of the split.
      loss: options of the loss; class imbalance is not reported if it weights classes or is a region loss.

    Returns:
      One line per finding.
    """
    if descriptor.num_classes == 1:
        return [ONE_CLASS]
    where = f"split '{split}'"
    warnings = _meaningless(descriptor, pixels, ignored, where, _TRAINING)
    if not pixels.any():
        return warnings
    if np.count_nonzero(pixels) > 1:
        warnings += missing(descriptor, pixels, images, where)
    # `_one_class` may have said already that background is ignored.
    if descriptor.ignore_label != 0 or not any('id 0 is ignored' in line for line in warnings):
        warnings += ignored_class(descriptor)
    compensates = loss.label_weights or loss.auto_label_weights or loss.formula != LossOptions().formula
    if not compensates:
        warnings += _uneven(descriptor, pixels, where)
    return warnings


def validation_labels(descriptor: DatasetDescriptor, pixels: np.ndarray, ignored: int, split: str) -> list[str]:
    """Returns warnings about masks that make metrics meaningless; here classes may be rare or missing.

    Args:
      descriptor: description of the data set.
      pixels: [num_classes], pixels of each class in the masks, without ignored pixels.
      ignored: number of pixels of ignore_label.
      split: name of the split.

    Returns:
      One line per finding.
    """
    if descriptor.num_classes == 1:  # `labels` reports it
        return []
    return _meaningless(descriptor, pixels, ignored, f"split '{split}'", _VALIDATION)


def built(counts: np.ndarray, num_classes: int | None, ignore_label: int, split: str) -> list[str]:
    """Returns warnings about the masks from which records are built; here classes may be rare or missing.

    Args:
      counts: [256], pixels of each id in all masks of the split, each id a class or `ignore_label`.
      num_classes: number of classes; None if unknown, in which case only masks of 0 and 255 are reported.
      ignore_label: id of pixels that are excluded.
      split: name of the split.

    Returns:
      One line per finding.
    """
    if not counts.any():
        return []
    if num_classes is None and (np.flatnonzero(counts).tolist() != [0, 255] or ignore_label != 255):
        return []
    if num_classes == 1:
        return [ONE_CLASS]
    descriptor = DatasetDescriptor('', num_classes or 255, ignore_label)
    classes = np.where(np.arange(256) == ignore_label, 0, counts)[: descriptor.num_classes]
    return _meaningless(descriptor, classes, int(counts[ignore_label]), f"split '{split}'", _BUILDING)


def _meaningless(
    descriptor: DatasetDescriptor, pixels: np.ndarray, ignored: int, where: str, consequences: _Consequences
) -> list[str]:
    """Returns warnings about masks that have no class, one class alone, or mostly ignored pixels."""
    label = descriptor.ignore_label
    if not np.any(pixels):
        return [
            f'Every pixel of {where} has the id {label}, which is ignored: {consequences.nothing}. Fix the masks, or '
            'set another ignore_label in the description of the data set.'
        ]
    fraction = ignored / (ignored + int(np.sum(pixels)))
    warnings = _one_class(descriptor, pixels, ignored, where, consequences)
    if fraction > IGNORED_SHARE:
        warnings.append(
            f'{fraction:.1%} of the pixels of {where} have the id {label}, which is ignored: {consequences.unseen}. If '
            'they are background, assign it a class of its own, or set another ignore_label in the description of the '
            'data set.'
        )
    return warnings


def ignored_class(descriptor: DatasetDescriptor) -> list[str]:
    """Returns a warning if the ignore label is one of the classes and the data set does not declare that."""
    label = descriptor.ignore_label
    if label >= descriptor.num_classes or descriptor.ignore_label_is_class:
        return []
    return [
        f"ignore_label is {label}, which is also the id of class '{descriptor.class_name(label)}': its pixels are "
        'excluded from loss and metrics, and the class is never learned. Set another ignore_label'
        f'{example_of_another(descriptor.num_classes)} in the description of the data set, or '
        '"ignore_label_is_class": true if this is intended.'
    ]


def example_of_another(num_classes: int) -> str:
    """Returns 255 as an example of an ignore label, unless it is one of the classes."""
    return ', such as 255,' if num_classes <= 255 else ''


def _one_class(
    descriptor: DatasetDescriptor, pixels: np.ndarray, ignored: int, where: str, consequences: _Consequences
) -> list[str]:
    present = np.flatnonzero(pixels)
    if len(present) != 1:
        return []
    only = int(present[0])
    always = consequences.always.format(only)
    if only == 0 and ignored and descriptor.ignore_label == 255:
        return [
            f'The masks of {where} contain only the ids 0 and 255, and 255 is ignored: the object class is ignored, '
            f'and {always}. Write 1 for the object (mask // 255) and build the records again.'
        ]
    text = f"Of {descriptor.num_classes} classes only '{descriptor.class_name(only)}' (id {only}) occurs in {where}"
    if descriptor.ignore_label == 0 and ignored:
        return [
            f'{text}, and id 0 is ignored: {always}. If 0 is background, make it a class: set ignore_label to 255 in '
            'the description of the data set.'
        ]
    if ignored:
        fraction = ignored / (ignored + int(np.sum(pixels)))
        always += (
            f'. {fraction:.1%} of the pixels have the id {descriptor.ignore_label}, which is ignored: if they are '
            'background, write 0 instead'
        )
    return [
        f'{text}: {always}. Class ids are 0 to {descriptor.num_classes - 1}; fix the masks and build the records again.'
    ]


def missing(descriptor: DatasetDescriptor, pixels: np.ndarray, images: int, where: str) -> list[str]:
    """Returns a warning about classes that never occur; an ignored class is allowed to be missing."""
    missing = [int(i) for i in np.flatnonzero(pixels == 0) if i != descriptor.ignore_label]
    if not missing:
        return []
    shown = listed([f"'{descriptor.class_name(i)}' (id {i})" for i in missing], _SHOWN)
    text = f'{len(missing)} of {descriptor.num_classes} classes never occur in the {images} images of {where}: {shown}.'
    if missing == [0]:
        return [f'{text} If the ids of the masks start at 1, subtract 1 and build the records again.']
    return [f'{text} The network cannot learn them. Check num_classes in the description of the data set.']


def _uneven(descriptor: DatasetDescriptor, pixels: np.ndarray, where: str) -> list[str]:
    shares = pixels / pixels.sum()
    warnings = []
    rare = [int(i) for i in np.flatnonzero((shares > 0) & (shares < RARE_SHARE))]
    if rare:
        shown = listed([f"'{descriptor.class_name(i)}' ({shares[i]:.4%})" for i in rare], _SHOWN)
        warnings.append(
            f'{len(rare)} classes have less than {RARE_SHARE:.2%} of the labeled pixels of {where}: {shown}. '
            f'Set {auto_label_weights_option()} to increase the weight of rare classes.'
        )
    most = int(np.argmax(shares))
    if shares[most] > DOMINANT_SHARE and np.count_nonzero(pixels) > 1:
        warnings.append(
            f"Class '{descriptor.class_name(most)}' has {shares[most]:.1%} of the labeled pixels of {where}: a "
            'network that predicts it everywhere has a low loss. To increase the weight of the others, set '
            f'{auto_label_weights_option()}, or a region loss such as {option("LossOptions.formula", "softmax+dice")}.'
        )
    return warnings
