"""Texts of messages: image names from records, made safe also for file names; numbers, sizes, durations; tables.

The name in a record can be any text: with control characters, line breaks, thousands of characters.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Collection, Iterator, Sequence

LONGEST_SHOWN = 120  # characters
# In bytes: a file name may have 255, including .png and, while the file is written, .PID-MACHINE.partial (21).
LONGEST_FILE_NAME = 230

_IMAGE_SUFFIXES = ('.jpg', '.jpeg', '.png', '.npy')
_ELLIPSIS = '[...]'
# Verbs in plural, and in singular.
_OF_ONE = {
    'are': 'is',
    'differ': 'differs',
    'do': 'does',
    'exist': 'exists',
    'fit': 'fits',
    'have': 'has',
    'look': 'looks',
    'seem': 'seems',
    'show': 'shows',
}
# Characters that move the cursor, color a terminal or change the direction of text; and surrogates.
_CONTROLS = re.compile('[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]')


def shown(name: str | bytes, longest: int = LONGEST_SHOWN) -> str:
    """Returns a name for messages: one line, unprintable characters escaped, the middle of a long name omitted.

    Args:
      name: text, or its UTF-8 encoding.
      longest: largest number of characters of the result, including escapes; more than twenty.
    """
    text = _text(name)
    half = (longest - len(_ELLIPSIS)) // 2
    if len(text) > longest:  # before escapes make it longer
        text = text[: longest + 1] + text[-longest:]
    signs = [escaped(sign) for sign in text]
    if sum(map(len, signs)) <= longest:
        return ''.join(signs)
    return ''.join(_start(signs, half)) + _ELLIPSIS + ''.join(reversed(_start(signs[::-1], half)))


def escaped(text: str) -> str:
    """Returns text on one line: every character that cannot be printed is escaped."""
    return ''.join(sign if sign.isprintable() else sign.encode('unicode_escape').decode() for sign in text)


def shell_quoted(text: str) -> str:
    """Returns a word of a command line for a shell, on one line: as shlex does it, or $'...' for control characters."""
    if text.isprintable():
        return shlex.quote(text)
    quoted = (rf'\{sign}' if sign in "\\'" else sign if sign.isprintable() else _as_bytes(sign) for sign in text)
    return f"$'{''.join(quoted)}'"


def _as_bytes(sign: str) -> str:
    """Returns the bytes of a character as a shell reads them within $'...'."""
    errors = 'surrogateescape' if '\udc80' <= sign <= '\udcff' else 'surrogatepass'
    return ''.join(rf'\x{byte:02x}' for byte in sign.encode('utf-8', errors))


def printable(text: str) -> str:
    """Returns text with control characters escaped, except line breaks and tabs."""
    return _CONTROLS.sub(lambda match: match[0].encode('unicode_escape').decode(), text)


def file_name(name: str | bytes) -> tuple[str, bool]:
    """Returns a name as a file name: without folders and without the extension of an image file.

    Args:
      name: text, or its UTF-8 encoding.

    Returns:
      The name, of at most `LONGEST_FILE_NAME` bytes, possibly empty; and whether characters were replaced or removed,
      so that different names can give the same file name.
    """
    last = _text(name).replace('\\', '/').rpartition('/')[2]
    stem, suffix = os.path.splitext(last)
    plain = stem if suffix.lower() in _IMAGE_SUFFIXES else last
    cleaned = ''.join(sign if sign.isprintable() else '_' for sign in plain)
    if len(cleaned.encode()) > LONGEST_FILE_NAME:
        cleaned = cleaned.encode()[: LONGEST_FILE_NAME - 40].decode('utf-8', 'ignore')
    return cleaned, cleaned != plain


def _text(name: str | bytes) -> str:
    """Returns the name as text; invalid UTF-8 becomes a replacement character."""
    return name.decode('utf-8', 'replace') if isinstance(name, bytes) else name


def _start(parts: list[str], longest: int) -> list[str]:
    """Returns the longest prefix of `parts` with at most `longest` characters in total."""
    lengths = itertools.accumulate(map(len, parts))
    return [part for part, length in zip(parts, lengths, strict=True) if length <= longest]


def counted(number: int, noun: str) -> str:
    """Returns a number of things: '1 image' or '2 images'; `noun` is in singular."""
    return f'{number:,} {noun}' if number == 1 else f'{number:,} {noun}s'


def listed(texts: Sequence[str], most: int = 8) -> str:
    """Returns the first `most` texts, separated by commas, and the number of the others."""
    return ', '.join(texts[:most]) + (f' and {len(texts) - most} more' if len(texts) > most else '')


def agreeing(number: int, phrase: str) -> str:
    """Returns a phrase with its verb in the form for `number` things: 'has a mask' or 'have a mask'.

    Args:
      number: number of things.
      phrase: the phrase in plural; begins with the verb.
    """
    verb, space, rest = phrase.partition(' ')
    return f'{_OF_ONE.get(verb, verb)}{space}{rest}' if number == 1 else phrase


def byte_size(size: float | None) -> str:
    """Returns a number of bytes with three significant digits: '512 bytes', '23 MB', '1.25 GB'; '-' for None."""
    if size is None:
        return '-'
    units = ['bytes', 'kB', 'MB', 'GB', 'TB']
    while float(f'{size:.3g}') >= 1000 and len(units) > 1:
        size /= 1000
        del units[0]
    return f'{size:.3g} {units[0]}'


def duration(seconds: float) -> str:
    """Returns a duration: '0.5 s', '40 s', '4 min 5 s' or '2 h 24 min'."""
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f'{seconds:.1f} s' if seconds < 10 else f'{rest} s'
    return f'{minutes} min {rest} s' if minutes < 60 else f'{minutes // 60} h {minutes % 60} min'


def aligned(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> Iterator[str]:
    """Yields rows with columns of equal width: the columns in `left` aligned on the left, others on the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.ljust(width) if number in left else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield '  '.join(cells).rstrip()


def lower_first(text: str) -> str:
    """Returns `text` with its first letter in lower case, unless it begins with a name such as JSON or OpenVINO."""
    word = text.partition(' ')[0]
    return text if word[1:] != word[1:].lower() else text[:1].lower() + text[1:]
