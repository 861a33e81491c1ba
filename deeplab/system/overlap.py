"""Work in threads beside the caller's: reading ahead, a parallel map that keeps the order, and a background writer.

Threads suffice where the work reads files, decodes images or runs a network: these release the interpreter lock. All
bounds are explicit, because a result that waits takes memory.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import itertools
import math
from collections.abc import Callable, Generator, Iterable
from typing import Generic, ParamSpec, Self, TypeVar

_Item = TypeVar('_Item')
_Mapped = TypeVar('_Mapped')
_Arguments = ParamSpec('_Arguments')


def map_in_order(
    function: Callable[[_Item], _Mapped],
    items: Iterable[_Item],
    workers: int,
    ahead: int,
    size_of: Callable[[_Item], float] = lambda item: 0,
    max_size: float = math.inf,
) -> Generator[_Mapped, None, None]:
    """Maps a function in threads and yields the results in the order of the items.

    Closing the generator early waits for the calls that run and cancels the others. Use `contextlib.closing` around a
    loop that may end early.

    Args:
      function: called in the threads.
      items: arguments of the calls; taken from the iterable in the caller's thread, as calls begin.
      workers: number of threads.
      ahead: number of calls that run or have a result waiting while the caller uses an earlier result.
      size_of: size of an item's result, such as its bytes.
      max_size: largest sum of sizes of calls that run or wait; a single larger one runs alone.

    Yields:
      The results.

    Raises:
      Exception: what a call raised, in the place of its result.
    """
    pending: collections.deque[tuple[float, concurrent.futures.Future[_Mapped]]] = collections.deque()
    pool = concurrent.futures.ThreadPoolExecutor(workers)
    try:
        for item in items:
            size = size_of(item)
            while pending and size + _total(pending) > max_size:
                yield pending.popleft()[1].result()
            pending.append((size, pool.submit(function, item)))
            if len(pending) > ahead:
                yield pending.popleft()[1].result()
        while pending:
            yield pending.popleft()[1].result()
    finally:
        pool.shutdown(cancel_futures=True)


def read_ahead(items: Iterable[_Item], ahead: int) -> Generator[_Item, None, None]:
    """Yields the items of an iterable that a thread iterates over, up to `ahead` of them before they are needed.

    Closing the generator early closes the iterable, if it is a generator.
    """
    iterator = iter(items)
    end = object()
    read = map_in_order(lambda _: next(iterator, end), itertools.count(), 1, ahead)
    with contextlib.ExitStack() as stack:
        if isinstance(iterator, Generator):
            stack.callback(iterator.close)
        stack.callback(read.close)  # first, so that the thread no longer runs the iterable when it is closed
        for item in read:
            if item is end:
                return
            yield item  # type: ignore[misc]  # not the end


class Background(Generic[_Arguments]):
    """Calls a function in threads while the caller continues; all calls are done at the end of its `with` block.

    What a call raises is raised by a later `add` or at the end of the block; calls that have not begun are then
    canceled, also if the block itself raises.
    """

    def __init__(
        self,
        function: Callable[_Arguments, object],
        workers: int,
        max_calls: int,
        size_of: Callable[_Arguments, float] = lambda *args, **kwargs: 0,
        max_size: float = math.inf,
    ) -> None:
        """Creates the object.

        Args:
          function: the function.
          workers: number of threads; a single one makes the calls in order.
          max_calls: largest number of calls that run or wait.
          size_of: size of a call's arguments, such as their bytes.
          max_size: largest sum of sizes of calls that run or wait; a single larger one runs alone.
        """
        self._function, self._max_calls, self._size_of, self._max_size = function, max_calls, size_of, max_size
        self._pool = concurrent.futures.ThreadPoolExecutor(workers)
        self._pending: collections.deque[tuple[float, concurrent.futures.Future[object]]] = collections.deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Waits for all calls; after an error, cancels calls that have not begun."""
        try:
            while kind is None and self._pending:
                self._pending.popleft()[1].result()
        finally:
            self._pool.shutdown(cancel_futures=True)

    def add(self, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> None:
        """Leaves a call to the threads as soon as there is room; raises the error of an earlier call, if any."""
        size = self._size_of(*args, **kwargs)
        while len(self._pending) >= self._max_calls or self._pending and size + _total(self._pending) > self._max_size:
            self._pending.popleft()[1].result()
        self._pending.append((size, self._pool.submit(self._function, *args, **kwargs)))


def _total(pending: Iterable[tuple[float, object]]) -> float:
    return sum(size for size, _ in pending)
