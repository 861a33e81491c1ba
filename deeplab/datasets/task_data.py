"""What the tasks of a network need of a data set: planes of its records, and facts of its description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deeplab.datasets import planes
from deeplab.datasets.descriptor import DatasetDescriptor
from deeplab.datasets.planes import Plane
from deeplab.errors import OptionError
from deeplab.options import ModelOptions
from deeplab.registry import TASKS, TaskContext
from deeplab.wording import option


def context_of(
    descriptor: DatasetDescriptor, options: ModelOptions, calibration: Mapping[str, Any] | None = None
) -> TaskContext:
    """Returns what the functions of the tasks know of a data set.

    Args:
      descriptor: the data set, or the classes that are stored with a network, without a name.
      options: the network.
      calibration: what the tasks have chosen for a checkpoint (`inference.task_calibration.load`); None for nothing.

    Raises:
      OptionError: the description of the data set lacks what a task requires.
    """
    tasks = TASKS.chosen(options)
    count = options.num_classes
    context = TaskContext(
        num_classes=count,
        ignore_label=descriptor.ignore_label,
        class_names=descriptor.names[:count],
        things=descriptor.things,
        palette=descriptor.palette[:count],
        depth_scale=descriptor.depth_scale,
        eval_ids=descriptor.eval_ids,
        settings={parameter.name: getattr(options, parameter.name) for task in tasks for parameter in task.parameters},
        calibration=calibration or {},
    )
    for task in tasks:
        for name in task.requires:
            if getattr(context, name) is None:
                where = f"which the description of the data set '{descriptor.name}' does not have. Add it there."
                if not descriptor.name:
                    of_training = option('PredictorOptions.dataset')
                    where = f'which is not stored with the network. Set {of_training} to the data set of its training.'
                raise OptionError(f"{option('ModelOptions.task', options.task)} needs '{name}', {where}")
    return context


def planes_of(descriptor: DatasetDescriptor, options: ModelOptions) -> tuple[Plane, ...]:
    """Returns the planes beside the class ids that the tasks of a network need, each once."""
    return planes.of_dataset(needed_planes(options), descriptor)


def needed_planes(options: ModelOptions) -> tuple[Plane, ...]:
    """Returns the same planes, without what a data set says about them."""
    planes_of_tasks = dict.fromkeys(plane for task in TASKS.chosen(options) for plane in task.planes)
    return tuple(
        plane._replace(several='') if plane.several and getattr(options, plane.several) else plane
        for plane in planes_of_tasks
    )


def needs_labels(options: ModelOptions) -> bool:
    """Returns whether a task of the network needs class ids."""
    return any(task.needs_labels for task in TASKS.chosen(options))
