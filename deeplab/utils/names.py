"""Names of images that come from records: as people may see them, and as files may bear them.

A record can call its image anything: control characters, line breaks, thousands of characters.
"""

from __future__ import annotations

import os
import re

LONGEST_SHOWN = 120  # characters
# Bytes: a file's name may have 255, and gets .png, with .PID.partial behind it while it is written.
LONGEST_FILE_NAME = 230

_IMAGE_SUFFIXES = ('.jpg', '.jpeg', '.png', '.npy')
_PARTING = '[...]'
# What moves the cursor, colours a terminal, or turns the direction of text; and what no encoding has.
_CONTROLS = re.compile('[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]')


def shown(name: str | bytes, longest: int = LONGEST_SHOWN) -> str:
    """A name for messages and terminals: one line, what cannot be printed escaped, the middle of a long one left out.

    Args:
      name: text, or its UTF-8.
      longest: characters that the result may have, escapes included; more than twenty.
    """
    text = _text(name)
    half = (longest - len(_PARTING)) // 2
    if len(text) > longest:  # before each character becomes several
        text = text[: longest + 1] + text[-longest:]
    escaped = [sign if sign.isprintable() else sign.encode('unicode_escape').decode() for sign in text]
    if sum(map(len, escaped)) <= longest:
        return ''.join(escaped)
    return ''.join(_start(escaped, half)) + _PARTING + ''.join(reversed(_start(escaped[::-1], half)))


def printable(text: str) -> str:
    """Text of any number of lines, all other control characters escaped."""
    return _CONTROLS.sub(lambda found: found[0].encode('unicode_escape').decode(), text)


def file_name(name: str | bytes) -> tuple[str, bool]:
    """A name as that of a file: without folders and without the extension of an image file.

    Args:
      name: text, or its UTF-8.

    Returns:
      The name, of at most `LONGEST_FILE_NAME` bytes; empty where nothing is left. And whether it had to be changed,
      so that another name could become the same.
    """
    last = _text(name).replace('\\', '/').rpartition('/')[2]
    stem, suffix = os.path.splitext(last)
    plain = stem if suffix.lower() in _IMAGE_SUFFIXES else last
    cleaned = ''.join(sign if sign.isprintable() else '_' for sign in plain)
    if len(cleaned.encode()) > LONGEST_FILE_NAME:
        cleaned = cleaned.encode()[: LONGEST_FILE_NAME - 40].decode('utf-8', 'ignore')
    return cleaned, cleaned != plain


def _text(name: str | bytes) -> str:
    """The name as text; what is no UTF-8 becomes a replacement character."""
    return name.decode('utf-8', 'replace') if isinstance(name, bytes) else name


def _start(parts: list[str], longest: int) -> list[str]:
    """As many of the first `parts` as have at most `longest` characters together."""
    kept: list[str] = []
    length = 0
    for part in parts:
        length += len(part)
        if length > longest:
            break
        kept.append(part)
    return kept
