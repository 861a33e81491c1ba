"""Where exports are written: paths that are checked before the work begins, and replaced as a whole."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from absl import logging

from deeplab.errors import DataError
from deeplab.export import tensor_names
from deeplab.files import output_files, writing
from deeplab.options import ExportOptions, Target
from deeplab.registry import EXPORT_FORMATS, ExportFormat
from deeplab.system import packages
from deeplab.wording import option

INFERENCE_GRAPH = 'inference_graph.pbtxt'  # the graph with variables, beside an export
_OLD = '.old'  # suffix of an export that is being replaced
_PATH = 'ExportOptions.export_path'


class Destination(NamedTuple):
    """An export that is to be written, and the path of its file or folder."""

    target: Target
    record: ExportFormat
    path: str


def of(options: ExportOptions) -> list[Destination]:
    """Returns the exports to write.

    Raises:
      UserError: a package is missing, or something that is no earlier export, or no graph with variables, is at a path.
    """
    targets = options.targets
    exports = []
    for target in targets:
        record = EXPORT_FORMATS.get(target.format)
        path = options.export_path if len(targets) == 1 else os.path.join(options.export_path, _name(target, record))
        path = os.path.normpath(path) if record.is_folder else path
        if target.format == 'saved_model' and options.conversion.serving_version is not None:
            path = os.path.join(path, str(options.conversion.serving_version))
        exports.append(Destination(target, record, path))
    for destination in exports:
        check_installed(destination.record, destination.target.variant)
        check_target(destination.path, destination.record)
    if options.save_inference_graph:
        graph = os.path.join(os.path.dirname(exports[0].path), INFERENCE_GRAPH)
        output_files.require_own(graph, 'ExportOptions.save_inference_graph', 'a graph as text', _is_graph_text)
    return exports


def _name(target: Target, record: ExportFormat) -> str:
    """Returns the name of one of several exports in a folder; the usual variant has none of its own."""
    name = record.example_path or record.name
    if target.variant == record.variants[0]:
        return name
    stem, suffix = os.path.splitext(name)
    return f'{stem}_{target.variant}{suffix}'


def check_installed(record: ExportFormat, variant: str) -> None:
    """Raises `OptionError` if a package that a format, or this variant of it, needs is missing."""
    packages.require(record.requires, option(EXPORT_FORMATS.field, record.name), record.install)
    names, install = record.variants_need.get(variant, ((), ''))
    packages.require(names, option('ExportOptions.formats', f'{record.name}:{variant}'), install)


def check_target(path: str, record: ExportFormat) -> None:
    """Raises an error if writing to `path` would overwrite something that is not an earlier export.

    Args:
      path: destination of the export.
      record: format of the export.

    Raises:
      DataError: the path is a file instead of a folder or vice versa, or a folder with other files.
      OptionError: the path is another file, or a folder of this format that was not exported here.
    """
    own = f'{record.noun} of DeepLab'
    example = os.path.join(path, record.example_path or record.name)
    if not record.is_folder:
        if os.path.isdir(path) or path.endswith(os.sep):
            folders = [each.name for each in EXPORT_FORMATS.records() if each.is_folder]
            other = f', or set {option(EXPORT_FORMATS.field, folders[-1])}' if folders else ''
            raise DataError(
                f'{option(_PATH, path)} is a folder, but {record.noun} is one file. Pass the path of a file, such as '
                f'{example}{other}.'
            )
        output_files.require_own(path, _PATH, own, record.is_own)
        return
    if parts := record.files_of(path):
        for part in parts.values():  # only the first of `contents`, the last here, says whose they are
            output_files.require_own(part, _PATH, own, lambda _: os.path.isfile(path) and record.is_own(path))
        return
    if os.path.isfile(path):
        raise DataError(
            f'{option(_PATH, path)} is a file, but {record.noun} is a folder. Use a folder that does not exist yet.'
        )
    inside = sorted(os.listdir(path)) if os.path.isdir(path) else []
    foreign = [name for name in inside if name not in record.contents]
    if foreign or (inside and record.contents[0] not in inside):
        raise DataError(
            f'{option(_PATH, path)} is a folder with other files ({", ".join((foreign or inside)[:3])}), which '
            f'{record.noun} would replace. Use a folder that does not exist yet, such as '
            f'{example}.'
        )
    output_files.require_own(os.path.join(path, record.contents[0]), _PATH, own, record.is_own)


def _is_graph_text(path: str) -> bool:
    """Returns whether a file is a graph as text with the input that all exports have."""
    with open(path, 'rb') as file:
        content = file.read()
    return content.startswith(b'node {') and f'name: "{tensor_names.IMAGE}"'.encode() in content


@contextlib.contextmanager
def beside(path: str, record: ExportFormat) -> Iterator[str]:
    """Yields a temporary path to write to, which replaces `path` if the block succeeds.

    Otherwise it is removed, and `path` is unchanged.

    Raises:
      DataError: `path` cannot be written.
    """
    temporary = writing.temporary_name(path)
    _recover(path)
    try:
        with writing.explained(path, f'Use another {option(_PATH)}.'):
            yield temporary
            _replace(temporary, path, record.files_of(path))
    finally:
        writing.remove(temporary)


def _recover(path: str) -> None:
    """Restores an export that a process was replacing when it was killed; removes other leftovers of such processes."""
    folder, name = os.path.split(os.path.abspath(path))
    if not os.path.lexists(path):
        olds = writing.leftovers(folder, re.escape(f'{name}{_OLD}'))
        if olds:
            os.rename(max(olds, key=os.path.getmtime), path)
    for left in writing.remove_leftovers(folder, re.escape(name) + f'({re.escape(_OLD)})?'):
        logging.info('Removed %s, left by an interrupted export.', left)


def _replace(temporary: str, path: str, parts: Mapping[str, str]) -> None:
    """Replaces `path`, or each of `parts` by the file of this name in `temporary`.

    An existing folder is renamed first, as it cannot be replaced in one step.
    """
    for name, part in parts.items():
        os.replace(os.path.join(temporary, name), part)
    if parts:
        return
    if not os.path.isdir(path):
        os.replace(temporary, path)
        return
    old = writing.temporary_name(path + _OLD)
    try:
        os.rename(path, old)
        os.rename(temporary, path)
    except BaseException:
        if os.path.lexists(old) and not os.path.lexists(path):
            os.rename(old, path)
        raise
    finally:
        if os.path.lexists(path):
            writing.remove(old)
