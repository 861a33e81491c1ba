"""Inspection of samples: what is wrong with their files, and what their images and masks show.

The check before training and evaluation, and `deeplab doctor`, which measures more (`Criteria.is_thorough`), read each
sample once, in threads.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
from collections.abc import Mapping, Sequence

import numpy as np
import tqdm
from PIL import Image

from deeplab import common
from deeplab.checks import edges, instances
from deeplab.checks.facts import GRID, SHOWN, Facts, ImageSummary
from deeplab.checks.sources import Sample, Split
from deeplab.datasets import images, orientation
from deeplab.datasets import planes as planes_lib
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.datasets.mask_ids import MaskIds
from deeplab.errors import DataError, UnreadableFileError
from deeplab.names import listed
from deeplab.options.parts import ALL, Part
from deeplab.system import overlap, processors

THUMBNAIL = 17  # sides of the picture that near-duplicates are recognized by
_FLAT = 1  # largest difference of gray levels in an image that shows nothing
_NARROW = 1 << 12  # range of values of 16 bits below which pictures stretch it, as 8 bits leave 16 levels
_MOST_COLORS = 256
_SMOOTH = 60  # colors that interpolation has probably made
_CHUNK = 16  # samples that a thread inspects at a time
_AHEAD = 64  # chunks


@dataclasses.dataclass(frozen=True)
class Criteria:
    """What samples are compared with, and how much of them is inspected.

    Attributes:
      descriptor: description of the data set.
      num_classes: number of classes in masks; None if unknown.
      needs_labels: whether masks are inspected.
      decodes_images: whether images are decoded completely; otherwise only their headers and ends are read.
      is_thorough: whether pixels are measured, and files of other formats are told from damaged ones.
      output_stride: parts of a mask that are narrower than this many pixels are thin.
      in_records: whether the samples are records, which keep their stored pixels; builders turn files upright.
      planes: planes that records must have, besides; if `is_thorough`, planes that they may have.
    """

    descriptor: DatasetDescriptor
    num_classes: int | None
    needs_labels: bool = True
    decodes_images: bool = True
    is_thorough: bool = False
    output_stride: int = 16
    in_records: bool = True
    planes: Sequence[planes_lib.Plane] = ()


def inspect(
    split: Split, parts: Mapping[int, range], criteria: Criteria, counts_from_part: bool = True
) -> dict[int, Facts]:
    """Inspects samples of a split, in threads; Pillow and NumPy release the global interpreter lock.

    Args:
      split: the split.
      parts: numbers of the samples in each part, by a number of the part.
      criteria: what the samples are compared with.
      counts_from_part: whether the numbers of samples in the facts count from the start of the part, or of the split.

    Returns:
      The facts about each part.
    """
    chunks = [
        (part, range(start, min(start + _CHUNK, numbers.stop)))
        for part, numbers in parts.items()
        for start in range(numbers.start, numbers.stop, _CHUNK)
    ]

    def facts_of(chunk: tuple[int, range]) -> Facts:
        part, numbers = chunk
        facts = Facts()
        for number in numbers:
            place = number - (parts[part].start if counts_from_part else 0)
            try:
                sample = split.read(number)
            except DataError as error:
                facts.note('corrupt', str(error).rstrip('.'), place)
                facts.unread += isinstance(error, UnreadableFileError)
                continue
            _SampleInspection(facts, place, sample, criteria).run()
        return facts

    facts = {part: Facts(len(numbers)) for part, numbers in parts.items()}
    # The progress bar appears only in a terminal, and only if the inspection takes long.
    total = sum(map(len, parts.values()))
    bar = tqdm.tqdm(total=total, desc=f'checking {split.name}', unit='image', delay=2, disable=None, leave=False)
    workers = max(processors.available_cores(), split.parallel_reads)
    inspected = overlap.map_in_order(facts_of, chunks, workers, _AHEAD)
    with bar, contextlib.closing(inspected):
        for (part, numbers), others in zip(chunks, inspected, strict=True):
            facts[part].add(others)
            bar.update(len(numbers))
    return facts


def inspect_split(split: Split, criteria: Criteria, part: Part = ALL) -> Facts:
    """Returns the facts about a split, or a part of it, with what is missing in it (in the first part)."""
    missing = split.missing if part.number == 1 else ()
    facts = Facts(len(missing))
    for rule, case in missing:
        facts.note(rule, case)
    numbers = range(len(split))[part.places(len(split))]
    facts.add(inspect(split, {0: numbers}, criteria, counts_from_part=False)[0])
    return facts


def other_format(content: bytes) -> str:
    """Returns the format of an image that is neither JPEG nor PNG; '' if it is one of these, or no image."""
    try:
        with Image.open(io.BytesIO(content)) as image:
            image.load()
            return '' if image.format in ('JPEG', 'PNG', 'MPO') else str(image.format)
    except Exception:  # damaged files make Pillow's plugins raise anything
        return ''


@dataclasses.dataclass
class _SampleInspection:
    """Inspection of one sample; it adds facts to the facts about other samples."""

    _facts: Facts
    _number: int
    _sample: Sample
    _criteria: Criteria

    def run(self) -> None:
        """Adds all facts."""
        sample, criteria = self._sample, self._criteria
        try:
            header = images.read_whole(sample.image, criteria.decodes_images)
        except DataError as error:
            self._note_unreadable('image_format', sample.image, sample.name, error)
            return
        mask = None
        if criteria.needs_labels:
            try:
                mask = self._mask()
            except DataError as error:
                self._note_unreadable('mask_format', sample.mask or b'', f'mask of {sample.name}', error)
                if not criteria.is_thorough:  # the record is skipped
                    return
        self._facts.records.append(self._number)
        self._facts.sizes.extend(header.size)
        self._facts.sums.extend(sample.sums)
        self._facts.oriented += header.orientation != orientation.UPRIGHT
        if rule := self._kind_of_image(header):
            self._note(rule, sample.name + (f': {header.channels}' if rule == 'image_channels' else ''))
        if sample.other_images:
            self._note('same_name', f'{sample.name}: {", ".join(sample.other_images)}')
        turns_image = not criteria.in_records
        ids = None
        if mask is not None:
            turns_image &= self._turns_image(header, mask)
            ids = self._ids(mask)
        if not criteria.is_thorough:
            self._inspect_planes(header.size, ids)
        else:
            if mask is None or mask.orientation == orientation.UPRIGHT:
                self._inspect_planes(header.size if ids is None else (ids.shape[0], ids.shape[1]), ids)
            size = orientation.shown_size(header.size, header.orientation) if turns_image else header.size
            self._summarize(header, size, ids, mask)

    def _note(self, rule: str, case: str) -> None:
        self._facts.note(rule, case, self._number)

    def _note_unreadable(self, rule: str, content: bytes, name: str, error: DataError) -> None:
        """Notes that a file has another format (`rule`), or is damaged."""
        other = other_format(content) if self._criteria.is_thorough else ''
        if other:
            self._note(rule, f'{self._sample.name}: {other}')
        else:
            self._note('corrupt', f'{name}: {error}')

    def _inspect_planes(self, size: tuple[int, int], ids: np.ndarray | None) -> None:
        """Notes problems of the planes of an image of this size, with the class ids, [h, w], if they are known."""
        sample, criteria = self._sample, self._criteria
        for plane in criteria.planes:
            if text := planes_lib.missing([plane], sample.features):
                if not criteria.is_thorough:  # otherwise a rule compares the images of a split
                    self._note('no_plane', f'{sample.name} {text}')
                continue
            try:
                values = planes_lib.read(plane, sample.features, size)
            except DataError as error:
                is_of_image = plane.kind == planes_lib.INTEGERS
                self._note('class_ids' if is_of_image else 'bad_plane', f'{sample.name}: {error}')
                continue
            if plane.key == common.INSTANCE and ids is not None and ids.shape == size:
                self._inspect_instances(values[..., 0], ids)

    def _inspect_instances(self, instance_ids: np.ndarray, ids: np.ndarray) -> None:
        """Notes instances of which every pixel is ignored, and measures the others; both masks are [h, w]."""
        facts, criteria, name = self._facts, self._criteria, self._sample.name
        descriptor = criteria.descriptor
        if lost := planes_lib.without_class(instance_ids, ids, descriptor.ignore_label):
            self._note('classless_instance', f'{name}: {_instances_text(lost)}')
        if not criteria.is_thorough:
            return
        if descriptor.label_divisor is not None and instance_ids.max(initial=0) >= descriptor.label_divisor:
            self._note('large_instance_ids', f'{name}: {instance_ids.max()}')
        if descriptor.things is None:
            return
        measured = instances.measure(ids, instance_ids, set(descriptor.things) - {descriptor.ignore_label})
        for rule, chosen in (('far_parts', measured.are_far), ('small_instances', measured.areas < instances.SMALLEST)):
            if chosen.any():
                self._note(rule, f'{name}: {_instances_text(measured.ids[chosen].tolist())}')
        counts = np.bincount(measured.class_ids, minlength=256)
        are_lone = (counts == 1)[measured.class_ids]
        facts.instance_images += counts > 0
        facts.lone_instances += counts == 1
        facts.lone_in_parts += np.bincount(measured.class_ids[are_lone & (measured.parts > 1)], minlength=256)
        facts.instance_pixels += np.bincount(ids.reshape(-1), minlength=256)
        facts.unnumbered += np.bincount(ids[instance_ids == 0], minlength=256)

    def _kind_of_image(self, header: images.Header) -> str:
        """Returns the rule about an unusual kind of image; '' for none."""
        channels, bits = self._criteria.descriptor.image_channels, self._criteria.descriptor.image_bits
        if rule := images.wrong_kind(header, channels, bits):
            return rule
        if header.format == 'jpeg' and header.channels == 4:
            return 'cmyk'
        if header.bits > bits:
            return 'sixteen_bits'
        if header.format == 'png' and header.channels in (2, 4) and channels == 3:
            return 'alpha'
        return 'gray' if header.channels == 1 and channels == 3 else ''

    def _mask(self) -> images.Mask | None:
        """Decodes the mask; returns None if there is none, or it is a JPEG.

        Raises:
          DataError: It cannot be decoded.
        """
        sample = self._sample
        if sample.mask is None:
            self._note('no_mask', sample.name)
            return None
        if sample.misnamed_mask:
            self._note('misnamed', f'{sample.name}: {sample.misnamed_mask}')
        if self._criteria.is_thorough and images.is_jpeg(sample.mask):
            self._note('jpeg_mask', sample.name)
            return None
        return images.read_mask(sample.mask)

    def _turns_image(self, header: images.Header, mask: images.Mask) -> bool:
        """Notes problems of size and EXIF orientation; returns whether builders turn the image upright."""
        turns = (header.size, header.orientation, mask.size, mask.orientation)
        decision = orientation.decide(*turns)
        if header.size != mask.size:
            sizes = f'image {header.height} x {header.width}, mask {mask.height} x {mask.width}'
            text = f'{self._sample.name}: {sizes}{orientation.explanation(*turns)}'
            self._note('size' if decision is None else 'turned', text)
        return decision is None or decision.turn_image

    def _ids(self, mask: images.Mask) -> np.ndarray | None:
        """Adds the facts about the ids of a mask; returns them if pixels or instances are measured: [h, w] uint8."""
        name, content = self._sample.name, self._sample.mask
        assert content is not None
        if mask.channels > 1:
            text, colors = _colors(content)
            self._facts.colors.update(colors)
            self._note('color_mask', f'{name}: {mask.mode}, {text}')
            return None
        if mask.is_palette:
            self._note('palette', name)
        if mask.counts is not None:
            self._add_counts(mask.counts)
            has_instances = any(plane.key == common.INSTANCE for plane in self._criteria.planes)
            if not self._criteria.is_thorough and not has_instances:
                return None
        try:
            ids = images.mask_ids(content, mask=mask)
        except DataError as error:  # an id above 255
            self._note('large_ids', f'{name}: {error}')
            return None
        if mask.counts is None:
            self._note('sixteen_bit_mask', f'{name}: {mask.mode}')
            self._add_counts(np.bincount(ids.reshape(-1), minlength=256))
        if self._criteria.is_thorough:
            self._facts.thin += thin_pixels(ids, self._criteria.output_stride)
            self._facts.between += between_pixels(ids)
        return ids

    def _add_counts(self, counts: np.ndarray) -> None:
        facts, name = self._facts, self._sample.name
        ignore_label, num_classes = self._criteria.descriptor.ignore_label, self._criteria.num_classes
        total, ignored = counts.sum(), counts[ignore_label]
        facts.counts += counts
        facts.images_with += counts > 0
        facts.pixels_beside[counts > 0] += total - ignored
        if ignored == total:
            self._note('all_ignored', name)
        if num_classes is not None and len(outside := MaskIds(num_classes, ignore_label).outside(counts)):
            self._note('ids', f'{name}: {with_pixels(outside, counts)}')

    def _summarize(
        self, header: images.Header, size: tuple[int, int], ids: np.ndarray | None, mask: images.Mask | None
    ) -> None:
        """Adds the summary of the image, of `size` in records, which compares it with the ids of its mask, if any."""
        sample = self._sample
        mask_orientation = orientation.UPRIGHT if mask is None else mask.orientation
        small = _small_picture(sample.image, header)
        gray_image = small.convert('L')
        gray, thumbnail = np.asarray(gray_image), gray_image.resize((THUMBNAIL, THUMBNAIL), Image.Resampling.BOX)
        label_cells = agreement = None
        if ids is not None and ids.shape == header.size:
            if is_blank(gray, header) and len(np.unique(ids)) > 1:
                self._note('blank', sample.name)
            label_cells = cells(np.asarray(small.resize((GRID, GRID), Image.Resampling.BOX)), ids)
            float_gray = gray.astype(np.float32)
            if header.orientation != mask_orientation:
                displayed = edges.fits_displayed(float_gray, ids, header.orientation)
                fits = {
                    None: 'do not show which pixels',
                    True: 'fit the displayed pixels',
                    False: 'fit the stored pixels',
                }
                text = f'EXIF orientation {header.orientation}, its mask {mask_orientation}'
                self._note('oriented', f'{sample.name}: {text}; the edges {fits[displayed]}')
            elif compared := edges.compare(float_gray, ids):
                agreement, scores = compared
                self._facts.add_shifts(agreement.step, scores)
        digests = digest(sample.image), b'' if sample.mask is None else digest(sample.mask)
        self._facts.images.append(
            ImageSummary(
                sample.name,
                sample.stem,
                self._number,
                *digests,
                np.asarray(thumbnail),
                label_cells,
                agreement,
                size,
                frozenset(plane.key for plane in planes_lib.BUILT if plane.feature in sample.features),
                class_ids_of(sample),
                b'' if mask is None else mask.id_colors,
            )  # fmt: skip
        )


def class_ids_of(sample: Sample) -> tuple[int, ...]:
    """Returns the classes of a whole image, which may be wrong; none if it has none."""
    class_ids = np.atleast_1d(np.asarray(sample.features.get(planes_lib.CLASS_LABEL.feature)))
    return tuple(class_ids.tolist()) if class_ids.dtype.kind == 'i' else ()


def _instances_text(ids: Sequence[int]) -> str:
    return listed([f'instance {instance}' for instance in ids], SHOWN)


def with_pixels(ids: np.ndarray, counts: np.ndarray) -> str:
    """Returns the first of some ids with the number of their pixels, as a text."""
    return listed([f'id {value} on {counts[value]} pixels' for value in ids], SHOWN)


def digest(content: bytes) -> bytes:
    """Returns a digest by which contents are told apart."""
    return hashlib.blake2b(content, digest_size=16).digest()


def picture(content: bytes, size: tuple[int, int]) -> Image.Image:
    """Returns an image of any format in RGB.

    A JPEG may be decoded smaller, but at least in `size` (width, height). Of 16 bits, a narrow range is stretched.
    """
    if content.startswith(images.ARRAY_MAGIC):
        pixels = images.read_array(content)
        pixels = pixels[..., :3] if pixels.shape[2] >= 3 else np.repeat(pixels[..., :1], 3, axis=2)
        return Image.fromarray(pixels if pixels.dtype == np.uint8 else _in_8_bits(pixels))
    with Image.open(io.BytesIO(content)) as image:
        if image.mode.startswith('I'):  # 16 bits of gray, which Pillow would clip
            return Image.fromarray(_in_8_bits(np.asarray(image))).convert('RGB')
        image.draft('RGB', size)  # a JPEG is decoded at an eighth, a quarter or half of its size
        return image.convert('RGB')


def _in_8_bits(values: np.ndarray) -> np.ndarray:
    """Returns values of 16 bits as uint8: their upper bits, or their range if the upper bits show little of it."""
    low, high = int(values.min()), int(values.max())
    if not _FLAT < high - low < _NARROW:
        return (values >> 8).astype(np.uint8)
    stretched: np.ndarray = (values.astype(np.int64) - low) * 255 // (high - low)
    return stretched.astype(np.uint8)


def is_blank(gray: np.ndarray, header: images.Header) -> bool:
    """Returns whether an image, given as a `gray_picture`, shows one color; false if that is unknown.

    Of a PNG of several channels with 16 bits, Pillow reads the upper 8, in which a dark image looks black.
    """
    is_cut = header.format == 'png' and header.bits == 16 and header.channels > 1
    return not is_cut and bool(np.ptp(gray) <= _FLAT)


def _small_picture(content: bytes, header: images.Header) -> Image.Image:
    """Returns an image in RGB, reduced by `edges.factor_of` its size."""
    factor = edges.factor_of(*header.size)
    size = (max(header.width // factor, 1), max(header.height // factor, 1))
    return picture(content, size).resize(size, Image.Resampling.BOX)


def gray_picture(content: bytes, header: images.Header) -> np.ndarray:
    """Returns an image in gray, reduced by `edges.factor_of` its size: [h // factor, w // factor] float32."""
    return np.asarray(_small_picture(content, header).convert('L')).astype(np.float32)


def cells(colors: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Returns color codes and labels of a grid of cells.

    Args:
      colors: [12, 12, 3] uint8, the image reduced by averaging.
      ids: [h, w] uint8, its mask.

    Returns:
      [2, 12, 12] uint8: 3 bits of red, 3 of green, 2 of blue; and the id in the middle of the cell.
    """
    codes = (colors[..., 0] >> 5 << 5) | (colors[..., 1] >> 5 << 2) | (colors[..., 2] >> 6)
    rows, columns = (((np.arange(GRID) + 0.5) * side / GRID).astype(int) for side in ids.shape)
    return np.stack([codes, ids[np.ix_(rows, columns)]]).astype(np.uint8)


def _colors(content: bytes) -> tuple[str, dict[tuple[int, int, int], int]]:
    """Describes the colors of a mask of several channels; returns also their pixels if each may stand for a class."""
    with Image.open(io.BytesIO(content)) as image:
        colors = image.convert('RGB').getcolors(_MOST_COLORS)
    if colors is None:
        return f'more than {_MOST_COLORS} colors, probably with smooth edges', {}
    pixels = {(color[0], color[1], color[2]): count for count, color in colors if isinstance(color, tuple)}
    are_gray = all(len(set(color)) == 1 for color in pixels)
    text = f'{len(colors)} ' + ('gray levels in equal channels' if are_gray else 'colors')
    if len(colors) >= _SMOOTH:
        return f'{text}, probably with smooth edges', {}
    return text, {} if are_gray else pixels


def thin_pixels(ids: np.ndarray, width: int) -> np.ndarray:
    """Returns the pixels of each id in rows or columns of equal ids that are shorter than `width`: [256] int64.

    `ids` are [h, w] uint8.
    """
    thickness = np.minimum(_runs(ids), _runs(ids.T).T)
    # An image narrower than `width` has no thicker parts.
    return np.bincount(ids[thickness < min(width, *ids.shape)], minlength=256)


def _runs(ids: np.ndarray) -> np.ndarray:
    """Returns the length of the run of equal ids in its row for each pixel: [h, w]."""
    starts = np.ones(ids.shape, bool)
    starts[:, 1:] = ids[:, 1:] != ids[:, :-1]
    places = np.flatnonzero(starts)
    lengths = np.diff(places, append=ids.size)
    return np.repeat(lengths, lengths).reshape(ids.shape)


def between_pixels(ids: np.ndarray) -> np.ndarray:
    """Returns the pixels of each id that lies strictly between the ids left and right, or above and below.

    Interpolation at the edges of objects makes such ids. `ids` are [h, w] uint8, the result is [256] int64.
    """
    is_between = np.zeros(ids.shape, bool)
    for values, result in ((ids, is_between), (ids.T, is_between.T)):
        first, middle, last = values[:, :-2], values[:, 1:-1], values[:, 2:]
        result[:, 1:-1] |= ((first < middle) & (middle < last)) | ((first > middle) & (middle > last))
    return np.bincount(ids[is_between], minlength=256)
