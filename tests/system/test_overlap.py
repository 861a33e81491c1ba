"""Reading ahead, the parallel map that keeps the order, and calls in the background."""

import contextlib
import threading
import time

import pytest

from deeplab.system import overlap

RELEASE_SECS = 10


@pytest.fixture(autouse=True)
def _threads_end():
    before = threading.active_count()
    yield
    assert threading.active_count() == before


class Calls:
    """A function that notes the largest number of calls at a time, and how many have begun."""

    def __init__(self, failing=()):
        self.begun, self.at_once, self.most_at_once = [], 0, 0
        self._failing, self._lock = failing, threading.Lock()

    def __call__(self, number):
        with self._lock:
            self.begun.append(number)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        time.sleep(0.001 * (number % 3))
        with self._lock:
            self.at_once -= 1
        if number in self._failing:
            raise ValueError(f'bad {number}')
        return -number


@pytest.mark.parametrize(('workers', 'ahead'), [(1, 0), (1, 2), (2, 1), (2, 8), (4, 4)])
def test_a_map_keeps_the_order_and_its_bounds(workers, ahead):
    calls, results = Calls(), []
    for result in overlap.map_in_order(calls, range(60), workers, ahead):
        results.append(result)
        assert len(calls.begun) <= len(results) + ahead
    assert results == [-number for number in range(60)]
    assert calls.most_at_once <= workers


def test_a_map_begins_calls_as_its_items_arrive():
    taken = []
    results = overlap.map_in_order(lambda item: item, (taken.append(i) or i for i in range(9)), 1, 2)
    assert taken == []
    assert next(results) == 0 and taken == [0, 1, 2]
    assert next(results) == 1 and taken == [0, 1, 2, 3]
    results.close()


@pytest.mark.parametrize(('max_size', 'begun'), [(100, 5), (30, 3), (29, 2), (5, 1)])
def test_sizes_bound_a_map_and_a_large_item_runs_alone(max_size, begun):
    calls = Calls()
    results = overlap.map_in_order(calls, range(50), 2, 4, lambda number: 10, max_size)
    assert next(results) == 0
    time.sleep(0.05)
    assert len(calls.begun) == begun
    assert list(results) == [-number for number in range(1, 50)]


def test_a_map_raises_in_the_place_of_a_result_and_can_be_left():
    calls = Calls(failing=(2,))
    results = overlap.map_in_order(calls, range(1000), 1, 3)
    assert [next(results), next(results)] == [0, -1]
    with pytest.raises(ValueError, match='bad 2'):
        next(results)
    calls = Calls()
    with contextlib.closing(overlap.map_in_order(calls, range(1000), 1, 3)) as results:
        next(results)
    assert len(calls.begun) < 9


def test_reading_ahead():
    read, threads = [], set()

    def numbers():
        for number in range(9):
            read.append(number)
            threads.add(threading.current_thread())
            yield number

    items = []
    for item in overlap.read_ahead(numbers(), 3):
        items.append(item)
        assert len(read) <= len(items) + 3
    assert items == list(range(9))
    assert len(threads) == 1 and threading.current_thread() not in threads
    assert list(overlap.read_ahead([None, None], 5)) == [None, None]
    assert list(overlap.read_ahead([], 1)) == []


def test_reading_ahead_closes_what_it_reads():
    closed = []

    def numbers(last):
        try:
            yield from range(last)
            raise ValueError('broken')
        finally:
            closed.append(last)

    with contextlib.closing(overlap.read_ahead(numbers(99), 2)) as items:
        assert [next(items), next(items)] == [0, 1]
    assert closed == [99]
    items = overlap.read_ahead(numbers(1), 2)
    assert next(items) == 0
    with pytest.raises(ValueError, match='broken'):
        next(items)
    assert closed == [99, 1]


def test_calls_in_the_background_are_made_in_order_beside_the_caller():
    done, started, go_on = [], threading.Event(), threading.Event()

    def work(number, name=None):
        started.set()
        assert go_on.wait(RELEASE_SECS)
        done.append((number, name, threading.current_thread() is threading.main_thread()))

    with overlap.Background(work, 1, 2) as background:
        background.add(0)
        assert started.wait(RELEASE_SECS)
        background.add(1, name='one')
        assert done == []
        go_on.set()
        for number in range(2, 9):
            background.add(number)
    assert [call[0] for call in done] == list(range(9)) and done[1][1] == 'one'
    assert not any(call[2] for call in done)


@pytest.mark.parametrize(('max_calls', 'max_size', 'most'), [(1, 100, 1), (3, 100, 3), (9, 25, 2), (9, 5, 1)])
def test_calls_in_the_background_are_bounded(max_calls, max_size, most):
    calls, added = Calls(), 0
    with overlap.Background(calls, 4, max_calls, lambda number: 10, max_size) as background:
        for number in range(30):
            background.add(number)
            added += 1
    assert sorted(calls.begun) == list(range(30)) and calls.most_at_once <= most


def test_errors_in_the_background_and_of_the_caller():
    with pytest.raises(ValueError, match='bad 0'), overlap.Background(Calls((0, 1)), 1, 2) as background:
        background.add(0)
        background.add(1)
    calls = Calls((0,))
    with pytest.raises(ValueError, match='bad 0'), overlap.Background(calls, 1, 2) as background:
        for number in range(100):
            background.add(number)
    assert len(calls.begun) < 4
    with pytest.raises(KeyError, match='mine'), overlap.Background(Calls((0,)), 1, 2) as background:
        background.add(0)
        raise KeyError('mine')
