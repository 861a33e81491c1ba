"""Comparison of checkpoints on the same images, as one HTML file that needs no network (`deeplab compare`)."""

from __future__ import annotations

if __name__ == '__main__':  # `python -m deeplab.compare`; first, so that help does not wait for TensorFlow
    from deeplab import start

    start.run_program('compare')

import dataclasses
import os

from deeplab.inference import network_source
from deeplab.options import ReportOptions
from deeplab.programs import report
from deeplab.wording import option


def run(options: ReportOptions) -> report.ReportResult:
    """Writes the page, see `report.run`; the exit status is 1 if a network loses more than `options.max_miou_loss`.

    Raises:
      UserError: Data set, network or checkpoint are missing or do not match, or the file cannot be written.
    """
    for each in options.runs:
        if os.path.exists(each.path):  # else report says so
            network_source.at(each.path).best()  # each must have one: a page about one of two compares nothing
    result = report.run(options)
    if options.max_miou_loss is None:
        return result
    first, *others = zip(result.miou, [each.path for each in options.runs], strict=True)
    reasons = [_too_low(first, each, options.max_miou_loss) for each in others]
    lines = [result.report, *filter(None, reasons)]
    return dataclasses.replace(result, report='\n'.join(lines), status=1 if any(reasons) else 0)


def _too_low(first: tuple[float | None, str], other: tuple[float | None, str], most: float) -> str:
    """Returns why the mean IoU of a network, given with its path, is too low beside the first one; empty if it is not.

    A mean IoU that is unknown is too low.
    """
    (expected, path), (miou, other_path) = first, other
    limit = option('ReportOptions.max_miou_loss', most)
    if expected is None or miou is None:
        undefined = path if expected is None else other_path
        return f"The mean IoU of '{undefined}' is undefined, so {limit} cannot be checked. Omit it for this network."
    if expected - miou <= most:
        return ''
    return (
        f"Too low: '{other_path}' has a mean IoU of {miou:.4f}, '{path}' {expected:.4f}; {limit} allows a smaller loss."
    )
