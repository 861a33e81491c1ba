"""The list of rules, and its table in docs/doctor.md.

Covers checks/data_rules.py, checks/rule.py and checks/data_rules_of_files.py.
"""

import pathlib

from deeplab.checks.data_rules import RULES
from deeplab.checks.rule import SEVERITIES

VERBS = ('are ', 'cannot ', 'do ', 'have ', 'show ')  # the first words of rules about single images
PAGE = pathlib.Path(__file__).parents[2] / 'docs' / 'doctor.md'
VALUES = {
    'suffix': '--mask_suffix',
    'channels': 3,
    'num_classes': 3,
    'last': 2,
    'ignore': 255,
    'skip': '--skip_corrupt_records=true',
}


def row(rule):
    """The line of the table for a rule."""
    what = ('images that ' if rule.what.startswith(VERBS) else '') + rule.what
    for number, place in (
        ('the 3 channels of', 'the number of channels of'),
        ('among the 3 classes (0 to 2)', 'classes'),
        (' ignore_label 255', ' the ignore label'),
    ):
        what = what.format(**VALUES).replace(number, place)
    records = ' in records' if rule.solved_by_builders else ''
    return f'| `{rule.name}` | {rule.severity}{records} | {what} | {rule.example} | {rule.repair} |'


def test_every_rule_is_complete():
    for rule in RULES.values():
        assert rule.severity in SEVERITIES and rule.example
        assert rule.title[0].isupper() and ' ' in rule.title and '_' not in rule.title and not rule.title.endswith('.')
        assert not rule.fix.endswith('.') and not rule.repair.endswith('.')
        assert rule.fix_text(True, **VALUES).endswith('.')


def test_titles_differ():
    assert len({rule.title for rule in RULES.values()}) == len(RULES)


def test_the_page_has_a_line_for_each_rule():
    text = PAGE.read_text('utf-8')
    lines = [line for line in text.splitlines() if line.startswith('| `')]
    assert lines == [row(rule) for severity in SEVERITIES for rule in RULES.values() if rule.severity == severity]
