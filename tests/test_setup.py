"""setup.py, and tests/lowest_versions.txt, with which the lowest versions that it allows can be installed."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parent.parent
WITHOUT_RUN = {'nncf', 'mypy', 'ruff', 'selenium', 'tensorboard'}  # not among the versions that tests were run with


def test_the_lowest_versions_are_those_of_setup():
    bounds = set(re.findall(r"'([\w-]+)(?:\[[\w-]+\])?>=([\d.]+)", (ROOT / 'setup.py').read_text()))
    names = [name for name, _ in bounds]
    assert len(names) == len(set(names))  # one bound for each package, in whichever extras it is
    lowest = dict(line.split('==') for line in (ROOT / 'tests/lowest_versions.txt').read_text().split())
    assert lowest.keys() == set(names) - WITHOUT_RUN
    for name, bound in bounds:
        assert name in WITHOUT_RUN or f'{lowest[name]}.'.startswith(f'{bound}.'), name
