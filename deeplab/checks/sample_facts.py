"""Facts about one sample: what is wrong with its files, and what its image and its mask show."""

from __future__ import annotations

import hashlib
import io

import numpy as np
from PIL import Image

from deeplab.checks import appearance, edges, mask_pixels
from deeplab.checks.facts import Expected, Look, Measured
from deeplab.checks.sources import Sample
from deeplab.datasets import images, orientation
from deeplab.errors import DataError

THUMBNAIL = 17  # sides of the picture that near-duplicates are recognized by
_MOST_COLORS = 256
_SMOOTH = 60  # colors that interpolation has probably made
FLAT = 1  # an image whose gray levels differ by at most this shows nothing


def add(found: Measured, number: int, sample: Sample, expected: Expected) -> None:
    """Adds the facts of one sample.

    Args:
      found: the facts of its split.
      number: of the sample in the split.
      sample: the files.
      expected: what they are measured against.
    """
    found_of = _OfSample(found, number, sample, expected)
    try:
        header = images.read_whole(sample.image)
    except DataError as error:
        if other := other_format(sample.image):
            found.note('image_format', f'{sample.name}: {other}', number)
        else:
            found.note('corrupt', f'{sample.name}: {error}', number)
        return
    found_of.add(header)


def other_format(content: bytes) -> str:
    """Returns the format of an image that is neither JPEG nor PNG; '' if it is one of these, or no image."""
    try:
        with Image.open(io.BytesIO(content)) as image:
            image.load()
            return '' if image.format in ('JPEG', 'PNG', 'MPO') else str(image.format)
    except Exception:  # damaged files make Pillow's plugins raise anything
        return ''


class _OfSample:
    """A sample whose image can be read, and where its facts go."""

    def __init__(self, found: Measured, number: int, sample: Sample, expected: Expected) -> None:
        self._found = found
        self._number = number
        self._sample = sample
        self._expected = expected
        self._mask_orientation = orientation.UPRIGHT
        self._turns_image = not expected.in_records

    def add(self, header: images.Header) -> None:
        """Adds all facts."""
        found, sample = self._found, self._sample
        found.images += 1
        mode, small = _mode_and_small_picture(sample.image, header)
        if rule := self._kind_of_image(header, mode):
            self._note(rule, sample.name)
        if sample.other_images:
            self._note('same_name', f'{sample.name}: {", ".join(sample.other_images)}')
        ids = self._mask_ids(header)
        size = orientation.shown_size(header.size, header.orientation) if self._turns_image else header.size
        found.sizes[size] += 1
        gray = np.asarray(small.convert('L'))
        cells = agreement = None
        if ids is not None and ids.shape == header.size:
            if np.ptp(gray) <= FLAT and len(np.unique(ids)) > 1:
                self._note('blank', sample.name)
            colors = small.resize((appearance.GRID, appearance.GRID), Image.Resampling.BOX)
            cells = appearance.cells(np.asarray(colors), ids)
            if header.orientation != self._mask_orientation:
                self._note_orientation(header, gray, ids)
            elif compared := edges.compare(gray.astype(np.float32), ids, edges.factor_of(*header.size)):
                agreement, shifts = compared
                found.add_map(shifts)
        found.looks.append(
            Look(
                sample.name,
                sample.stem,
                self._number,
                digest(sample.image),
                b'' if sample.mask is None else digest(sample.mask),
                np.asarray(small.convert('L').resize((THUMBNAIL, THUMBNAIL), Image.Resampling.BOX)),
                cells,
                agreement,
            )
        )

    def _note(self, rule: str, case: str) -> None:
        self._found.note(rule, case, self._number)

    def _kind_of_image(self, header: images.Header, mode: str) -> str:
        """Returns the rule about an unusual kind of image; '' for none."""
        channels, bits = self._expected.channels, self._expected.bits
        if rule := images.wrong_kind(header, channels, bits):
            return rule
        if mode == 'CMYK':
            return 'cmyk'
        if header.bits > bits:
            return 'sixteen_bits'
        if header.format == 'png' and header.channels in (2, 4) and channels == 3:
            return 'alpha'
        return 'gray' if header.channels == 1 and channels == 3 else ''

    def _mask_ids(self, header: images.Header) -> np.ndarray | None:
        """Adds the facts about the mask; returns its ids, [h, w] uint8, None if it has none."""
        sample = self._sample
        if sample.mask is None:
            self._note('no_mask', sample.name)
            return None
        if sample.is_misnamed:
            self._note('misnamed', f'{sample.name}: {sample.mask_name}')
        try:
            if sample.mask.startswith(b'\xff\xd8\xff'):
                self._note('jpeg_mask', sample.name)
                return None
            mask = images.read_mask(sample.mask)
        except DataError as error:
            if other := other_format(sample.mask):
                self._note('mask_format', f'{sample.name}: {other}')
            else:
                self._note('corrupt', f'mask of {sample.name}: {error}')
            return None
        self._add_turns(header, mask)
        if mask.channels > 1:
            text, colors = _colors(sample.mask)
            self._found.colors.update(colors)
            self._note('color_mask', f'{sample.name}: {mask.mode}, {text}')
            return None
        try:
            gray = images.mask_as_gray_png(sample.mask, mask=mask)
        except DataError as error:  # an id above 255
            self._note('large_ids', f'{sample.name}: {error}')
            return None
        if mask.is_palette or mask.counts is None:
            self._note('palette' if mask.is_palette else 'sixteen_bit_mask', sample.name)
        with Image.open(io.BytesIO(gray)) as image:
            ids = np.asarray(image)
        self._add_ids(ids, np.bincount(ids.reshape(-1), minlength=256))
        return ids

    def _add_turns(self, header: images.Header, mask: images.Mask) -> None:
        """Adds problems of size and EXIF orientation."""
        turns = (header.size, header.orientation, mask.size, mask.orientation)
        name = self._sample.name
        sizes = f'{name}: image {header.height} x {header.width}, mask {mask.height} x {mask.width}'
        decision = orientation.decide(*turns)
        self._turns_image &= decision is None or decision.turn_image
        if decision is None:
            self._note('size', sizes + orientation.explanation(*turns))
        elif header.size != mask.size:
            self._note('turned', sizes + orientation.explanation(*turns))
        self._mask_orientation = mask.orientation

    def _note_orientation(self, header: images.Header, gray: np.ndarray, ids: np.ndarray) -> None:
        """Adds the problem that an image has an orientation that its mask does not share, with what the edges show."""
        factor = edges.factor_of(*header.size)
        displayed = edges.fits_displayed(gray.astype(np.float32), ids, header.orientation, factor)
        shown = {None: 'do not show which pixels', True: 'fit the displayed pixels', False: 'fit the stored pixels'}
        text = f'EXIF orientation {header.orientation}, its mask {self._mask_orientation}'
        self._note('oriented', f'{self._sample.name}: {text}; the edges {shown[displayed]}')

    def _add_ids(self, ids: np.ndarray, counts: np.ndarray) -> None:
        """Adds the facts about the ids of a mask."""
        found, ignore_label = self._found, self._expected.ignore_label
        found.counts += counts
        found.images_with += counts > 0
        found.pixels_beside[counts > 0] += counts.sum() - counts[ignore_label]
        if counts[ignore_label] == counts.sum():
            self._note('all_ignored', self._sample.name)
        if self._expected.allowed is not None and len(outside := self._expected.allowed.outside(counts)):
            shown = ', '.join(f'id {value} on {counts[value]} pixels' for value in outside[:3])
            self._note('ids', f'{self._sample.name}: {shown}')
        found.thin += mask_pixels.thin_pixels(ids, self._expected.output_stride)
        found.between += mask_pixels.between_pixels(ids)


def digest(content: bytes) -> bytes:
    """Returns what tells contents apart."""
    return hashlib.blake2b(content, digest_size=16).digest()


def _mode_and_small_picture(content: bytes, header: images.Header) -> tuple[str, Image.Image]:
    """Returns Pillow's mode of an image ('' for an array), and the picture in RGB as edges are compared on it."""
    factor = edges.factor_of(*header.size)
    size = (max(header.width // factor, 1), max(header.height // factor, 1))
    if header.format == 'npy':
        return '', _of_array(images.read_array(content)).resize(size, Image.Resampling.BOX)
    with Image.open(io.BytesIO(content), formats=('JPEG', 'PNG')) as image:
        mode = image.mode
        if mode.startswith('I'):  # 16 bits of gray, which Pillow would clip
            picture = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert('RGB')
        else:
            image.draft('RGB', size)  # a JPEG is decoded at an eighth, a quarter or half of its size
            picture = image.convert('RGB')
        return mode, picture.resize(size, Image.Resampling.BOX)


def gray_picture(content: bytes, header: images.Header) -> np.ndarray:
    """Returns an image in gray, made smaller by `edges.factor_of` its size: [h // factor, w // factor] float32."""
    return np.asarray(_mode_and_small_picture(content, header)[1].convert('L')).astype(np.float32)


def _of_array(pixels: np.ndarray) -> Image.Image:
    """Returns the first three channels, or the first one, of [h, w, channels] uint8 or uint16 in RGB."""
    wide = pixels[..., :3] if pixels.shape[2] >= 3 else np.repeat(pixels[..., :1], 3, axis=2)
    return Image.fromarray(wide if wide.dtype == np.uint8 else (wide >> 8).astype(np.uint8))


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
