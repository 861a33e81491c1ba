"""Folders of jobs that share the work of a program: part-03-of-16 in the folder of all results, joined in the end.

A part writes its results there as if it were alone, and a note last: without it, the part is not complete.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from deeplab import names
from deeplab.errors import DataError
from deeplab.files import documents, writing, written_files
from deeplab.options.parts import Part, require_all, require_same
from deeplab.wording import option

_NOTE = 'part.json'
_LABEL = re.compile(r'part-(\d+)-of-(\d+)')


@dataclasses.dataclass(frozen=True)
class PartFolder:
    """The results of a part.

    Attributes:
      part: which one.
      path: its folder.
      program: the program.
      settings: what is equal in all parts, JSON values by name.
      facts: what the program has noted, JSON values.
    """

    part: Part
    path: str
    program: str
    settings: Mapping[str, Any]
    facts: Mapping[str, Any]

    def read(self, name: str) -> bytes:
        """Returns the content of a file in the folder; raises `DataError` if it cannot be read."""
        path = os.path.join(self.path, name)
        try:
            with open(path, 'rb') as file:
                return file.read()
        except OSError as error:
            raise DataError(f"'{path}' cannot be read: {error.strerror}. Run part {self.part} again.") from None


def is_part(name: str) -> bool:
    """Returns whether a name is the name of the folder of a part."""
    return _LABEL.fullmatch(name) is not None


def begin(folder: str, part: Part, program: str) -> str:
    """Returns the folder of a part in the folder of all results, made, and without the note of an earlier run.

    Raises:
      DataError: it cannot be made, or has a part of another program.
    """
    path = part.folder(folder)
    with contextlib.suppress(OSError, documents.DocumentError):
        if (other := documents.load(os.path.join(path, _NOTE))['program']) != program:
            raise DataError(f"'{path}' is a part of '{other}'. Join it first (deeplab merge), or use another folder.")
    with writing.explained(path):
        os.makedirs(path, exist_ok=True)
        writing.remove(os.path.join(path, _NOTE))
    return path


def finish(path: str, part: Part, program: str, settings: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """Notes that a part is complete; returns a sentence for the report.

    Args:
      path: its folder.
      part: which part.
      program: the program.
      settings: what must be equal in all parts, JSON values by name.
      facts: what the program needs to join the parts, JSON values.

    Raises:
      DataError: the note cannot be written.
    """
    note = os.path.join(path, _NOTE)
    content = {'program': program, 'part': dataclasses.astuple(part), 'settings': dict(settings), 'facts': dict(facts)}
    with writing.explained(note):
        writing.write(note, json.dumps(content))
    folder = names.shell_quoted(os.path.dirname(path) or os.curdir)
    return f'Part {part} is in {path}. When all parts are complete: deeplab merge {folder}'


def find(folder: str) -> list[PartFolder]:
    """Returns all parts in a folder, in order.

    Raises:
      DataError: there is none, one is missing, not complete or there twice, or they are of different commands.
    """
    parts = []
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if match := _LABEL.fullmatch(name):
            part, path = Part(int(match[1]), int(match[2])), os.path.join(folder, name)
            try:
                note = documents.load(os.path.join(path, _NOTE))
                parts.append(PartFolder(part, path, note['program'], note['settings'], note['facts']))
            except (OSError, documents.DocumentError, KeyError, TypeError):
                raise DataError(f"'{path}' is not complete: run part {part} again, or wait until it ends.") from None
    if not parts:
        raise DataError(
            f"'{folder}' has no parts, such as part-1-of-4. Pass the output folder of the commands with "
            f'{option("PartOptions.part")}'
        )
    require_all([each.part for each in parts], f"'{folder}'")
    settings = [(each.part, {'program': each.program, **each.settings}) for each in parts]
    require_same(settings, f"'{folder}'")
    return sorted(parts, key=lambda each: each.part)


def move_files(
    folder: str, parts: Sequence[PartFolder], left_out: Sequence[str] = (), replaces_earlier: bool = False
) -> None:
    """Moves the files that the parts have listed (`WrittenFiles`) to the folder of all results.

    After an interruption it continues.

    Args:
      folder: the folder of all results.
      parts: all parts.
      left_out: names of files that are joined otherwise.
      replaces_earlier: whether all files that the program has listed in the folder before are removed first.

    Raises:
      DataError: a file is missing, or two parts have a file of one name.
    """
    owners: dict[str, PartFolder] = {}
    for part in parts:
        for name in sorted(written_files.WrittenFiles(part.path, part.program).names()):
            if name not in left_out and (other := owners.setdefault(name, part)) is not part:
                raise DataError(f"'{name}' is in parts {other.part} and {part.part}. Run one of them again.")
    there = {name: os.path.lexists(os.path.join(part.path, name)) for name, part in owners.items()}
    for name, part in owners.items():
        if not there[name] and not os.path.lexists(os.path.join(folder, name)):
            raise DataError(f"'{os.path.join(part.path, name)}' is missing. Run part {part.part} again.")
    written = written_files.WrittenFiles(folder, parts[0].program)
    if replaces_earlier and all(there.values()):  # otherwise an earlier merge has been interrupted
        written.begin()
    for name, part in owners.items():
        target = os.path.join(folder, name)
        with writing.explained(target):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if there[name]:
                os.replace(os.path.join(part.path, name), target)
        written.add(target)
