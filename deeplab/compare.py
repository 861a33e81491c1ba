"""Comparison of checkpoints on the same images, as one HTML file that needs no network.

`python deeplab/compare.py A B ...`, `python -m deeplab.compare` and `deeplab compare` are one program.
"""

from __future__ import annotations

if __name__ == '__main__':  # first, so that help and usage errors do not wait for TensorFlow
    import os
    import sys

    if not __package__:  # run as a file: replace the folder of this file by that of the package
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    from deeplab import start

    sys.exit(start.main(['compare', *sys.argv[1:]]))

import os

from deeplab import report
from deeplab.options import ReportOptions
from deeplab.reporting import inference


def run(options: ReportOptions) -> report.Result:
    """Writes the page, see `report.run`.

    Raises:
      UserError: Data set, network or checkpoint are missing or do not match, or the file cannot be written.
    """
    for each in options.runs:
        if os.path.exists(each.path):  # else report says so
            inference.checkpoint_of(each.path)  # each must have one: a page about one of two compares nothing
    return report.run(options)
