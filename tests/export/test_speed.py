"""Measurement of the speed of an export, with a clock of its own."""

import types

import pytest

from deeplab.export import speed
from deeplab.system import processors


@pytest.mark.parametrize(
    ('seconds', 'expected'),
    [
        (5.5, [3, 1, 1, 1, 1, 1, 1]),  # six runs begin 0 to 5 seconds after the first one
        (3.5, [3, 1, 1, 1, 1]),
        (0, [3, 1, 1, 1]),  # at least three
    ],
)
def test_runs_are_timed_for_some_seconds_after_the_first(seconds, expected, monkeypatch):
    clock = types.SimpleNamespace(now=100.0)
    monkeypatch.setattr(speed, 'time', types.SimpleNamespace(perf_counter=lambda: clock.now))
    durations = iter([3, *[1] * 20])  # the first run takes longer

    def run():
        clock.now += next(durations)

    assert speed.timed(run, seconds) == expected


def test_a_number_of_threads_limits_all_libraries(monkeypatch):
    environments = []
    monkeypatch.setattr(speed.children, 'call', lambda *_, environment, **__: environments.append(environment))
    for threads in (None, 2):
        speed.measured('m.tflite', 'tflite', threads)
    assert environments == [{}, processors.thread_limit(2)]
