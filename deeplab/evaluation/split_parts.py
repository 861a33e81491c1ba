"""Evaluation of a part of a split, and the figures of all parts: equal to one evaluation of the whole split."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import Any

import deeplab
from deeplab.evaluation import evaluation_rounds, runner, scoring, states
from deeplab.evaluation.engine_run import EngineReport
from deeplab.evaluation.evaluation_rounds import Round
from deeplab.files import typed_json
from deeplab.inference import network_source
from deeplab.options import EngineOptions
from deeplab.options.parts import Part, require_all, require_same
from deeplab.registry import MetricContext, TaskContext

_KINDS = (Part, runner.CheckpointPass, EngineReport, EngineOptions, scoring.MetricSetup, MetricContext, TaskContext)


def evaluate(
    checkpoint: str,
    task: runner.Task,
    part: Part,
    handle: Callable[[runner.Batch], None] = lambda batch: None,
) -> bytes:
    """Evaluates one checkpoint on a part of a split.

    Args:
      checkpoint: its path; see `evaluation_rounds.evaluate`, also for the errors.
      task: network, whole split and metrics.
      part: the part; each consists of consecutive images.
      handle: called with each batch; see `evaluation_rounds.evaluate`.

    Returns:
      the state of all metrics, for `merged`.

    Raises:
      DataError: there are more parts than images.
      OptionError: a metric, as of a plugin, has no state.
    """
    selected = task.split.selected(part.of(task.split.num_images))
    selected_task = dataclasses.replace(task, split=selected)
    scores, done, crop_size = evaluation_rounds.measure(checkpoint, selected_task, handle)
    return typed_json.dumps(
        {
            'part': part,
            'compared': _compared(checkpoint, task),
            'pass': done,
            'crop_size': crop_size,
            'setup': scores.setup,
            'states': _states_of(scores),
        }
    )


def require_states(task: runner.Task) -> None:
    """Raises `OptionError` if a metric, as of a plugin, has no state, so that `evaluate` would fail at its end."""
    _states_of(scoring.Scores(task.split.descriptor, task.metrics, task.network.options))


def _states_of(scores: scoring.Scores) -> dict[str, dict[str, Any]]:
    return {name: states.state_of(each, name) for name, each in scores.accumulators.items()}


def merged(parts: Sequence[bytes]) -> Round:
    """Returns the figures of a split from the states of all its parts, in any order.

    Counts are equal to an evaluation of the whole split; sums of floats may differ in the last digits. The seconds are
    the sum over the parts.

    Args:
      parts: results of `evaluate`.

    Raises:
      DataError: a part is missing, given twice or damaged, or the parts are of different checkpoints, data or
        settings.
    """
    loaded = sorted((typed_json.loads(each, _KINDS) for each in parts), key=lambda each: each['part'])
    require_all([each['part'] for each in loaded], 'The evaluation')
    require_same([(each['part'], each['compared']) for each in loaded], 'the evaluation')
    setup, done = loaded[0]['setup'], loaded[0]['pass']
    accumulators = setup.accumulators()
    for each in loaded:
        for name, other in setup.accumulators().items():
            states.restore(other, each['states'][name])
            accumulators[name].merge(other)
    totals = {name: sum(getattr(each['pass'], name) for each in loaded) for name in ('images', 'seconds')}
    results = scoring.results_of(accumulators, setup)
    return Round(**vars(results), **{**vars(done), **totals}, crop_size=loaded[0]['crop_size'])


def _compared(checkpoint: str, task: runner.Task) -> dict[str, Any]:
    """Returns what must be equal in all parts, by name; paths may differ."""
    network, source = task.network, network_source.at(checkpoint)
    compared = {
        'version': deeplab.__version__,
        'checkpoint': source.digest(),
        'calibration': source.calibration(),
        'records': task.split.reader.index.facts()['digest'],
        'images': task.split.num_images,
        'classes': task.split.descriptor.as_json(),
        'network': dataclasses.asdict(network.options),
        'prediction': dataclasses.asdict(network.prediction),
        'batch_size': network.batch_size,
        'resize': dataclasses.asdict(task.resize),
        'metrics': task.metrics,
        'use_moving_average': task.use_moving_average,
        'engine': dataclasses.asdict(task.engine),
        'windows': None if task.windows is None else dataclasses.asdict(task.windows),
    }
    return {name: json.loads(json.dumps(value, default=str)) for name, value in compared.items()}
