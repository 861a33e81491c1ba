"""Training on several machines: whether all of them train the same network, and when each of them starts."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from absl import logging

import deeplab
from deeplab.deployment import worker_group
from deeplab.errors import OptionError
from deeplab.evaluation.runner import CheckedSplit
from deeplab.names import listed
from deeplab.options import TrainOptions
from deeplab.training import resume_changes, run_manifest, training_step
from deeplab.wording import option

READY = 'replicas/is_ready'
# Replicas with other differences of options or records train towards different aims, but all of them run.
_REQUIRED = frozenset({'DatasetOptions.name', 'ModelOptions.outputs_to_num_classes'})
_SHOWN_VARIABLES = 4
# Options without an effect on a resumed run that all synchronous workers must share.
_SAME = ('number_of_steps', 'validation', 'on_nan')


def facts(options: TrainOptions, data: CheckedSplit) -> dict[str, Any]:
    """Returns what a replica trains, as JSON values: options, records, and the variables of the current graph."""
    variables = {variable.op.name: variable.shape.as_list() for variable in tf.compat.v1.global_variables()}
    digest = data.reader.index.facts()['digest']
    records = {'digest': digest, 'split': options.dataset.split, 'images': len(data.records)}
    return {'options': run_manifest.options_as_json(options), 'records': records, 'variables': variables}


def require_agreement(options: TrainOptions, chief: dict[str, Any], own: dict[str, Any]) -> None:
    """Compares a replica's `facts` with the facts of the chief, and logs differences of settings.

    Raises:
      OptionError: the replica trains on another data set, or other variables.
    """
    changes = resume_changes.changes(options, chief, own)
    lines = [str(change) for change in changes if change.field in _REQUIRED]
    there, here = (replica['options']['clones']['num_ps_tasks'] for replica in (chief, own))
    lines += [f'{option("CloneOptions.num_ps_tasks")}: {there} -> {here}'] if there != here else []
    variables, wanted = own['variables'], chief['variables']
    differing = [name for name in {**wanted, **variables} if wanted.get(name) != variables.get(name)]
    if differing:
        shown = [f'{name} {wanted.get(name, "none")} -> {variables.get(name, "none")}' for name in differing]
        lines.append(f'{len(shown)} variables: {listed(shown, _SHOWN_VARIABLES)}')
    task = option('CloneOptions.task', options.clones.task)
    if lines:
        raise OptionError(
            f'{task} cannot train with task 0, which has another data set or network. From task 0 to this one: '
            f'{"; ".join(lines)}. Use the command line of task 0, with another {option("CloneOptions.master")} '
            f'and {option("CloneOptions.task")} only. If the parameter servers still hold an earlier '
            'training run, start task 0 first.'
        )
    if changes:
        others = '; '.join(map(str, changes))
        logging.warning('%s has other settings than task 0. From task 0 to this one: %s.', task, others)


def of_chief(group: worker_group.WorkerGroup, key: str, value: Any = None) -> Any:
    """Returns worker 0's `value`, JSON values, to every synchronous worker; each calls this once for a key."""
    if group.task == 0:
        group.put(key, json.dumps(value).encode())
    return json.loads(group.get(key))


def common_start(group: worker_group.WorkerGroup, step: int = 0, report: str = '') -> tuple[int, str]:
    """Returns the step at which worker 0 begins, and its report if there is nothing to train, to every worker."""
    step, report = of_chief(group, 'start', [step, report])
    return step, report


def require_same_training(group: worker_group.WorkerGroup, options: TrainOptions, data: CheckedSplit) -> None:
    """Compares a synchronous worker with worker 0, before the first step.

    Raises:
      OptionError: flags, records, variables, versions or code differ.
    """
    own = facts(options, data) | {'versions': run_manifest.versions(), 'code': {'digest': _digest_of_code()}}
    chief = of_chief(group, 'facts', own)
    changes = [str(change) for change in resume_changes.changes(options, chief, own)]
    there, here = ({name: run['options'][name] for name in _SAME} for run in (chief, own))
    for kind, old, new in (
        ('', {option(f'TrainOptions.{name}'): there[name] for name in _SAME},
         {option(f'TrainOptions.{name}'): here[name] for name in _SAME}),
        ('variable ', chief['variables'], own['variables']),
        ('version of ', chief['versions'], own['versions']),
        ('code, ', chief['code'], own['code']),
    ):  # fmt: skip
        names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        changes += [
            f'{kind}{name}: {resume_changes.shown(old.get(name))} -> {resume_changes.shown(new.get(name))}'
            for name in names[:_SHOWN_VARIABLES]
        ]
    if changes:
        raise OptionError(
            f'{option("CloneOptions.task", options.clones.task)} cannot train with task 0, which has another command '
            f'line, other records or other code. From task 0 to this one: {"; ".join(dict.fromkeys(changes))}. Use the '
            f'command line and the installation of task 0, with another {option("CloneOptions.task")} only'
        )


def _digest_of_code() -> str:
    """Returns the digest of the package's Python files."""
    digest = hashlib.sha256()
    folder = pathlib.Path(deeplab.__file__).parent
    for path in sorted(folder.rglob('*.py')):
        digest.update(f'{path.relative_to(folder)}\0'.encode() + path.read_bytes())
    return digest.hexdigest()[:12]


class Group:
    """Coordination of a replica with the others, for the training loop.

    With parameter servers, the first of them has a sign: a variable to which the chief writes what it trains, and the
    other replicas may begin. That all variables are initialized is not enough: they may have the values from before a
    checkpoint is restored.

    Attributes:
      step: the training step, with the steps of all replicas if there are several.
    """

    def __init__(self, options: TrainOptions, data: CheckedSplit, step: training_step.TrainStep):
        """Adds the coordination to the graph; nothing without a master."""
        self._options = options
        self._data = data
        self._clones = clones = options.clones
        self._sign: tf.Variable | None = None
        if clones.num_ps_tasks:
            with tf.device('/job:ps/task:0/device:CPU:0'):
                first_value = tf.compat.v1.constant_initializer('')
                self._sign = tf.compat.v1.get_local_variable(READY, [], tf.string, first_value)  # in no checkpoint
                self._value = self._sign.read_value()
                self._text = tf.compat.v1.placeholder(tf.string, [], f'{READY}/text')
                self._give = self._sign.assign(self._text, read_value=False)
        # No replica waits for a step after the last one.
        self._first_step = min(clones.startup_delay_steps * clones.task, options.number_of_steps)
        self._has_logged = self._has_compared = False
        self.step = step
        if clones.num_replicas > 1:
            with tf.control_dependencies([step.is_applied]):
                self.step = dataclasses.replace(step, steps_done=step.global_step.read_value())

    def initialize(self, first_values: Callable[[tf.compat.v1.Session], None], running: tf.compat.v1.Session) -> None:
        """Calls `first_values`, which gives all variables their initial values, if this replica is the chief."""
        if not self._clones.is_chief:
            return
        if self._sign is not None:
            running.run(self._sign.initializer)
        first_values(running)
        if self._sign is not None:
            running.run(self._give, {self._text: json.dumps(facts(self._options, self._data))})

    def is_ready(self, running: tf.compat.v1.Session) -> bool:
        """Returns whether this replica may begin: task 0 at once, the others after the sign, each some steps later.

        Raises:
          OptionError: task 0 trains on another data set, or other variables.
        """
        if self._clones.is_chief or self._sign is None:
            return True
        if not self._has_logged:
            logging.info('Task %d waits for task 0, and for step %d.', self._clones.task, self._first_step)
            self._has_logged = True
        try:
            text = str(running.run(self._value), 'utf-8')
        except (tf.errors.FailedPreconditionError, tf.errors.NotFoundError):
            text = ''  # the variable has not been created yet
        if text and not self._has_compared:
            require_agreement(self._options, json.loads(text), facts(self._options, self._data))
            self._has_compared = True
        return bool(text) and int(running.run(self.step.global_step)) >= self._first_step
