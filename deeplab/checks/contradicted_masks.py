"""The finding about masks that networks contradict, and its section of the page, with outlines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from deeplab.checks.agreement_rules import misplacement
from deeplab.checks.facts import Case
from deeplab.checks.findings import Data, Finding
from deeplab.checks.mask_contradictions import EXCHANGED, MOVED, REGION, SURE, MaskContradiction, Region
from deeplab.checks.sources import Sample
from deeplab.errors import DataError
from deeplab.names import counted
from deeplab.pictures.html_page import image_tag, prose, text

_SHOWN = 60

Draw = Callable[[Sample, Data, bool], tuple[np.ndarray, np.ndarray | None, str]]


def findings(data: Data, masks: Sequence[MaskContradiction]) -> Iterator[Finding]:
    """Yields the finding about masks with a score of at least `SURE`."""
    sure = [mask for mask in masks if mask.score >= SURE]
    cases = [(mask.split, Case(f'{mask.image}: {explanation(data, mask)}', mask.number)) for mask in sure]
    said = 'have a mask that a network trained without it contradicts'
    yield from data.of_images('contradicted_mask', '', cases, said)


def explanation(data: Data, mask: MaskContradiction) -> str:
    """Describes the likeliest error of a mask."""
    if mask.explanation == MOVED:
        assert mask.shift is not None
        return f'seems to lie {misplacement(*mask.shift)}'
    if mask.class_ids is None:
        return 'unlikely as a whole'
    one, other = (data.class_text(class_id) for class_id in mask.class_ids)
    if mask.explanation == EXCHANGED:
        return f'{one} and {other} seem to be exchanged'
    assert mask.explanation == REGION
    return f'a region of {one} seems to show {other}'


def render(data: Data, masks: Sequence[MaskContradiction] | None, draw: Draw) -> Iterator[str]:
    """Yields the section of the page: the first masks, in which the contradicted regions are outlined.

    Args:
      data: the data set.
      masks: the masks, the most contradicted ones first; None without a cross-validation.
      draw: draws a sample, see `html_report`.
    """
    if masks is None:
        return
    shown = masks[:_SHOWN]
    yield (
        f'<p class="faded">The first {len(shown)} of {text(counted(len(masks), "mask"))}, the likeliest errors first; '
        f'the JSON file has all. A score of {SURE} or more is a finding. Image and mask, with outlines around the '
        'regions that contradict the mask most: label, then prediction of the network.</p>'
    )
    splits = {split.name: split for split in data.source.splits}
    yield '<ol class="pairs">'
    for place, mask in enumerate(shown, 1):
        try:
            sample = splits[mask.split].read(mask.number)
        except DataError:
            continue
        photo, overlay, _ = draw(sample, data, False)
        height, width = mask.size
        pictures = ''.join(
            f'<div class="outlined">{image_tag(pixels, f"{what} {sample.name}")}'
            f'<svg viewBox="0 0 {width} {height}" aria-hidden="true">{"".join(map(_path, mask.regions))}</svg></div>'
            for what, pixels in (('Image', photo), ('Mask of', overlay))
            if pixels is not None
        )
        name_of = data.descriptor.class_name
        regions = '; '.join(
            f'{name_of(region.label)} \u2192 {name_of(region.predicted)}, {region.share:.1%}' for region in mask.regions
        )
        yield (
            f'<li><figure><div class="pair">{pictures}</div><figcaption><b>{place}.</b> {text(sample.name)} '
            f'({text(mask.split)}), score {mask.score:.2f}: {prose(explanation(data, mask))}'
            f'<br>{text(regions)}</figcaption></figure></li>\n'
        )
    yield '</ol>'


def _path(region: Region) -> str:
    """Returns the outline of a region."""
    lines = ''.join('M' + 'L'.join(f'{column} {row}' for column, row in ring) + 'Z' for ring in region.rings)
    return f'<path d="{lines}"/>'
