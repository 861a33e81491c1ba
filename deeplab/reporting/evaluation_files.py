"""Metrics files of a run (metrics-STEP.json of validation and eval): those whose figures can be compared."""

from __future__ import annotations

import dataclasses
import glob
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deeplab import names
from deeplab.evaluation import evaluation_rounds
from deeplab.inference import network_source

# Settings that a metrics file may lack: their name here, in the file of a validation, and among the flags of eval.
_WRITTEN_SINCE = (
    ('crop size', 'crop_size', 'eval_crop_size'),
    ('minimum size', 'min_resize_value', 'min_resize_value'),
    ('maximum size', 'max_resize_value', 'max_resize_value'),
    ('resize factor', 'resize_factor', 'resize_factor'),
    ('records', 'records', 'records'),
)

_LONGEST = 19  # characters of a value, such as a digest

Settings = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The metrics of one checkpoint, as validation or eval wrote them.

    Attributes:
      source: path of the file.
      split: name of the split; empty if the file does not say.
      content: content of the file.
    """

    step: int
    source: str
    split: str
    content: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Curve:
    """The metrics files of a run that one line may connect.

    Attributes:
      evaluations: ascending by step, all of the same settings.
      settings: what determines their figures, by name; settings that none of the files has are left out.
      others: number of files of other settings.
      differing: names of the settings of those.
    """

    evaluations: Sequence[Evaluation] = ()
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    others: int = 0
    differing: Sequence[str] = ()

    def shown(self, chosen: Sequence[str]) -> list[tuple[str, str]]:
        """Returns name and text of the chosen settings that are known and set."""
        return [(name, _shown(self.settings[name])) for name in chosen if self.settings.get(name)]

    def note(self) -> str | None:
        """Returns a sentence about the files that are left out; None if there are none."""
        if not self.others:
            return None
        files = f'{names.counted(self.others, "metrics file")} of other settings {names.agreeing(self.others, "exist")}'
        return f'The curves of the IoU show the figures of {_listed(self.settings, self.differing)}; {files}.'

    def note_beside(self, other: Curve, name: str) -> str | None:
        """Returns a sentence about settings that differ from another run's; None if they are the same."""
        differing = differences(self.settings, other.settings) if self.evaluations and other.evaluations else []
        if not differing:
            return None
        here, there = (_listed(settings, differing) for settings in (self.settings, other.settings))
        return f'The curves of the IoU cannot be compared with {name}: {here} here, {there} there.'


def read(folders: Sequence[str]) -> Curve:
    """Reads the metrics files in some folders.

    Figures of other settings cannot be compared: the settings with the most steps are returned; of several
    files of one step, the newest. A file that lacks a setting, as it is older than that setting or from eval, which
    writes no digest of the records, goes with any value of it.
    """
    groups: dict[str, tuple[Settings, dict[int, tuple[float, Evaluation]]]] = {}
    for changed, evaluation in _files(folders):
        settings = _settings(evaluation.content)
        _, group = groups.setdefault(json.dumps(settings, sort_keys=True), (settings, {}))
        _add(group, changed, evaluation)
    if not groups:
        return Curve()
    sizes = {key: (len(group), max(changed for changed, _ in group.values())) for key, (_, group) in groups.items()}
    first, *others = (groups[key] for key in sorted(sizes, key=lambda key: sizes[key], reverse=True))
    settings, group = first
    left_out, differing = 0, dict[str, None]()
    for their_settings, their_group in others:
        contradictions = differences(settings, their_settings)
        if contradictions:
            left_out += len(their_group)
            differing |= dict.fromkeys(contradictions)
        else:
            settings = {**their_settings, **settings}
            for changed, evaluation in their_group.values():
                _add(group, changed, evaluation)
    return Curve([group[step][1] for step in sorted(group)], settings, left_out, tuple(differing))


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Returns the names of the settings that both have, with different values."""
    return [name for name, value in one.items() if other.get(name, value) != value]


def _listed(settings: Mapping[str, Any], chosen: Sequence[str]) -> str:
    """Formats some settings as a list, such as `split val, crop size 361 x 481`."""
    return ', '.join(f'{name} {_shown(settings[name])}' for name in chosen)


def _shown(value: Any) -> str:
    """Formats the value of a setting."""
    if value is None or isinstance(value, bool):
        return {None: 'not set', True: 'yes', False: 'no'}[value]
    if isinstance(value, list):
        return (', ' if any(isinstance(each, float) for each in value) else ' x ').join(map(_shown, value))
    text = str(value)
    return names.shown(f'{text[:_LONGEST]}...' if len(text) > _LONGEST else text) or 'not named'


def _files(folders: Sequence[str]) -> Iterator[tuple[float, Evaluation]]:
    """Yields the metrics files with the times of their last changes."""
    for folder in dict.fromkeys(os.path.normpath(folder) for folder in folders):
        for path in sorted(glob.glob(os.path.join(glob.escape(folder), 'metrics-*.json'))):
            content = evaluation_rounds.read_json(path)
            step = content.get('global_step')
            if isinstance(step, int) and isinstance(content.get('class_iou'), dict):
                yield os.path.getmtime(path), Evaluation(step, path, _settings(content)['split'], content)


def _add(group: dict[int, tuple[float, Evaluation]], changed: float, evaluation: Evaluation) -> None:
    """Adds a file to the others of its settings, unless there is a newer one of its step."""
    if evaluation.step not in group or group[evaluation.step][0] < changed:
        group[evaluation.step] = (changed, evaluation)


def _settings(content: Mapping[str, Any]) -> Settings:
    """Returns what determines the figures of a checkpoint, by name, as far as a metrics file says it."""
    flags = content.get('flags')
    flags = flags if isinstance(flags, Mapping) else {}
    checkpoint = str(content.get('checkpoint') or '')
    settings: Settings = {
        'split': str(content.get('split') or flags.get('eval_split') or ''),
        'scales': flags.get('eval_scales') or [1.0],
        'flips': bool(flags.get('add_flipped_images')),
        'moving averages': bool(content.get('moving_average', flags.get('use_moving_average'))),
        'window': flags.get('window'),
        'precision': str(flags.get('precision') or 'float32'),
        'export': network_source.at(checkpoint).label,
    }
    for name, key, flag in _WRITTEN_SINCE:
        if key in content or flag in flags:
            settings[name] = content[key] if key in content else flags[flag]
    return settings
