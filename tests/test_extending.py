"""docs/extending.md: its examples run as they stand, and docs/reference.md lists what is registered."""

import contextlib
import pathlib
import re

import pytest

from deeplab import plugins
from deeplab.registry import REGISTRIES
from tests import reference_page

ROOT = pathlib.Path(__file__).parent.parent
PAGE = (ROOT / 'docs' / 'extending.md').read_text(encoding='utf-8')
EXAMPLES = dict(re.findall(r'```python\n# (\w+\.py)\n(.*?)```', PAGE, re.DOTALL))
TABLE = re.findall(r'^\| \[(\w[\w ]*)\]\(#.*?\) \| (\d+) \| `(.*?)` \|', PAGE, re.MULTILINE)
LONGEST = 30  # lines of an example


@pytest.fixture
def examples(tmp_path, monkeypatch):
    """Writes the examples to files; what they register is gone when the test ends."""
    for name, text in EXAMPLES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    with contextlib.ExitStack() as undone:
        for registry in REGISTRIES.values():
            undone.enter_context(registry.changes_undone())
        yield list(EXAMPLES)


def test_the_page_of_all_records_is_current():
    assert reference_page.PAGE.read_text(encoding='utf-8') == reference_page.content(), (
        'docs/reference.md differs from the records: run `python -m tests.reference_page`.'
    )


@pytest.mark.parametrize(('kind', 'files', 'folder'), TABLE, ids=lambda value: str(value))
def test_one_file_adds_one_thing_of_each_kind(examples, kind, files, folder):
    """The table: to add X, touch N files. Here it is one outside of the package."""
    (registry,) = (registry for registry in REGISTRIES.values() if registry.kind == kind)
    section = PAGE.partition(f'\n## {kind.capitalize()}\n')[2].partition('\n## ')[0]
    (name,) = re.findall(r'```python\n# (\w+\.py)\n', section)
    before = registry.names()
    plugins.load([name])
    (added,) = set(registry.names()) - set(before)
    assert registry.get(added).summary
    assert files == '1'
    assert (ROOT / 'deeplab' / folder).is_dir()
    assert len(EXAMPLES[name].splitlines()) <= LONGEST


def test_the_table_has_every_kind():
    assert [kind for kind, _, _ in TABLE] == [registry.kind for registry in REGISTRIES.values()]
