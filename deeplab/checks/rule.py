"""What a rule about data sets is: what it finds, how bad it is, the fix, and what a repaired copy does about it."""

from __future__ import annotations

import dataclasses

HARMFUL = 'error'  # training fails, learns something else than the labels, or metrics are wrong
WARNING = 'warning'  # results are probably worse than they could be
NOTE = 'note'  # usually intended
SEVERITIES = (HARMFUL, WARNING, NOTE)
LEFT_OUT = 'leaves these images out'
_DESCRIPTION = 'the description of the data set'


@dataclasses.dataclass(frozen=True)
class Rule:
    """A rule.

    Attributes:
      name: its short name in files, which other programs read.
      title: heading of its findings.
      severity: severity of its findings, one of `SEVERITIES`; the most severe if it depends.
      what: the problem: a verb in plural behind "3 of 40 images" for a rule about samples; else a phrase.
      example: a way in which data comes to break it.
      fix: instruction without a full stop; '' where each finding has its own.
      repair: change in a repaired copy; '' if none.
      builds_again: whether the fix changes files, from which records are then built again.
      solved_by_builders: whether builders of records deal with it, so that it is a finding in records only.
    """

    name: str
    title: str
    severity: str
    what: str
    example: str
    fix: str = ''
    repair: str = ''
    builds_again: bool = True
    solved_by_builders: bool = False

    def fix_text(self, in_records: bool, **values: object) -> str:
        """Returns the fix as a sentence; `values` are inserted at the places in it."""
        text = self.fix.format(**{'description': _DESCRIPTION, **values})
        return f'{text}, then build the records again.' if in_records and self.builds_again else f'{text}.'
