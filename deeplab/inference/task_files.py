"""Kinds of files that the predictions of a network have, and the files about all images of a run."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from deeplab.errors import OptionError
from deeplab.files import typed_json, writing
from deeplab.inference.task_decoding import TaskDecoder, has_classes
from deeplab.options import VIDEO, ModelOptions
from deeplab.registry import TASKS, TaskContext
from deeplab.wording import option

_OVERLAY, _MAPS = 'overlay', 'probabilities'  # kinds that networks without classes may have, too


def own_kinds(own: Sequence[str], options: ModelOptions | None) -> tuple[str, ...]:
    """Returns the kinds of files of a program that a network has, without the kinds of its tasks.

    Args:
      own: all kinds of the program.
      options: the network; None for a network of classes alone.
    """
    if options is None or has_classes(options):
        return tuple(own)
    is_drawn = any(task.overlay is not None for task in TASKS.chosen(options))
    return tuple(kind for kind in own if kind == _MAPS or (kind in (_OVERLAY, VIDEO) and is_drawn))


def kinds(
    given: Sequence[str] | None, usual: Sequence[str], own: Sequence[str], options: ModelOptions | None, field: str
) -> tuple[str, ...]:
    """Returns the kinds of files to write, each once.

    Args:
      given: kinds that the user names; None, or empty, for the usual ones and all kinds of the network's tasks.
      usual: the usual kinds of a network; a network without classes has some of them.
      own: all kinds of the program.
      options: the network; None for a network of classes alone.
      field: option of the kinds, as 'Class.field'.

    Raises:
      OptionError: the network has no files of a kind.
    """
    of_tasks = () if options is None else tuple(TASKS.files(options))
    plain = own_kinds(own, options)
    if not given:
        return tuple(dict.fromkeys((*(kind for kind in usual if kind in plain), *of_tasks)))
    for kind in given:
        if kind not in (*plain, *of_tasks):
            task = option('ModelOptions.task', 'semantic' if options is None else options.task)
            raise OptionError(
                f'{option(field, kind)} is not allowed: a network of {task} has no such files. It has '
                f'{", ".join((*plain, *of_tasks))}.'
            )
    return tuple(dict.fromkeys(given))


class RunDocuments:
    """The files KIND.json about all images of a run (`registry.ResultFile.entry`); several threads may add entries.

    Attributes:
      paths: path of each by its kind.
    """

    def __init__(self, folder: str, kinds: Sequence[str], decoder: TaskDecoder | None) -> None:
        """Creates them; writes nothing yet.

        Args:
          folder: folder of the files, which has a folder for each kind.
          kinds: kinds of files that are written.
          decoder: what decodes the maps of the network; None for a network of classes alone.
        """
        files = {} if decoder is None else TASKS.files(decoder.options)
        self._context = None if decoder is None else decoder.context
        self._tasks = {kind: files[kind][0] for kind in kinds if kind in files and files[kind][1].entry is not None}
        self.paths = {kind: os.path.join(folder, f'{kind}.json') for kind in self._tasks}
        self._entries: dict[str, dict[str, Mapping[str, Any]]] = {kind: {} for kind in self._tasks}
        self._lock = threading.Lock()

    def add(self, kind: str, path: str, entry: Mapping[str, Any] | None) -> None:
        """Adds what a document says of an image.

        Args:
          kind: kind of file.
          path: path of the image's file in the folder of the kind.
          entry: the entry; None for kinds without a document.
        """
        if entry is not None:
            with self._lock:
                self._entries[kind][path] = entry

    def write(self) -> list[str]:
        """Writes the documents; returns their paths.

        Raises:
          DataError: One cannot be written.
        """
        return [
            _write(path, self._tasks[kind], kind, self._entries[kind], self._context)
            for kind, path in self.paths.items()
            if self._context is not None
        ]

    def state(self) -> dict[str, Any]:
        """Returns the entries of a part of the images as JSON values, for `write_joined`."""
        context = typed_json.encoded(self._context)
        return {
            'names': list(map(os.path.basename, self.paths.values())),
            'tasks': self._tasks,
            'entries': self._entries,
            'context': context,
        }


def write_joined(folder: str, parts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Writes the documents of several parts of the images, given as `RunDocuments.state`; returns their paths.

    Raises:
      DataError: One cannot be written.
    """
    paths, context = [], typed_json.decoded(parts[0]['context'], [TaskContext])
    for (kind, task), name in zip(parts[0]['tasks'].items(), parts[0]['names'], strict=True):
        entries = {path: entry for part in parts for path, entry in part['entries'][kind].items()}
        paths.append(_write(os.path.join(folder, name), task, kind, entries, context))
    return paths


def _write(path: str, task: str, kind: str, entries: Mapping[str, Mapping[str, Any]], context: TaskContext) -> str:
    """Writes a document of entries, which are given by paths of files; returns its path."""
    content = TASKS.get(task).files[kind].document([entries[name] for name in sorted(entries)], context)
    with writing.explained(path):
        writing.write(path, json.dumps(content) + '\n')
    return path
