"""The results of jobs that shared the work of a program, joined into the results of one run (`deeplab merge`)."""

from __future__ import annotations

if __name__ == '__main__':  # `python -m deeplab.merge`; first, so that help does not wait for TensorFlow
    from deeplab import start

    start.run_program('merge')

import contextlib
import dataclasses
import importlib

from deeplab.errors import DataError
from deeplab.files import folder_lock, part_folders, writing
from deeplab.options import MergeOptions

# Where the function `merge(folder, parts)` of each program is, which writes the results, and returns the report or a
# result with a report.
_MODULES = {
    'builder': 'deeplab.datasets.merged_records',
    'doctor': 'deeplab.programs.doctor',
    'eval': 'deeplab.eval',
    'predict': 'deeplab.programs.predict',
    'rank': 'deeplab.programs.rank',
    'vis': 'deeplab.vis',
}


@dataclasses.dataclass(frozen=True)
class MergeResult:
    """Result of a run of the program.

    Attributes:
      report: what was joined, for the user.
      status: exit status, as of the program whose parts were joined.
    """

    report: str
    status: int = 0


def run(options: MergeOptions) -> MergeResult:
    """Joins all parts in a folder, then removes their folders.

    Raises:
      DataError: a part is missing or not complete, or they do not belong together; nothing is joined then.
      UserError: a result cannot be written. The next merge continues.
    """
    with folder_lock.held(options.folder, 'merge', 'MergeOptions.folder'):
        parts = part_folders.find(options.folder)
        module = _MODULES.get(parts[0].program)
        if module is None:
            raise DataError(f"'{parts[0].path}' is a part of '{parts[0].program}', which has no parts here")
        result = importlib.import_module(module).merge(options.folder, parts)
        for part in parts:
            with contextlib.suppress(OSError):
                writing.remove(part.path)
    report = getattr(result, 'report', result)
    return MergeResult(f'{len(parts)} parts joined.\n{report}', getattr(result, 'status', 0))
