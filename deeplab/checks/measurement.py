"""Measurement of the samples of a split: each is read once, in threads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import tqdm

from deeplab.checks import sample_facts
from deeplab.checks.facts import Expected, Measured
from deeplab.checks.sources import Split
from deeplab.errors import DataError
from deeplab.system import overlap, processors

_CHUNK = 16  # samples that a thread measures at a time
_AHEAD = 64  # chunks


def measure(split: Split, expected: Expected) -> Measured:
    """Measures every sample of a split, in threads; Pillow and NumPy release the global interpreter lock."""
    found = Measured()
    for rule, case in split.missing:
        found.note(rule, case)
    total = len(split)
    found.samples = total + len(split.missing)

    def part(numbers: Iterable[int]) -> Measured:
        mine = Measured()
        for number in numbers:
            try:
                sample_facts.add(mine, number, split.read(number), expected)
            except DataError as error:
                mine.note('corrupt', str(error), number)
        return mine

    chunks = [range(start, min(start + _CHUNK, total)) for start in range(0, total, _CHUNK)]
    # The progress bar appears only in a terminal, and only if reading takes long.
    bar = tqdm.tqdm(total=total, desc=f'reading {split.name}', unit='image', delay=2, disable=None, leave=False)
    parts = overlap.map_in_order(part, chunks, processors.available_cores(), _AHEAD)
    with bar, contextlib.closing(parts):
        for chunk, measured in zip(chunks, parts, strict=True):
            found.add(measured)
            bar.update(len(chunk))
    return found
