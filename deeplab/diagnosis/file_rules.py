"""Rules about single files: what cannot be read, and kinds, sizes and orientations of images and masks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from deeplab.diagnosis.findings import HARMFUL, NOTE, WARNING, Data, Finding, build_again
from deeplab.wording import option


class _Rule(NamedTuple):
    """A rule about samples; `in_files` is its severity where builders still come, None where they solve it."""

    severity: str
    what: str  # behind "3 of 40 images"
    fix: str
    in_files: str | None = HARMFUL
    of_masks: bool = True  # the fix continues with building again


_RULES = {
    'shards': _Rule(HARMFUL, 'The shards are not complete', 'Copy or build them again', None, False),
    'corrupt': _Rule(
        HARMFUL,
        'cannot be read or decoded',
        'Copy or save these files again; to train without them, set {skip}',
        of_masks=False,
    ),
    'no_image': _Rule(HARMFUL, 'are listed, but have no image', 'Add the images, or remove the names from the list'),
    'no_mask': _Rule(HARMFUL, 'have no mask', 'Add the masks, which have the names of their images'),
    'color_mask': _Rule(
        HARMFUL,
        'have a mask in color (RGB), but a mask is one channel of class ids',
        'Map each color to its id and save the masks as PNG of one channel; of equal channels keep one',
    ),
    'jpeg_mask': _Rule(
        HARMFUL,
        'have a mask that is a JPEG, whose compression changes ids at every edge',
        'Export the masks as PNG from where they were drawn; converting the JPEG does not restore the ids',
    ),
    'palette': _Rule(
        HARMFUL,
        'have a mask with a palette, whose colors are read as gray levels',
        'Build the records again with deeplab build_voc2012_data, which takes the indices as ids, or run deeplab '
        'remove_gt_colormap on the masks first',
        None,  # the builders take the indices
        False,
    ),
    'sixteen_bit_mask': _Rule(HARMFUL, 'have a mask of 16 bits', 'Save the masks with 8 bits', None),
    'large_ids': _Rule(HARMFUL, 'have a mask of 16 bits with ids above 255', 'Write class ids, 0, 1, 2, ..., instead'),
    'size': _Rule(
        HARMFUL,
        'have a mask of another size than the image',
        'Resize the masks by nearest neighbor, or find the right pairs',
    ),
    'turned': _Rule(
        HARMFUL,
        'have an EXIF orientation, and a mask that fits only if one of them is rotated',
        'Build the records again with deeplab build_voc2012_data, which rotates them',
        None,
        False,
    ),
    'oriented': _Rule(
        WARNING,
        'have an EXIF orientation that the mask does not share; their sizes do not show whether the mask was drawn '
        'on the stored or on the displayed pixels',
        'Look at them with deeplab preview; if masks are rotated against images, save these images upright',
        WARNING,
    ),
    'all_ignored': _Rule(
        WARNING, 'have a mask in which every pixel is ignored', 'Label these images, or leave them out', WARNING
    ),
    'cmyk': _Rule(
        WARNING,
        'are CMYK, and their colors differ when they are read as RGB',
        'Convert them to RGB',
        WARNING,
    ),
    'sixteen_bits': _Rule(
        NOTE,
        'have 16 bits, of which the 8 lower ones are lost',
        'To keep them, set "image_bits": 16 in the description of the data set',
        NOTE,
        False,
    ),
    'alpha': _Rule(NOTE, 'have an alpha channel, which is dropped', 'No change is needed', NOTE, False),
    'gray': _Rule(
        NOTE,
        'are gray and become RGB with equal channels',
        'If all images are gray, set "image_channels": 1 in the description of the data set',
        NOTE,
        False,
    ),
}


def check(data: Data) -> Iterator[Finding]:
    """Yields the findings about files."""
    skip = option('DatasetOptions.skip_corrupt_records', True)
    for split, facts in data.splits.items():
        for name, rule in _RULES.items():
            severity = rule.severity if data.source.is_records else rule.in_files
            count = facts.problems[name]
            if not count or severity is None:
                continue
            cases = tuple(facts.cases[name])
            fix = rule.fix.format(skip=skip)
            fix = build_again(data, fix) if rule.of_masks else f'{fix}.'
            what = f'{rule.what}.'
            if name != 'shards':
                what = f"{count} of {facts.samples} samples of split '{split}' {what}"
            if _is_declared(data, name):
                continue
            yield Finding(severity, name, split, what, fix, count, cases)


def _is_declared(data: Data, name: str) -> bool:
    """Returns whether the description of the data set has what the rule notes."""
    descriptor = data.descriptor
    return (name == 'gray' and descriptor.image_channels == 1) or (
        name == 'sixteen_bits' and descriptor.image_bits == 16
    )
