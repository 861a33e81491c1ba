"""Evaluation of a part of a split, and the figures of all parts: equal to one evaluation of the whole split."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import deeplab
from deeplab.evaluation import evaluation_rounds, runner, scoring, states
from deeplab.evaluation.engine_run import EngineReport
from deeplab.evaluation.evaluation_rounds import Round
from deeplab.inference import network_source
from deeplab.options import EngineOptions
from deeplab.options.parts import Part, require_all, require_same


def evaluate(
    checkpoint: str,
    task: runner.Task,
    part: Part,
    handle: Callable[[runner.Batch], None] = lambda batch: None,
    note: Mapping[str, Any] | None = None,
) -> bytes:
    """Evaluates one checkpoint on a part of a split.

    Args:
      checkpoint: its path; see `evaluation_rounds.evaluate`, also for the errors.
      task: network, whole split and metrics.
      part: the part; each consists of consecutive images.
      handle: called with each batch; see `evaluation_rounds.evaluate`.
      note: JSON values that are to come out of `merged_note`, equal in all parts.

    Returns:
      the state of all metrics, for `merged`.

    Raises:
      DataError: there are more parts than images.
      OptionError: a metric, as of a plugin, has no state.
    """
    selected = task.split.selected(part.of(task.split.num_images))
    measured = evaluation_rounds.measure(checkpoint, dataclasses.replace(task, split=selected), handle)
    done = measured.done
    header = {
        'part': dataclasses.astuple(part),
        'pass': vars(done) | {'engine': None if done.engine is None else dataclasses.asdict(done.engine)},
        'crop_size': measured.crop_size,
        'setup': measured.scores.setup.as_json(),
        'compared': _compared(checkpoint, task),
        'note': dict(note or {}),
    }
    return states.dump(header, measured.scores.accumulators)


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
    (first, _), *_ = loaded = _in_order(parts)
    setup = scoring.MetricSetup.of_json(first['setup'])
    accumulators = setup.accumulators()
    for _, state in loaded:
        for name, other in setup.accumulators().items():
            states.restore(other, state[name])
            accumulators[name].merge(other)
    facts, crop_size = first['pass'], first['crop_size']
    if facts['engine'] is not None:
        engine = facts['engine']
        facts['engine'] = EngineReport(**engine | {'options': EngineOptions(**engine['options'])})
    done = runner.CheckpointPass(
        **facts
        | {
            'images': sum(header['pass']['images'] for header, _ in loaded),
            'seconds': sum(header['pass']['seconds'] for header, _ in loaded),
        }
    )
    results = scoring.results_of(accumulators, setup.has_classes)
    return Round(**vars(results), **vars(done), crop_size=None if crop_size is None else tuple(crop_size))


def merged_note(parts: Sequence[bytes]) -> dict[str, Any]:
    """Returns the note of the parts; see `evaluate`."""
    return dict(_in_order(parts)[0][0]['note'])


def class_names(parts: Sequence[bytes]) -> tuple[str, ...]:
    """Returns the names of the classes of the data set."""
    return tuple(states.load(parts[0])[0]['setup']['classes']['class_names'])


def _compared(checkpoint: str, task: runner.Task) -> dict[str, Any]:
    """Returns what must be equal in all parts, by name; paths may differ."""
    network = task.network
    compared = {
        'version': deeplab.__version__,
        'checkpoint': network_source.at(checkpoint).digest(),
        'records': task.split.reader.index.facts()['digest'],
        'images': task.split.num_images,
        'network': dataclasses.asdict(network.options),
        'prediction': dataclasses.asdict(network.prediction),
        'batch_size': network.batch_size,
        'resize': dataclasses.asdict(task.resize),
        'use_moving_average': task.use_moving_average,
        'engine': dataclasses.asdict(task.engine),
        'windows': None if task.windows is None else dataclasses.asdict(task.windows),
    }
    return {name: json.loads(json.dumps(value, default=str)) for name, value in compared.items()}


def _in_order(parts: Sequence[bytes]) -> list[tuple[dict[str, Any], dict[str, dict[str, Any]]]]:
    """Returns the headers and values of all parts, after the checks."""
    loaded = sorted(map(states.load, parts), key=lambda each: each[0]['part'])
    require_all([Part(*header['part']) for header, _ in loaded], 'The evaluation')
    settings = [
        (Part(*header['part']), {**header['compared'], **header['note'], **header['setup']}) for header, _ in loaded
    ]
    require_same(settings, 'the evaluation')
    return loaded
