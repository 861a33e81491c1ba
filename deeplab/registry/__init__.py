"""Registries of what users choose by name, and how to add to them: `register(Loss(...))`, and so on for each kind.

docs/extending.md shows an example of each kind. Nothing here imports TensorFlow.
"""

from __future__ import annotations

import sys

from deeplab.registry.augmentations import (
    AFTER_CROP,
    AFTER_PADDING,
    AUGMENTATIONS,
    BEFORE_CROP,
    CROP,
    MIX,
    Augmentation,
    AugmentContext,
)
from deeplab.registry.datasets import DATASETS, Dataset
from deeplab.registry.engines import (
    AUTO_PRECISION,
    ENGINES,
    INT8,
    PRECISIONS,
    Calibration,
    Engine,
    Execution,
    FrozenGraph,
    Outputs,
    Predict,
)
from deeplab.registry.export_formats import EXPORT_FORMATS, Exported, ExportFormat, FrozenNetwork, PortableNetwork
from deeplab.registry.loggers import LOGGERS, LoggedRun, Logger, RunLogger
from deeplab.registry.losses import BATCH, LOSSES, PIXELS, PLANES, REGIONS, Loss
from deeplab.registry.metrics import CONFUSION_MATRIX, METRICS, Metric, MetricContext
from deeplab.registry.networks import (
    BACKBONES,
    HEADS,
    SCALE_TO_PLUS_MINUS_ONE,
    SHARED_OPTIONS,
    SUBTRACT_RGB_MEAN,
    Backbone,
    Classifier,
    Head,
    Normalization,
)
from deeplab.registry.optimizers import LEARNING_POLICIES, OPTIMIZERS, LearningPolicy, Optimizer, UsualRates
from deeplab.registry.preprocessings import PREPROCESSINGS, Preprocessing
from deeplab.registry.records import Parameter, Record, Registry
from deeplab.registry.tasks import TASKS, Branch, Comparison, Output, ResultFile, Task, TaskContext, Term

# The registry of each kind of record.
REGISTRIES: dict[type[Record], Registry] = {  # type: ignore[type-arg]
    Loss: LOSSES,
    Optimizer: OPTIMIZERS,
    LearningPolicy: LEARNING_POLICIES,
    Augmentation: AUGMENTATIONS,
    Backbone: BACKBONES,
    Head: HEADS,
    Metric: METRICS,
    ExportFormat: EXPORT_FORMATS,
    Engine: ENGINES,
    Dataset: DATASETS,
    Task: TASKS,
    Preprocessing: PREPROCESSINGS,
    Logger: LOGGERS,
}


def register(record: Record) -> None:
    """Adds a record to the registry of its kind; a file that runs again replaces the records that it has added.

    Raises:
      ValueError: another record of the kind has its name, or one of its parameters differs from another of that name.
    """
    registry = next((candidate for kind, candidate in REGISTRIES.items() if isinstance(record, kind)), None)
    if registry is None:
        kinds = ', '.join(kind.__name__ for kind in REGISTRIES)
        raise ValueError(f'register takes a record of one of the kinds {kinds}, not a {type(record).__name__}.')
    registry.add(record, sys._getframe(1).f_globals)
