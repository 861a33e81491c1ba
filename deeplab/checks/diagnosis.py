"""Diagnosis of a data set, as text and as JSON: sizes, classes, findings, repairs, command lines."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from deeplab import names
from deeplab.checks.class_rules import Contradiction
from deeplab.checks.data_rules import RULES
from deeplab.checks.facts import Facts, shown_cases
from deeplab.checks.findings import Data, Finding, has, severity_counts
from deeplab.checks.label_rules import LABEL_WEIGHTS
from deeplab.checks.mask_contradictions import MaskContradiction
from deeplab.checks.repaired_copy import LOG, Repairs
from deeplab.checks.rule import HARMFUL, WARNING
from deeplab.checks.suggestion import Suggestion
from deeplab.datasets import description_file
from deeplab.names import counted
from deeplab.wording import option

WITHOUT_CHECKPOINT = 'Without a checkpoint, instead of the training above'
_GIB = 1 << 30
_LEFT_OUT_SHOWN = 10


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """Findings about a data set, and what was done about them.

    Attributes:
      data: the data set with the facts about its splits.
      findings: findings in order of harm.
      table: name, frequencies and weight of each class in the split to train on; [] without it. For image
        classification, the images of each class in each split.
      suggestion: command lines for the data or its repaired copy; None without a split to train on.
      repair_line: the command that writes a repaired copy; '' if there is one, or nothing to repair.
      repairs: repairs in the copy; None if none was made.
      copy: diagnosis of the copy; None if none was made.
      contradictions: images whose classes a classifier contradicts; None without one.
      mask_contradictions: masks of a cross-validation, the most contradicted ones first; None without one.
      path: path of the JSON file.
      report: text for the user.
    """

    data: Data
    findings: tuple[Finding, ...]
    table: list[dict[str, Any]]
    suggestion: Suggestion | None
    repair_line: str = ''
    repairs: Repairs | None = None
    copy: Diagnosis | None = None
    contradictions: Sequence[Contradiction] | None = None
    mask_contradictions: Sequence[MaskContradiction] | None = None
    path: str = ''
    report: str = ''

    @property
    def remaining(self) -> tuple[Finding, ...]:
        """The findings in the copy."""
        return () if self.copy is None else self.copy.findings

    @property
    def status(self) -> int:
        """Exit status: 1 for errors in the repaired copy if there is one, else in the data set."""
        return int(has((self.copy or self).findings, HARMFUL))

    def as_json(self) -> dict[str, Any]:
        """Returns it as JSON values."""
        content = {
            'data': self.data.options.data,
            'splits': {name: _facts(facts) for name, facts in self.data.splits.items()},
            'findings': [dataclasses.asdict(finding) for finding in self.findings],
            'num_classes': self.data.descriptor.num_classes,
            'classes': self.table,
            'repair_line': self.repair_line,
            'suggestion': self.suggestion and dataclasses.asdict(self.suggestion),
        }
        if self.contradictions is not None:
            content['contradictions'] = [each._asdict() for each in self.contradictions]
        if self.mask_contradictions is not None:
            content['mask_contradictions'] = [each.as_json() for each in self.mask_contradictions]
        if self.repairs is not None:
            content['repairs'] = {
                'folder': self.repairs.folder,
                'images': {split: len(names) for split, names in self.repairs.splits.items()},
                **self.repairs.as_json(),
                'findings': [dataclasses.asdict(finding) for finding in self.remaining],
            }
        return content

    def lines(self, written: Sequence[str]) -> Iterator[str]:
        """Yields the lines of the report; last the result, with the paths of the files that have been written."""
        data, findings, table, suggested = self.data, self.findings, self.table, self.suggestion
        kind = 'records' if data.source.is_records else 'files'
        for name, facts in data.splits.items():
            yield f'Split {name}: {counted(len(facts.images), "image")} in {kind}, {_sizes(facts)}'
        ids = 'classes of the images' if data.is_classification else 'ids in the masks'
        if data.is_assumed and not (data.is_classification or data.total('counts').any()):
            yield 'Classes: unknown, because no mask of ids can be read.'
        elif data.is_assumed:
            yield (
                f'Classes: {data.descriptor.num_classes}, assumed from the {ids}; set '
                f'{option("DoctorOptions.dataset")} or {option("DoctorOptions.num_classes")} to check them.'
            )
        if table:
            yield from ['', *(_lines_of_images if data.is_classification else _class_lines)(data, table)]
        yield ''
        for number, finding in enumerate(findings, 1):
            yield f'{number}. [{finding.severity}] {finding.what}'
            if finding.cases:
                yield f'   {shown_cases(finding.cases, finding.count)}'
            if finding.fix:
                yield f'   Fix: {finding.fix}'
            if finding.repair and self.repairs is None:
                yield f'   {option("DoctorOptions.fix")} {finding.repair}.'
        if self.repair_line:
            yield from ['', 'To write a repaired copy:', f'  {self.repair_line}']
        if suggested:
            yield from ['', *_suggestion_lines(self, suggested)]
        yield ''
        if self.repairs is not None:
            yield from _repair_lines(self, self.repairs)
        last = (self.copy or self).findings
        where = '' if self.repairs is None else f' in {self.repairs.folder}'
        result = 'Faults found' if self.status else 'No errors found' if has(last, WARNING) else 'No faults found'
        paths = f' Written to {" and ".join(written)}' if written else ''
        yield f'{result}{where} ({severity_counts(last)}).{paths}'


def _facts(facts: Facts) -> dict[str, Any]:
    sizes = [[*size, count] for size, count in facts.image_sizes.most_common()]
    ids = {int(i): int(facts.counts[i]) for i in np.flatnonzero(facts.counts)}
    return {'images': len(facts.images), 'sizes': sizes, 'pixels_of_ids': ids, 'problems': dict(facts.problems)}


def _repair_lines(diagnosis: Diagnosis, repairs: Repairs) -> Iterator[str]:
    kept = ', '.join(f'{len(stems)} of split {split}' for split, stems in repairs.splits.items())
    yield f'Repaired copy: {repairs.folder} with {kept}'
    for rule, count in repairs.done.most_common():
        yield f'  {count} repaired by rule {rule}: {RULES[rule].repair}'
    for entry in repairs.left_out[:_LEFT_OUT_SHOWN]:
        yield f'  left out: {entry["sample"]} ({entry["split"]}), {entry["rule"]}: {entry["reason"]}'
    if (more := len(repairs.left_out) - _LEFT_OUT_SHOWN) > 0:
        yield f'  and {more} more left out, listed in {LOG}'
    if (raster := diagnosis.data.descriptor.raster).is_set:  # the description of the copy does not have it
        given = [(name, value) for name, value in vars(raster).items() if value]
        shown = ' and '.join(option(f'RasterOptions.{name}', value) for name, value in given)
        yield f'  its images hold the values that {shown} gave; for TIFF files, set the same for deeplab predict'
    for finding in diagnosis.remaining:
        yield f'  still [{finding.severity}] {finding.what}'
    yield ''


def _sizes(facts: Facts) -> str:
    if not facts.image_sizes:
        return 'none of which can be read'
    (height, width), _ = facts.image_sizes.most_common(1)[0]
    if len(facts.image_sizes) == 1:
        return f'all {height} x {width} pixels (height x width)'
    largest = np.max(list(facts.image_sizes), axis=0)
    return f'of {len(facts.image_sizes)} sizes, mostly {height} x {width}, at most {largest[0]} x {largest[1]}'


def _class_lines(data: Data, table: list[dict[str, Any]]) -> Iterator[str]:
    """Yields the table of classes; of many classes the rarest and the most frequent ones."""
    width = max(5, *(len(row['name']) for row in table))
    yield f'Classes of {data.training_text} (weights as with {LABEL_WEIGHTS}):'
    yield f'  id  {"name":{width}}   pixels  images  in thin parts  weight'
    for row in _most_and_least(table):
        yield (
            f'{row["id"]:4}  {row["name"]:{width}}  {row["share"]:7.2%}  {row["images"]:6}  {row["thin_share"]:13.0%}  '
            f'{row["label_weight"]:6.2f}'
        )


def _lines_of_images(data: Data, table: list[dict[str, Any]]) -> Iterator[str]:
    """Yields the table of the classes of whole images."""
    where, columns = data.training_text, ['share', 'weight']
    yield f'Images of each class (fraction and weight in {where}):' if where else 'Images of each class:'
    rows = [
        [f'{row["id"]:4}', row['name'], *map(str, row['images'].values()), f'{row["share"]:.2%}']
        + [f'{row["label_weight"]:.2f}']
        for row in _most_and_least(table)
    ]
    lines = [['  id', 'name', *data.splits, *columns], *rows]
    yield from names.aligned(lines if where else [line[: -len(columns)] for line in lines], left=(1,))


def _most_and_least(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the most frequent classes first; of many classes the most frequent and the rarest ones."""
    rows = sorted(table, key=lambda row: -row['share'])
    return rows if len(rows) <= 40 else [*rows[:20], *rows[-20:]]


def _suggestion_lines(diagnosis: Diagnosis, suggested: Suggestion) -> Iterator[str]:
    memory = 'unknown' if suggested.free is None else f'{suggested.free / _GIB:.1f} GiB'
    after = ' once the errors are fixed' if diagnosis.status else ''
    if diagnosis.data.is_classification:
        yield f'Suggested command lines{after}: a batch for mobilenet_v2 and the free memory'
        yield f'({memory}), and a learning rate for this batch size.'
    else:
        yield f'Suggested command lines{after}: batch and crop for mobilenet_v2 and the free memory'
        yield f'({memory}), a learning rate for this batch size, an evaluation crop that holds the largest image.'
    if not (diagnosis.copy or diagnosis).data.has_description:
        descriptor = diagnosis.data.descriptor
        described = {'num_classes': descriptor.num_classes}
        described |= (
            {'has_masks': False} if diagnosis.data.is_classification else {'ignore_label': descriptor.ignore_label}
        )
        yield f'  Write {json.dumps(described)} to {description_file.FILE_NAME}, with "class_names" if you like.'
    yield from (f'  {line}' for line in suggested.lines)
    if suggested.from_scratch:
        yield f'{WITHOUT_CHECKPOINT}:'
        yield f'  {suggested.from_scratch}'
    if (minutes := diagnosis.data.options.minutes) is not None:
        scratch = f', {suggested.from_scratch_steps} from scratch' if suggested.from_scratch else ''
        yield f'Steps for at most {minutes:g} minutes: {suggested.steps} from the checkpoint{scratch}.'
