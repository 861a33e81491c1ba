"""JSON and YAML files that users write or keep: one way to read them, whose errors are one line.

A byte order mark at the beginning is skipped. What is nested absurdly deep is refused rather than left to Python's
recursion limit.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import pathlib
from collections.abc import Mapping
from typing import Any

DEEPEST = 100  # levels of lists and objects; no file that is read here needs ten
_TOO_DEEP = f'it is nested more than {DEEPEST} levels deep'
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
YAML_SUFFIXES = ('.yaml', '.yml')


class DocumentError(ValueError):
    """A file cannot be read or understood; the message begins in the middle of a sentence: "is not JSON: ..."."""


def load(path: str | pathlib.Path, keeps_pairs: bool = False) -> Any:
    """Reads a YAML file (by its ending), or else a JSON file.

    Args:
      path: of the file.
      keeps_pairs: gives JSON objects as lists of (key, value), so that keys that occur twice stay.

    Raises:
      FileNotFoundError: there is no such file.
      DocumentError: it cannot be read, or holds something else.
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
    """The content of a JSON text, which may begin with a byte order mark.

    Args:
      text: the text.
      keeps_pairs: as `load` takes it.

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
    """The content of a YAML text.

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
    """`content`; raises `DocumentError` where it is nested too deeply, or contains itself."""
    level = [content]
    for _ in range(DEEPEST + 1):
        inner: dict[int, Any] = {}  # by identity: YAML aliases may name one list a thousand times
        for value in level:
            children = value.values() if isinstance(value, Mapping) else value
            if isinstance(value, (Mapping, list, tuple)):
                inner.update((id(child), child) for child in children)
        if not inner:
            return content
        level = list(inner.values())
    raise DocumentError(f'is not usable: {_TOO_DEEP}')
