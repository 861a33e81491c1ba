"""Context managers that are entered and left in a thread of their own.

The default graph of TensorFlow belongs to a thread, and graphs must be left in the reverse order. A network that stays
open between two calls would change the default graph of the thread that has opened it.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import functools
import queue
import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Generic, TypeVar

T = TypeVar('T')
Future = concurrent.futures.Future[Any]
Jobs = queue.SimpleQueue[tuple[Future, Callable[[], Any]] | None]


class ThreadBound(Generic[T]):
    """What a context manager gives, until `close` is called, nothing refers to the object any more, or Python ends.

    Attributes:
      value: what it gives.
    """

    def __init__(self, manager: Callable[[], AbstractContextManager[T]]) -> None:
        """Makes and enters a context manager in a new thread; raises what that raises."""
        self._jobs: Jobs = queue.SimpleQueue()
        # A daemon does not keep Python from ending.
        threading.Thread(target=_work, args=(self._jobs,), daemon=True).start()
        stack = contextlib.ExitStack()
        try:
            self.value: T = _submitted(self._jobs, lambda: stack.enter_context(manager())).result()
        except BaseException:
            self._jobs.put(None)
            raise
        # Otherwise the context manager would be left in the thread in which Python happens to collect garbage.
        self._leave = weakref.finalize(self, _leave, self._jobs, stack)
        self._leave.atexit = False  # `close` waits until it is left
        _open_objects().add(self)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Returns `function(*arguments)`, called in the thread; one call at a time."""
        if not self._leave.alive:
            raise ValueError('it is closed')
        return _submitted(self._jobs, functools.partial(function, *arguments)).result()

    def close(self) -> None:
        """Leaves the context manager; may be called twice."""
        leaving = self._leave()
        if leaving is not None:
            leaving.result()


def _submitted(jobs: Jobs, function: Callable[[], Any]) -> Future:
    """Lets the thread call a function after all earlier ones."""
    future: Future = concurrent.futures.Future()
    jobs.put((future, function))
    return future


def _work(jobs: Jobs) -> None:
    """Calls functions until there is None instead of one."""
    while (job := jobs.get()) is not None:
        future, function = job
        try:
            future.set_result(function())
        except BaseException as error:  # raised where the result is read
            future.set_exception(error)
        del job, future, function  # which may hold the object whose end they wait for


def _leave(jobs: Jobs, stack: contextlib.ExitStack) -> Future:
    """Leaves a context manager in its thread, and ends the thread."""
    leaving = _submitted(jobs, stack.close)
    jobs.put(None)
    return leaving


def _close_all(objects: weakref.WeakSet[ThreadBound[Any]]) -> None:
    for held in list(objects):
        held.close()


@functools.cache
def _open_objects() -> weakref.WeakSet[ThreadBound[Any]]:
    """Returns the objects that are closed when Python ends, if they still exist."""
    objects: weakref.WeakSet[ThreadBound[Any]] = weakref.WeakSet()
    atexit.register(_close_all, objects)
    return objects
