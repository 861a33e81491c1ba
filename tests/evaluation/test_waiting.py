"""Waiting for checkpoints: conditions, timeouts and log messages."""

import contextlib
import itertools
import os

import pytest

from deeplab.errors import CheckpointError
from deeplab.evaluation import waiting
from deeplab.files import folder_lock
from deeplab.options import WaitOptions
from tests.helpers import evaluation_setup as setup


class World:
    """A fake clock that sleeping advances, with events at given seconds."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        self.events = {}
        monkeypatch.setattr(waiting, '_POLL_SECS', 10.0)
        monkeypatch.setattr(waiting.time, 'monotonic', lambda: self.now)
        monkeypatch.setattr(waiting.time, 'sleep', self.sleep)

    def sleep(self, seconds):
        assert self.now < 10_000, 'it waits for ever'
        self.now += seconds
        for at in [at for at in self.events if at <= self.now]:
            self.events.pop(at)()


@pytest.fixture
def world(monkeypatch, caplog):
    caplog.set_level('INFO', logger='absl')
    return World(monkeypatch)


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / 'train')


def steps(folder, **wait):
    return [int(path.rpartition('-')[2]) for path in waiting.rounds(folder, WaitOptions(**wait))]


def save_at(world, folder, *seconds):
    """A checkpoint of each of these steps, at the second of that number."""
    for second in seconds:
        world.events[second] = lambda step=second: (
            os.makedirs(folder, exist_ok=True) or setup.write_checkpoint(folder, step)
        )


def test_an_archive_as_it_was_unpacked_is_a_folder_of_its_checkpoints(world, folder, tmp_path):
    os.makedirs(folder)
    setup.write_checkpoint(folder, 7)
    assert steps(str(tmp_path), max_rounds=1) == [7]
    assert world.now == 0


@pytest.mark.parametrize('exists', [False, True])
def test_one_round_ends_where_nothing_trains(world, folder, tmp_path, caplog, exists):
    if exists:
        os.makedirs(folder)
    os.makedirs(tmp_path / 'scratch')
    setup.write_checkpoint(tmp_path / 'scratch')
    with pytest.raises(CheckpointError) as error:
        steps(folder, max_rounds=1)
    assert world.now == pytest.approx(waiting.START_SECS)
    for part in (f"'{folder}' within 60 seconds, and no training run is active there", 'checkpoint_dir', 'scratch.'):
        assert part in str(error.value)
    assert ('The folder does not exist' in str(error.value)) is not exists
    (line,) = caplog.messages
    assert f"a first checkpoint in '{folder}'" in line
    assert 'because no training run is active there; set timeout_secs' in line
    assert ('does not exist yet' in line) is not exists


def test_a_training_that_starts_late_and_takes_long(world, folder, caplog):
    lock = contextlib.ExitStack()
    world.events[50] = lambda: lock.enter_context(folder_lock.held(folder, 'train', 'train_logdir'))
    save_at(world, folder, 1000)
    with lock:
        assert steps(folder, max_rounds=1) == [1000]
        assert f'process {os.getpid()} on' in caplog.text
        assert 'as long as it runs' in caplog.text


def test_a_training_that_ends_without_a_checkpoint(world, folder):
    lock = contextlib.ExitStack()
    lock.enter_context(folder_lock.held(folder, 'train', 'train_logdir'))
    world.events[100] = lock.close
    with pytest.raises(CheckpointError, match='of the training run that was active there'):
        steps(folder, max_rounds=1)
    assert world.now == pytest.approx(100 + waiting.START_SECS)


def test_fewer_checkpoints_than_rounds_end_with_the_training(world, folder):
    lock = contextlib.ExitStack()
    lock.enter_context(folder_lock.held(folder, 'train', 'train_logdir'))
    save_at(world, folder, 5, 350)
    world.events[400] = lock.close
    assert steps(folder, max_rounds=7) == [5, 350]


def test_a_training_that_cannot_be_seen_is_waited_for_between_rounds(world, folder):
    save_at(world, folder, 5, 1000)
    assert steps(folder, max_rounds=2) == [5, 1000]


def test_the_interval_counts_from_the_start_of_a_round_and_the_last_round_has_none(world, folder):
    save_at(world, folder, 0, 150)
    begun = []
    for _ in waiting.rounds(folder, WaitOptions(max_rounds=2, interval_secs=300)):
        begun.append(world.now)
        world.sleep(100)
    assert begun == [10, 310]
    assert world.now == 410


def test_without_a_number_of_rounds_it_waits_for_ever(world, folder, caplog):
    save_at(world, folder, 1000)
    rounds = waiting.rounds(folder, WaitOptions())
    assert len(list(itertools.islice(rounds, 1))) == 1
    assert sum('forever; stop with Ctrl-C, or set timeout_secs' in line for line in caplog.messages) == 4


def test_a_timeout_rules(world, folder, caplog):
    with folder_lock.held(folder, 'train', 'train_logdir'):
        with pytest.raises(CheckpointError, match=r'within 7 seconds \(timeout_secs\)'):
            steps(folder, max_rounds=1, timeout_secs=7)
    assert world.now == 7
    assert 'timeout_secs=7)' in caplog.text
    save_at(world, folder, 9)
    assert steps(folder, timeout_secs=1000) == [9]
    assert 'Next check for a new checkpoint at' in caplog.text


def test_the_folder_of_the_best_checkpoint_belongs_to_the_training_above_it(world, folder):
    save_at(world, os.path.join(folder, 'best'), 500)
    with folder_lock.held(folder, 'train', 'train_logdir'):
        assert steps(os.path.join(folder, 'best'), max_rounds=1) == [500]


def test_a_single_checkpoint_that_does_not_exist_is_not_awaited(world, folder):
    os.makedirs(folder)
    setup.write_checkpoint(folder, 7)
    with pytest.raises(CheckpointError, match="There is no checkpoint '.*model.ckpt-8'"):
        next(waiting.rounds(f'{folder}/model.ckpt-8', WaitOptions()))
    assert world.now == 0
