"""Outcome of a run of the doctor: the content of its text, its JSON file and its HTML page."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from deeplab.checks.data_rules import HARMFUL
from deeplab.checks.facts import Facts
from deeplab.checks.findings import Data, Finding
from deeplab.checks.repaired_copy import Repairs
from deeplab.checks.suggestion import Suggestion


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What was found and done.

    Attributes:
      name: folder of the data set.
      data: its facts.
      findings: in order of harm.
      table: name, frequencies and weight of each class in the split to train on; [] without it.
      suggestion: what suits the data, or the repaired copy if there is one; None without a split to train on.
      has_description: whether the suggested command lines need no further description of the data set.
      repair_line: the command that writes a repaired copy; '' if there is one, or nothing to repair.
      repairs: what was done in the repaired copy; None if none was made.
      remaining: the findings in that copy.
    """

    name: str
    data: Data
    findings: tuple[Finding, ...]
    table: list[dict[str, Any]]
    suggestion: Suggestion | None
    has_description: bool
    repair_line: str = ''
    repairs: Repairs | None = None
    remaining: tuple[Finding, ...] = ()

    @property
    def last(self) -> tuple[Finding, ...]:
        """The findings in the repaired copy if there is one, else in the data set."""
        return self.findings if self.repairs is None else self.remaining

    @property
    def is_faulty(self) -> bool:
        """Whether one of `last` is an error."""
        return any(finding.severity == HARMFUL for finding in self.last)

    def as_json(self) -> dict[str, Any]:
        """Returns it as JSON values."""
        content = {
            'data': self.name,
            'splits': {name: _facts(facts) for name, facts in self.data.splits.items()},
            'findings': [dataclasses.asdict(finding) for finding in self.findings],
            'num_classes': self.data.descriptor.num_classes,
            'classes': self.table,
            'repair_line': self.repair_line,
            'suggestion': self.suggestion and dataclasses.asdict(self.suggestion),
        }
        if self.repairs is not None:
            content['repairs'] = {
                'folder': self.repairs.folder,
                'images': {split: len(names) for split, names in self.repairs.splits.items()},
                'repaired': dict(self.repairs.done),
                'left_out': self.repairs.left_out,
                'findings': [dataclasses.asdict(finding) for finding in self.remaining],
            }
        return content


def _facts(facts: Facts) -> dict[str, Any]:
    """Returns the facts of a split as JSON values."""
    sizes = [[*size, count] for size, count in facts.image_sizes.most_common()]
    ids = {int(i): int(facts.counts[i]) for i in np.flatnonzero(facts.counts)}
    return {'images': len(facts.images), 'sizes': sizes, 'pixels_of_ids': ids, 'problems': dict(facts.problems)}
