"""Common parts of the HTML files that programs write: head, style, security policy, text and pictures in the file."""

from __future__ import annotations

import base64
import hashlib
import html
import io
import pathlib
import re
from collections.abc import Mapping, Sequence

import numpy as np
from PIL import Image

from deeplab import names

_FOLDER = pathlib.Path(__file__).parent / 'page'
_PLACE = re.compile(r'\{\{(\w+)\}\}')
_QUALITY = 82
_FLAG = re.compile(r'(?<![\w-])(--\w+(?:=\S*[^\s.,;:)])?)')


def head(program: str, title: str, style: str, scripts: Sequence[str] = ()) -> str:
    """Returns the beginning of a page: all up to the link that skips to the element `main`.

    Args:
      program: the program that writes the page, such as 'report'.
      title: title as plain text.
      style: inline style, in addition to the one that all pages have (colors for light and dark screens, text, tables,
        cards).
      scripts: inline scripts of the page, which its security policy allows.
    """
    style = (_FOLDER / 'base.css').read_text('utf-8') + style
    parts = {'program': program, 'title': text(title), 'style': style, 'policy': _policy(scripts, style)}
    return filled((_FOLDER / 'head.html').read_text('utf-8'), parts)


def filled(template: str, parts: Mapping[str, str]) -> str:
    """Returns a template with a part in place of each {{name}}."""
    return _PLACE.sub(lambda place: parts[place[1]], template)


def _policy(scripts: Sequence[str], style: str) -> str:
    """Returns the security policy, escaped, that allows these inline scripts, this style and pictures in the file."""
    allowed = ' '.join(f"'{_hash(script)}'" for script in scripts) or "'none'"
    parts = [
        "default-src 'none'",
        f'script-src {allowed}',
        f"style-src '{_hash(style)}'",
        'img-src data:',
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return html.escape('; '.join(parts), quote=True)


def text(value: object) -> str:
    """Returns a value as text of a page: markup in it is shown, control characters are escaped."""
    return html.escape(names.printable(str(value)), quote=True)


def prose(value: object) -> str:
    """Returns a value as text of a page in which no line ends behind the dashes of a flag."""
    parts = [text(part) for part in _FLAG.split(str(value))]
    parts[1::2] = [f'<span class="flag">{part}</span>' for part in parts[1::2]]
    return ''.join(parts)


def webp(pixels: np.ndarray) -> str:
    """Returns a picture, [h, w, 3] uint8, as WebP in base64."""
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, 'WEBP', quality=_QUALITY, method=4)
    return base64.b64encode(stream.getvalue()).decode('ascii')


def image_tag(pixels: np.ndarray, description: str) -> str:
    """Returns the HTML element of a picture, [h, w, 3] uint8, with its description as the alternative text."""
    height, width = pixels.shape[:2]
    return (
        f'<img src="data:image/webp;base64,{webp(pixels)}" width="{width}" height="{height}" loading="lazy" '
        f'alt="{text(description)}">'
    )


def _hash(content: str) -> str:
    """Returns the source expression that allows one inline script or style."""
    digest = hashlib.sha256(content.encode('utf-8')).digest()
    return f'sha256-{base64.b64encode(digest).decode("ascii")}'
