"""The report of the doctor as text: sizes, classes, findings in order of harm, repairs, command lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from deeplab.checks import label_rules
from deeplab.checks.data_rules import RULES, SEVERITIES, WARNING
from deeplab.checks.facts import Facts
from deeplab.checks.findings import SHOWN, Data, Finding
from deeplab.checks.outcome import Outcome
from deeplab.checks.repaired_copy import LOG, Repairs
from deeplab.checks.suggestion import Suggestion
from deeplab.datasets import description_file
from deeplab.names import counted
from deeplab.wording import option

_GIB = 1 << 30
_LEFT_OUT_SHOWN = 10


def lines(outcome: Outcome, written: Sequence[str]) -> Iterator[str]:
    """Yields the lines of the report; the result last.

    Args:
      outcome: what was found and done.
      written: paths of the files that have been written.
    """
    data, findings, table, suggested = outcome.data, outcome.findings, outcome.table, outcome.suggestion
    kind = 'records' if data.source.is_records else 'files'
    for name, facts in data.splits.items():
        yield f'Split {name}: {counted(len(facts.images), "image")} in {kind}, {_sizes(facts)}'
    if data.is_assumed and not any(facts.counts.any() for facts in data.splits.values()):
        yield 'Classes: unknown, because no mask of ids can be read.'
    elif data.is_assumed:
        yield (
            f'Classes: {data.descriptor.num_classes}, assumed from the ids in the masks; give '
            f'{option("DoctorOptions.dataset")} or {option("DoctorOptions.num_classes")} to check them.'
        )
    if table:
        yield from ['', *_class_lines(data, table)]
    yield ''
    for number, finding in enumerate(findings, 1):
        yield f'{number}. [{finding.severity}] {finding.what}'
        if finding.cases:
            rest = finding.count - SHOWN
            yield f'   {"; ".join(finding.cases[:SHOWN])}' + (f'; and {rest} more' if rest > 0 else '')
        if finding.fix:
            yield f'   Fix: {finding.fix}'
        if finding.repair and outcome.repairs is None:
            yield f'   {option("DoctorOptions.fix")} {finding.repair}.'
    if outcome.repair_line:
        yield from ['', 'To write a repaired copy:', f'  {outcome.repair_line}']
    if suggested:
        yield from ['', *_suggestion_lines(data, suggested, outcome.is_faulty, outcome.has_description)]
    yield ''
    if outcome.repairs is not None:
        yield from _repair_lines(outcome, outcome.repairs)
    counts = ', '.join(counted(_number(outcome.last, severity), severity) for severity in SEVERITIES)
    where = '' if outcome.repairs is None else f' in {outcome.repairs.folder}'
    result = 'Faults found' if outcome.is_faulty else 'No faults found'
    if not outcome.is_faulty and _number(outcome.last, WARNING):
        result = 'No errors found'
    paths = f' Written to {" and ".join(written)}' if written else ''
    yield f'{result}{where} ({counts}).{paths}'


def _repair_lines(outcome: Outcome, repairs: Repairs) -> Iterator[str]:
    """Yields what was done in the repaired copy, and what is still wrong there."""
    kept = ', '.join(f'{len(stems)} of split {split}' for split, stems in repairs.splits.items())
    yield f'Repaired copy: {repairs.folder} with {kept}'
    for rule, count in repairs.done.most_common():
        yield f'  {count} repaired by rule {rule}: {RULES[rule].repair}'
    for entry in repairs.left_out[:_LEFT_OUT_SHOWN]:
        yield f'  left out: {entry["sample"]} ({entry["split"]}), {entry["rule"]}: {entry["reason"]}'
    if (more := len(repairs.left_out) - _LEFT_OUT_SHOWN) > 0:
        yield f'  and {more} more left out, listed in {LOG}'
    for finding in outcome.remaining:
        yield f'  still [{finding.severity}] {finding.what}'
    yield ''


def _number(findings: tuple[Finding, ...], severity: str) -> int:
    return sum(finding.severity == severity for finding in findings)


def _sizes(facts: Facts) -> str:
    """Describes the sizes of the images of a split."""
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
    yield f'Classes of split {data.train} (the weights are those of {label_rules.label_weights()}):'
    yield f'  id  {"name":{width}}   pixels  images  in thin parts  weight'
    rows = sorted(table, key=lambda row: -row['share'])
    for row in rows if len(rows) <= 40 else [*rows[:20], *rows[-20:]]:
        yield (
            f'{row["id"]:4}  {row["name"]:{width}}  {row["share"]:7.2%}  {row["images"]:6}  {row["thin_share"]:13.0%}  '
            f'{row["label_weight"]:6.2f}'
        )


def _suggestion_lines(data: Data, suggested: Suggestion, is_faulty: bool, is_described: bool) -> Iterator[str]:
    """Yields the suggested command lines, with what they rest on."""
    memory = 'unknown' if suggested.free is None else f'{suggested.free / _GIB:.1f} GiB'
    after = ' once the errors are fixed' if is_faulty else ''
    yield f'Suggested command lines{after}: batch and crop for mobilenet_v2 and the free memory'
    yield f'({memory}), a learning rate for this batch size, an evaluation crop that holds the largest image.'
    if not is_described:
        described = {'num_classes': data.descriptor.num_classes, 'ignore_label': data.descriptor.ignore_label}
        yield f'  Write {json.dumps(described)} to {description_file.FILE_NAME}, with "class_names" if you like.'
    yield from (f'  {line}' for line in suggested.lines)
