"""A part of the items of a program, for several jobs that share the work."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from deeplab.errors import DataError
from deeplab.options.fields import LocalPath, Options, declarations, declared

_FORM = re.compile(r'(\d+)/(\d+)')
_FREE = ('part', 'threads', 'num_workers', 'loaded', 'wait')  # fields that may differ between the parts
_SHOWN = 60  # characters of a value in a message


@dataclasses.dataclass(frozen=True, order=True)
class Part:
    """One of several parts of consecutive items.

    Attributes:
      number: number of the part, from 1.
      count: number of parts.
    """

    number: int
    count: int

    def __str__(self) -> str:
        """Returns the part as options state it."""
        return f'{self.number}/{self.count}'

    @property
    def label(self) -> str:
        """The part of file names that tells the parts from each other, such as 'part-03-of-16'."""
        digits = len(str(self.count))
        return f'part-{self.number:0{digits}}-of-{self.count}'

    def folder(self, above: str) -> str:
        """Returns the folder of its results in the folder of all results."""
        return os.path.join(above, self.label)

    def of(self, items: int) -> slice:
        """Returns the places of its items; parts differ by at most one item, and follow each other.

        Raises:
          DataError: there are more parts than items.
        """
        if items < self.count:
            raise DataError(
                f'Part {self} is not possible: there are more parts than items ({items}). Use at most {items} parts.'
            )
        return self.places(items)

    def places(self, items: int) -> slice:
        """Returns the same, also for more parts than items, of which some have none."""
        return slice((self.number - 1) * items // self.count, self.number * items // self.count)


ALL = Part(1, 1)


@dataclasses.dataclass(frozen=True)
class PartOptions(Options):
    """Which part of the work is the program's own."""

    part: str | None = declared(
        None,
        'Part of the work that this job does, such as 3/16: the third of 16 parts of consecutive items. `deeplab '
        'merge` joins the results of all parts. Not set: all of it.',
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(
            self.part is None or self.chosen is not None,
            'part',
            'pass the number of the part, from 1, and the number of parts, such as 3/16',
        )

    @property
    def chosen(self) -> Part | None:
        """The part; None for everything."""
        match = _FORM.fullmatch(self.part or '')
        part = Part(*map(int, match.groups())) if match else Part(0, 0)
        return part if 1 <= part.number <= part.count else None

    def folder(self, above: str) -> str:
        """Returns the folder of the results: of the part in the folder of all results, or this folder itself."""
        return above if self.chosen is None else self.chosen.folder(above)


@dataclasses.dataclass(frozen=True)
class MergeOptions(Options):
    """Options of `deeplab merge`."""

    folder: LocalPath = declared(
        meaning='Output folder of the commands with {PartOptions.part}: eval_logdir, vis_logdir, output_dir, or the '
        'folder of the findings from doctor; {folder}= may be omitted.',
    )


def require_all(parts: Sequence[Part], what: str) -> None:
    """Raises `DataError` unless the parts are all parts of one whole, each once.

    Args:
      parts: the parts, in any order.
      what: what they are parts of, for the message.
    """
    counts = sorted({part.count for part in parts})
    if len(counts) > 1:
        shown = ' and '.join(map(str, counts))
        raise DataError(f'{what} has parts of {shown} parts. Merge the parts of one division, and remove the others.')
    for number in range(1, counts[0] + 1 if counts else 1):
        part = Part(number, counts[0])
        if part not in parts:
            raise DataError(f'{what} lacks part {part}. Run the command with that part, then merge again.')
        if parts.count(part) > 1:
            raise DataError(f'{what} has part {part} twice. Remove one of them.')


def require_same(settings: Sequence[tuple[Part, Mapping[str, Any]]], what: str) -> None:
    """Raises `DataError` if parts were made with different settings, which are given by name as JSON values."""
    (first, expected), *others = ((part, _flat(values)) for part, values in settings)
    for part, given in others:
        for name in sorted(expected.keys() | given.keys()):
            if expected.get(name) != given.get(name):
                raise DataError(
                    f'Parts {first} and {part} of {what} do not belong together: {name} is '
                    f'{_shown(expected.get(name))} and {_shown(given.get(name))}. Run all parts with one command that '
                    'differs in the part alone.'
                )


def settings_of(options: Any) -> dict[str, Any]:
    """Returns the fields of options that must be equal in all parts, as JSON values; paths may differ."""
    settings = {}
    for field in dataclasses.fields(options):
        kind: type = type(options)
        declaration = declarations(kind).get(field.name)
        value = getattr(options, field.name)
        if field.name in _FREE or (declaration is not None and declaration.is_path):
            continue
        settings[field.name] = settings_of(value) if dataclasses.is_dataclass(value) else value
    values: dict[str, Any] = json.loads(json.dumps(settings, default=str))
    return values


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns values by name, where a value in an object has the names of both."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            flat |= {f'{name}.{key}': each for key, each in _flat(value).items()}
        else:
            flat[name] = value
    return flat


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f'{text[:_SHOWN]}...'
