"""Metrics files of a run (metrics-STEP.json of validation and eval): those whose figures can be compared."""

from __future__ import annotations

import dataclasses
import functools
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
    ('output stride', 'output_stride', 'output_stride'),
    ('minimum size', 'min_resize_value', 'min_resize_value'),
    ('maximum size', 'max_resize_value', 'max_resize_value'),
    ('resize factor', 'resize_factor', 'resize_factor'),
    ('records', 'records', 'records'),
)

_LONGEST = 19  # characters of a value, such as a digest


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The metrics of one checkpoint, as validation or eval wrote them.

    Attributes:
      source: path of the file.
      changed: time of its last change.
      content: content of the file.
    """

    step: int
    source: str
    changed: float
    content: Mapping[str, Any]

    @functools.cached_property
    def settings(self) -> dict[str, Any]:
        """What determines the figures, by name, as far as the file says it; the split is empty if it does not."""
        flags = self.content.get('flags')
        flags = flags if isinstance(flags, Mapping) else {}
        checkpoint = str(self.content.get('checkpoint') or '')
        settings: dict[str, Any] = {
            'split': str(self.content.get('split') or flags.get('eval_split') or ''),
            'scales': flags.get('eval_scales') or [1.0],
            'flips': bool(flags.get('add_flipped_images')),
            'moving averages': bool(self.content.get('moving_average', flags.get('use_moving_average'))),
            'window': flags.get('window'),
            'precision': str(self.content.get('precision') or flags.get('precision') or 'float32'),
            'export': network_source.at(checkpoint).label,
        }
        for name, key, flag in _WRITTEN_SINCE:
            if key in self.content or flag in flags:
                settings[name] = self.content[key] if key in self.content else flags[flag]
        return settings


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
    groups: dict[str, dict[int, Evaluation]] = {}  # by settings, then by step
    for evaluation in sorted(_files(folders), key=lambda each: each.changed):
        groups.setdefault(json.dumps(evaluation.settings, sort_keys=True), {})[evaluation.step] = evaluation
    by_size = sorted(groups.values(), key=lambda group: (len(group), max(e.changed for e in group.values())))
    chosen: list[Evaluation] = []
    settings, left_out, differing = dict[str, Any](), 0, dict[str, None]()
    for group in reversed(by_size):
        their_settings = next(iter(group.values())).settings
        contradictions = differences(settings, their_settings)
        if contradictions:
            left_out += len(group)
            differing |= dict.fromkeys(contradictions)
        else:
            settings = {**their_settings, **settings}
            chosen += group.values()
    newest = {each.step: each for each in sorted(chosen, key=lambda each: each.changed)}
    return Curve([newest[step] for step in sorted(newest)], settings, left_out, tuple(differing))


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Returns the names of the settings that both have, with different values."""
    return [name for name, value in one.items() if other.get(name, value) != value]


def _listed(settings: Mapping[str, Any], chosen: Sequence[str]) -> str:
    """Formats some settings as a list, such as `split val, crop size 361 x 481`."""
    return ', '.join(f'{name} {_shown(settings[name])}' for name in chosen)


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: 'not set', True: 'yes', False: 'no'}[value]
    if isinstance(value, list):
        return (', ' if any(isinstance(each, float) for each in value) else ' x ').join(map(_shown, value))
    text = str(value)
    return names.shown(f'{text[:_LONGEST]}...' if len(text) > _LONGEST else text) or 'not named'


def _files(folders: Sequence[str]) -> Iterator[Evaluation]:
    for folder in dict.fromkeys(os.path.normpath(folder) for folder in folders):
        for path in sorted(glob.glob(os.path.join(glob.escape(folder), 'metrics-*.json'))):
            content = evaluation_rounds.read_json(path)
            step = content.get('global_step')
            if isinstance(step, int) and isinstance(content.get('class_iou'), dict):
                yield Evaluation(step, path, os.path.getmtime(path), content)
