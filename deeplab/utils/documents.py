"""Reader of JSON and YAML files, with errors of one line.

A byte order mark is skipped. Documents that are nested too deeply are rejected before Python's recursion limit.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import pathlib
from collections.abc import Mapping
from typing import Any

DEEPEST = 100  # limit on nested lists and objects; valid files have fewer than ten levels
_TOO_DEEP = f'it is nested more than {DEEPEST} levels deep'
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
YAML_SUFFIXES = ('.yaml', '.yml')


class DocumentError(ValueError):
    """A file cannot be read or parsed; the message continues a sentence that names the file: "is not JSON: ..."."""


def load(path: str | pathlib.Path, keeps_pairs: bool = False) -> Any:
    """Reads a YAML file (by its extension), or else a JSON file.

    Args:
      path: path of the file.
      keeps_pairs: returns JSON objects as lists of (key, value), so that duplicate keys are kept.

    Raises:
      FileNotFoundError: there is no such file.
      DocumentError: it cannot be read or parsed.
    """
    path = pathlib.Path(path)
    try:
        content = path.read_bytes()
        text = content.decode('utf-16' if content.startswith(_UTF_16) else 'utf-8-sig')
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DocumentError(f'cannot be read: {error.strerror}') from None
    except UnicodeDecodeError:
        raise DocumentError('cannot be read: it is not text in UTF-8') from None
    return parse_yaml(text) if path.suffix in YAML_SUFFIXES else parse_json(text, keeps_pairs)


def load_lines(path: str | pathlib.Path) -> list[Any]:
    """Reads a JSON Lines file: one value per line; lines that are incomplete or not JSON are skipped.

    Raises:
      OSError: the file cannot be read.
    """
    found = []
    with open(path, encoding='utf-8', errors='replace') as file:
        for line in file:
            if line.endswith('\n'):  # else the process was stopped while it wrote the line
                with contextlib.suppress(DocumentError):
                    found.append(parse_json(line))
    return found


def parse_json(text: str, keeps_pairs: bool = False) -> Any:
    """Parses a JSON text, which may begin with a byte order mark.

    Args:
      text: the text.
      keeps_pairs: see `load`.

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
    return _of_sensible_depth(content)


def parse_yaml(text: str) -> Any:
    """Parses a YAML text.

    Raises:
      DocumentError: it is not YAML, or pyyaml is not installed.
    """
    try:
        import yaml
    except ModuleNotFoundError:
        raise DocumentError(
            "cannot be read: reading YAML needs pyyaml. Run: pip install 'deeplab[yaml]'. Or use JSON"
        ) from None
    try:
        content = yaml.safe_load(text.removeprefix('\ufeff'))
    except yaml.YAMLError as error:
        raise DocumentError(f'is not YAML: {" ".join(str(error).split())}') from None
    except RecursionError:
        raise DocumentError(f'is not usable: {_TOO_DEEP}') from None
    except ValueError as error:  # a date that does not exist, an integer of thousands of digits
        raise DocumentError(f'is not usable: {error}') from None
    return _of_sensible_depth(content)


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
