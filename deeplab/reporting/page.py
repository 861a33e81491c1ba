"""The HTML file of a report: template, style, scripts, charts library and data in one file without network access."""

from __future__ import annotations

import json
import os
import pathlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from deeplab.errors import OptionError
from deeplab.pictures import html_page
from deeplab.system import packages

_FOLDER = pathlib.Path(__file__).parent / 'page'
_SCRIPTS = ('tools.js', 'charts.js', 'tables.js', 'pictures.js', 'viewer.js', 'main.js')
_SCRIPTS_OF = {'tasks': 'tasks.js', 'folds': 'folds.js'}  # by the key of the content that they draw


def require_paths(runs: Iterable[str]) -> None:
    """Raises `OptionError` for a run that is neither a folder nor a checkpoint."""
    for path in runs:
        if not os.path.exists(path) and not os.path.exists(f'{path}.index'):
            raise OptionError(f"'{path}' does not exist. Pass the log folder of a training run, or a checkpoint.")


def require_library() -> None:
    """Raises `OptionError` if the package of the charts is missing."""
    packages.require(('vl_convert',), 'A report with charts', "'deeplab-toolkit[report]'")


def charts_library() -> str:
    """Returns Vega, Vega-Lite and Vega-Embed as one script; raises as `require_library` does."""
    require_library()
    import vl_convert

    return _for_script(vl_convert.javascript_bundle())  # type: ignore[call-arg]


def _for_script(text: str) -> str:
    """Escapes what would end a script element early; inside JavaScript strings it means the same."""
    text = text.replace('\r\n', '\n').replace('\r', '\n')  # as HTML reads it, for its hash
    return re.sub(r'<(?=/script|!--)', r'\\x3c', text, flags=re.IGNORECASE)


def as_json(data: Any) -> str:
    """Returns data as JSON for a script element: no character in it can end the element, and all are ASCII."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(',', ':'))
    return text.replace('<', '\\u003c').replace('>', '\\u003e').replace('&', '\\u0026')


def render(content: Mapping[str, Any], pictures: Iterable[Mapping[str, Any]], library: str) -> str:
    """Returns the page.

    Args:
      content: data of the page, as JSON values; `title` is its title.
      pictures: data of each picture, which the page decodes when it is shown.
      library: the script of the charts (`charts_library`).
    """
    style = (_FOLDER / 'style.css').read_text('utf-8')
    further = [script for key, script in _SCRIPTS_OF.items() if key in content]
    script = '\n'.join((_FOLDER / name).read_text('utf-8') for name in (*_SCRIPTS, *further))
    elements = (
        f'<script type="application/json" id="picture-{number}">{as_json(picture)}</script>\n'
        for number, picture in enumerate(pictures)
    )
    parts = {
        'head': html_page.head('report', content['title'], style, [library, script]),
        'content': as_json(content),
        'pictures': ''.join(elements),
        'library': library,
        'script': script,
    }
    return html_page.filled((_FOLDER / 'template.html').read_text('utf-8'), parts)
