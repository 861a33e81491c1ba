"""Registry of data sets."""

from __future__ import annotations

import dataclasses

from deeplab.registry.records import Record, Registry


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dataset(Record):
    """A data set, a name in --dataset. What is registered is a `deeplab.datasets.descriptor.DatasetDescriptor`."""


DATASETS: Registry[Dataset] = Registry('data set', 'DatasetOptions.name', 'deeplab.datasets.descriptors')
