"""Inspection of a split in a process of its own, while this one imports TensorFlow.

It saves time and changes nothing else: `record_check.check` takes the facts from `inspected`, or inspects the split.
"""

from __future__ import annotations

from deeplab.checks.check_cache import CheckCache
from deeplab.checks.facts import Facts
from deeplab.datasets import segmentation_dataset
from deeplab.datasets.segmentation_dataset import SegmentationDataset
from deeplab.files import storage
from deeplab.options import DatasetOptions
from deeplab.system import child_process


def begin(options: DatasetOptions, num_classes: int, needs_labels: bool, cache_dir: str | None) -> None:
    """Begins to inspect a split.

    Args:
      options: the split.
      num_classes: as for `record_check.check`.
      needs_labels: as for `record_check.check`.
      cache_dir: as for `record_check.check`.
    """

    def inspect() -> tuple[str, dict[int, Facts]] | None:
        dataset = segmentation_dataset.get_dataset(options.name, options.split, options.directory)
        ignore_label, skips = dataset.descriptor.ignore_label, options.skip_corrupt_records
        cache = CheckCache(dataset, num_classes, ignore_label, skips, needs_labels, cache_dir)
        parts = cache.load()
        if len(parts) == cache.parts:
            return None
        return cache.key, cache.inspect(dataset.open_records(skips), parts)

    if not storage.is_remote(options.directory):  # TensorFlow, which would be imported twice, reads it
        child_process.begin(_work_name(options.split, options.directory), inspect)


def inspected(dataset: SegmentationDataset, key: str) -> dict[int, Facts]:
    """Returns the facts about all parts of a split; none unless `begin` has begun the check with this key."""
    begun_key, parts = child_process.result(_work_name(dataset.split, dataset.directory)) or ('', {})
    return parts if begun_key == key else {}


def _work_name(split: str, directory: str) -> str:
    """Returns the name of the inspection of a split among what `child_process` does."""
    return f'check of {split} in {directory}'
