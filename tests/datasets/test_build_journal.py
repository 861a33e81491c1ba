"""Builds that were killed, or whose inputs have partly changed.

Covers datasets/totals.py, too.
"""

import dataclasses
import errno
import os
import pathlib
import random
import signal
import threading
import time

import pytest
import tqdm

from deeplab.datasets import build_data, build_journal, build_voc2012_data, pairs
from deeplab.datasets.mask_sources import IdTable
from deeplab.errors import DataError
from deeplab.options import BuildVocOptions
from tests.datasets.test_build_data import contents, make_items
from tests.helpers import dataset_files


def interrupt():
    raise KeyboardInterrupt


def fail():
    raise DataError('a damaged image')


def killed_build(items, folder, shards, end=lambda: os._exit(9)):
    """Builds in a child process that ends when it has finished a number of shards: as if killed, or by `end`."""
    child = os.fork()
    if not child:
        write = build_data._write_shard
        build_data._write_shard = lambda shard, *more: end() if f'-0000{shards}-' in shard.path else write(shard, *more)
        try:
            build(items, folder)
        finally:
            os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def count_reads(monkeypatch):
    """The names of the items that are read from now on."""
    names, read = [], pairs.read
    monkeypatch.setattr(pairs, 'read', lambda item, allowed: (names.append(item.name), read(item, allowed))[1])
    return names


def build(items, folder, **settings):
    return build_data.write_split(items, 'train', str(folder), 4, **settings)


def visible(folder):
    """The names of shards, whether finished or not."""
    return sorted(path.name for path in pathlib.Path(folder).glob('[!.]*.tfrecord*'))


@pytest.mark.parametrize('ends', [{}, {'end': interrupt}, {'end': fail}], ids=['killed', 'interrupted', 'damaged'])
def test_a_build_that_was_killed_is_completed_and_has_the_same_bytes(tmp_path, monkeypatch, caplog, ends):
    items = make_items(tmp_path, 12)
    build(items, tmp_path / 'whole')
    killed_build(items, tmp_path / 'out', 2, **ends)
    assert not list((tmp_path / 'out').glob('*.tfrecord')) and len(visible(tmp_path / 'out')) == 2
    names = count_reads(monkeypatch)
    caplog.set_level('INFO')
    build(items, tmp_path / 'out')
    assert contents(tmp_path / 'out') == contents(tmp_path / 'whole')
    assert set(names) == {item.name for item in items[6:]}
    assert '2 of 4 shards exist already and are kept' in caplog.text
    assert visible(tmp_path / 'out') == list(contents(tmp_path / 'whole'))


def test_shards_are_kept_while_their_inputs_and_the_settings_are_the_same(tmp_path, monkeypatch, caplog):
    items = make_items(tmp_path, 8)
    build(items, tmp_path / 'out')
    names = count_reads(monkeypatch)
    build(items, tmp_path / 'out')
    assert not names
    image = pathlib.Path(items[2].image)
    image.write_bytes(dataset_files.png(dataset_files.pixels(8, 8, 99)))
    caplog.set_level('INFO')
    build(items, tmp_path / 'out')
    assert names == ['name_2', 'name_3']  # the records of its shard
    assert '1 existing shards are built again: their source files' in caplog.text
    build(items, tmp_path / 'new')
    assert contents(tmp_path / 'out') == contents(tmp_path / 'new')
    del names[:]
    build(items, tmp_path / 'out', num_classes=3)
    table = IdTable({i: i for i in range(256)})
    build(
        [pairs.SourceFiles(item.image, item.label, item.name, table) for item in items], tmp_path / 'out', num_classes=3
    )
    assert len(names) == 16


def test_shards_that_were_changed_or_are_not_known_are_built_again(tmp_path, caplog):
    items = make_items(tmp_path, 8)
    build(items, tmp_path / 'out')
    before = contents(tmp_path / 'out')
    caplog.set_level('INFO')
    (tmp_path / 'out' / 'train-00001-of-00004.tfrecord').write_bytes(b'broken')
    os.remove(tmp_path / 'out' / 'train-00002-of-00004.tfrecord')
    build(items, tmp_path / 'out')
    assert contents(tmp_path / 'out') == before
    assert '2 of 4 shards exist already' in caplog.text
    assert '1 existing shards are built again: they have been changed' in caplog.text
    journal = pathlib.Path(build_journal.path_of(tmp_path / 'out', 'train'))
    for text in ('', '{"shard": "train-00000-of-00004.tfrecord"}\n[]\n3\n{"sha', None):
        journal.unlink() if text is None else journal.write_text(text)
        build(items, tmp_path / 'out')
        assert contents(tmp_path / 'out') == before
    assert 'nothing is known of their source files' in caplog.text


def test_warnings_of_masks_do_not_depend_on_what_was_kept(tmp_path, caplog):
    items = make_items(tmp_path, 4)
    for item in items:
        pathlib.Path(item.label).write_bytes(dataset_files.png(dataset_files.ids(*[6, 8], classes=2) * 255))
        pathlib.Path(item.image).write_bytes(dataset_files.png(dataset_files.pixels()))
    for _ in range(2):
        caplog.clear()
        build(items, tmp_path / 'out', num_classes=2)
        assert 'contain only the ids 0 and 255' in caplog.text


def test_a_full_disk_says_what_is_needed_and_nothing_is_left(tmp_path, monkeypatch):
    items = make_items(tmp_path, 4)
    write = build_data._write_shard

    def full(*arguments):
        write(*arguments)
        raise OSError(errno.ENOSPC, 'No space left on device')

    monkeypatch.setattr(build_data, '_write_shard', full)
    with pytest.raises(
        DataError, match=r"No space left.* 'train' needs about [\d.]+ kB; [\d.]+ .B are free.*output_dir"
    ):
        build(items, tmp_path / 'out')
    assert not (tmp_path / 'out').exists()


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path):
    """No final name ever holds a broken shard, and the last run gives the bytes of an undisturbed one."""
    lists = {'train': [f't{i}' for i in range(150)], 'val': [f'v{i}' for i in range(90)]}
    options = BuildVocOptions(
        **dataset_files.write_voc(tmp_path, lists) | {'output_dir': str(tmp_path / 'whole')}, num_shards=9
    )
    begin = time.monotonic()
    build_voc2012_data.run(options)
    duration = time.monotonic() - begin
    whole, moments = contents(tmp_path / 'whole'), random.Random(0)
    interrupted = dataclasses.replace(options, output_dir=str(tmp_path / 'out'))
    for _ in range(20):
        child = os.fork()
        if not child:
            tqdm.tqdm.set_lock(threading.RLock())  # instead of one that it shares with this process, and dies with
            try:
                build_voc2012_data.run(interrupted)
            finally:
                os._exit(0)
        time.sleep(moments.uniform(0, duration / 4))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        there = contents(tmp_path / 'out') if (tmp_path / 'out').exists() else {}
        assert all(whole[name] == content for name, content in there.items())
    build_voc2012_data.run(interrupted)
    assert contents(tmp_path / 'out') == whole
    assert visible(tmp_path / 'out') == list(whole)
