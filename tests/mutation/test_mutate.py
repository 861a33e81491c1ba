"""The mutation script: a mutation of a small package is caught, another survives, a third does not fit."""

import pytest

from tests.mutation import mutate

PACKAGE = 'def larger(a, b):\n    return a if a > b else b\n\n\ndef half(a):\n    return a / 2\n'
TESTS = 'from deeplab import numbers\n\n\ndef test_it():\n    assert numbers.larger(2, 1) == 2\n'
CAUGHT = mutate.Mutation('deeplab/numbers.py', 'a > b', 'a < b', 'the smaller one', ('tests/test_numbers.py',))
SURVIVES = mutate.Mutation('deeplab/numbers.py', 'a / 2', 'a / 3', 'a third', ('tests/test_numbers.py',))


@pytest.fixture
def root(tmp_path):
    for name, text in (('deeplab/__init__.py', ''), ('deeplab/numbers.py', PACKAGE), ('tests/test_numbers.py', TESTS)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(('mutation', 'result'), [(CAUGHT, 'caught'), (SURVIVES, 'survived')])
def test_a_mutation_is_applied_tested_and_taken_back(root, mutation, result):
    outcome = mutate.run(mutation, root, list(mutation.tests), 60)
    assert outcome.result == result, outcome.details
    assert (root / 'deeplab' / 'numbers.py').read_text() == PACKAGE


@pytest.mark.parametrize(
    ('old', 'new', 'message'),
    [
        ('a', 'c', 'occurs'),
        ('a > b', 'a >', 'no Python'),
        ('a > b', '(a > b)', 'changes nothing'),
        ('c', 'd', '0 times'),
    ],
)
def test_a_mutation_that_does_not_fit(root, old, new, message):
    with pytest.raises(ValueError, match=message):
        mutate.Mutation('deeplab/numbers.py', old, new, '').apply(root)
    assert (root / 'deeplab' / 'numbers.py').read_text() == PACKAGE


def test_the_files_that_can_see_it():
    covering = {CAUGHT.file: ['tests/test_a.py', 'tests/core/test_numbers.py']}
    assert mutate.test_files(CAUGHT, covering) == [
        'tests/test_numbers.py',
        'tests/core/test_numbers.py',
        'tests/test_a.py',
    ]
    assert mutate.test_files(mutate.Mutation('deeplab/other.py', '', '', ''), covering) == ['tests']


def test_the_table():
    outcomes = [mutate.Outcome(CAUGHT, 'caught', 1.0, 'FAILED test_it'), mutate.Outcome(SURVIVES, 'survived')]
    text = mutate.table(outcomes)
    assert 'caught        1 s  deeplab/numbers.py: the smaller one  FAILED test_it' in text
    assert 'all' in text.splitlines()[-1] and '1 of   2 caught (50%)' in text.splitlines()[-1]
