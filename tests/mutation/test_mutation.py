"""The mutation script on a small package: what it changes, what it excludes, which tests it runs, what it reports."""

import ast
import json
import pathlib

import pytest

from tests.mutation import __main__ as program
from tests.mutation import mutants, relevant_tests, runs

MODULE = """def larger(a, b):
    return a if a > b else b


def ratio(a, b):
    if b is None:
        raise ValueError(f'{a + 1}')
    return a / b
"""
TESTS = """from deeplab import numbers


def test_it():
    assert numbers.larger(2, 1) == numbers.larger(1, 2) == 2 == numbers.ratio(4, 2)
"""
ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def root(tmp_path):
    files = {
        'deeplab/__init__.py': '',
        'deeplab/numbers.py': MODULE,
        'tests/test_numbers.py': TESTS,
        'pyproject.toml': '',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def changes(source, kind=None):
    """The changed sources by the kind of the change."""
    made = mutants.mutants_of_source(source.encode(), 'deeplab/some/module.py')
    return [each.applied(source.encode()).decode() for each in made if kind in (None, each.kind)]


@pytest.mark.parametrize(
    ('kind', 'source', 'expected'),
    [
        ('comparison', 'x = a <= b', ['x = a > b']),
        ('comparison', 'x = (a) not in b', ['x = (a) in b']),
        ('boundary', 'x = a <= b', ['x = a < b']),
        ('arithmetic', 'x = a + b // c', ['x = a - b // c', 'x = a + b * c']),
        ('and/or', 'x = a and b or c', ['x = a and b and c', 'x = a or b or c']),
        ('negation', 'x = a if not b else c', ['x = a if (b) else c']),
        ('negation', 'x = [a for a in b if (c := d)]', ['x = [a for a in b if ((not (c := d)))]']),
        ('constant', 'x = f(3, -1, 0.5, True)', ['x = f(4, -1, 0.5, True)', 'x = f(3, -2, 0.5, True)']),
        ('default', 'def f(a, b=False): ...', ['def f(a, b=True): ...']),
        ('removed call', 'f(x)', ['pass']),
        ('removed raise', 'try: ...\nexcept E:\n  raise', ['try: ...\nexcept E:\n  pass']),
        ('removed guard', 'if not a:\n  raise E', ['if False:\n  raise E']),
        ('removed update', 'a += b', ['pass']),
        ('swapped arguments', 'x = f(a, b.c, d)', ['x = f(b.c, a, d)']),
        ('slice', 'x = a[b:]', ['x = a[(b) + 1:]']),
    ],
)
def test_kinds_of_changes(kind, source, expected):
    assert changes(source, kind)[: len(expected)] == expected


@pytest.mark.parametrize(
    'source',
    [
        '"""Text 1."""',
        'x: Literal[1]',
        '@cache(maxsize=1 + 1)\ndef f(): ...',
        'class A:\n  def __repr__(self):\n    return 1 + 1',
        "x = f'{a + 1}'",
        "x = 'a' + b",
        "logging.info('%d', 1)",
        "error = ValueError('%d', 1)",
        'x = f(buffer_size=2, num_parallel_calls=1)',
        'WAIT_SECONDS = 5',
        'file.close()',
        "x = {'compress_level': 1}",
        "x = 'is not there' if a == b else 'are not there'",
        'x = self._wait_until(a, 1)',
        'x = a.nbytes + b.nbytes',
        'assert a == 1',
        'if TYPE_CHECKING:\n  a()',
        'x = isinstance(a, b)',
        'x = max(a, b)',
        "x = f('some words', 'other words')",
    ],
)
def test_what_no_test_should_notice_is_excluded(source):
    assert changes(source) == []


def test_numbers_in_drawings_are_excluded():
    source = b'x = 3 if a == b else 4'
    kinds = {each.kind for each in mutants.mutants_of_source(source, 'deeplab/pictures/legend.py')}
    assert kinds == {'comparison'}


def test_every_mutant_of_a_real_module_is_python_and_differs():
    source = (ROOT / 'deeplab' / 'core' / 'heads' / 'aspp.py').read_bytes()
    tree = ast.dump(ast.parse(source))
    made = mutants.mutants_of_source(source, 'deeplab/core/heads/aspp.py')
    assert len({each.identity for each in made}) == len(made) > 10
    assert all(ast.dump(ast.parse(each.applied(source))) != tree for each in made)


def test_the_sample_follows_from_the_seed_and_has_the_share_of_each_package():
    derived = [
        mutants.Mutant(f'deeplab/{package}/a.py', 'f', 'constant', i, 1, 0, 1, '2')
        for package, number in (('core', 80), ('zoo', 40), ('files', 4))
        for i in range(number)
    ]
    drawn = mutants.sample(derived, 31, seed=0)
    packages = [each.package for each in drawn]
    assert (packages.count('core'), packages.count('zoo'), packages.count('files')) == (20, 10, 1)
    assert drawn == mutants.sample(derived[::-1], 31, seed=0) != mutants.sample(derived, 31, seed=1)
    assert mutants.sample(derived, 20, seed=0) == drawn[:20]


def test_the_tests_of_a_module(tmp_path):
    for name, text in {
        'core/test_a.py': '',
        'core/test_b.py': '',
        'core/losses/test_e.py': '',
        'test_covers.py': '"""Covers core/a.py."""',
        'test_covers_all.py': '"""Covers the declarations in core/."""',
        'test_covers_losses.py': '"""Covers core/losses/."""',
        'zoo/test_c.py': 'from deeplab.core import a',
        'zoo/test_d.py': 'from deeplab.core.a import f',
        'zoo/test_e.py': 'from deeplab.core import f',
        'zoo/test_other.py': 'from deeplab.core import b, g',
    }.items():
        (tmp_path / 'tests' / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / 'tests' / name).write_text(text)
    (tmp_path / 'deeplab/core').mkdir(parents=True)
    (tmp_path / 'deeplab/core/__init__.py').write_text('from deeplab.core.a import f\nfrom deeplab.core.b import g\n')
    for name in 'ab':
        (tmp_path / f'deeplab/core/{name}.py').touch()
    names = ['core/test_a.py', 'test_covers.py', 'test_covers_all.py', 'zoo/test_c.py', 'zoo/test_d.py']
    names += ['zoo/test_e.py', 'core/losses/test_e.py', 'core/test_b.py']
    assert relevant_tests.for_module(tmp_path, 'deeplab/core/a.py') == [f'tests/{name}' for name in names]


@pytest.mark.slow
def test_mutants_are_tested_in_copies_and_reported(root, tmp_path, capsys):
    output = tmp_path / 'output'
    words = ['--only=numbers', '--jobs=1', f'--output={output}', '--trust']
    assert program.main([*words, '--list'], root) == 0
    listed = [line for line in capsys.readouterr().out.splitlines() if line.startswith('deeplab/')]
    assert program.main(words, root) == 1
    printed = capsys.readouterr()
    document = json.loads((output / 'result.json').read_text())
    results = {each['identity']: each['result'] for each in document['outcomes']}
    assert set(results) == set(listed)
    assert results['deeplab/numbers.py:larger:comparison:0'] == 'caught'
    assert results['deeplab/numbers.py:ratio:removed guard:0'] == 'survived'
    assert '-    if b is None:' in printed.out and '+    if False:' in printed.out
    assert printed.out.splitlines()[-1].startswith('all')
    assert (root / 'deeplab' / 'numbers.py').read_text() == MODULE

    assert program.main(words, root) == 1  # everything is in the journal
    assert capsys.readouterr().err == ''


def test_tests_that_fail_without_a_mutant_are_named(root, tmp_path, capsys):
    (root / 'tests' / 'test_numbers.py').write_text('def test_it():\n    raise ValueError\n')
    assert program.main(['--only=numbers', '--jobs=1', f'--output={tmp_path / "output"}'], root) == 2
    assert 'tests/test_numbers.py::test_it' in capsys.readouterr().err


def test_a_mutant_that_never_ends_is_caught_by_the_limit(root, tmp_path):
    (root / 'tests' / 'test_numbers.py').write_text('import time\n\n\ndef test_it():\n    time.sleep(60)\n')
    mutant = mutants.mutants_of(root)[0]
    outcome = runs.Checkout(root, tmp_path / 'copy').outcome(mutant, ['tests/test_numbers.py'], 1.0)
    assert outcome.result == 'slow'
