"""What the histogram of a split's masks says that is hardly meant: one line for each finding, with the fix.

Everything here may be right all the same, so nothing is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.datasets.record_check import Verdict
from deeplab.options import LossOptions

RARE_SHARE = 1e-4
DOMINANT_SHARE = 0.95
IGNORED_SHARE = 0.9

ONE_CLASS = (
    'The data set has one class (num_classes: 1): softmax can say nothing else, its loss is always 0, and nothing is '
    'learned. Background is a class: set num_classes to 2 in the description of the data set, with masks of 0 '
    '(background) and 1.'
)


class Histogram(Protocol):
    """Pixels of the masks of a split: what `record_check.Verdict` and `Counts` have in common."""

    class_pixels: Any  # [num_classes], without those of ignore_label
    ignored_pixels: int


class Counts(NamedTuple):
    """A `Histogram` by itself."""

    class_pixels: np.ndarray
    ignored_pixels: int


class _Consequences(NamedTuple):
    """What comes of masks that are not good; `always` of a single class, `unseen` of pixels that are ignored."""

    nothing: str
    always: str
    unseen: str


_OF_TRAINING = _Consequences(
    'there is nothing to learn',
    'the network learns to say {} everywhere',
    'the network learns nothing of what is there',
)
_OF_BUILDING = _Consequences(
    'there is nothing to learn or to measure',
    'a network learns to say {} everywhere',
    'a network learns nothing of what is there',
)
_OF_VALIDATION = _Consequences(
    'there is nothing to measure',
    'a network that says {} everywhere has an mIoU of 1, which no better one can beat',
    'nothing of what is there is measured',
)


def labels(descriptor: DatasetDescriptor, verdict: Verdict, split: str, loss: LossOptions) -> list[str]:
    """What the histogram of the masks says that are trained on.

    Args:
      descriptor: of the data set.
      verdict: on the records, with the number of pixels of each class.
      split: name of the split.
      loss: where it weighs classes, or measures regions, uneven classes are taken care of.

    Returns:
      A line for each finding.
    """
    if descriptor.num_classes == 1:
        return [ONE_CLASS]
    pixels = np.asarray(verdict.class_pixels, np.int64)
    where = f"split '{split}'"
    if not pixels.sum():
        return _nothing(descriptor, where, _OF_TRAINING)
    found = _one_class(descriptor, verdict, where, _OF_TRAINING)
    found = found or _missing(descriptor, pixels, len(verdict.records), where)
    found += _ignored(descriptor, verdict, where, _OF_TRAINING)
    if not _is_said_to_be_ignored(descriptor, found):
        found += ignored_class(descriptor)
    if not _evens_classes_out(loss):
        found += _uneven(descriptor, pixels, where)
    return found


def validation_labels(descriptor: DatasetDescriptor, histogram: Histogram, split: str) -> list[str]:
    """What makes a figure that is measured on these masks worth nothing; classes may be rare or missing there.

    Args:
      descriptor: of the data set.
      histogram: on the records, with the number of pixels of each class.
      split: name of the split.

    Returns:
      A line for each finding.
    """
    if descriptor.num_classes == 1:  # `labels` has said all that there is to say
        return []
    where = f"split '{split}'"
    if not np.any(histogram.class_pixels):
        return _nothing(descriptor, where, _OF_VALIDATION)
    one_class = _one_class(descriptor, histogram, where, _OF_VALIDATION)
    return one_class + _ignored(descriptor, histogram, where, _OF_VALIDATION)


def built(counts: np.ndarray, num_classes: int | None, ignore_label: int, split: str) -> list[str]:
    """What the masks say of which records are built; classes may be rare or missing there.

    Args:
      counts: [256], pixels of each id in all masks of the split, each id a class or `ignore_label`.
      num_classes: number of classes; None where it is not known, and masks of 0 and 255 alone are spoken of.
      ignore_label: id of pixels that are excluded.
      split: name of the split.

    Returns:
      A line for each finding.
    """
    if not counts.any():
        return []
    if num_classes is None and (np.flatnonzero(counts).tolist() != [0, 255] or ignore_label != 255):
        return []
    if num_classes == 1:
        return [ONE_CLASS]
    descriptor = DatasetDescriptor('', num_classes or 255, ignore_label)
    classes = np.where(np.arange(256) == ignore_label, 0, counts)[: descriptor.num_classes]
    histogram, where = Counts(classes, int(counts[ignore_label])), f"split '{split}'"
    if not classes.any():
        return _nothing(descriptor, where, _OF_BUILDING)
    found = _one_class(descriptor, histogram, where, _OF_BUILDING)
    return found + _ignored(descriptor, histogram, where, _OF_BUILDING)


def ignored_class(descriptor: DatasetDescriptor) -> list[str]:
    """What to say of an ignore label that is one of the classes, unless the data set says that this is meant."""
    label = descriptor.ignore_label
    if label >= descriptor.num_classes or descriptor.ignore_label_is_class:
        return []
    return [
        f"ignore_label is {label}, which is the id of class '{descriptor.class_name(label)}' too: its pixels are "
        'excluded from loss and metrics, and the class is never learned. Set another ignore_label, such as 255, in the '
        'description of the data set; if this is meant, "ignore_label_is_class": true.'
    ]


def ignored_class_of_builder(num_classes: int | None, ignore_label: int) -> list[str]:
    """The same of the flags of a builder, which knows no data set."""
    if num_classes is None or ignore_label >= num_classes:
        return []
    return [
        f'--ignore_label={ignore_label} is one of the {num_classes} classes (0 to {num_classes - 1}): its pixels will '
        'be excluded from loss and metrics, and the class is never learned. Set another --ignore_label, such as 255, '
        'unless this is meant.'
    ]


def _is_said_to_be_ignored(descriptor: DatasetDescriptor, found: Sequence[str]) -> bool:
    """Whether a finding says already that a class is ignored: the one that `_one_class` has of background."""
    return descriptor.ignore_label == 0 and any('id 0 is ignored' in line for line in found)


def _shortened(names: Sequence[str], most: int = 8) -> str:
    """`names` with commas between them, and how many more there are after `most` of them."""
    return ', '.join(names[:most]) + (f' and {len(names) - most} more' if len(names) > most else '')


def _evens_classes_out(loss: LossOptions) -> bool:
    """Whether a loss does something about rare classes already."""
    return bool(loss.label_weights) or loss.auto_label_weights or loss.formula != LossOptions().formula


def _nothing(descriptor: DatasetDescriptor, where: str, consequences: _Consequences) -> list[str]:
    """What to say where no pixel counts."""
    return [
        f'Every pixel of {where} has the id {descriptor.ignore_label}, which is ignored: {consequences.nothing}. Mend '
        'the masks, or ignore_label in the description of the data set.'
    ]


def _ignored(descriptor: DatasetDescriptor, histogram: Histogram, where: str, consequences: _Consequences) -> list[str]:
    """What to say where hardly a pixel counts."""
    share = _ignored_share(histogram)
    if share <= IGNORED_SHARE:
        return []
    return [
        f'{share:.1%} of the pixels of {where} have the id {descriptor.ignore_label}, which is ignored: '
        f'{consequences.unseen}. If they are background, give that a class of its own, or set another ignore_label in '
        "the data set's description."
    ]


def _ignored_share(histogram: Histogram) -> float:
    """Share of all pixels of the masks."""
    ignored = int(histogram.ignored_pixels)
    return ignored / max(ignored + int(np.sum(histogram.class_pixels)), 1)


def _one_class(
    descriptor: DatasetDescriptor, histogram: Histogram, where: str, consequences: _Consequences
) -> list[str]:
    """What to say where a single class occurs among several."""
    present = np.flatnonzero(histogram.class_pixels)
    if len(present) != 1:
        return []
    only, ignored = int(present[0]), int(histogram.ignored_pixels)
    always = consequences.always.format(only)
    if only == 0 and ignored and descriptor.ignore_label == 255:
        return [
            f'The masks of {where} hold the ids 0 and 255 alone, and 255 is ignored: the object class is read as '
            f'ignored, and {always}. Write 1 for the object (mask // 255) and build the records again.'
        ]
    text = f"Of {descriptor.num_classes} classes only '{descriptor.class_name(only)}' (id {only}) occurs in {where}"
    if descriptor.ignore_label == 0 and ignored:
        return [
            f'{text}, and id 0 is ignored: {always}. If 0 is background, set ignore_label to 255 in the description of '
            'the data set, so that it is a class.'
        ]
    if ignored:
        always += (
            f'. {_ignored_share(histogram):.1%} of the pixels have the id {descriptor.ignore_label}, which is ignored: '
            'if that is background, write 0 there'
        )
    return [
        f'{text}: {always}. Class ids are 0 to {descriptor.num_classes - 1}; mend the masks and build the records '
        'again.'
    ]


def _missing(descriptor: DatasetDescriptor, pixels: np.ndarray, images: int, where: str) -> list[str]:
    """What to say of classes that never occur; one that is ignored cannot."""
    missing = [int(i) for i in np.flatnonzero(pixels == 0) if i != descriptor.ignore_label]
    if not missing:
        return []
    shown = _shortened([f"'{descriptor.class_name(i)}' (id {i})" for i in missing])
    text = f'{len(missing)} of {descriptor.num_classes} classes never occur in the {images} images of {where}: {shown}.'
    if missing == [0]:
        return [f'{text} Do the ids of the masks begin with 1? They must begin with 0; subtract 1 and build again.']
    return [f"{text} The network cannot learn them. Is num_classes right in the data set's description?"]


def _uneven(descriptor: DatasetDescriptor, pixels: np.ndarray, where: str) -> list[str]:
    """What to say of very rare and of all too frequent classes."""
    shares = pixels / pixels.sum()
    found = []
    rare = [int(i) for i in np.flatnonzero((shares > 0) & (shares < RARE_SHARE))]
    if rare:
        shown = _shortened([f"'{descriptor.class_name(i)}' ({shares[i]:.4%})" for i in rare])
        found.append(
            f'{len(rare)} classes have less than {RARE_SHARE:.2%} of the labelled pixels of {where}: {shown}. '
            '--label_weights=auto makes rare classes count more.'
        )
    most = int(np.argmax(shares))
    if shares[most] > DOMINANT_SHARE and np.count_nonzero(pixels) > 1:
        found.append(
            f"Class '{descriptor.class_name(most)}' has {shares[most]:.1%} of the labelled pixels of {where}: a "
            'network that says it everywhere is nearly right. --label_weights=auto, or a loss that measures each '
            'class, such as --loss=softmax+dice, makes the others count.'
        )
    return found
