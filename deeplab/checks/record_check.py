"""Check of the records of a split before anything is computed from them.

Every record is read once, in threads: its checksum, and the size and the ids of its mask against the size of the image
and the classes. The facts can be kept in a folder; facts about unchanged shards are used again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from absl import logging

from deeplab import names
from deeplab.checks.check_cache import CheckCache
from deeplab.checks.data_rules import RULES
from deeplab.checks.facts import SHOWN, Facts, shown_cases
from deeplab.checks.rule import HARMFUL, Rule
from deeplab.datasets import example
from deeplab.datasets.mask_ids import MaskIds
from deeplab.datasets.pair_records import PairRecords
from deeplab.datasets.planes import Plane
from deeplab.datasets.record_index import Records
from deeplab.datasets.segmentation_dataset import DataSource, SegmentationDataset
from deeplab.errors import DataError
from deeplab.files import storage
from deeplab.options import DatasetOptions, crop_sizes
from deeplab.system import child_process
from deeplab.wording import option


@dataclasses.dataclass(frozen=True, eq=False)
class CheckResult:
    """Result of a check that found no invalid records.

    Attributes:
      index: all records of the split.
      records: [n] int64, numbers of the valid records in `index`, ascending.
      sizes: [n, 2] int32, height and width of their images.
      class_pixels: [num_classes] int64, pixels of each class in the masks (zeros if masks were not checked).
      class_image_pixels: [num_classes] int64, labeled pixels (without ignore_label) of the images in which the class
        occurs.
      ignored_pixels: pixels of ignore_label.
      corrupt: one line for each record (or remainder of a shard) that is skipped.
    """

    index: Records
    records: np.ndarray
    sizes: np.ndarray
    class_pixels: np.ndarray
    class_image_pixels: np.ndarray
    ignored_pixels: int
    corrupt: tuple[str, ...] = ()

    def selected(self, images: slice | np.ndarray) -> CheckResult:
        """Returns the result with some of the valid records, by their places; pixels remain counted over all."""
        return dataclasses.replace(self, records=self.records[images], sizes=self.sizes[images])


def check(
    dataset: SegmentationDataset,
    num_classes: int,
    needs_labels: bool = True,
    cache_dir: str | None = None,
    planes: Sequence[Plane] = (),
) -> CheckResult:
    """Opens a split and checks every record of it.

    Args:
      dataset: the split. If it skips corrupt records, images are decoded completely, otherwise only their headers and
        ends are read.
      num_classes: masks may contain the ids 0 to num_classes - 1, and ignore_label.
      needs_labels: whether there must be masks; if not, they are not checked.
      cache_dir: folder in which the findings are cached; None for no cache.
      planes: planes that every record must have, besides.

    Raises:
      DataError: A record cannot be read (unless these are skipped), an image has other channels than the data set, a
        mask does not match its image or the classes or is not a single channel of ids, a plane is missing or does not
        match its image, or there is no record.
    """
    index = dataset.open_records()
    dataset.warn_of_changed_records(index)
    ignore_label, skip_corrupt_records = dataset.descriptor.ignore_label, dataset.skip_corrupt_records
    cache = CheckCache(dataset, num_classes, needs_labels, cache_dir, planes)
    parts = cache.load()
    is_cached = len(parts) == cache.parts
    if not is_cached:
        if not len(index):
            raise DataError(f"The shards of split '{dataset.split}' in '{dataset.directory}' contain no records.")
        begun_key, inspected = child_process.result(_name_of_inspection(dataset.split, dataset.directory)) or ('', {})
        parts = inspected if begun_key == cache.key else cache.inspect(index, parts)
        cache.save({place: facts for place, facts in parts.items() if not _errors(facts, skip_corrupt_records)})
    whole, numbers = Facts(), []
    for facts in parts.values():
        numbers.append(np.array(facts.records, np.int64) + whole.samples)  # they count from the start of the part
        whole.add(facts)
    if errors := _errors(whole, skip_corrupt_records):
        raise DataError(_message(dataset, whole, errors, MaskIds(num_classes, ignore_label)))
    corrupt = tuple(case.text for case in whole.cases.get('corrupt', ()))
    if not whole.records:
        folder = f"'{dataset.directory}'"
        where = '' if folder in dataset.samples else f' in {folder}'
        raise DataError(f'None of the {dataset.samples}{where} can be read. First: {corrupt[0]}.')
    if isinstance(index, PairRecords):
        index.note_sums(whole.sums[::2], whole.sums[1::2])
    for text in _warnings(dataset, whole, is_cached):
        logging.warning('%s', text)
    return CheckResult(
        index,
        np.concatenate(numbers),
        np.array(whole.sizes, np.int32).reshape(-1, 2),
        whole.class_pixels(num_classes, ignore_label),
        whole.class_image_pixels(num_classes, ignore_label),
        int(whole.counts[ignore_label]),
        corrupt,
    )


def begin(
    options: DatasetOptions,
    num_classes: int,
    needs_labels: bool,
    cache_dir: str | None,
    planes: Sequence[Plane] = (),
) -> None:
    """Begins to inspect a split in a process of its own, while this one imports TensorFlow.

    `check` takes its facts if it has the same arguments, with the split of these options. On an idle machine with two
    processors, a training of CamVid begins its first step 4 % earlier.
    """

    def inspect() -> tuple[str, dict[int, Facts]] | None:
        dataset = DataSource(options).split()
        cache = CheckCache(dataset, num_classes, needs_labels, cache_dir, planes)
        parts = cache.load()
        return None if len(parts) == cache.parts else (cache.key, cache.inspect(dataset.open_records(), parts))

    if not storage.is_remote(options.directory):  # TensorFlow, which would be imported twice, reads it
        child_process.begin(_name_of_inspection(options.split, options.directory), inspect)


def _name_of_inspection(split: str, directory: str) -> str:
    return f'check of {split} in {directory}'


def require_fit(
    check_result: CheckResult,
    crop_size: Sequence[int],
    output_stride: int = 16,
    resized: Callable[[int, int], tuple[int, int]] | None = None,
    field: str = 'ModelOptions.crop_size',
) -> None:
    """Raises `DataError` if an image is larger than the crop size, because evaluation does not crop images.

    Args:
      check_result: check result of the split.
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
    index = check_result.index
    raise DataError(
        f"Image '{names.shown(example.parse(index.read(record)).image_name)}' ({index.name_of(record)}) is "
        f'{seen[place][0]} x {seen[place][1]} pixels (height x width), larger than '
        f'{option(field, tuple(crop_size))}; {counts[too_large].sum()} of {len(check_result.records)} images are. '
        f'Set {option(field, good)}.'
    )


def _errors(facts: Facts, skip_corrupt_records: bool) -> list[Rule]:
    """Returns the rules that training and evaluation must not begin with, as far as samples break them."""
    return [
        rule
        for name, rule in RULES.items()
        if facts.problems[name] and rule.severity == HARMFUL and not (name == 'corrupt' and skip_corrupt_records)
    ]


def _message(dataset: SegmentationDataset, facts: Facts, errors: Sequence[Rule], allowed: MaskIds) -> str:
    """Returns one message about all invalid records: each kind with its first cases and its fix."""
    values = {
        'num_classes': allowed.num_classes,
        'last': allowed.num_classes - 1,
        'ignore': allowed.ignore_label,
        'channels': dataset.descriptor.image_channels,
        'skip': option('DatasetOptions.skip_corrupt_records', True),
        'description': _description(),
    }
    sentences = []
    for rule in errors:
        number, cases = facts.problems[rule.name], facts.cases[rule.name]
        fix = rule.fix_text(in_records=not dataset.items, **values)
        if rule.name == 'ids':
            fix = _fix_of_ids(allowed.advice(facts.counts), in_records=not dataset.items)
        elif rule.name == 'no_mask' and not dataset.descriptor.has_masks:
            classified = option('ModelOptions.task', 'classification')
            fix = f'These are records of classes of whole images: set {classified}, or pass records with masks.'
        elif rule.name == 'class_ids' and (left_out := dataset.descriptor.labels_offset):
            fix = f'{fix} If no class is to be left out, omit {option("ModelOptions.labels_offset", left_out)}.'
        shown = shown_cases([case.text for case in cases], number)
        said = names.agreeing(number, rule.what.format(**values))
        sentences.append(f'{number} of {facts.samples} {dataset.samples} {said}: {shown}. {fix}')
    return ' '.join(sentences)


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


def _warnings(dataset: SegmentationDataset, facts: Facts, is_cached: bool) -> Iterator[str]:
    """Yields warnings of skipped records and, once, of images that are usable, but probably not as they were meant."""
    images = f"of {facts.samples} images of split '{dataset.split}' have"
    if (cut := facts.problems['sixteen_bits']) and not is_cached:
        yield (
            f'{cut} {images} 16 bits, of which the lower 8 are lost. To keep them, set "image_bits": 16 in '
            f'{_description()}.'
        )
    if facts.oriented and not is_cached:
        yield (
            f'{facts.oriented} {images} an EXIF orientation, which is not applied to records: the network sees the '
            'stored pixels, not the image as viewers display it. If masks were drawn in a viewer, build the records '
            'again: the builders turn such images upright.'
        )
    if corrupt := [case.text for case in facts.cases.get('corrupt', ())]:
        yield (
            f"Split '{dataset.split}': {len(corrupt)} records (or remainders of shards) cannot be read and are "
            f'skipped; {len(facts.records)} remain. First: {"; ".join(corrupt[:SHOWN])}'
        )
