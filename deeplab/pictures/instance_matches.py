"""Pictures of matches between true and predicted instances, outlined in a color for each kind."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from deeplab.pictures import drawing
from deeplab.registry import Comparison

# They differ in brightness, too, for readers who do not tell red from green.
HIT, WRONG, MISSED = (0, 205, 140), (240, 70, 0), (255, 228, 70)
LEGEND = {
    'matches (true positives)': HIT,
    'predicted, without a match (false positives)': WRONG,
    'missed (false negatives)': MISSED,
}
_EDGE = (0, 0, 0)
_SIDE_PER_WIDTH = 300  # pixels of a side for each pixel of the width of outlines


class Outlines(NamedTuple):
    """Segments to outline: the number of the segment of each pixel, [h, w], and the numbers that are drawn, [n]."""

    numbers: np.ndarray
    segments: np.ndarray


def drawn(image: np.ndarray, hits: Outlines, wrong: Outlines, missed: Outlines) -> Comparison:
    """Draws matches, predictions without a match and missed instances, these on top.

    Args:
      image: [h, w, channels], 0 to 255; of fewer than three channels the first is shown in gray.
      hits: predicted segments that match.
      wrong: predicted segments without a match.
      missed: true segments without a match.
    """
    shown = drawing.in_rgb(image)
    width = max(1, round(max(image.shape[:2]) / _SIDE_PER_WIDTH))
    for outlines, color in ((hits, HIT), (wrong, WRONG), (missed, MISSED)):
        is_drawn = np.isin(outlines.numbers, outlines.segments)
        line = drawing.widened(drawing.borders(np.where(is_drawn, outlines.numbers, -1)) & is_drawn, width - 1)
        shown[drawing.widened(line, 1)] = _EDGE
        shown[line] = color
    return Comparison(shown, LEGEND)
