"""Rules about the ids in the masks: wrong ids, interpolated edges, missing, rare and thin classes."""

from __future__ import annotations

import collections
import struct
from collections.abc import Iterator

import numpy as np

from deeplab.checks.facts import SHOWN, Case, Facts
from deeplab.checks.findings import Data, Finding, build_again
from deeplab.checks.inspection import with_pixels
from deeplab.checks.rule import HARMFUL, WARNING
from deeplab.datasets import label_checks
from deeplab.datasets.mask_ids import MaskIds
from deeplab.names import agreeing, counted, listed
from deeplab.wording import option

LABEL_WEIGHTS = '--label_weights=auto'  # of the program train; the doctor itself has no such option
_FEWEST_BETWEEN = 3  # ids that interpolation has made
_BETWEEN_SHARE = 0.9
_THIN_SHARE = 0.9


def check(data: Data) -> Iterator[Finding]:
    """Yields the findings about labels."""
    for split, facts in data.splits.items():
        if facts.counts.any():
            wrong = list(_wrong_ids(data, split, facts))
            yield from wrong or _histogram(data, split, facts)
    for line in label_checks.ignored_class(data.descriptor):
        yield data.finding('ignored_class', '', line)
    yield from _palette_colors(data)
    yield from _only_evaluated(data)
    yield from _thin(data)


def _wrong_ids(data: Data, split: str, facts: Facts) -> Iterator[Finding]:
    """Yields findings about ids that are not classes; at most one, the most specific."""
    descriptor, counts = data.descriptor, facts.counts
    present = np.flatnonzero(counts).tolist()
    where = f"split '{split}'"
    if present == [0, 255]:
        what = f'The masks of {where} contain only 0 and 255, and 255 is not the id of the object.'
        fix = (
            'Write 1 for the object (mask // 255), or name the gray levels in a file for '
            f"{option('DoctorOptions.colors')} of deeplab build_folder_data, with the lines '0 0 0 background' and "
            "'255 255 255 object'."
        )
        yield data.finding('zero_and_255', split, what, None if data.source.is_records else fix)
        return
    if between := interpolated(counts, facts.between, descriptor.ignore_label):
        shown = ', '.join(map(str, between[:SHOWN]))
        yield data.finding(
            'interpolated',
            split,
            f'{len(between)} ids of {where} ({shown}, ...) occur almost only between two other ids: the masks '
            'were drawn with smooth (anti-aliased) edges, or resized by interpolation.',
        )
        return
    allowed = MaskIds(descriptor.num_classes, descriptor.ignore_label)
    outside = allowed.outside(counts)
    # An assumed number of classes allows every id: do as many ids as there are look like class ids?
    levels = sum(value != descriptor.ignore_label for value in present)
    tried = MaskIds(max(levels, 1), descriptor.ignore_label) if data.is_assumed else allowed
    advice = tried.advice(counts) if len(outside) or data.is_assumed else None
    if len(outside) or advice:
        what = f'The masks of {where} contain ids that are neither one of the {descriptor.num_classes} classes nor '
        what += f'ignore_label {descriptor.ignore_label}: {with_pixels(outside, counts)}.'
        if not len(outside):
            what = f'The ids of {where} are not class ids 0, 1, 2, ....'
        fix = (
            f'fix the masks, {advice}'
            if advice
            else f'fix the masks, or set the right {option("DoctorOptions.num_classes")}'
        )
        cases = [(split, case) for case in facts.cases.get('ids', [])]
        fix = build_again(data, fix[0].upper() + fix[1:])
        yield data.finding('ids', split, what, fix, cases, count=facts.problems['ids'])


def interpolated(counts: np.ndarray, between: np.ndarray, ignore_label: int) -> list[int]:
    """Returns the ids that interpolation has probably made; none if they are few.

    Args:
      counts: [256] pixels of each id.
      between: [256] pixels of each id between the ids of two opposite neighbors.
      ignore_label: id of the pixels that are excluded.
    """
    is_between = (counts > 0) & (between >= _BETWEEN_SHARE * counts)
    between_ids = [int(i) for i in np.flatnonzero(is_between) if i != ignore_label]
    return between_ids if len(between_ids) >= _FEWEST_BETWEEN else []


def _histogram(data: Data, split: str, facts: Facts) -> Iterator[Finding]:
    """Yields the findings of the checks before training and evaluation, and of a missing ignore label."""
    descriptor = data.descriptor
    pixels = facts.class_pixels(descriptor.num_classes, descriptor.ignore_label)
    ignored = int(facts.counts[descriptor.ignore_label])
    is_harmful = np.count_nonzero(pixels) < 2
    for line in label_checks.validation_labels(descriptor, pixels, ignored, split):
        yield data.finding('histogram', split, line, severity=HARMFUL if is_harmful else WARNING)
    if descriptor.num_classes == 1:
        yield data.finding('one_class', split, label_checks.ONE_CLASS)
        return
    if split != data.train or is_harmful:
        return
    present = np.where(_is_only_evaluated(data), 1, pixels)  # `_only_evaluated` finds these classes
    if gap := _gap(data):
        yield gap
    else:
        for line in label_checks.missing(descriptor, present, len(facts.images), f"split '{split}'"):
            yield data.finding('missing_classes', split, line)
    if not ignored:
        yield data.finding(
            'nothing_ignored',
            split,
            f"No pixel of split '{split}' has the ignore label {descriptor.ignore_label}.",
            'This is correct if every pixel is labeled reliably; otherwise assign the ignore label to borders and '
            'unclear objects.',
        )
    yield from _uneven(data, split, pixels)


def _gap(data: Data) -> Finding | None:
    """Returns the finding that an id is missing below larger ones, if the number of classes is only assumed."""
    counts = data.total('counts')
    counts[data.descriptor.ignore_label] = 0
    present = np.flatnonzero(counts).tolist()
    gap = int(np.flatnonzero(counts == 0)[0]) if data.is_assumed and len(present) < 256 else 0
    larger = [i for i in present if i > gap]
    if gap < 2 or not larger:
        return None
    shown = listed([f'id {i} on {counted(int(counts[i]), "pixel")}' for i in larger])
    return data.finding(
        'missing_classes',
        data.train,
        f'Id {gap} does not occur in the masks, but larger ids do: {shown}.',
        f'If id {gap - 1} is the last class, run the doctor again with {option("DoctorOptions.num_classes", gap)}, '
        'which lists the masks with larger ids. If these are classes, number the classes without gaps.',
    )


def _uneven(data: Data, split: str, pixels: np.ndarray) -> Iterator[Finding]:
    shares = pixels / pixels.sum()
    rare = data.class_texts((shares > 0) & (shares < 0.01))
    if rare or shares.max() > label_checks.DOMINANT_SHARE:
        most = int(np.argmax(shares))
        text = f' Rarer than 1%: {rare}.' if rare else ''
        yield data.finding(
            'uneven',
            split,
            f"The classes of split '{split}' differ in frequency: {data.class_text(most)} has {shares[most]:.1%} of "
            f'the pixels.{text}',
            f'To give rare classes more weight, train with {LABEL_WEIGHTS}: the weights are in the table.',
        )


def _palette_colors(data: Data) -> Iterator[Finding]:
    """Yields a finding about masks in files whose palettes indicate that ids have different meanings."""
    if data.source.is_records or (data.table is not None and data.table.with_palettes):
        return  # builders convert such colors to ids
    masks = [
        (split, image, dict(struct.iter_unpack('B3s', image.id_colors)))
        for split, facts in data.splits.items()
        for image in facts.images
        if image.id_colors
    ]
    numbers = collections.Counter(item for *_, colors in masks for item in colors.items())
    usual = dict(item for item, _ in reversed(numbers.most_common()))
    classes = {bytes(entry.color): entry.class_id for entry in data.table.entries} if data.table is not None else {}
    differing, exchanged = [], []
    for split, image, colors in masks:
        colors.pop(data.descriptor.ignore_label, None)
        for number, color in colors.items():
            text = f'{image.name}: id {number} is {_shown(color)}'
            if color != usual[number]:
                differing.append((split, Case(f'{text} instead of {_shown(usual[number])}', image.number)))
                break
            if classes.get(color, number) != number:
                exchanged.append((split, Case(f'{text}, as {data.class_text(classes[color])}', image.number)))
                break
    if cases := differing or exchanged:
        other = 'than most of them' if differing else 'than the data set, which are the colors of other classes'
        what = f'{len(cases)} of {counted(len(masks), "mask")} with palettes '
        fix = (
            f'List the class of each color in a file for {option("DoctorOptions.colors")} of deeplab '
            'build_folder_data. If the ids are right anyway, remove the palettes with deeplab remove_gt_colormap.'
        )
        what += agreeing(len(cases), f'have other colors for ids {other}: the ids probably differ in meaning.')
        yield data.finding('palette_colors', '', what, fix, cases, HARMFUL if differing else WARNING)


def _shown(color: bytes) -> str:
    return ' '.join(map(str, color))


def _only_evaluated(data: Data) -> Iterator[Finding]:
    if classes := data.class_texts(_is_only_evaluated(data)):
        yield data.finding(
            'only_evaluated',
            f'{data.train}, {data.evaluated}',
            f"Classes in split '{data.evaluated}' that split '{data.train}' does not have: {classes}. Their IoU "
            'will be 0, which lowers the mean IoU.',
            build_again(data, f"Move images with these classes to '{data.train}'"),
        )


def _is_only_evaluated(data: Data) -> np.ndarray:
    """Returns which classes are in the split to evaluate on and not in the split to train on: [num_classes] bool."""
    train, evaluated = data.splits.get(data.train), data.splits.get(data.evaluated)
    if train is None or evaluated is None or not train.counts.any():
        return np.zeros(data.descriptor.num_classes, bool)
    allowed = (data.descriptor.num_classes, data.descriptor.ignore_label)
    only: np.ndarray = (train.class_pixels(*allowed) == 0) & (evaluated.class_pixels(*allowed) > 0)
    return only


def _thin(data: Data) -> Iterator[Finding]:
    facts = data.splits.get(data.train)
    if facts is None:
        return
    pixels = facts.class_pixels(data.descriptor.num_classes, data.descriptor.ignore_label)
    thin = facts.thin[: len(pixels)]
    if classes := data.class_texts((pixels > 0) & (thin >= _THIN_SHARE * pixels)):
        yield data.finding(
            'thin',
            data.train,
            f"Classes with {_THIN_SHARE:.0%} or more of their pixels in split '{data.train}' in parts narrower "
            f'than the output stride of {data.options.output_stride}, which the network can hardly separate: '
            f'{classes}.',
            'Train with --decoder_output_stride=4, or --output_stride=8; do not shrink the images.',
        )
