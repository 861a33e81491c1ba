"""What the workers of a distributed training have in common, and how one of them differs from task 0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf
from absl import logging

from deeplab.core import checkpoints
from deeplab.datasets.record_index import Records
from deeplab.errors import OptionError
from deeplab.options import TrainOptions
from deeplab.training import resume_changes, run_manifest
from deeplab.wording import option

# Differences of other options and of the records make the workers train towards different aims, but all of them run.
_REQUIRED = frozenset({'DatasetOptions.name', 'ModelOptions.outputs_to_num_classes'})
_SHOWN_VARIABLES = 4


class Training(NamedTuple):
    """What one worker trains.

    Attributes:
      options: of the training.
      index: of its records.
      images: number of valid records.
    """

    options: TrainOptions
    index: Records
    images: int

    def facts(self) -> dict[str, Any]:
        """Returns options, records and the variables of the current graph, as JSON values, for the other workers."""
        variables = {variable.op.name: variable.shape.as_list() for variable in tf.compat.v1.global_variables()}
        digest = self.index.facts()['digest']
        records = {'digest': digest, 'split': self.options.dataset.split, 'images': self.images}
        return {'options': run_manifest.options_as_json(self.options), 'records': records, 'variables': variables}

    def require_agreement(self, chief: Mapping[str, Any]) -> None:
        """Compares this worker with task 0, and logs differences of settings.

        Args:
          chief: facts of task 0.

        Raises:
          OptionError: it trains on another data set, or other variables.
        """
        own = self.facts()
        changes = resume_changes.changes(self.options, chief, own)
        lines = [f'{change.name}: {change.old} -> {change.new}' for change in changes if change.field in _REQUIRED]
        there, here = (facts['options']['clones']['num_ps_tasks'] for facts in (chief, own))
        lines += [f'{option("CloneOptions.num_ps_tasks")}: {there} -> {here}'] if there != here else []
        lines += _other_variables(chief['variables'], own['variables'])
        task = option('CloneOptions.task', self.options.clones.task)
        if lines:
            raise OptionError(
                f'{task} cannot train with task 0, which has another data set or network. From task 0 to this one: '
                f'{"; ".join(lines)}. Use the command line of task 0, with another {option("CloneOptions.master")} '
                f'and {option("CloneOptions.task")} only. If the parameter servers still hold an earlier '
                'training, start task 0 first.'
            )
        if changes:
            listed = '; '.join(f'{change.name}: {change.old} -> {change.new}' for change in changes)
            logging.warning('%s has other settings than task 0. From task 0 to this one: %s.', task, listed)


def _other_variables(there: dict[str, list[int]], here: dict[str, list[int]]) -> list[str]:
    """Describes the variables that two workers do not have in common, in one line; none if they agree."""
    names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    shown = [f'{name} {there.get(name, "none")} -> {here.get(name, "none")}' for name in names]
    return [f'{len(names)} variables: {checkpoints.shortened(shown, _SHOWN_VARIABLES)}'] if names else []
