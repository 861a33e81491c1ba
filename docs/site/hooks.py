"""Pages of the site that are not Markdown files in docs/, and links that lead to the same page here and on a code host.

MkDocs calls the functions `on_*` while it builds the site (mkdocs.yml).
"""

from __future__ import annotations

import json
import pathlib
import posixpath
import re
from html import unescape
from typing import Any

ROOT = pathlib.Path(__file__).parents[2]
# Files outside of docs/, or not in Markdown, by the page that shows them.
SHOWN = {
    'index.md': 'README.md',
    'contributing.md': 'CONTRIBUTING.md',
    'changelog.md': 'CHANGELOG.md',
    'benchmarks.md': 'benchmarks/NOTES.md',
    'notebook.md': 'docs/notebook.ipynb',
}
_PAGES = {source: page for page, source in SHOWN.items()}
_LONGEST_WORD = 36  # characters that fit into a line on a phone
_INLINE_CODE = re.compile(r'(?<!<pre>)(?<!<span></span>)<code>([^<]+)</code>')
_COMMANDS = re.compile(r'<div class="language-sh highlight">.*?</div>', re.DOTALL)
_LINE = re.compile(r'(<span id="line-[0-9-]+">)(.*)(\n</span>)')
_SPACE = re.compile(r'(<span class="w">[^<]*</span>)')
_LINK = re.compile(r'\[([^\]]*)\]\(([^)#:\s]+)(#[^)\s]*)?\)')


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages of `SHOWN`."""
    from mkdocs.structure.files import File  # not installed where tests import this module

    for page, source in SHOWN.items():
        text = (ROOT / source).read_text(encoding='utf-8')
        files.append(File.generated(config, page, content=_of_notebook(text) if source.endswith('.ipynb') else text))
    return files


def _of_notebook(text: str) -> str:
    """Returns the cells of a notebook as Markdown."""
    cells = [(cell['cell_type'], ''.join(cell['source'])) for cell in json.loads(text)['cells']]
    return '\n\n'.join(f'```python\n{source}\n```' if kind == 'code' else source for kind, source in cells)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Returns a page whose links, which hold for the files of the repository, hold for the pages of the site."""
    page_path = page.file.src_uri
    folder = posixpath.dirname(SHOWN.get(page_path, f'docs/{page_path}'))

    def adapted(link: re.Match[str]) -> str:
        text, target, anchor = link[1], posixpath.normpath(posixpath.join(folder, link[2])), link[3] or ''
        on_site = _PAGES.get(target) or (target.removeprefix('docs/') if target.startswith('docs/') else None)
        if on_site is None:  # a file that the site does not have
            return text
        return f'[{text}]({posixpath.relpath(on_site, posixpath.dirname(page_path) or ".")}{anchor})'

    return _LINK.sub(adapted, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Returns a page in which words of inline code and of commands are marked, so that flags stay on one line."""

    def inline(code: re.Match[str]) -> str:
        words = [_marked(word) if len(unescape(word)) <= _LONGEST_WORD else word for word in code[1].split(' ')]
        return f'<code>{" ".join(words)}</code>'

    def command(line: re.Match[str]) -> str:
        words = [part if _SPACE.fullmatch(part) else _marked(part) for part in _SPACE.split(line[2])]
        return line[1] + ''.join(words) + line[3]

    html = _COMMANDS.sub(lambda block: _LINE.sub(command, block[0]), html)
    return _INLINE_CODE.sub(inline, html)


def _marked(word: str) -> str:
    return f'<span class="word">{word}</span>' if word else ''
