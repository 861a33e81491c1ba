"""Repair of samples: what a builder or training would refuse or misread is converted, or the sample is left out.

The plan follows from all samples together: ids and colors to change, samples to leave out. Nothing is guessed.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from PIL import ExifTags, Image

from deeplab.checks import edges, label_rules, split_rules
from deeplab.checks.findings import Data
from deeplab.checks.inspection import gray_picture, is_blank, other_format
from deeplab.checks.sources import Sample
from deeplab.datasets import images, orientation, planes
from deeplab.datasets.color_tables import ColorTable
from deeplab.datasets.mask_ids import MaskIds
from deeplab.errors import DataError


@dataclasses.dataclass(frozen=True)
class RepairPlan:
    """The changes that follow from all samples together.

    Attributes:
      ids: new id and rule by wrong id.
      allowed: ids that are kept, others get the ignore label; None to keep every id.
      dropped: rule by split and number of the samples that are left out.
    """

    data: Data
    ids: Mapping[int, tuple[int, str]]
    allowed: MaskIds | None
    dropped: Mapping[tuple[str, int], str]


def make_plan(data: Data) -> RepairPlan:
    """Decides what to change."""
    descriptor = data.descriptor
    allowed = MaskIds(descriptor.num_classes, descriptor.ignore_label)
    ignores_others = data.options.ignore_other_ids and not data.is_assumed
    return RepairPlan(data, _correct_ids(data), allowed if ignores_others else None, _dropped(data))


def _correct_ids(data: Data) -> dict[int, tuple[int, str]]:
    """Returns the new id and the rule for each wrong id: of smooth edges, and of masks of a known pattern."""
    ignore_label = data.descriptor.ignore_label
    counts = data.total('counts')
    soft = label_rules.interpolated(counts, data.total('between'), ignore_label)
    if soft:
        # At corners, some of their pixels do not lie between two others: ids that are as rare are soft, too.
        is_soft = (counts > 0) & (counts <= counts[soft].max())
        soft = [int(i) for i in np.flatnonzero(is_soft) if i != ignore_label]
        counts = np.where(np.isin(np.arange(256), soft), 0, counts)
    correct = _pattern(data, counts)
    if soft and not correct and len(MaskIds(data.descriptor.num_classes, ignore_label).outside(counts)):
        return {}  # what is left is not understood
    corrections = dict.fromkeys(soft, (ignore_label, 'interpolated'))
    rule = 'zero_and_255' if correct == {255: 1} else 'ids'
    return corrections | {wrong: (right, rule) for wrong, right in correct.items()}


def _pattern(data: Data, counts: np.ndarray) -> dict[int, int]:
    """Returns the right id for each wrong one where the ids of all masks show a known pattern."""
    ignore_label = data.descriptor.ignore_label
    if not data.is_assumed:
        return MaskIds(data.descriptor.num_classes, ignore_label).correct_ids(counts)
    if np.flatnonzero(counts).tolist() != [0, 255]:  # else 255 may be a gray level or the ignore label
        counts = np.where(np.arange(256) == ignore_label, 0, counts)
    return MaskIds(max(int(np.count_nonzero(counts)), 1), ignore_label).correct_ids(counts)


def _dropped(data: Data) -> dict[tuple[str, int], str]:
    """Returns the copies of images: within a split the later ones, across splits those that are not evaluated on."""
    dropped: dict[tuple[str, int], str] = {}
    seen: dict[str, set[bytes]] = {}
    for split in sorted(data.splits, key=lambda name: (name != data.evaluated, name == data.train)):
        others = [digests for name, digests in seen.items() if not split_rules.is_part(name, split)]
        first: dict[bytes, bytes] = {}
        for image in data.splits[split].images:
            if any(image.digest in digests for digests in others):
                dropped[split, image.number] = 'overlap'
            elif image.digest in first and first[image.digest] == image.mask_digest:
                dropped[split, image.number] = 'repeated'
            first.setdefault(image.digest, image.mask_digest)
        seen[split] = set(first)
    return dropped


class LeftOutError(Exception):
    """A sample cannot be repaired; the arguments are the rule and the reason."""


class Repaired(NamedTuple):
    """A repaired sample: files of image, mask and instances (if any), and the rules of what was repaired."""

    image: bytes
    mask: bytes
    done: list[str]
    instances: bytes | None


def repair(sample: Sample, plan: RepairPlan) -> Repaired:
    """Returns a sample with all repairs; files in which nothing is wrong keep their bytes.

    Raises:
      LeftOutError: It cannot be repaired.
    """
    done = ['misnamed'] * bool(sample.misnamed_mask) + ['same_name'] * bool(sample.other_images)
    image, header = _image(sample, done)
    mask = _mask(sample, plan.data, done)
    mask_header = images.read_mask(mask)
    stored = ids = images.mask_ids(mask)
    decision = orientation.decide(header.size, header.orientation, mask_header.size, mask_header.orientation)
    if decision is None:
        ids = _resized(ids, mask_header, header, done)
    elif header.orientation != mask_header.orientation:
        image, ids = _upright(image, ids, header, mask_header, decision, done)
    is_moved = ids is not stored
    # Wrong ids follow from masks without colors, so they say nothing about ids that the table gives.
    has_table = plan.data.table is not None and 'color_mask' in done
    ids = _with_ids(ids, plan, {} if has_table else plan.ids, done)
    if (ids == plan.data.descriptor.ignore_label).all():
        raise LeftOutError('all_ignored', 'every pixel of the mask is ignored')
    final_header = images.read_header(image)  # repairs may have turned it
    if is_blank(gray_picture(image, final_header), final_header) and len(np.unique(ids)) > 1:
        raise LeftOutError('blank', 'the image shows one color')
    instances = _instances(sample, ids, plan.data.descriptor.ignore_label, is_moved, done)
    if ids is not stored:
        # An orientation that image and mask share stays; others have been applied.
        is_shared = header.orientation == mask_header.orientation
        mask = _png(Image.fromarray(ids), mask_header.orientation if is_shared else orientation.UPRIGHT)
    return Repaired(image, mask, done, instances)


def _image(sample: Sample, done: list[str]) -> tuple[bytes, images.Header]:
    """Returns the image as JPEG, PNG or array, and its header."""
    content = sample.image
    try:
        header = images.read_whole(content)
    except DataError as error:
        if not other_format(content):
            raise LeftOutError('corrupt', f'the image: {error}') from None
        done.append('image_format')
        content = _as_png(content, 'image_format')
        return content, images.read_header(content)
    if header.format == 'jpeg' and header.channels == 4:
        done.append('cmyk')
        with Image.open(io.BytesIO(content), formats=('JPEG',)) as image:
            pixels = np.asarray(image.convert('RGB'))
        content = images.encode_png(orientation.turned_pixels(pixels, header.orientation))
        header = images.read_header(content)
    return content, header


def _as_png(content: bytes, rule: str) -> bytes:
    """Returns an image of another format as PNG, of its own mode where PNG has that, with its EXIF orientation.

    Raises:
      LeftOutError: PNG does not have its values; by the rule `rule`.
    """
    with Image.open(io.BytesIO(content)) as image:
        image.load()  # which turns a TIFF
        turn = orientation.of_picture(image)
        kept: Image.Image = image
        if image.mode.startswith(('I', 'F')):  # which conversion to RGB would cut off at 255
            kept = Image.fromarray(_in_16_bits(np.asarray(image), rule))
        elif image.mode not in ('1', 'L', 'P', 'RGB'):
            kept = image.convert('RGB')
        kept.info = {key: value for key, value in kept.info.items() if key == 'transparency'}
        return _png(kept, turn)


def _in_16_bits(values: np.ndarray, rule: str) -> np.ndarray:
    """Returns values of one channel as uint16, [h, w]."""
    if values.dtype.kind == 'f' or values.min() < 0 or values.max() > np.iinfo(np.uint16).max:
        kind = 'floating-point numbers' if values.dtype.kind == 'f' else f'from {values.min()} to {values.max()}'
        raise LeftOutError(rule, f'the values of the file are {kind}; PNG has 0 to 65535')
    return values.astype(np.uint16)


def _png(image: Image.Image, turn: int) -> bytes:
    """Returns an image as PNG, with an EXIF orientation unless it is upright."""
    stream, metadata = io.BytesIO(), Image.Exif()
    if turn != orientation.UPRIGHT:
        metadata[ExifTags.Base.Orientation] = turn
    image.save(stream, 'PNG', exif=metadata)
    return stream.getvalue()


def _mask(sample: Sample, data: Data, done: list[str]) -> bytes:
    """Returns the mask as a PNG of one channel with 8 bits, or with a palette."""
    content = sample.mask
    if content is None:
        raise LeftOutError('no_mask', 'it has no mask')
    if images.is_jpeg(content):
        raise LeftOutError('jpeg_mask', 'the mask is a JPEG, which does not keep ids')
    try:
        if other_format(content):
            done.append('mask_format')
            content = _as_png(content, 'mask_format')
        mask = images.read_mask(content)
    except DataError as error:
        raise LeftOutError('corrupt', f'the mask: {error}') from None
    if mask.channels > 1:
        done.append('color_mask')
        return _without_colors(content, data.table)
    if data.table is not None and data.table.is_for(mask):
        done.append('color_mask')
        try:
            return data.table.as_ids(content)
        except DataError as error:
            raise LeftOutError('color_mask', f'the mask: {error}') from None
    # In records, a palette is taken as gray levels; builders take the indices.
    if not (mask.is_palette and data.source.is_records) and mask.counts is not None:
        return content
    done.append('palette' if mask.is_palette else 'sixteen_bit_mask')
    try:
        return images.mask_as_gray_png(content, mask.orientation, mask)
    except DataError as error:
        raise LeftOutError('large_ids', f'the mask: {error}') from None


def _without_colors(content: bytes, table: ColorTable | None) -> bytes:
    """Returns the ids of a mask of several channels: one of equal channels, or what the color table says."""
    with Image.open(io.BytesIO(content)) as image:
        bands = [np.asarray(band) for band in image.split()]
    first, *others = bands[: 3 if len(bands) >= 3 else 1]  # without alpha
    reason = 'the meaning of the colors of the mask is unknown'
    if table is not None and others:
        try:
            return table.as_ids(content)
        except DataError as error:
            reason = f'the mask: {error}'
    if not all(np.array_equal(first, band) for band in others):
        raise LeftOutError('color_mask', reason)
    return images.encode_png(first)


def _resized(ids: np.ndarray, mask_header: images.Mask, header: images.Header, done: list[str]) -> np.ndarray:
    """Returns the ids of a mask in the size of its image, by nearest neighbor, if both have the same shape."""
    (height, width), (tall, wide) = header.size, mask_header.size
    scale = height / tall
    text = f'the image has {height} x {width} pixels, the mask {tall} x {wide}'
    is_plain = header.orientation == mask_header.orientation == orientation.UPRIGHT
    # Sides that differ by a few pixels may have been cut off as well as scaled.
    is_scaled = abs(scale - 1) > 0.1 and abs(round(wide * scale) - width) <= max(1, round(scale / 2))
    if not is_plain or not is_scaled:
        raise LeftOutError('size', text)
    done.append('size')
    return np.asarray(Image.fromarray(ids).resize((width, height), Image.Resampling.NEAREST))


def _upright(
    image: bytes,
    ids: np.ndarray,
    header: images.Header,
    mask_header: images.Mask,
    decision: orientation.Decision,
    done: list[str],
) -> tuple[bytes, np.ndarray]:
    """Returns image and ids upright where it is known which of them are rotated; else as they are."""
    is_turned = header.size != mask_header.size
    if not is_turned and mask_header.orientation == orientation.UPRIGHT:
        displayed = edges.fits_displayed(gray_picture(image, header), ids, header.orientation)
        if displayed is None:
            return image, ids
        decision = orientation.Decision(displayed, False, True)
    done.append('turned' if is_turned else 'oriented')
    if header.orientation != orientation.UPRIGHT:
        try:
            image = orientation.turned(image, header.orientation) if decision.turn_image else orientation.reset(image)
        except DataError as error:
            raise LeftOutError(done[-1], str(error)) from None
    if mask_header.orientation != orientation.UPRIGHT:  # also where the pixels stay, because the file has the tag
        ids = orientation.turned_pixels(ids, mask_header.orientation) if decision.turn_mask else ids.copy()
    return image, ids


def _with_ids(ids: np.ndarray, plan: RepairPlan, new_ids: Mapping[int, tuple[int, str]], done: list[str]) -> np.ndarray:
    """Returns the right ids, of which `new_ids` are as in `RepairPlan`; `ids` itself if nothing changes."""
    table = np.arange(256, dtype=np.uint8)
    rules = {}
    for wrong, (right, rule) in new_ids.items():
        table[wrong] = right
        rules[wrong] = rule
    if plan.allowed is not None:
        outside = plan.allowed.outside(np.bincount(table, minlength=256))
        for wrong in np.flatnonzero(np.isin(table, outside)).tolist():
            table[wrong] = plan.data.descriptor.ignore_label
            rules[wrong] = 'ids'
    present = set(np.unique(ids).tolist())
    changed = sorted({rules[wrong] for wrong in present & rules.keys()})
    done += changed
    return table[ids] if changed else ids


def _instances(sample: Sample, ids: np.ndarray, ignore_label: int, is_moved: bool, done: list[str]) -> bytes | None:
    """Returns the instance mask without instances of ignored pixels; None if the sample has none.

    `ids` are the repaired class ids, [h, w]; if the last repair has rotated or resized them (`is_moved`), the instances
    may not fit any more.
    """
    if planes.missing([planes.INSTANCE], sample.features):
        return None
    if is_moved:
        raise LeftOutError(done[-1], 'its instance mask cannot be repaired in the same way')
    try:
        instance_ids = planes.read(planes.INSTANCE, sample.features, (ids.shape[0], ids.shape[1]))[..., 0]
    except DataError as error:
        raise LeftOutError('bad_plane', str(error)) from None
    if not (lost := planes.without_class(instance_ids, ids, ignore_label)):
        content = sample.features[planes.INSTANCE.feature]
        assert isinstance(content, bytes)
        return content
    done.append('classless_instance')
    return images.encode_png(np.where(np.isin(instance_ids, lost), 0, instance_ids).astype(np.uint16))
