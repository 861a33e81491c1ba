"""Results of `python -m benchmarks`: JSON, tables, comparison with a stored run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import figures
from benchmarks.measuring import OPERATIONS, OURS, REFERENCES
from benchmarks.processes import Figures
from benchmarks.rows import Row

Measured = Mapping[str, Sequence[Figures]]


def as_json(row: Row, measured: Measured, load: Mapping[str, float]) -> dict[str, Any]:
    """Returns a row's result: every measurement of each variant, ratios, and whether the goal is reached."""
    fastest = fastest_of(measured)
    ratios = {name: _ratio(measured, name) for name in _ours(measured)}
    return {
        'title': row.title,
        'measures': row.measures,
        'goal': {name: value for name, value in dataclasses.asdict(row.goal).items() if value is not None},
        'reached': reached(row, measured),
        'fastest': fastest,
        'load_before': dict(load),
        'original_by_ours': {name: ratio._asdict() for name, ratio in ratios.items() if ratio},
        'variants': {name: [dataclasses.asdict(each) for each in found] for name, found in measured.items()},
    }


def measured_of(result: Mapping[str, Any]) -> dict[str, list[Figures]]:
    """Returns the measurements in a row's JSON."""
    return {name: [Figures(**each) for each in found] for name, found in result['variants'].items()}


def _ours(measured: Measured) -> list[str]:
    return [name for name in measured if name not in REFERENCES]


def _reference(measured: Measured) -> Sequence[Figures] | None:
    """Returns the measurements of the original, or of what stands in for it; None if there are none."""
    return next((measured[name] for name in REFERENCES if name in measured), None)


def fastest_of(measured: Measured) -> str:
    """Returns the fastest variant of ours."""
    return min(_ours(measured), key=lambda name: _median(measured[name]))


def _median(found: Sequence[Figures]) -> float:
    return figures.spread([each.seconds for each in found])[1]


def _ratio(measured: Measured, name: str) -> figures.Ratio | None:
    """Returns the time of the original by that of a variant; None if the original was not measured."""
    reference = _reference(measured)
    if reference is None:
        return None
    return figures.paired(*([each.seconds for each in side] for side in (reference, measured[name])))


def reached(row: Row, measured: Measured) -> bool | None:
    """Returns whether the fastest variant of ours reaches the row's goal; None if there is none or it is unknown."""
    name, goal = fastest_of(measured), row.goal
    ratio, peak = _ratio(measured, name), _peak(measured[name])
    checks = []
    if goal.ratio is not None and ratio is not None:
        checks.append(ratio.value >= goal.ratio)
    if goal.seconds is not None:
        checks.append(_median(measured[name]) <= goal.seconds)
    if goal.peak_bytes is not None and peak is not None:
        checks.append(peak <= goal.peak_bytes)
    return all(checks) if checks else None


def _peak(found: Sequence[Figures]) -> int | None:
    """Returns the largest peak memory, in bytes."""
    return max((each.peak_bytes for each in found if each.peak_bytes), default=None)


_HEAD = ('', 'seconds: median (min to max)', 'original', 'original / ours', 'goal', '', 'peak memory', 'original')


def table(results: Mapping[str, tuple[Row, Measured]]) -> list[str]:
    """Returns the lines of the table: a line for each variant of ours."""
    lines = [_HEAD]
    for row, measured in results.values():
        for name in _ours(measured):
            ratio = _ratio(measured, name)
            is_fastest = name == fastest_of(measured)
            goal = {True: 'reached', False: 'not reached', None: ''}[reached(row, measured)] if is_fastest else ''
            lines.append(
                (
                    row.title + name.removeprefix(OURS),
                    _seconds(measured[name]),
                    _seconds(_reference(measured)) + ('*' if OPERATIONS in measured else ''),
                    str(ratio) if ratio else '-',
                    str(row.goal) or '-',
                    goal,
                    _gigabytes(measured[name]),
                    _gigabytes(_reference(measured)),
                )
            )
    notes = ["* a graph with the original's operations, in its TensorFlow"]
    return aligned(lines) + (notes if any(OPERATIONS in measured for _, measured in results.values()) else [])


def aligned(lines: Sequence[tuple[str, ...]]) -> list[str]:
    """Returns lines of columns of equal width."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ['  '.join(map(str.ljust, line, widths)).rstrip() for line in lines]


def _seconds(found: Sequence[Figures] | None) -> str:
    if not found:
        return '-'
    low, median, high = figures.spread([each.seconds for each in found])
    return f'{median:.3f} ({low:.3f} to {high:.3f})'


def _gigabytes(found: Sequence[Figures] | None) -> str:
    peak = _peak(found or ())
    return '-' if peak is None else f'{peak / 1e9:.2f} GB'


_COMPARED = ('', 'seconds', 'before', 'now / before', '', 'memory: now / before', '')


def comparison(results: Mapping[str, tuple[Row, Measured]], stored: Mapping[str, Any]) -> list[str]:
    """Returns the lines of the comparison with a stored run: ratios of each variant, and what is outside the noise."""
    lines = [_COMPARED]
    for name, (row, measured) in results.items():
        before = measured_of(stored['rows'][name]) if name in stored['rows'] else {}
        for variant in measured.keys() & before.keys():
            times = [[each.seconds for each in side[variant]] for side in (measured, before)]
            peaks = [[each.peak_bytes for each in side[variant] if each.peak_bytes] for side in (measured, before)]
            ratio = figures.unpaired(*times)
            memory = figures.unpaired(*peaks) if all(peaks) else None
            lines.append(
                (
                    row.title + ('' if variant == OURS else f', {variant.removeprefix(f"{OURS}, ")}'),
                    f'{figures.spread(times[0])[1]:.3f}',
                    f'{figures.spread(times[1])[1]:.3f}',
                    str(ratio),
                    _note(ratio),
                    str(memory) if memory else '-',
                    _note(memory),
                )
            )
    return aligned(lines) if len(lines) > 1 else ['The stored run has none of these rows.']


def _note(ratio: figures.Ratio | None) -> str:
    """Describes a ratio whose interval excludes 1."""
    if ratio is None or not ratio.differs:
        return ''
    return 'more' if ratio.value > 1 else 'less'


def load(path: str) -> dict[str, Any]:
    """Reads a stored run.

    Raises:
      ValueError: the file has none.
    """
    try:
        with open(path, encoding='utf-8') as file:
            stored = json.load(file)
        if not isinstance(stored['rows'], dict):
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError(f'{path!r} is not a result of python -m benchmarks.') from None
    return stored
