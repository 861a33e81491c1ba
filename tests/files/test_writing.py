"""Files that are written completely or not at all, and what processes that have ended left of theirs."""

import errno
import os
import pathlib
import subprocess
import sys
import time

import pytest

from deeplab.core import checkpoints
from deeplab.datasets import build_data
from deeplab.files import writing
from tests.datasets import test_build_data


@pytest.fixture(scope='module')
def ended():
    """The id of a process that has ended."""
    process = subprocess.Popen([sys.executable, '-c', ''])
    process.wait()
    return process.pid


@pytest.mark.parametrize('content', ['n\u00e9w', 'n\u00e9w'.encode()])
def test_a_file_replaces_the_old_one_when_it_is_complete(tmp_path, monkeypatch, content):
    path = tmp_path / 'notes.txt'
    path.write_text('old')

    def replace(temporary, target, rename=os.replace):
        assert path.read_text() == 'old' and pathlib.Path(temporary).read_text('utf-8') == 'n\u00e9w'
        rename(temporary, target)

    monkeypatch.setattr(os, 'replace', replace)
    writing.write(path, content)
    assert path.read_text('utf-8') == 'n\u00e9w'
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize('error', [OSError('full'), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / 'notes.txt'
    path.write_text('old')
    with pytest.raises(type(error)), writing.atomic_path(path) as temporary:
        pathlib.Path(temporary).write_text('half')
        raise error
    assert path.read_text() == 'old'
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_rename_leaves_nothing(tmp_path):
    (tmp_path / 'folder').mkdir()
    (tmp_path / 'folder' / 'file').write_text('')
    with pytest.raises(OSError):
        writing.write(tmp_path / 'folder', 'text')
    assert os.listdir(tmp_path) == ['folder']


def test_several_files_appear_together(tmp_path):
    paths = [tmp_path / 'a', tmp_path / 'b']
    with pytest.raises(ZeroDivisionError), writing.atomic_paths(paths) as temporaries:
        for temporary in temporaries:
            pathlib.Path(temporary).write_text('half')
        raise ZeroDivisionError
    assert not os.listdir(tmp_path)
    with writing.atomic_paths(paths) as temporaries:
        for temporary in temporaries:
            pathlib.Path(temporary).write_text('whole')
        assert not any(path.exists() for path in paths)
    assert sorted(os.listdir(tmp_path)) == ['a', 'b']


def test_a_folder_that_an_earlier_process_of_this_number_began(tmp_path):
    stale = pathlib.Path(writing.temporary_name(tmp_path / 'set'))
    stale.mkdir()
    (stale / 'half').write_text('')
    with writing.atomic_path(tmp_path / 'set') as temporary:
        os.mkdir(temporary)
    assert [path.name for path in tmp_path.rglob('*')] == ['set']


def test_only_what_ended_processes_left_of_our_files_goes(tmp_path, ended):
    running = os.getppid()
    for name in (f'a.png.{ended}.partial', f'a.png.{running}.partial', f'a.txt.{ended}.partial', 'b.png', 'c.partial'):
        (tmp_path / name).write_text('')
    (tmp_path / f'd.png.{ended}.partial').mkdir()
    (tmp_path / f'd.png.{ended}.partial' / 'inside').write_text('')
    removed = writing.remove_leftovers(str(tmp_path), r'.+\.png')
    assert removed == [str(tmp_path / f'{name}.png.{ended}.partial') for name in 'ad']
    assert {path.name for path in tmp_path.iterdir()} == {
        f'a.png.{running}.partial', f'a.txt.{ended}.partial', 'b.png', 'c.partial',
    }  # fmt: skip


def test_one_of_this_process_s_number_was_left_by_an_earlier_process(tmp_path):
    """As in a container, where each run has the same process id."""
    path = writing.temporary_name(str(tmp_path / 'a'))
    open(path, 'w').close()
    assert writing.remove_leftovers(str(tmp_path), 'a') == [path]


def test_what_another_machine_writes_in_a_shared_folder_stays_for_a_day(tmp_path, ended, monkeypatch):
    monkeypatch.setattr(writing, '_machine', lambda: '1111')
    ours, theirs = tmp_path / f'a.{ended}-1111.partial', tmp_path / f'a.{os.getpid()}-0000.partial'
    for path in (ours, theirs):
        path.mkdir()
        (path / 'inside').write_text('')
    assert writing.leftovers(str(tmp_path), 'a') == [str(ours)]
    two_days_ago = time.time() - 48 * 3600
    os.utime(theirs, (two_days_ago, two_days_ago))
    assert writing.leftovers(str(tmp_path), 'a') == [str(ours)]  # the file in the folder is new
    os.utime(theirs / 'inside', (two_days_ago, two_days_ago))
    assert sorted(writing.leftovers(str(tmp_path), 'a')) == sorted(map(str, (ours, theirs)))


def test_names_that_are_not_in_utf_8_keep_their_bytes(tmp_path):
    writing.write(tmp_path / 'list.txt', 'é caf\udce9.jpg')
    assert (tmp_path / 'list.txt').read_bytes() == b'\xc3\xa9 caf\xe9.jpg'


def test_no_folder():
    assert writing.remove_leftovers('nowhere', '.+') == []


def test_a_builder_removes_what_a_killed_one_left(tmp_path, ended):
    out = tmp_path / 'out'
    out.mkdir()
    for owner in (ended, os.getppid()):
        (out / f'val-00000-of-00001.tfrecord.{owner}.partial').write_text('half')
    build_data.write_split(test_build_data.make_items(tmp_path, 1), 'val', str(out), 1)
    left = [f'val-00000-of-00001.tfrecord.{os.getppid()}.partial', 'val-00000-of-00001.tfrecord']
    assert sorted(path.name for path in out.glob('val-*')) == sorted(left)


def test_training_removes_what_a_killed_one_left(tmp_path, ended):
    for name in ('run.json', 'metrics.jsonl', 'graph.pbtxt', 'checkpoint', 'notes.txt'):
        (tmp_path / f'{name}.{ended}.partial').write_text('half')
    checkpoints.remove_leftovers(str(tmp_path))
    assert os.listdir(tmp_path) == [f'notes.txt.{ended}.partial']


def test_nothing_to_remove_on_a_disk_that_is_read_only(tmp_path, monkeypatch):
    def refuse(path):
        raise OSError(errno.EROFS, 'Read-only file system', path)

    monkeypatch.setattr(os, 'remove', refuse)
    writing.remove(str(tmp_path / 'none'))
