"""Published checkpoints from a server, from the cache, and put there by hand.

Covers zoo/cache.py.
"""

import hashlib
import json
import os
import pathlib
import signal
import threading
import time

import pytest

from deeplab.errors import DownloadError, OptionError, OutputError
from deeplab.files import folder_lock
from deeplab.options import FetchOptions
from deeplab.zoo import archives, cache, catalog, fetching, transfer
from tests.helpers.web_server import Page
from tests.zoo.test_archives import packed

NAME = 'mobilenetv2_coco_voc_trainaug'
PRESET = catalog.get(NAME)
FILES = [
    ('deeplabv3_mnv2/._model.ckpt-30000.index', b'of a Mac'),
    ('deeplabv3_mnv2/model.ckpt-9.index', b'older'),
    ('deeplabv3_mnv2/model.ckpt-9.data-00000-of-00001', b'older'),
    ('deeplabv3_mnv2/model.ckpt-30000.index', b'index'),
    ('deeplabv3_mnv2/model.ckpt-30000.data-00000-of-00001', b'weights'),
    ('deeplabv3_mnv2/model.ckpt-40000.index', b'incomplete'),
]


@pytest.fixture
def zoo(web, tmp_path):
    """Gives (fetch options of a server with one archive, its page, the cache folder)."""
    pages, address = web
    pages.clear()
    body = pathlib.Path(packed(tmp_path / 'packed.tar.gz', *FILES)).read_bytes()
    page = pages[f'/models/{PRESET.archive}'] = Page(body)
    folder = tmp_path / 'cache'
    return FetchOptions(f'{address}/models/', str(folder)), page, folder


def test_a_checkpoint_is_downloaded_once(zoo):
    options, page, folder = zoo
    found = fetching.obtain(NAME, options)
    assert found.checkpoint == str(folder / PRESET.folder / 'deeplabv3_mnv2' / 'model.ckpt-30000')
    assert found.is_new
    assert sorted(os.listdir(folder)) == [PRESET.folder, f'{PRESET.folder}.json']
    note = json.loads((folder / f'{PRESET.folder}.json').read_text())
    assert note['archive'] == {'size': len(page.body), 'sha256': hashlib.sha256(page.body).hexdigest()}
    assert fetching.fetch(NAME, options) == found.checkpoint
    assert len(page.requests) == 1


@pytest.mark.parametrize('damage', [lambda path: path.write_bytes(b'WEIGHTS'), lambda path: path.unlink()])
def test_a_file_that_has_changed_is_found(zoo, damage):
    options, _, _ = zoo
    damage(pathlib.Path(f'{fetching.fetch(NAME, options)}.data-00000-of-00001'))
    with pytest.raises(DownloadError, match=r'data-00000-of-00001 (differs|cannot be read).* Remove the folder'):
        fetching.fetch(NAME, options)


def test_another_archive_than_at_the_first_download(zoo, tmp_path):
    options, page, folder = zoo
    fetching.fetch(NAME, options)
    os.rename(folder / PRESET.folder, tmp_path / 'away')
    page.body = pathlib.Path(packed(tmp_path / 'other.tar.gz', *FILES, ('more', b''))).read_bytes()
    with pytest.raises(DownloadError, match=r'at the first download it had .* remove .*\.json'):
        fetching.fetch(NAME, options)
    assert os.listdir(folder) == [f'{PRESET.folder}.json']
    (folder / f'{PRESET.folder}.json').unlink()
    fetching.fetch(NAME, options)


def test_offline_it_says_what_to_fetch_and_takes_it(zoo):
    _, page, folder = zoo
    options = FetchOptions('http://127.0.0.1:1', str(folder))
    with pytest.raises(DownloadError) as error:
        fetching.fetch(NAME, options)
    assert f'fetch http://127.0.0.1:1/{PRESET.archive} on another machine' in str(error.value)
    assert f'at {folder / PRESET.archive};' in str(error.value)
    (folder / PRESET.archive).write_bytes(page.body)
    found = fetching.obtain(NAME, options)
    assert (found.note.address, found.note.archive.size) == ('', len(page.body))
    assert (folder / PRESET.archive).exists()  # it is the user's


def test_a_folder_that_was_unpacked_by_hand(zoo):
    options, page, folder = zoo
    (folder / PRESET.folder).mkdir(parents=True)
    with pytest.raises(DownloadError, match='has no checkpoint'):
        fetching.fetch(NAME, options)
    for suffix in ('index', 'data-00000-of-00001'):
        (folder / PRESET.folder / f'model.ckpt.{suffix}').write_bytes(b'x')
    assert fetching.fetch(NAME, options) == str(folder / PRESET.folder / 'model.ckpt')
    assert not page.requests


def test_a_run_that_is_stopped_while_unpacking_continues_without_a_second_download(zoo, monkeypatch):
    options, page, folder = zoo
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(archives, 'unpack', lambda *_: signal.raise_signal(signal.SIGINT))
        fetching.obtain(NAME, options)
    assert PRESET.archive in os.listdir(folder)
    found = fetching.obtain(NAME, FetchOptions('http://127.0.0.1:1', str(folder)))
    assert found.note.address == f'{options.mirror}{PRESET.archive}'
    assert sorted(os.listdir(folder)) == [PRESET.folder, f'{PRESET.folder}.json']
    assert len(page.requests) == 1


def test_an_archive_beside_an_unfinished_download_is_the_user_s(zoo):
    options, page, folder = zoo
    folder.mkdir()
    for name in (PRESET.archive, f'{PRESET.archive}.source', f'{PRESET.archive}.part'):
        (folder / name).write_bytes(page.body)
    assert fetching.obtain(NAME, options).note.address == ''
    assert (folder / PRESET.archive).exists() and not page.requests


@pytest.mark.parametrize('member', [('../evil', b''), ('something', b'else')])
def test_a_bad_archive_leaves_nothing(zoo, tmp_path, member):
    options, page, folder = zoo
    page.body = pathlib.Path(packed(tmp_path / 'bad.tar.gz', member)).read_bytes()
    with pytest.raises(DownloadError, match=r'not a path inside|has no checkpoint'):
        fetching.fetch(NAME, options)
    assert os.listdir(folder) == []
    assert not (tmp_path / 'evil').exists()


def test_a_length_that_is_too_small(zoo):
    options, page, folder = zoo
    page.announced = str(len(page.body) - 20)
    with pytest.raises(DownloadError, match=f'{PRESET.archive} is damaged .* It was removed: run the same command'):
        fetching.fetch(NAME, options)
    assert os.listdir(folder) == []
    (folder / PRESET.archive).write_bytes(page.body[:-20])
    with pytest.raises(DownloadError, match=f'{PRESET.archive} is damaged .* put there by hand, so it stays'):
        fetching.fetch(NAME, options)
    assert os.listdir(folder) == [PRESET.archive]


def test_two_at_once(zoo, monkeypatch):
    """The second waits for the first, and takes what it has unpacked."""
    options, page, _ = zoo
    monkeypatch.setattr(cache, '_WAIT_SECS', 0.01)
    download, found = transfer.download, []

    def slow(*arguments):
        time.sleep(0.1)
        download(*arguments)

    monkeypatch.setattr(transfer, 'download', slow)
    threads = [threading.Thread(target=lambda: found.append(fetching.obtain(NAME, options))) for _ in range(2)]
    threads[0].start()
    time.sleep(0.03)
    monkeypatch.setattr(folder_lock, 'owner', lambda *_: None)  # as if the first had taken the lock just after that
    threads[1].start()
    for thread in threads:
        thread.join()
    assert len(page.requests) == 1
    assert [each.is_new for each in found] == [True, False]


def test_a_cache_that_cannot_be_written(zoo, tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(OutputError, match=r'^cache_dir=.*cannot be written \(Not a directory\)'):
        fetching.fetch(NAME, FetchOptions(zoo[0].mirror, str(tmp_path / 'file' / 'cache')))


def test_settings_of_the_environment(monkeypatch, tmp_path):
    place = fetching.place_of(NAME)
    assert place.address == f'https://storage.googleapis.com/download.tensorflow.org/models/{PRESET.archive}'
    monkeypatch.setenv('HOME', str(tmp_path))
    monkeypatch.setenv('XDG_CACHE_HOME', 'relative')
    assert cache.folder() == str(tmp_path / '.cache' / 'deeplab')
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    assert cache.folder() == str(tmp_path / 'deeplab')
    monkeypatch.setenv('DEEPLAB_CACHE', '~/mine')
    assert cache.folder() == str(tmp_path / 'mine')
    assert cache.folder(str(tmp_path)) == str(tmp_path)
    monkeypatch.setenv('DEEPLAB_MIRROR', 'http://mirror')
    assert fetching.place_of(NAME).address == f'http://mirror/{PRESET.archive}'
    assert fetching.place_of(NAME, FetchOptions('https://other/')).address == f'https://other/{PRESET.archive}'
    camvid = catalog.all_data_sets()['camvid']
    assert cache.place_of(camvid, FetchOptions()).address.startswith('http://mirror/')
    assert cache.place_of(camvid, FetchOptions('https://other/')).address.startswith('https://other/')
    monkeypatch.setenv('DEEPLAB_MIRROR', 'file:///etc')
    with pytest.raises(DownloadError, match='DEEPLAB_MIRROR=file:///etc is not allowed'):
        fetching.place_of(NAME)


def test_an_unknown_name():
    with pytest.raises(OptionError, match='no published checkpoint .* Did you mean'):
        fetching.fetch('mobilenetv2_voc_trainaug')


def test_a_damaged_note(zoo):
    options, _, folder = zoo
    fetching.fetch(NAME, options)
    (folder / f'{PRESET.folder}.json').write_text('{}')
    with pytest.raises(DownloadError, match=r'\.json is damaged .* Remove it'):
        fetching.fetch(NAME, options)
