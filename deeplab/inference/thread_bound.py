"""Context managers that are entered and left in a thread of their own.

The default graph of TensorFlow belongs to a thread, and graphs must be left in the reverse order. A network that stays
open between two calls would change the default graph of the thread that has opened it.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import ctypes
import functools
import os
import queue
import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Generic, TypeVar

T = TypeVar('T')
Future = concurrent.futures.Future[Any]
Jobs = queue.SimpleQueue[tuple[Future, Callable[[], Any]] | None]


def require_process(process: int) -> None:
    """Raises `RuntimeError` if this process is a fork of `process`, which has none of its threads."""
    if os.getpid() != process:
        raise RuntimeError(
            f'The network was opened in process {process} and cannot be used in its fork {os.getpid()}. Open the '
            'predictor in each process, and none before the fork; or start processes with the method "spawn".'
        )


class ThreadBound(Generic[T]):
    """What a context manager gives, until `close` is called, nothing refers to the object any more, or Python ends.

    A fork of the process, which lacks the thread, can neither use nor close it.
    """

    def __init__(self, manager: Callable[[], AbstractContextManager[T]]) -> None:
        """Makes and enters a context manager in a new thread; raises what that raises."""
        self._process = os.getpid()
        self._jobs: Jobs = queue.SimpleQueue()
        # A daemon does not keep Python from ending.
        threading.Thread(target=_work, args=(self._jobs,), daemon=True).start()
        stack = contextlib.ExitStack()
        try:
            self._value: T = _submitted(self._jobs, lambda: stack.enter_context(manager())).result()
        except BaseException:
            self._jobs.put(None)
            raise
        # Otherwise the context manager would be left in the thread in which Python happens to collect garbage.
        self._leave = weakref.finalize(self, _leave, self._jobs, stack, self._process)
        self._leave.atexit = False  # `close` waits until it is left
        _open_objects().add(self)

    @property
    def value(self) -> T:
        """What the context manager gives.

        Raises:
          RuntimeError: The process is a fork of the one in which it was entered.
        """
        require_process(self._process)
        return self._value

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Returns `function(*arguments)`, called in the thread; one call at a time.

        Raises:
          RuntimeError: See `value`.
          ValueError: It is closed.
        """
        require_process(self._process)
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


def _leave(jobs: Jobs, stack: contextlib.ExitStack, process: int) -> Future | None:
    """Leaves a context manager in its thread, and ends the thread; does nothing in a fork of the process."""
    if os.getpid() != process:
        # Python would otherwise leave it when it ends, and closing a session waits for threads that a fork lacks.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(stack))
        return None
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
