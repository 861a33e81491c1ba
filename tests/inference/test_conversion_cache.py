"""The cache of converted networks: keys, damage, folders that cannot be written, old entries."""

import errno
import os
import pathlib
import threading

import pytest

from deeplab.errors import DataError
from deeplab.inference import conversion_cache
from tests.helpers import evaluation_setup


def _write(content='network', calls=None):
    def convert(folder):
        if calls is not None:
            calls.append(folder)
        pathlib.Path(folder, 'model').write_text(content)

    return convert


def _converted(folder, convert, key='a' * 24):
    with conversion_cache.converted(key, [str(folder)], convert) as path:
        return path, pathlib.Path(path, 'model').read_text()


def test_a_network_is_converted_once(tmp_path):
    calls = []
    first = _converted(tmp_path, _write(calls=calls))
    assert _converted(tmp_path, _write('other', calls)) == first
    assert len(calls) == 1 and first[1] == 'network'
    assert sorted(os.listdir(tmp_path / '.engines')) == ['a' * 24]


@pytest.mark.parametrize('damage', ['cut', 'missing', 'no note'])
def test_a_damaged_network_is_converted_again(tmp_path, caplog, damage):
    path, _ = _converted(tmp_path, _write())
    file = pathlib.Path(path, 'note.json' if damage == 'no note' else 'model')
    file.unlink() if damage != 'cut' else file.write_text('netw')
    assert _converted(tmp_path, _write('new')) == (path, 'new')
    (line,) = caplog.messages
    assert path in line and 'damaged' in line
    assert _converted(tmp_path, _write('other')) == (path, 'new')


def test_a_conversion_that_fails_leaves_nothing(tmp_path):
    def convert(folder):
        _write()(folder)
        raise ValueError('no')

    with pytest.raises(ValueError):
        _converted(tmp_path, convert)
    assert os.listdir(tmp_path / '.engines') == []


def test_two_threads_do_not_take_each_others_work_for_a_leftover(tmp_path):
    begun, found = threading.Event(), []

    def convert(folder):
        begun.set()
        threading.Event().wait(0.2)  # time to remove it
        _write('first')(folder)

    first = threading.Thread(target=lambda: found.append(_converted(tmp_path, convert)))
    second = threading.Thread(target=lambda: found.append(_converted(tmp_path, _write('second'), 'b' * 24)))
    first.start()
    begun.wait()
    second.start()
    first.join()
    second.join()
    assert sorted(content for _, content in found) == ['first', 'second']


def test_a_full_disk_is_named_and_leaves_nothing(tmp_path):
    def convert(folder):
        raise OSError(errno.ENOSPC, 'No space left on device')

    with pytest.raises(DataError, match='No space left on device'):
        _converted(tmp_path, convert)
    assert os.listdir(tmp_path / '.engines') == []


def test_the_next_folder_or_a_temporary_one_is_used(tmp_path, caplog):
    (tmp_path / 'file').write_text('')
    bad = str(tmp_path / 'file')
    good = str(tmp_path / 'good')
    with conversion_cache.converted('b' * 24, [bad, good], _write()) as path:
        assert path.startswith(good)
    with conversion_cache.converted('b' * 24, [bad], _write()) as path:
        assert pathlib.Path(path, 'model').is_file()
    assert not os.path.exists(path) and 'not kept' in caplog.text


def test_networks_that_were_not_used_for_longest_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(conversion_cache, 'MOST_KEPT', 2)
    for i, key in enumerate('abc'):
        path, _ = _converted(tmp_path, _write(), key * 24)
        os.utime(os.path.join(path, 'note.json'), (i, i))
    assert sorted(os.listdir(tmp_path / '.engines')) == ['b' * 24, 'c' * 24]


def test_the_digest_of_a_checkpoint_follows_from_its_content(tmp_path):
    def digest(folder, **arguments):
        (tmp_path / folder).mkdir()
        return conversion_cache.digest_of_checkpoint(evaluation_setup.write_checkpoint(tmp_path / folder, **arguments))

    first = digest('a')
    assert digest('b') == first
    assert digest('c', weight=1.5) != first


def test_the_digest_of_code_sees_plugins(tmp_path):
    plugin = tmp_path / 'plugin.py'
    plugin.write_text('1')
    first = conversion_cache.digest_of_code([str(plugin)])
    assert first == conversion_cache.digest_of_code([str(plugin)]) != conversion_cache.digest_of_code()
    plugin.write_text('2')
    assert conversion_cache.digest_of_code([str(plugin)]) != first
