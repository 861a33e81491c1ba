"""setup.py, texts that say how to install it, and tests/lowest_versions.txt with its lowest allowed versions."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parent.parent
# Not among the versions that tests were run with.
WITHOUT_RUN = {'mkdocs', 'mkdocs-material', 'mkdocstrings', 'mypy', 'nncf', 'ruff', 'selenium', 'tensorboard'}
WITHOUT_RUN |= {'datumaro', 'flask-cors', 'label-studio-converter', 'labelme', 'mlflow-skinny', 'moto'}


def test_the_lowest_versions_are_those_of_setup():
    bounds = set(re.findall(r"'([\w-]+)(?:\[[\w-]+\])?>=([\d.]+)", (ROOT / 'setup.py').read_text()))
    names = [name for name, _ in bounds]
    assert len(names) == len(set(names))  # one bound for each package, in whichever extras it is
    lowest = dict(line.split('==') for line in (ROOT / 'tests/lowest_versions.txt').read_text().split())
    assert lowest.keys() == set(names) - WITHOUT_RUN
    for name, bound in bounds:
        assert name in WITHOUT_RUN or f'{lowest[name]}.'.startswith(f'{bound}.'), name


def _texts():
    """Returns the files whose readers may paste an installation command: code, docs and settings."""
    folders = ('deeplab', 'docs', 'tests', 'benchmarks', '.ci', '.github')
    files = [path for folder in folders for path in (ROOT / folder).rglob('*') if 'goldens' not in path.parts]
    files += list(ROOT.glob('*.md')) + list(ROOT.glob('*.py'))
    return sorted(path for path in files if path.suffix in {'.py', '.md', '.js', '.html', '.txt', '.yml', '.yaml', ''})


def test_texts_name_the_distribution_and_its_extras():
    """`deeplab` on PyPI is a package of somebody else: no text may tell a user to install it."""
    other = 'deeplab' + r'\[|pip3? install [^\n&;`]*?(?<![\w./' + r"""'"-])['"]?deeplab(?![\w/-])"""
    setup = (ROOT / 'setup.py').read_text()
    extras = set(re.findall(r"^        '(\w+)': \[", setup, re.MULTILINE)) | {'fake', 'mine'}  # two that tests invent
    assert "name='deeplab-toolkit'" in setup
    named = 0
    for path in filter(pathlib.Path.is_file, _texts()):
        text = path.read_text(errors='replace').replace('\\', '')
        assert not re.search(other, text), path
        for names in re.findall(r'deeplab-toolkit\[([\w,]+)\]', text):
            assert set(names.split(',')) <= extras, path
            named += 1
    assert named > 30
