"""Check of the records of a split before anything is computed from them.

Every record is read once, in threads: its checksum, and the size and the ids of its mask against the size of the image
and the classes. The findings can be cached in a folder; those of shards that do not change are reused.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import tqdm
from absl import logging

from deeplab import names
from deeplab.checks import check_cache
from deeplab.checks.check_cache import CheckCache, Found, Part
from deeplab.checks.data_rules import RULES
from deeplab.datasets import example, images, orientation, segmentation_dataset, tfrecord
from deeplab.datasets.mask_ids import MaskIds
from deeplab.datasets.pair_records import PairRecords
from deeplab.datasets.record_index import Records
from deeplab.datasets.segmentation_dataset import SegmentationDataset
from deeplab.errors import DataError
from deeplab.files import storage
from deeplab.options import DatasetOptions, crop_sizes
from deeplab.system import child_process, overlap, processors
from deeplab.wording import option

_CHUNK = 32  # number of records that a thread processes at a time
_AHEAD = 64  # chunks
_SHOWN = 3  # number of problems that a message names


@dataclasses.dataclass(frozen=True, eq=False)
class CheckResult:
    """Result of a check that found no invalid records.

    Attributes:
      records: [n] int64, numbers of the valid records in their `RecordIndex`, ascending.
      sizes: [n, 2] int32, height and width of their images.
      class_pixels: [num_classes] int64, pixels of each class in the masks (zeros if masks were not checked).
      class_image_pixels: [num_classes] int64, labeled pixels (all but those of ignore_label) of the images in which
        the class occurs.
      ignored_pixels: pixels of ignore_label.
      corrupt: one line for each record (or remainder of a shard) that is skipped.
    """

    records: np.ndarray
    sizes: np.ndarray
    class_pixels: np.ndarray
    class_image_pixels: np.ndarray
    ignored_pixels: int
    corrupt: tuple[str, ...] = ()


def check(
    dataset: SegmentationDataset,
    num_classes: int,
    ignore_label: int,
    skip_corrupt_records: bool = False,
    needs_labels: bool = True,
    cache_dir: str | None = None,
    index: Records | None = None,
) -> CheckResult:
    """Checks every record of a split.

    Args:
      dataset: the split.
      num_classes: masks may contain the ids 0 to num_classes - 1.
      ignore_label: further id that masks may contain.
      skip_corrupt_records: whether records that cannot be read or decoded are skipped and counted. Images are then
        decoded completely, otherwise only their headers and ends are read.
      needs_labels: whether there must be masks; if not, they are not checked.
      cache_dir: folder in which the findings are cached; None for no cache.
      index: the records of the split, if the caller has opened them.

    Returns:
      The check result.

    Raises:
      DataError: A record cannot be read (unless skip_corrupt_records), an image has other channels than the data set,
        a mask does not match its image or the classes or is not a single channel of ids, or there is no record.
    """
    cache = CheckCache(cache_dir, dataset, [num_classes, ignore_label, skip_corrupt_records, needs_labels])
    known = cache.load()
    is_known = None not in known
    if not is_known:
        index = index or dataset.open_records(skip_corrupt_records)
        if not len(index):
            raise DataError(f"The shards of split '{dataset.split}' in '{dataset.directory}' contain no records.")
        inspector = _Inspector(dataset, index, num_classes, ignore_label, skip_corrupt_records, needs_labels)
        known = _begun_inspection(dataset, cache) or inspector.parts(known)
        cache.save(known)
    parts = [part for part in known if part is not None]
    found, damaged = check_cache.joined(parts)
    total = sum(part.total for part in parts)
    if found.wrong:
        raise DataError(_message(dataset, found, total, MaskIds(num_classes, ignore_label)))
    if not is_known:
        _report_lost_bits(dataset, found.cut_to_8_bits, total)
        _report_orientations(dataset, found.oriented, total)
    corrupt = (*damaged, *found.corrupt)
    if not found.records:
        raise DataError(
            f"No record of split '{dataset.split}' in '{dataset.directory}' can be read. First: {corrupt[0]}."
        )
    if isinstance(index, PairRecords):
        index.note_sums(found.sums[::2], found.sums[1::2])
    check_result = _result(found, num_classes, ignore_label, corrupt)
    _report_corrupt(dataset, check_result)
    return check_result


def begin(options: DatasetOptions, num_classes: int, needs_labels: bool, cache_dir: str | None) -> None:
    """Begins to check a split in a process of its own, while this one imports TensorFlow; `check` takes the findings.

    It changes nothing but the time that `check` takes.

    Args:
      options: the split.
      num_classes: as for `check`.
      needs_labels: as for `check`.
      cache_dir: as for `check`.
    """

    def inspect() -> tuple[str, list[Part | None]] | None:
        dataset = segmentation_dataset.get_dataset(options.name, options.split, options.directory)
        ignore_label, skips = dataset.descriptor.ignore_label, options.skip_corrupt_records
        cache = CheckCache(cache_dir, dataset, [num_classes, ignore_label, skips, needs_labels])
        known = cache.load()
        if None not in known:
            return None
        records = dataset.open_records(skips)
        inspector = _Inspector(dataset, records, num_classes, ignore_label, skips, needs_labels)
        return cache.key, inspector.parts(known)

    if not storage.is_remote(options.directory):  # TensorFlow, which would be imported twice, reads it
        child_process.begin(_work_name(options.split, options.directory), inspect)


def _begun_inspection(dataset: SegmentationDataset, cache: CheckCache) -> list[Part | None] | None:
    """Returns the findings of an inspection that `begin` began; None if there are none of this check."""
    key, found = child_process.result(_work_name(dataset.split, dataset.directory)) or ('', None)
    return found if key == cache.key else None


def _work_name(split: str, directory: str) -> str:
    """Returns the name of the check of a split among what `child_process` does."""
    return f'check of {split} in {directory}'


def require_fit(
    check_result: CheckResult,
    index: Records,
    crop_size: Sequence[int],
    output_stride: int = 16,
    resized: Callable[[int, int], tuple[int, int]] | None = None,
    field: str = 'ModelOptions.crop_size',
) -> None:
    """Raises `DataError` if an image is larger than the crop size, because evaluation does not crop images.

    Args:
      check_result: check result of the split.
      index: index of the split.
      crop_size: height and width.
      output_stride: sides of the suggested crop size are a multiple of it plus one.
      resized: function from the height and width of an image to those after resizing; None for no resizing.
      field: option that sets the crop size, as 'Class.field'.

    Raises:
      DataError: The message names the image, and the smallest aligned crop size for all images.
    """
    unique, first, counts = np.unique(check_result.sizes, axis=0, return_index=True, return_counts=True)
    seen = np.array([resized(int(h), int(w)) for h, w in unique] if resized else unique)
    too_large = (seen > np.asarray(crop_size)).any(axis=1)
    if not too_large.any():
        return
    place = int(np.argmax(seen.max(axis=1) * too_large))
    record = int(check_result.records[first[place]])
    needed = np.maximum(seen.max(axis=0), crop_size)
    good = crop_sizes.above(needed, output_stride)
    raise DataError(
        f"Image '{names.shown(example.parse(index.read(record)).image_name)}' ({index.name_of(record)}) is "
        f'{seen[place][0]} x {seen[place][1]} pixels (height x width), larger than '
        f'{option(field, tuple(crop_size))}; {counts[too_large].sum()} of {len(check_result.records)} images are. '
        f'Set {option(field, good)}.'
    )


def _read(
    index: Records, record: int, decode_image: bool, needs_labels: bool
) -> tuple[bytes, example.Example, images.Header, images.Mask | None]:
    """Reads a record, the files in it, the header of its image and its mask.

    Raises:
      DataError: It cannot be read; the message names it.
    """
    parsed = None
    content = index.read(record)  # names the record itself
    what = 'the record'
    try:
        parsed = example.parse(content)
        what = 'the image'
        header = (images.read_whole if decode_image else images.read_ends)(parsed.image_bytes)
        what = 'the mask'
        mask = images.read_mask(parsed.label_bytes) if needs_labels and parsed.label_bytes is not None else None
        return content, parsed, header, mask
    except DataError as error:
        image = f" (image '{names.shown(parsed.image_name)}')" if parsed else ''
        raise DataError(f'Cannot use {what} of {index.name_of(record)}{image}: {error}.') from None


class _Inspector:
    """Checks the records of a split."""

    def __init__(
        self,
        dataset: SegmentationDataset,
        index: Records,
        num_classes: int,
        ignore_label: int,
        skip_corrupt: bool,
        needs_labels: bool,
    ) -> None:
        self._dataset = dataset
        self._index = index
        self._channels = dataset.descriptor.image_channels
        self._bits = dataset.descriptor.image_bits
        self._skip_corrupt = skip_corrupt
        self._needs_labels = needs_labels
        self._ignore_label = ignore_label
        self._allowed = MaskIds(num_classes, ignore_label)
        self._sums_up = isinstance(index, PairRecords)

    def parts(self, known: Sequence[Part | None]) -> list[Part | None]:
        """Returns the findings in all parts of the split; only those that are not known are inspected, in threads.

        Raises:
          DataError: A record cannot be read, and corrupt records are not skipped.
        """
        parts, chunks, first = list(known), [], 0
        for place, total in enumerate(self._index.parts()):
            if parts[place] is None:
                parts[place] = Part(total, Found(), self._damaged(place))
                starts = range(first, first + total, _CHUNK)
                chunks += [(place, range(start, min(start + _CHUNK, first + total)), first) for start in starts]
            first += total
        # Pillow releases the interpreter lock.
        inspected = overlap.map_in_order(self._inspect, chunks, processors.available_cores(), _AHEAD)
        # The progress bar appears only in a terminal, and only if the check takes long.
        bar = tqdm.tqdm(
            total=sum(len(records) for _, records, _ in chunks),
            desc=f'checking {self._dataset.split}', unit='record', delay=2, disable=None,
            leave=False,
        )  # fmt: skip
        with bar, contextlib.closing(inspected):
            for (place, records, _), found in zip(chunks, inspected, strict=True):
                part = parts[place]
                assert part is not None
                part.found.add(found)
                bar.update(len(records))
        return parts

    def _damaged(self, place: int) -> tuple[str, ...]:
        """Returns a line for each remainder of a shard that cannot be read."""
        if not self._index.damaged:
            return ()
        shard = self._dataset.shards[place]
        return tuple(line for line in self._index.damaged if line.startswith((f'{shard}: ', f'{shard}, record ')))

    def _inspect(self, chunk: tuple[int, Iterable[int], int]) -> Found:
        """Returns the findings in the records of a chunk, whose numbers count from the start of its part."""
        _, records, first = chunk
        found = Found()
        for record in records:
            try:
                content, parsed, header, mask = _read(self._index, record, self._skip_corrupt, self._needs_labels)
            except DataError as error:
                if not self._skip_corrupt:
                    raise
                found.corrupt.append(str(error))
                continue
            if mask is not None and mask.counts is not None:
                found.all_counts += mask.counts
            kind = images.wrong_kind(header, self._channels, self._bits)
            wrong = (kind, f': {header.channels}' if kind == 'image_channels' else '') if kind else None
            if wrong is None and self._needs_labels:
                wrong = self._what_is_wrong(header, mask)
            if wrong is not None:
                kind, detail = wrong
                name = names.shown(parsed.image_name)
                found.wrong.append((kind, f"{self._index.name_of(record)}, image '{name}'{detail}"))
                continue
            found.records.append(record - first)
            found.sizes.extend((header.height, header.width))
            if self._sums_up:
                found.sums.extend((len(content), tfrecord.masked_crc(content)))
            found.cut_to_8_bits += header.bits > self._bits
            found.oriented += header.orientation != orientation.UPRIGHT
            if mask is not None and mask.counts is not None:
                found.counts += mask.counts
                found.pixels_beside[mask.counts > 0] += mask.counts.sum() - mask.counts[self._ignore_label]
        return found

    def _what_is_wrong(self, header: images.Header, mask: images.Mask | None) -> tuple[str, str] | None:
        """Returns the rule (`data_rules`) and details of the first problem of a mask; None if it is valid."""
        if mask is None:
            return 'no_mask', ''
        if mask.is_palette:
            return 'palette', ''
        if mask.counts is None:
            return 'color_mask' if mask.channels > 1 else 'sixteen_bit_mask', f': {mask.mode}'
        if mask.size != header.size:
            turns = (header.size, header.orientation, mask.size, mask.orientation)
            explained = 'turned' if orientation.decide(*turns) else 'size'
            sizes = f': image {header.height} x {header.width}, mask {mask.height} x {mask.width}'
            return explained, sizes + orientation.explanation(*turns)
        outside = self._allowed.outside(mask.counts)
        if len(outside):
            shown = ', '.join(f'id {value} on {mask.counts[value]} pixels' for value in outside[:_SHOWN])
            return 'ids', f': {shown}' + (f' and {len(outside) - _SHOWN} more' if len(outside) > _SHOWN else '')
        return None


def _message(dataset: SegmentationDataset, found: Found, total: int, allowed: MaskIds) -> str:
    """Returns one message about all invalid records: each kind with its first cases and its fix."""
    values = {
        'num_classes': allowed.num_classes,
        'last': allowed.num_classes - 1,
        'ignore': allowed.ignore_label,
        'channels': dataset.descriptor.image_channels,
    }
    parts = []
    for kind, rule in RULES.items():
        cases = [text for wrong, text in found.wrong if wrong == kind]
        if not cases:
            continue
        fix = rule.fix_text(in_records=not dataset.items, description=_description())
        if kind == 'ids':
            fix = _fix_of_ids(allowed.advice(found.all_counts), in_records=not dataset.items)
        more = f'; and {len(cases) - _SHOWN} more' if len(cases) > _SHOWN else ''
        said = names.agreeing(len(cases), rule.what.format(**values))
        shown = f'{"; ".join(cases[:_SHOWN])}{more}'
        parts.append(f"{len(cases)} of {total} records of split '{dataset.split}' {said}: {shown}. {fix}")
    return ' '.join(parts)


def _fix_of_ids(pattern: str | None, in_records: bool) -> str:
    """Returns the fix for ids outside the classes; `pattern` is the advice of `MaskIds`."""
    if pattern is None:
        return f'Set num_classes or ignore_label in {_description()}, or fix the masks.'
    again = '; then build the records again' if in_records else ''
    return (
        f'Fix the masks, {pattern}{again}. Only if all these ids are intended, set num_classes or ignore_label in '
        f'{_description()}.'
    )


def _description() -> str:
    """Returns the words for the description of the data set, with the option that names it."""
    return f'the description of the data set ({option("DatasetOptions.name")})'


def _result(found: Found, num_classes: int, ignore_label: int, corrupt: tuple[str, ...]) -> CheckResult:
    counts = found.counts.copy()
    ignored = int(counts[ignore_label])
    counts[ignore_label] = 0
    pixels_beside = np.where(counts > 0, found.pixels_beside, 0)
    return CheckResult(
        np.array(found.records, np.int64),
        np.array(found.sizes, np.int32).reshape(-1, 2),
        counts[:num_classes],
        pixels_beside[:num_classes],
        ignored,
        corrupt,
    )


def _report_lost_bits(dataset: SegmentationDataset, images_cut: int, total: int) -> None:
    if images_cut:
        logging.warning(
            "%d of %d images of split '%s' have 16 bits, of which the 8 lower ones are lost. To keep them, set "
            '"image_bits": 16 in %s.',
            images_cut,
            total,
            dataset.split,
            _description(),
        )


def _report_orientations(dataset: SegmentationDataset, oriented: int, total: int) -> None:
    if oriented:
        logging.warning(
            "%d of %d images of split '%s' have an EXIF orientation, which is not applied to records: the network sees "
            'the stored pixels, not the image as viewers display it. If masks were drawn in a viewer, build the '
            'records again: the builders turn such images upright.',
            oriented,
            total,
            dataset.split,
        )


def _report_corrupt(dataset: SegmentationDataset, check_result: CheckResult) -> None:
    if check_result.corrupt:
        logging.warning(
            "Split '%s': %d records (or remainders of shards) cannot be read and are skipped; %d remain. First: %s",
            dataset.split,
            len(check_result.corrupt),
            len(check_result.records),
            '; '.join(check_result.corrupt[:_SHOWN]),
        )
