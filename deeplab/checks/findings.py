"""Findings about a data set, and the facts that rules derive them from."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from deeplab import common
from deeplab.checks.data_rules import RULES
from deeplab.checks.facts import KEPT, Case, Facts
from deeplab.checks.rule import NOTE, SEVERITIES
from deeplab.checks.sources import Source
from deeplab.datasets import segmentation_dataset
from deeplab.datasets.color_tables import ColorTable
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.names import agreeing, counted, listed
from deeplab.options import DoctorOptions


@dataclasses.dataclass(frozen=True)
class Finding:
    """One finding.

    Attributes:
      severity: one of `rule.SEVERITIES`.
      rule: name of its rule.
      split: name of the split; two for a pair; empty for the data set.
      what: the problem, in one or two sentences.
      fix: instruction, with the command or flag; empty if `what` says it.
      count: number of samples that it is about; 0 for the whole split.
      cases: texts of the first of these samples.
      samples: split and number of each of these cases that is a sample.
      repair: change in a repaired copy; empty if none.
    """

    severity: str
    rule: str
    split: str
    what: str
    fix: str = ''
    count: int = 0
    cases: tuple[str, ...] = ()
    samples: tuple[tuple[str, int], ...] = ()
    repair: str = ''


def has(findings: Iterable[Finding], severity: str) -> bool:
    """Returns whether one of the findings has a severity."""
    return any(finding.severity == severity for finding in findings)


def severity_counts(findings: Iterable[Finding]) -> str:
    """Returns how many findings have each severity, such as '1 error, 0 warnings, 2 notes'."""
    numbers = collections.Counter(finding.severity for finding in findings)
    return ', '.join(counted(numbers[severity], severity) for severity in SEVERITIES)


@dataclasses.dataclass(frozen=True)
class Data:
    """A data set with the facts about its splits.

    Attributes:
      descriptor: classes and ignore label, given or assumed.
      is_assumed: whether the number of classes follows from the ids in the masks.
      splits: facts about each split, by name.
      train: name of the split to train on; it may be missing.
      evaluated: name of the split to evaluate on; it may be missing.
      source: files or records of the splits.
      options: options of the doctor.
      has_description: whether programs can read its classes without a further description.
      table: meaning of the colors of masks, of an own table or the data set's palette; None if unknown.
    """

    descriptor: DatasetDescriptor
    is_assumed: bool
    splits: Mapping[str, Facts]
    train: str
    evaluated: str
    source: Source
    options: DoctorOptions
    has_description: bool
    table: ColorTable | None = None

    @property
    def training_splits(self) -> list[str]:
        """Names of the splits to train on: one, or in its place all folds; none if they are missing."""
        folds = [name for name in self.splits if segmentation_dataset.FOLD.fullmatch(name)]
        return [self.train] if self.train in self.splits else folds

    @property
    def training_text(self) -> str:
        """The splits to train on, as texts name them; empty without them."""
        if self.train in self.splits:
            return f'split {self.train}'
        return 'all folds' if self.training_splits else ''

    def mask_colors(self) -> list[tuple[int, int, int]]:
        """Returns the colors in masks of colors, the most frequent ones first."""
        total: collections.Counter[tuple[int, int, int]] = collections.Counter()
        for facts in self.splits.values():
            total.update(facts.colors)
        return sorted(total, key=lambda color: (-total[color], color))

    def class_text(self, class_id: int) -> str:
        """Returns a class as messages name it."""
        name = self.descriptor.class_name(class_id)
        return f"'{name}' (id {class_id})" if self.descriptor.class_names is not None else f'id {class_id}'

    def class_texts(self, is_chosen: np.ndarray) -> str:
        """Returns the first of the chosen classes, [num_classes] bool, as a text."""
        return listed([self.class_text(class_id) for class_id in np.flatnonzero(is_chosen).tolist()])

    @property
    def is_classification(self) -> bool:
        """Whether images have classes as a whole, and neither masks nor planes."""
        return not self.descriptor.has_masks

    @property
    def instead_of_masks(self) -> str:
        """What all images have in place of masks of class ids, so that no copy can be repaired; '' with masks."""
        if self.is_classification:
            return 'classes'
        if any(image.mask_digest for facts in self.splits.values() for image in facts.images):
            return ''
        return ' and '.join(sorted({plane for split in self.splits for plane in self.planes_alone(split)}))

    def planes_alone(self, split: str) -> list[str]:
        """Returns the planes that all images of a split have in place of masks, such as depth; none if it has masks."""
        images = self.splits[split].images
        if not images or any(image.mask_digest for image in images):
            return []
        return sorted(frozenset.intersection(*(image.planes for image in images)) - {common.INSTANCE})

    def total(self, name: str) -> np.ndarray:
        """Returns the sum over all splits of the facts `name` about ids: [256]."""
        return sum((getattr(facts, name) for facts in self.splits.values()), np.zeros(256, np.int64))

    def of_images(self, rule: str, split: str, cases: Sequence[tuple[str, Case]], said: str) -> Iterator[Finding]:
        """Yields a finding about images if there are any: 'N images of split S', then what is said of them.

        Args:
          rule: name of its rule.
          split: as for `finding`; if empty, images of all splits are meant.
          cases: split and case of the images.
          said: phrase that begins with a verb in plural.
        """
        if cases:
            where = f" of split '{cases[0][0]}'" if split else ''
            number = len(cases)
            what = f'{counted(number, "image")}{where} {agreeing(number, said)}.'
            yield self.finding(rule, split, what, cases=cases)

    def finding(
        self,
        rule: str,
        split: str,
        what: str,
        fix: str | None = None,
        cases: Sequence[tuple[str, Case]] = (),
        severity: str | None = None,
        count: int | None = None,
    ) -> Finding:
        """Returns a finding.

        Args:
          rule: name of its rule, which gives severity, fix and repair.
          split: split that it is about.
          what: the problem.
          fix: instruction in place of the fix of the rule.
          cases: split and case of all samples that it is about.
          severity: severity in place of the severity of the rule; there is nothing to repair about a note.
          count: number of samples, if `cases` has only the first of them.
        """
        entry = RULES[rule]
        if fix is None:
            fix = entry.fix_text(self.source.is_records) if entry.fix else ''
        repair = '' if severity == NOTE else entry.repair
        if self.is_classification:
            fix = fix.replace('build_folder_data', 'build_classification_data').replace('masks', 'classes')
        if repair and self.instead_of_masks:  # a repaired copy has masks
            repair = ''
        texts = tuple(case.text for _, case in cases[:KEPT])
        places = tuple((name, case.number) for name, case in cases[:KEPT] if case.number is not None)
        count = len(cases) if count is None else count
        return Finding(severity or entry.severity, rule, split, what, fix, count, texts, places, repair)


def build_again(data: Data, what: str) -> str:
    """Returns the advice to change files, and to build the records again if there are any."""
    return f'{what}, then build the records again.' if data.source.is_records else f'{what}.'
