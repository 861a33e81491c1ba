"""Where exports are written: the path of each format, checked before the work begins."""

from __future__ import annotations

import os
from typing import NamedTuple

from deeplab.export import export_files
from deeplab.options import ExportOptions, Target
from deeplab.registry import EXPORT_FORMATS, ExportFormat


class Destination(NamedTuple):
    """An export that is to be written.

    Attributes:
      target: format and variant.
      record: of the format.
      path: file or folder.
    """

    target: Target
    record: ExportFormat
    path: str


def of(options: ExportOptions) -> list[Destination]:
    """Returns the exports to write.

    Raises:
      UserError: a package is missing, or something that is no earlier export lies at a path.
    """
    targets = options.targets
    found = []
    for target in targets:
        record = EXPORT_FORMATS.get(target.format)
        path = options.export_path if len(targets) == 1 else os.path.join(options.export_path, _name(target, record))
        path = os.path.normpath(path) if record.is_folder else path
        if target.format == 'saved_model' and options.conversion.serving_version is not None:
            path = os.path.join(path, str(options.conversion.serving_version))
        found.append(Destination(target, record, path))
    for destination in found:
        export_files.check_installed(destination.record, destination.target.variant)
        export_files.check_target(destination.path, destination.record)
    return found


def _name(target: Target, record: ExportFormat) -> str:
    """Returns the name of one of several exports in a folder; the usual variant has none of its own."""
    name = record.example_path or record.name
    if target.variant == record.variants[0]:
        return name
    stem, suffix = os.path.splitext(name)
    return f'{stem}_{target.variant}{suffix}'
