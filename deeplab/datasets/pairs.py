"""Records from pairs of an image file and a mask file: reading, checks, EXIF orientation."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator

import numpy as np

from deeplab.datasets import example, images, mask_sources, orientation, plane_files, planes, wire
from deeplab.datasets.mask_ids import MaskIds
from deeplab.datasets.plane_files import PlaneFiles, PlaneNumbers
from deeplab.errors import DataError, UnreadableFileError
from deeplab.names import escaped, listed
from deeplab.wording import option

_SHOWN = 3  # number of ids that a message names


@dataclasses.dataclass(frozen=True)
class SourceFiles:
    """The source files of one record.

    Attributes:
      image: path of the image, or of the file from which `embedded` takes it.
      label: path of its mask, or of the file from which `source` makes it; None for a split without masks.
      name: value of `image/filename`.
      source: conversion of the file to a mask of ids, and perhaps of instance ids; None for a file that is such a mask.
      embedded: function that returns the image inside the file; None for a file that is an image.
      planes: files or numbers of further planes.
      max_side: pixels of the longer side of the image in the record at most; larger ones are downsampled, masks and
        planes by nearest neighbor. None for no limit.
    """

    image: str
    label: str | None
    name: str
    source: mask_sources.MaskSource | None = None
    embedded: Callable[[str], bytes] | None = None
    planes: tuple[PlaneFiles | PlaneNumbers, ...] = ()
    max_side: int | None = None

    def image_contents(self) -> bytes:
        """Returns the content of the image file; raises `DataError` if it cannot be read."""
        if self.embedded is None:
            return mask_sources.contents(self.image)
        with naming(self.image):
            return self.embedded(self.image)


@dataclasses.dataclass(frozen=True)
class BuiltRecord:
    """The result of reading an item.

    Attributes:
      record: the serialized record.
      counts: [256] int64, pixels of each id in the mask of the record; None without a mask.
      turns: handling of the EXIF orientations of image and mask; None if neither has one.
      encoded_again: whether the image is a JPEG that had to be re-encoded.
      things: ids of the classes that have an instance; None without instances.
      id_colors: colors of the ids in the mask, see `images.Mask`; empty without a palette.
    """

    record: bytes
    counts: np.ndarray | None
    turns: orientation.Decision | None
    encoded_again: bool
    things: tuple[int, ...] | None = None
    id_colors: bytes = b''


def read(item: SourceFiles, allowed: MaskIds | None, image: bytes | None = None) -> BuiltRecord:
    """Reads and checks the files of an item.

    Args:
      item: paths of the files.
      allowed: ids that the mask may hold; None to allow every id.
      image: content of the image, if it has been read.

    Raises:
      DataError: a file is missing, invalid or of a wrong kind, or mask and image do not match; the message names the
        file.
    """
    image = item.image_contents() if image is None else image
    with naming(item.image):
        header = images.read_whole(image)
    gray = counts = things = turns = None
    id_colors = b''
    further: dict[str, wire.Value] = {}
    if item.label is None:
        if header.orientation != orientation.UPRIGHT:
            turns = orientation.Decision(True, False, False)
    else:
        with naming(item.label):
            masks = mask_sources.masks_of(item.source, item.label)
            mask = images.read_mask(masks.classes)
            id_colors = mask.id_colors
            gray = images.mask_as_gray_png(masks.classes, mask=mask)
            turns = _decide(item.image, header, mask)
            if turns is not None and turns.turn_mask:
                gray = images.mask_as_gray_png(masks.classes, mask.orientation, mask)
            # Masks of 16 bits are counted when they have 8.
            counts = images.read_mask(gray).counts if mask.counts is None else mask.counts
            assert counts is not None
            _check_ids(counts, allowed)
            if masks.instances is not None:
                instances = _instances(masks.instances, header, turns is not None and turns.turn_image)
                things = _things(instances, images.read_ids(gray), allowed)
                further[planes.INSTANCE.feature] = images.encode_png(instances)
    turns_image = turns is not None and turns.turn_image
    shown = orientation.shown_size(header.size, header.orientation) if turns_image else header.size
    size = images.size_within(shown, item.max_side)
    if gray is not None and size != shown:
        gray, counts, further = _downsampled_masks(gray, further, size, allowed)
    features = {files.plane.feature: files.content(header, turns_image, size) for files in item.planes} | further
    with naming(item.image):
        content, header = _image_content(image, header, turns_image, size)
    # For JPEG and PNG, the record states the channels after decoding.
    channels = header.channels if header.format == 'npy' else 3
    record = example.encode(content, header.format, item.name, *size, channels, gray, features)
    encoded_again = header.format == 'jpeg' and len(content) != len(image)
    return BuiltRecord(record, counts, turns, encoded_again, things, id_colors)


def _instances(content: bytes, header: images.Header, turns_image: bool) -> np.ndarray:
    """Returns the instance ids of an image, turned as the image is: [h, w] uint16."""
    ids = images.read_ids(content).astype(np.uint16)
    try:
        return plane_files.turned_as_image(ids, orientation.read(content), header, turns_image)
    except DataError as error:
        raise DataError(f'its instance mask cannot be used: {error}') from None


def _things(instances: np.ndarray, classes: np.ndarray, allowed: MaskIds | None) -> tuple[int, ...]:
    """Returns the ids of the classes that have an instance; raises `DataError` if an instance has no class."""
    if allowed is not None and (lost := planes.without_class(instances, classes, allowed.ignore_label)):
        shown = listed([f'instance {instance}' for instance in lost], _SHOWN)
        raise DataError(
            f'{shown} of its instance mask has no class: every pixel of it has the ignore label '
            f'{allowed.ignore_label} in the class mask; give these pixels a class, or remove the instance'
        )
    return tuple(np.flatnonzero(np.bincount(classes[instances > 0])).tolist())


def _downsampled_masks(
    classes: bytes, instances: dict[str, wire.Value], size: tuple[int, int], allowed: MaskIds | None
) -> tuple[bytes, np.ndarray, dict[str, wire.Value]]:
    """Returns the class mask of a size, the pixels of each id, and the feature of instances if there is one."""
    ids = images.nearest(images.mask_ids(classes), size)
    made: dict[str, wire.Value] = {}
    for name, content in instances.items():
        assert isinstance(content, bytes)
        numbers = images.nearest(images.read_ids(content), size).astype(np.uint16)
        lost = planes.without_class(numbers, ids, allowed.ignore_label) if allowed is not None else []
        made[name] = images.encode_png(np.where(np.isin(numbers, lost), 0, numbers).astype(np.uint16))
    return images.encode_png(ids), np.bincount(ids.reshape(-1), minlength=256), made


def _image_content(
    content: bytes, header: images.Header, turns_image: bool, size: tuple[int, int]
) -> tuple[bytes, images.Header]:
    """Returns the content of an image file for the record, of a size, and its header."""
    turn = header.orientation if turns_image else orientation.UPRIGHT
    if size != orientation.shown_size(header.size, turn):
        content = images.downsampled(content, size, turn)
        header = images.read_header(content)
    if (header.format, header.channels, header.bits) == ('npy', 3, 8):
        return images.encode_png(images.read_array(content)), dataclasses.replace(header, format='png')
    if header.orientation == orientation.UPRIGHT:
        return content, header
    if not turns_image:
        return orientation.reset(content), header
    height, width = orientation.shown_size(header.size, header.orientation)
    return orientation.turned(content, header.orientation), dataclasses.replace(header, height=height, width=width)


def _decide(image: str, header: images.Header, mask: images.Mask) -> orientation.Decision | None:
    """Returns how to handle EXIF orientations; None if there are none."""
    turns = orientation.decide(header.size, header.orientation, mask.size, mask.orientation)
    if turns is None:
        text = (
            f"it is {mask.height} x {mask.width} pixels (height x width), its image '{escaped(image)}' "
            f'{header.height} x {header.width}'
        )
        raise DataError(text + orientation.explanation(header.size, header.orientation, mask.size, mask.orientation))
    return turns if {header.orientation, mask.orientation} != {orientation.UPRIGHT} else None


def _check_ids(counts: np.ndarray, allowed: MaskIds | None) -> None:
    if allowed is None or not len(outside := allowed.outside(counts)):
        return
    shown = listed([f'{value} on {counts[value]} pixels' for value in outside], _SHOWN)
    settings = f'set {option("BuilderOptions.num_classes")} or {option("BuilderOptions.ignore_label")}'
    fix = f'{settings}, or fix the mask'
    if allowed.names and list(outside) == [allowed.num_classes]:
        names = option('BuildFolderOptions.class_names', ('background', *allowed.names))
        fix = f'if 0 is the background, name it, too: set {names}; otherwise fix the mask'
    elif pattern := allowed.advice(counts):
        fix = f'fix the masks, {pattern}; otherwise {settings}'
    raise DataError(f'it contains ids that are neither classes nor the ignore label: {shown}; {fix}')


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Adds the file's name to errors."""
    try:
        yield
    except UnreadableFileError:
        raise
    except DataError as error:
        raise DataError(f"Cannot use '{escaped(path)}': {error}.") from None
