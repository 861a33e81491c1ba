"""Comparison of checkpoints on the same images, as one HTML file that needs no network (`deeplab compare`)."""

from __future__ import annotations

if __name__ == '__main__':  # `python -m deeplab.compare`; first, so that help does not wait for TensorFlow
    from deeplab import start

    start.run_program('compare')

import os

from deeplab.inference import network_source
from deeplab.options import ReportOptions
from deeplab.programs import report


def run(options: ReportOptions) -> report.ReportResult:
    """Writes the page, see `report.run`.

    Raises:
      UserError: Data set, network or checkpoint are missing or do not match, or the file cannot be written.
    """
    for each in options.runs:
        if os.path.exists(each.path):  # else report says so
            network_source.at(each.path).best()  # each must have one: a page about one of two compares nothing
    return report.run(options)
