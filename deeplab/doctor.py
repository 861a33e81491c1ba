"""Faults of a data set, found before training, and the sizes and flags that suit it (`deeplab doctor`).

It reads every image and mask once, without TensorFlow.
"""

from __future__ import annotations

if __name__ == '__main__':  # first, so that help and usage errors do not wait for imports
    import os
    import sys

    if not __package__:  # run as a file: replace the folder of this file by that of the package
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    from deeplab import start

    sys.exit(start.main(['doctor', *sys.argv[1:]]))

import dataclasses
import json
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from deeplab.datasets import descriptor as descriptor_lib
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.diagnosis import file_rules, label_rules, sources, split_rules, suggestion
from deeplab.diagnosis.findings import HARMFUL, SEVERITIES, SHOWN, Data, Finding
from deeplab.diagnosis.measurement import Measured, measure
from deeplab.diagnosis.suggestion import Suggestion
from deeplab.errors import OptionError
from deeplab.options import DoctorOptions
from deeplab.training import label_weights
from deeplab.utils import files
from deeplab.wording import option

_NAME = 'deeplab_doctor.json'
_GIB = 1 << 30
_FAULTY = 1  # exit status with harmful findings


@dataclasses.dataclass(frozen=True)
class Result:
    """Result of the program.

    Attributes:
      findings: in order of harm.
      suggestion: what suits the data; None without a split to train on.
      path: of the JSON file.
      status: 1 if a finding is harmful, else 0.
      report: for the user.
    """

    findings: tuple[Finding, ...]
    suggestion: Suggestion | None
    path: str
    status: int
    report: str


def run(options: DoctorOptions) -> Result:
    """Reads a data set and reports what is wrong with it.

    Raises:
      DataError: There is neither a record nor a pair of folders with images and masks.
      OptionError: The data set is unknown, or the JSON file cannot be written.
    """
    path = os.path.join(options.output, _NAME) if os.path.isdir(options.output) else options.output
    _check_writable(path)
    data = examine(options)
    findings = find(data)
    is_uneven = any(finding.rule == 'uneven' for finding in findings)
    suggested = suggestion.suggest(data, options.data, options.dataset or 'dataset.json', is_uneven)
    table = _class_table(data)
    content = {
        'data': options.data,
        'splits': {name: _facts(facts) for name, facts in data.splits.items()},
        'findings': [dataclasses.asdict(finding) for finding in findings],
        'num_classes': data.descriptor.num_classes,
        'classes': table,
        'suggestion': suggested and dataclasses.asdict(suggested),
    }
    with files.written_whole(path) as stream:
        stream.write(json.dumps(content, indent=1) + '\n')
    status = _FAULTY if any(finding.severity == HARMFUL for finding in findings) else 0
    report = '\n'.join(_report(data, findings, table, suggested, path, options.dataset is not None))
    return Result(findings, suggested, path, status, report)


def examine(options: DoctorOptions) -> Data:
    """Reads every sample of a data set once.

    Raises:
      DataError: as for `run`.
      OptionError: The data set is unknown.
    """
    described = None if options.dataset is None else descriptor_lib.load(options.dataset)
    ignore_label = options.ignore_label
    if ignore_label is None:
        ignore_label = DatasetDescriptor.ignore_label if described is None else described.ignore_label
    source = sources.open_source(options)
    splits = {split.name: measure(split, ignore_label, options.output_stride) for split in source.splits}
    train, evaluated = options.train_split, options.eval_split
    if train not in splits and len(splits) == 1:
        train = next(iter(splits))
    is_assumed = described is None and options.num_classes is None
    if described is None or options.num_classes is not None:
        counts = sum((facts.counts for facts in splits.values()), np.zeros(256, np.int64))
        num_classes = options.num_classes or _largest_class(counts, ignore_label) + 1
        described = DatasetDescriptor(options.data, num_classes, ignore_label)
    described = dataclasses.replace(described, ignore_label=ignore_label)
    return Data(described, is_assumed, splits, train, evaluated, source, options.output_stride)


def _largest_class(counts: np.ndarray, ignore_label: int) -> int:
    """Returns the largest id that is not ignored, at least 1."""
    ids = [int(i) for i in np.flatnonzero(counts) if i != ignore_label]
    return max(ids, default=1) or 1


def find(data: Data) -> tuple[Finding, ...]:
    """Returns the findings of all rules in order of harm."""
    found = [*file_rules.check(data), *split_rules.check(data), *label_rules.check(data)]
    return tuple(sorted(found, key=lambda finding: (SEVERITIES.index(finding.severity), -finding.count)))


def _check_writable(path: str) -> None:
    """Creates the folder of the JSON file; raises `OptionError` if the file cannot be written there."""
    try:
        os.makedirs(os.path.dirname(path) or '.', exist_ok=True)
        tempfile.TemporaryFile(dir=os.path.dirname(path) or '.').close()
    except OSError as error:
        raise OptionError(
            f'{option("DoctorOptions.output", path)} cannot be written: {error.strerror}. Give another path.'
        ) from None


def _facts(facts: Measured) -> dict[str, Any]:
    """Returns the facts of a split as JSON values."""
    sizes = [[*size, count] for size, count in facts.sizes.most_common()]
    ids = {int(i): int(facts.counts[i]) for i in np.flatnonzero(facts.counts)}
    return {'images': facts.images, 'sizes': sizes, 'pixels_of_ids': ids, 'problems': dict(facts.problems)}


def _class_table(data: Data) -> list[dict[str, Any]]:
    """Returns the frequencies of the classes in the training split, and the weights that follow; [] without it."""
    facts = data.splits.get(data.train)
    if facts is None:
        return []
    num_classes, ignore_label = data.descriptor.num_classes, data.descriptor.ignore_label
    pixels = facts.class_pixels(num_classes, ignore_label)
    if not pixels.any():
        return []
    weights = label_weights.median_frequency(pixels, np.where(pixels > 0, facts.pixels_beside[:num_classes], 0))
    return [
        {
            'id': i,
            'name': data.descriptor.class_name(i),
            'share': pixels[i] / pixels.sum(),
            'images': int(facts.images_with[i]) if pixels[i] else 0,
            'thin_share': facts.thin[i] / pixels[i] if pixels[i] else 0.0,
            'label_weight': float(weights[i]),
        }
        for i in range(num_classes)
    ]


def _report(
    data: Data,
    findings: tuple[Finding, ...],
    table: list[dict[str, Any]],
    suggested: Suggestion | None,
    path: str,
    is_described: bool,
) -> Iterator[str]:
    """Yields the lines of the report: facts, classes, findings, suggestion; the result last."""
    kind = 'records' if data.source.is_records else 'files'
    for name, facts in data.splits.items():
        yield f'Split {name}: {facts.images} images in {kind}, {_sizes(facts)}'
    if data.is_assumed:
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
    harmful = sum(finding.severity == HARMFUL for finding in findings)
    if suggested:
        yield from ['', *_suggestion_lines(data, suggested, harmful > 0, is_described)]
    counts = ', '.join(f'{_number(findings, severity)} {severity}s' for severity in SEVERITIES)
    yield ''
    yield f'{"Faults found" if harmful else "No faults found"} ({counts}). Written to {path}'


def _number(findings: tuple[Finding, ...], severity: str) -> int:
    return sum(finding.severity == severity for finding in findings)


def _sizes(facts: Measured) -> str:
    """Describes the sizes of the images of a split."""
    if not facts.sizes:
        return 'none of which can be read'
    (height, width), _ = facts.sizes.most_common(1)[0]
    if len(facts.sizes) == 1:
        return f'all {height} x {width} pixels (height x width)'
    largest = np.max(list(facts.sizes), axis=0)
    return f'of {len(facts.sizes)} sizes, mostly {height} x {width}, at most {largest[0]} x {largest[1]}'


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
    yield f'Suggested command lines{after}: batch and crop for mobilenet_v2 and the free memory ({memory}), a learning'
    yield 'rate for this batch size, an evaluation crop that holds the largest image.'
    if not is_described:
        described = {'num_classes': data.descriptor.num_classes, 'ignore_label': data.descriptor.ignore_label}
        yield f'  Write {json.dumps(described)} to dataset.json, with "class_names" if you like.'
    yield from (f'  {line}' for line in suggested.lines)
