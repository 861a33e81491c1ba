"""Blocks of pixels whose intermediate results stay in the cache of a processor core, and need no new memory."""

from __future__ import annotations

from collections.abc import Iterator

_PIXELS = 2**14


def of(size: int) -> Iterator[slice]:
    """Yields the slices of `size` pixels in a row."""
    return (slice(first, first + _PIXELS) for first in range(0, size, _PIXELS))
