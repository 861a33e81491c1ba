"""The warning of a resumed run: options that have changed since its checkpoint was written."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from deeplab import names
from deeplab.core import schedules
from deeplab.files.run_manifests import Run
from deeplab.options import RestoreOptions, TrainOptions
from deeplab.training.run_manifest import UNLABELED_RECORDS
from deeplab.wording import option

# Options that change no step of a resumed run, or that something else reports: `_records`, `training/validation.py`.
WITHOUT_EFFECT = frozenset(
    f'TrainOptions.{name}'
    for name in (
        'train_logdir',
        'validation',
        'initial_checkpoint',
        'initialize_last_layer',
        'restore',
        'log_steps',
        'loggers',
        'save_interval_secs',
        'save_summaries_secs',
        'save_summaries_images',
        'save_summaries_miou',
        'profile_logdir',
        'on_nan',
    )
) | {
    'DatasetOptions.directory',
    'DatasetOptions.skip_corrupt_records',
    'CloneOptions.clone_on_cpu',
    'CloneOptions.task',
    'CloneOptions.num_ps_tasks',
    'CloneOptions.master',
    'CloneOptions.worker_timeout_secs',
    'CloneOptions.restarts',
    'CloneOptions.startup_delay_steps',
    'NasOptions.total_training_steps',  # a copy of the number of steps
}
_AT_BEGINNING = frozenset(
    f'TrainOptions.{name}' for name in ('validation', 'initial_checkpoint', 'initialize_last_layer', 'restore')
)
# What the weights of a new run follow from.
_OF_WEIGHTS = frozenset(f'RestoreOptions.{field.name}' for field in dataclasses.fields(RestoreOptions)) | {
    'TrainOptions.initial_checkpoint',
    'TrainOptions.initialize_last_layer',
    'TrainOptions.seed',
    'OptimizerOptions.last_layers_contain_logits_only',
}
# A file or folder of the same name in another folder is assumed to be the same.
FILES = frozenset({'DatasetOptions.name', 'ModelOptions.dense_prediction_cell_json', 'UnlabeledOptions.directory'})
STEPS = 'TrainOptions.number_of_steps'
_STEPS_KEY = STEPS.rpartition('.')[2]
_SPLIT = 'DatasetOptions.split'
# What the order of the samples follows from, besides the records.
ORDER = frozenset({'TrainOptions.batch_size', 'TrainOptions.seed', 'CloneOptions.num_replicas', _SPLIT})
_NAMES = {'ModelOptions.outputs_to_num_classes': 'number of classes'}  # which train has no flag for
_LONGEST_VALUE = 80


class Change(NamedTuple):
    """Something that differs between two runs: 'Class.field' of an option, its name for the user, its values."""

    field: str
    name: str
    old: str
    new: str

    def __str__(self) -> str:
        return f'{self.name}: {self.old} -> {self.new}'


def warning(runs: Sequence[Run], run_now: Run, options: TrainOptions) -> str | None:
    """Returns a warning of changes since the run that wrote the checkpoint; None for a new run or without changes.

    `runs` are the earlier runs in the folder, the newest last.
    """
    step = run_now['first_step']
    # A run that began at this step has written no checkpoint since.
    old = next((run for run in reversed(runs) if run.get('first_step', step) < step), None)
    if old is None:
        return None
    changed = changes(options, old, run_now)
    if not changed:
        return None
    text = [
        f'This run resumes at step {step} with other settings than the run that wrote the checkpoint: '
        f'{"; ".join(map(str, changed))}. It is not the exact continuation of that run.'
    ]
    order = [change.name for change in changed if change.field in ORDER]
    if order:
        text.append(
            f'The order of the images changes with {", ".join(order)}: some may be seen twice in an epoch, and others '
            'not at all.'
        )
    if any(change.field == STEPS for change in changed):
        text += [
            f'The {quantity} now follows a schedule for {options.number_of_steps} steps; it may jump.'
            for quantity in _following_length(options, old['options'][_STEPS_KEY])
        ]
    return ' '.join(text)


def warning_of_weights(runs: Sequence[Run], run_now: Run, options: TrainOptions, checkpoint: str) -> str | None:
    """Returns a warning of settings that would have initialized a new run, but not one that begins at a checkpoint.

    Args:
      runs: the earlier runs in the folder, the newest last.
      run_now: this run.
      options: its options.
      checkpoint: path of the checkpoint of step 0 from which it begins.
    """
    old = runs[-1].get('options') if runs else None
    changed = [
        str(change)
        for change in _changed(options, old, run_now['options'], WITHOUT_EFFECT - _AT_BEGINNING)
        if change.field in _OF_WEIGHTS
    ]
    if not changed:
        return None
    logdir = option('TrainOptions.train_logdir')
    return (
        f'This run begins with the weights of {checkpoint}, which an earlier run in {logdir} has initialized; the '
        f'settings of the initial weights have changed since, without effect on them: {"; ".join(changed)}. To '
        f'initialize the weights again, remove this checkpoint, or set another {logdir}.'
    )


def changes(options: TrainOptions, old: Run, new: Run, of_new_runs: bool = False) -> list[Change]:
    """Returns the options with an effect that differ between two runs, and a difference of their records.

    Args:
      options: the options of the new run.
      old: description of the old run, of which only options and records are read.
      new: description of the new run.
      of_new_runs: whether to compare what has an effect on a training from its beginning, such as the initial
        checkpoint; False: on its continuation.
    """
    ignored = WITHOUT_EFFECT - _AT_BEGINNING if of_new_runs else WITHOUT_EFFECT
    changed = [*_changed(options, old.get('options'), new['options'], ignored)]
    if not of_new_runs:
        changed = [
            each for each in changed if each.field != STEPS or _following_length(options, old['options'][_STEPS_KEY])
        ]
    records = [change for key in ('records', UNLABELED_RECORDS) if key in new for change in _records(old, new, key)]
    return [*changed, *records]


def _changed(options: Any, old: Any, new: Mapping[str, Any], ignored: frozenset[str]) -> Iterator[Change]:
    """Yields the options with an effect that differ, also of options objects in them.

    `old` and `new` are the values then and now, as in run.json; whatever is missing in `old` is not compared.
    """
    if not isinstance(old, Mapping):
        return
    for name, value in new.items():
        field = f'{type(options).__name__}.{name}'
        if name not in old or field in ignored:
            continue
        inner, before = getattr(options, name), old[name]
        if dataclasses.is_dataclass(inner):
            yield from _changed(inner, before, value, ignored)
        elif _differ(field, before, value):
            yield Change(field, _NAMES.get(field) or option(field), shown(before), shown(value))


def _differ(field: str, old: Any, new: Any) -> bool:
    if field in FILES and isinstance(old, str) and isinstance(new, str):
        return os.path.basename(old) != os.path.basename(new)
    if field == 'CloneOptions.worker_hosts':  # where they are has no effect
        return len(old) != len(new)
    return bool(old != new)


def _following_length(options: TrainOptions, old_steps: int) -> list[str]:
    """Returns the quantities that another number of steps than `old_steps` changes."""
    follows = {
        'learning rate': options.optimizer.constant_learning_rate is None
        and _schedule(options, old_steps) != _schedule(options, options.number_of_steps),
        'drop path': options.model.nas.drop_path_keep_prob < 1.0 and options.fine_tune_batch_norm,
        'weight of the images without labels': options.unlabeled.is_on and options.unlabeled.ramp_steps is None,
    }
    return [quantity for quantity, is_changed in follows.items() if is_changed]


def _schedule(options: TrainOptions, number_of_steps: int) -> tf.compat.v1.GraphDef:
    """Returns the graph of the learning rate, without the session that a value would need."""
    with tf.Graph().as_default() as graph:
        step = tf.compat.v1.placeholder(tf.int64, [])
        schedules.learning_rate(step, options.optimizer.learning_rate, number_of_steps)
    return graph.as_graph_def()


def _records(old_run: Run, new_run: Run, key: str) -> Iterator[Change]:
    """Yields a change of the records at a key of run.json, if both runs train on the same split."""
    old, new = old_run.get(key) or {}, new_run[key]
    if old.get('split') != new['split']:
        return
    name = 'images without labels' if key == UNLABELED_RECORDS else f'records of split {new["split"]}'
    images = [f'{records.get("images")} images' for records in (old, new)]
    if None not in (old.get('digest'), new['digest']) and old['digest'] != new['digest']:
        yield Change(_SPLIT, name, images[0], images[1] if images[0] != images[1] else f'{new["images"]} other images')
    elif images[0] != images[1]:  # damaged ones are skipped now, or no longer
        yield Change(_SPLIT, name, *images)
    elif 'shards' in old and 'shards' in new and list(old['shards'].values()) != list(new['shards'].values()):
        yield Change(_SPLIT, f'shards of the {name}', *(str(len(records['shards'])) for records in (old, new)))


def shown(value: Any) -> str:
    """Returns a value of run.json as text."""
    if value is None or value == []:
        return 'not set'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict) and len(value) == 1:  # the number of classes of the only output
        (value,) = value.values()
    text = ','.join(map(str, value)) if isinstance(value, list) else str(value)
    return names.shown(text, _LONGEST_VALUE)
