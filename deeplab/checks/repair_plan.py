"""Plan of a repaired copy: ids and colors that it changes, and samples that it leaves out. Nothing is guessed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from deeplab.checks import label_rules, split_rules
from deeplab.checks.findings import Data
from deeplab.datasets.color_tables import ColorTable
from deeplab.datasets.mask_ids import MaskIds
from deeplab.options import DoctorOptions


@dataclasses.dataclass(frozen=True)
class Plan:
    """The changes that follow from all samples together.

    Attributes:
      ignore_label: id of the pixels that are excluded.
      ids: new id and rule for each wrong id.
      table: meaning of the colors of masks; None if it is not known.
      allowed: ids that are kept, others get the ignore label; None to keep every id.
      in_records: whether palettes are taken as gray levels, as in records; else builders take the indices.
      dropped: rule by split and number of the samples that are left out.
    """

    ignore_label: int
    ids: Mapping[int, tuple[int, str]]
    table: ColorTable | None
    allowed: MaskIds | None
    in_records: bool
    dropped: Mapping[tuple[str, int], str]


def make(data: Data, options: DoctorOptions) -> Plan:
    """Decides what to change."""
    descriptor = data.descriptor
    known = MaskIds(descriptor.num_classes, descriptor.ignore_label)
    return Plan(
        descriptor.ignore_label,
        _correct_ids(data),
        data.table,
        known if options.ignore_other_ids and not data.is_assumed else None,
        data.source.is_records,
        _dropped(data),
    )


def _correct_ids(data: Data) -> dict[int, tuple[int, str]]:
    """Returns the new id and the rule for each wrong id: of smooth edges, and of masks of a known pattern."""
    ignore_label = data.descriptor.ignore_label
    counts = sum((facts.counts for facts in data.splits.values()), np.zeros(256, np.int64))
    between = sum((facts.between for facts in data.splits.values()), np.zeros(256, np.int64))
    soft = label_rules.interpolated(counts, between, ignore_label)
    if soft:
        # At corners, some of their pixels do not lie between two others: ids that are as rare are soft, too.
        is_soft = (counts > 0) & (counts <= counts[soft].max())
        soft = [int(i) for i in np.flatnonzero(is_soft) if i != ignore_label]
        counts = np.where(np.isin(np.arange(256), soft), 0, counts)
    correct = _pattern(data, counts)
    if soft and not correct and len(MaskIds(data.descriptor.num_classes, ignore_label).outside(counts)):
        return {}  # what is left is not understood
    found = dict.fromkeys(soft, (ignore_label, 'interpolated'))
    rule = 'zero_and_255' if correct == {255: 1} else 'ids'
    return found | {wrong: (right, rule) for wrong, right in correct.items()}


def _pattern(data: Data, counts: np.ndarray) -> dict[int, int]:
    """Returns the right id for each wrong one where the ids of all masks show a known pattern."""
    ignore_label = data.descriptor.ignore_label
    if not data.is_assumed:
        return MaskIds(data.descriptor.num_classes, ignore_label).correct_ids(counts)
    if np.flatnonzero(counts).tolist() != [0, 255]:  # else 255 may be a gray level or the ignore label
        counts = np.where(np.arange(256) == ignore_label, 0, counts)
    return MaskIds(max(int(np.count_nonzero(counts)), 1), ignore_label).correct_ids(counts)


def _dropped(data: Data) -> dict[tuple[str, int], str]:
    """Returns the copies of images: within a split the later ones, across splits those that are not evaluated on."""
    dropped: dict[tuple[str, int], str] = {}
    seen: dict[str, set[bytes]] = {}
    for split in sorted(data.splits, key=lambda name: (name != data.evaluated, name == data.train)):
        others = [digests for name, digests in seen.items() if not split_rules.is_part(name, split)]
        first: dict[bytes, bytes] = {}
        for image in data.splits[split].images:
            if any(image.digest in digests for digests in others):
                dropped[split, image.number] = 'overlap'
            elif image.digest in first and first[image.digest] == image.mask_digest:
                dropped[split, image.number] = 'repeated'
            first.setdefault(image.digest, image.mask_digest)
        seen[split] = set(first)
    return dropped
