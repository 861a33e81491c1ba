"""The documentation site without MkDocs: mkdocs.yml, docs/site/hooks.py, the pictures and the pages of the Python API.

`.ci/run` builds the site itself.
"""

import importlib.util
import pathlib
import pkgutil
import re
import types

import pytest

ROOT = pathlib.Path(__file__).parents[1]
_SPEC = importlib.util.spec_from_file_location('hooks', ROOT / 'docs' / 'site' / 'hooks.py')
hooks = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(hooks)
DOCS = ROOT / 'docs'
PAGES = {path.relative_to(DOCS).as_posix(): path.read_text(encoding='utf-8') for path in DOCS.rglob('*.md')}
SHOWN = {page: ROOT / source for page, source in hooks.SHOWN.items()}
LARGEST = 300_000  # bytes of a picture


def test_every_page_is_in_the_navigation_once():
    navigation = (ROOT / 'mkdocs.yml').read_text(encoding='utf-8').partition('\nnav:\n')[2].partition('\n\n')[0]
    named = re.findall(r': (\S+\.md)$', navigation, re.MULTILINE)
    assert sorted(named) == sorted([*PAGES, *SHOWN])
    assert all(path.exists() for path in SHOWN.values())


def test_pictures_are_small_and_shown():
    pictures = {path.relative_to(DOCS).as_posix(): path for path in (DOCS / 'pictures').iterdir()}
    assert len(pictures) > 4
    texts = [*PAGES.values(), *(path.read_text(encoding='utf-8').replace('docs/', '') for path in SHOWN.values())]
    shown = {name for text in texts for name in re.findall(r'!\[[^\]]+\]\(([^)]+)\)', text)}
    assert shown == pictures.keys()
    for path in pictures.values():
        assert path.stat().st_size < LARGEST, path


@pytest.mark.parametrize(
    'page, link, adapted',
    [
        ('index.md', '[training](docs/training.md#resume)', '[training](training.md#resume)'),
        ('index.md', '![Demo](docs/pictures/demo.png)', '![Demo](pictures/demo.png)'),
        ('index.md', '[here](#results)', '[here](#results)'),
        ('contributing.md', '[a](docs/adr/1.md), [b](CHANGELOG.md)', '[a](adr/1.md), [b](changelog.md)'),
        ('acceptance.md', '[notes](../benchmarks/NOTES.md)', '[notes](benchmarks.md)'),
        ('acceptance.md', '[`a`](../tests/a.py) and [b](https://b.org/c.md)', '`a` and [b](https://b.org/c.md)'),
        ('adr/0001.md', '[readme](../../README.md#x), [cli](../cli.md)', '[readme](../index.md#x), [cli](../cli.md)'),
        ('benchmarks.md', '[speed](../docs/gpu.md)', '[speed](gpu.md)'),
        ('predict.md', '[notebook](notebook.ipynb)', '[notebook](notebook.md)'),
    ],
)  # fmt: skip
def test_links_lead_to_pages_of_the_site(page, link, adapted):
    file = types.SimpleNamespace(src_uri=page)
    assert hooks.on_page_markdown(link, types.SimpleNamespace(file=file)) == adapted


def test_the_notebook_becomes_a_page():
    text = hooks._of_notebook(SHOWN['notebook.md'].read_text(encoding='utf-8'))
    assert text.startswith('# Notebook\n') and '```python\nfrom deeplab import Predictor\n' in text


def test_words_of_code_stay_whole():
    """Each word between bars is marked; a word that is longer than a line of a phone, and other code, are not."""
    space, equal = '<span class="w"> </span>', '<span class="o">=</span>'
    line = f'<span id="line-0-1">|deeplab|{space}|--num_classes{equal}4|{space}|<span class="se">\\</span>|\n</span>'
    for page in (
        '<p>a <code>|--train_crop_size=1| |"a&lt;b"|</code>, b</p>',
        f'<code>{"long_" * 20}</code>',
        '<pre><code>--flag\n</code></pre>',
        f'<div class="language-sh highlight"><pre><span></span><code>{line}</code></pre></div>',
        f'<div class="language-python highlight"><pre><span></span><code>{line.replace("|", "")}</code></pre></div>',
    ):
        marked = re.sub(r'\|(.*?)\|', r'<span class="word">\1</span>', page)
        assert hooks.on_page_content(page.replace('|', '')) == marked


def test_names_on_pages_of_the_python_api_exist():
    names = [name for text in PAGES.values() for name in re.findall(r'^::: (\S+)$', text, re.MULTILINE)]
    assert len(names) > 30  # options have generated tables instead
    assert len(set(names)) == len(names)
    for name in names:
        assert pkgutil.resolve_name(name) is not None
