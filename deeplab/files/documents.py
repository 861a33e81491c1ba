"""Reader of JSON, YAML and text files, with errors of one line; texts in YAML and CSV to write.

A byte order mark is skipped. Documents that are nested too deeply are rejected before Python's recursion limit.
"""

from __future__ import annotations

import codecs
import contextlib
import copy
import csv
import functools
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from deeplab.files import storage

DEEPEST = 100  # limit on nested lists and objects; valid files have fewer than ten levels
_TOO_DEEP = f'it is nested more than {DEEPEST} levels deep'
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
YAML_SUFFIXES = ('.yaml', '.yml')
_FORMULA_STARTS = ('=', '+', '-', '@', '\t', '\r', '\n')  # spreadsheets evaluate cells that begin so
_SURROGATE = re.compile(r'\\u[dD][89a-fA-F]')


class DocumentError(ValueError):
    """A file cannot be read or parsed; the message continues a sentence that names the file: "is not JSON: ..."."""


def load(path: str | os.PathLike[str], keeps_pairs: bool = False, checks_depth: bool = True) -> Any:
    """Reads a YAML file (by its extension), or else a JSON file.

    Args:
      path: path of the file, which TensorFlow reads if it begins with a scheme such as gs://.
      keeps_pairs: whether to return JSON objects as lists of (key, value), which keep duplicate keys.
      checks_depth: whether to reject a JSON document that is nested too deeply; False for large files that no recursive
        function reads, because the check takes memory.

    Raises:
      FileNotFoundError: there is no such file.
      DocumentError: it cannot be read or parsed.
    """
    path = os.fspath(path)
    text = _text(path)
    return parse_yaml(text) if path.endswith(YAML_SUFFIXES) else parse_json(text, keeps_pairs, checks_depth)


def load_text(path: str | os.PathLike[str]) -> str:
    """Reads a text file in UTF-8, or in UTF-16 with a byte order mark.

    Raises:
      DocumentError: it does not exist, or cannot be read.
    """
    try:
        return _text(os.fspath(path))
    except FileNotFoundError as error:
        raise DocumentError(f'cannot be read: {error.strerror}') from None


def entries_of(text: str) -> list[str]:
    """Returns the lines of a text without spaces around them, except blank lines and comments, which begin with #."""
    return [line for line in map(str.strip, text.splitlines()) if line and not line.startswith('#')]


def _text(path: str) -> str:
    """Returns the text in a file; raises `FileNotFoundError` or `DocumentError`."""
    try:
        content = storage.read(path)
        return content.decode('utf-16' if content.startswith(_UTF_16) else 'utf-8-sig')
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DocumentError(f'cannot be read: {error.strerror}') from None
    except UnicodeDecodeError:
        raise DocumentError('cannot be read: it is not text in UTF-8') from None


def load_lines(path: str | os.PathLike[str]) -> list[Any]:
    """Reads a JSON Lines file, see `lines_of`."""
    return list(lines_of(path))


def lines_of(path: str | os.PathLike[str]) -> Iterator[Any]:
    """Yields the values of a JSON Lines file, one per line; lines that are incomplete or not JSON are skipped.

    Raises:
      OSError: the file cannot be read.
    """
    with open(path, encoding='utf-8', errors='replace') as file:
        for line in file:
            if line.endswith('\n'):  # else the process was stopped while it wrote the line
                with contextlib.suppress(DocumentError):
                    yield parse_json(line)


def parse_json(text: str, keeps_pairs: bool = False, checks_depth: bool = True) -> Any:
    """Parses a JSON text, which may begin with a byte order mark.

    Args:
      text: the text.
      keeps_pairs: see `load`.
      checks_depth: see `load`.

    Raises:
      DocumentError: it is not JSON.
    """
    try:
        content = json.loads(text.removeprefix('\ufeff'), object_pairs_hook=list if keeps_pairs else None)
    except json.JSONDecodeError as error:
        raise DocumentError(f'is not JSON: line {error.lineno}, column {error.colno}: {error.msg}') from None
    except RecursionError:
        raise DocumentError(f'is not usable: {_TOO_DEEP}') from None
    except ValueError as error:  # an integer of thousands of digits
        raise DocumentError(f'is not usable: {error}') from None
    return _of_sensible_depth(content) if checks_depth else content


def parse_yaml(text: str) -> Any:
    """Parses a YAML text.

    Raises:
      DocumentError: it is not YAML.
    """
    # A run reads the same description several times, and parsing takes ten times as long as copying.
    return copy.deepcopy(_parsed_yaml(text.removeprefix('\ufeff')))


@functools.lru_cache(maxsize=2)
def _parsed_yaml(text: str) -> Any:
    import yaml  # only here, because most programs start without reading YAML

    # The loader in C takes a tenth of the time, but rejects the escapes of file names that are not UTF-8.
    loader = yaml.SafeLoader if _SURROGATE.search(text) else getattr(yaml, 'CSafeLoader', yaml.SafeLoader)
    try:
        _require_shallow(yaml.parse(text, loader))
        content = yaml.load(text, loader)
    except yaml.YAMLError as error:
        message = ' '.join(str(error).split())
        # The loader in C of PyYAML 6.0.4 and later has a limit of its own, and reads ahead of the events.
        problem = f'usable: {_TOO_DEEP}' if 'maximum nesting depth' in message else f'YAML: {message}'
        raise DocumentError(f'is not {problem}') from None
    except RecursionError:
        raise DocumentError(f'is not usable: {_TOO_DEEP}') from None
    except ValueError as error:  # a date that does not exist, an integer of thousands of digits
        raise DocumentError(f'is not usable: {error}') from None
    return _of_sensible_depth(content)


def _require_shallow(events: Iterable[Any]) -> None:
    """Raises `RecursionError` if a YAML text is nested too deeply, which would end the process in the loader of C."""
    depth = 0  # pyyaml's parser, which gives the events, is not recursive
    for event in events:
        name = type(event).__name__
        depth += name.endswith('StartEvent') - name.endswith('EndEvent')
        if depth > 2 + DEEPEST:  # the stream and the document are events, too
            raise RecursionError


def yaml_text(content: Mapping[str, Any]) -> str:
    """Returns a YAML text with a line for each key, followed by a JSON value; of a mapping each entry has a line.

    Args:
      content: keys are identifiers, values what JSON has.
    """
    lines = []
    for key, value in content.items():
        if isinstance(value, Mapping) and value:
            entries = (f'{_json(str(name))}: {_json(inner)}' for name, inner in value.items())
            lines += [f'{key}:', '  {' + ',\n   '.join(entries) + '}']
        else:
            lines.append(f'{key}: {_json(value)}')
    return '\n'.join(lines) + '\n'


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Returns a table as CSV; a quote is put before a text that spreadsheets would evaluate as a formula."""
    stream = io.StringIO()
    csv.writer(stream).writerows([[_safe(cell) for cell in row] for row in rows])
    return stream.getvalue()


def _safe(cell: object) -> object:
    is_formula = isinstance(cell, str) and cell.lstrip(' ').startswith(_FORMULA_STARTS)
    return f"'{cell}" if is_formula else cell


def _json(value: Any) -> str:
    """Returns a JSON text that YAML reads as the same value: characters that YAML does not allow are escaped."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return ''.join(c if c.isprintable() or c > '\uffff' else json.dumps(c)[1:-1] for c in text)


def _of_sensible_depth(content: Any) -> Any:
    """Returns `content`; raises `DocumentError` if it is nested too deeply, or contains itself."""
    level = [content]
    for _ in range(DEEPEST + 1):
        inner: dict[int, Any] = {}  # by identity, because YAML aliases may refer to one list many times
        for value in level:
            children = value.values() if isinstance(value, Mapping) else value
            if isinstance(value, (Mapping, list, tuple)):
                inner.update((id(child), child) for child in children)
        if not inner:
            return content
        level = list(inner.values())
    raise DocumentError(f'is not usable: {_TOO_DEEP}')
