"""Storages that are not on a local disk: what fails is repeated or named, and a web server gives what a disk gives."""

import errno
import http.client
import io
import itertools
import os
import pathlib
import types

import pytest

from benchmarks import _folder_server
from deeplab.datasets import index_file, listing, record_index, segmentation_dataset, shard_names
from deeplab.errors import DataError, StorageError
from deeplab.files import remote, storage
from tests.helpers import dataset_files

RECORDS = [dataset_files.record(seed, 20, 30) for seed in range(7)]


class Storage:
    """A storage whose answers are given: what is raised is repeated if it is a TimeoutError."""

    errors = (OSError,)

    def __init__(self, answers):
        self.answers, self.asked = iter(answers), 0

    def final_error(self, error):
        return None if isinstance(error, TimeoutError) else error.errno

    def read(self, path):
        self.asked += 1
        answer = next(self.answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def waits(monkeypatch):
    """The waits between tries, which take no time; each try takes a second."""
    waited, clock = [], itertools.count()
    monkeypatch.setattr(
        remote, 'time', types.SimpleNamespace(sleep=waited.append, monotonic=lambda: next(clock) + sum(waited))
    )
    return waited


def read(monkeypatch, answers):
    """Reads from a storage; returns how often it was asked, and what that gave."""
    given = Storage(answers)
    monkeypatch.setattr(remote, 'of', lambda path: given)
    try:
        return given, storage.read('gs://bucket/file')
    except (OSError, StorageError) as error:
        return given, error


@pytest.mark.parametrize('failures', [0, 1, 7])
def test_what_fails_for_a_moment_is_tried_again_with_longer_and_longer_waits(monkeypatch, waits, caplog, failures):
    given, content = read(monkeypatch, [*([TimeoutError('late')] * failures), b'content'])
    assert content == b'content' and given.asked == failures + 1
    assert len(waits) == failures == caplog.text.count("Reading 'gs://bucket/file' failed (late). Try")
    for wait, longest in zip(waits, (0.5, 1, 2, 4, 8, 16, 16), strict=False):
        assert longest / 2 <= wait <= longest


def test_waits_differ_so_that_many_readers_do_not_return_at_once(monkeypatch, waits):
    for _ in range(9):
        read(monkeypatch, [TimeoutError(), b''])
    assert len(set(waits)) == 9


def test_what_goes_on_failing_is_named_with_its_tries(monkeypatch, waits):
    given, error = read(monkeypatch, itertools.repeat(TimeoutError('late\nsecond line')))
    assert given.asked == remote.TRIES == len(waits) + 1
    assert isinstance(error, StorageError)
    assert str(error).startswith(f"Cannot read 'gs://bucket/file': late ({remote.TRIES} tries in ")


def test_slow_failures_are_not_repeated_for_longer_than_the_bound(monkeypatch, waits):
    monkeypatch.setattr(remote, 'LONGEST_SECS', 3.5)
    given, error = read(monkeypatch, itertools.repeat(TimeoutError('late')))
    assert given.asked == 3 and '(3 tries in' in str(error)


def test_what_cannot_pass_is_not_tried_again(monkeypatch, waits):
    for kind, code in ((FileNotFoundError, errno.ENOENT), (PermissionError, errno.EACCES)):
        given, error = read(monkeypatch, [OSError(code, 'any text')])
        assert (given.asked, waits) == (1, [])
        assert isinstance(error, kind) and error.filename == 'gs://bucket/file'
        assert error.strerror == os.strerror(code)


def test_an_outage_is_no_damage_that_may_be_skipped(monkeypatch, tmp_path, waits):
    shards = dataset_files.write_split(tmp_path, 'train', [RECORDS])
    index = record_index.RecordIndex(shards, skip_corrupt=True)
    monkeypatch.setattr(remote, 'of', lambda path: Storage(itertools.repeat(TimeoutError('late'))))
    monkeypatch.setattr(Storage, 'stat', lambda self, path: self.read(path), raising=False)
    index.shards = ('gs://bucket/shard',)
    with pytest.raises(StorageError, match='late'):
        index.read(0)
    with pytest.raises(StorageError, match='late'):
        record_index.RecordIndex(index.shards, skip_corrupt=True)


class StrictFile(io.BytesIO):
    """A file in a storage in which every access beyond the end is an error."""

    opened = 0

    def __init__(self, path, mode):
        assert (path, mode) == ('gs://bucket/file', 'rb')
        super().__init__(bytes(range(10)))
        StrictFile.opened += 1

    def seek(self, offset):
        assert offset < 10
        return super().seek(offset)

    def read(self, size):
        assert self.tell() + size <= 10
        return super().read(size)


@pytest.fixture
def tensorflow_files(monkeypatch):
    """Stands for the files of TensorFlow."""
    tf = pytest.importorskip('tensorflow')
    files = types.SimpleNamespace(
        GFile=StrictFile,
        stat=lambda path: types.SimpleNamespace(length=10, mtime_nsec=1),
        get_registered_schemes=lambda: ['gs'],
    )
    monkeypatch.setattr(tf.io, 'gfile', files)
    return files


@pytest.mark.parametrize(('size', 'offset'), [(3, 0), (10, 0), (11, 0), (3, 7), (4, 7), (1, 9), (5, 10), (5, 100)])
def test_a_remote_file_is_never_read_beyond_its_end(size, offset, tensorflow_files):
    file = storage.opened('gs://bucket/file')
    StrictFile.opened = 0
    for _ in range(2):
        assert file.read_at(size, offset) == bytes(range(10))[offset : offset + size]
    assert StrictFile.opened == (offset < 10)
    file.close()


@pytest.mark.parametrize(
    ('name', 'tries'),
    [('Unavailable', 3), ('DeadlineExceeded', 3), ('PermissionDenied', 1), ('NotFound', 1), ('Aborted', 1)],
)
def test_errors_of_tensorflow_that_may_pass(name, tries, tensorflow_files, monkeypatch, waits):
    """An AbortedError says that TensorFlow itself has tried ten times: an outage, which is no damage of a file."""
    tf = pytest.importorskip('tensorflow')
    monkeypatch.setattr(remote, 'TRIES', 3)
    asked = []

    def stat(path):
        asked.append(path)
        raise getattr(tf.errors, f'{name}Error')(None, None, 'why')

    tensorflow_files.stat = stat
    with pytest.raises(StorageError if tries > 1 or name == 'Aborted' else OSError, match='why|No such file'):
        storage.stat('gs://bucket/file')
    assert len(asked) == tries


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A web server with seven records in two shards; tries follow at once."""
    for name in ('fsspec', 'aiohttp'):
        pytest.importorskip(name, reason=f'the package {name} is not installed')
    monkeypatch.setattr(remote, 'FIRST_WAIT_SECS', 0.01)
    shards = dataset_files.write_split(tmp_path, 'train', [RECORDS[:4], RECORDS[4:]])
    (tmp_path / 'dataset.json').write_text('{"num_classes": 3}')
    index_file.write(str(tmp_path), 'train', record_index.RecordIndex(shards))
    with _folder_server.serving(tmp_path) as running:
        yield running


def opened(address):
    return segmentation_dataset.get_dataset(f'{address}/dataset.json', 'train', address).open_records()


def fails(times, fault):
    """Every answer fails so many times."""
    return lambda method, name, number: fault if number < times else None


def test_a_web_server_gives_the_records_of_a_disk(server, tmp_path):
    local, there = opened(str(tmp_path)), opened(server.address)
    assert [there.read(number) for number in range(7)] == RECORDS
    assert there.facts() == local.facts() and there.parts() == local.parts()
    assert (local.parallel_reads, there.parallel_reads) == (0, remote.PARALLEL_READS)
    with pytest.raises(DataError, match='No such file'):
        record_index.RecordIndex([f'{server.address}/none'])
    for path in ('none', 'none/dataset.json'):
        assert not storage.is_file(f'{server.address}/{path}')
    assert storage.is_file(f'{server.address}/dataset.json')


def test_the_size_of_a_shard_that_does_not_stay_open_is_asked_for_once(server, monkeypatch):
    monkeypatch.setattr(record_index, 'MAX_OPEN_FILES', 0)
    index = opened(server.address)
    assert index.read(0) == RECORDS[0]
    server.requests.clear()
    assert [index.read(number) for number in (1, 0)] == [RECORDS[1], RECORDS[0]]
    assert [request[0] for request in server.requests] == ['GET', 'GET']


def test_responses_of_s3_that_are_cut_off_or_garbled_are_asked_for_again():
    for name in ('s3fs', 'aiohttp'):
        pytest.importorskip(name, reason=f'the package {name} is not installed')
    import aiohttp
    from botocore import exceptions, parsers

    s3 = remote._Fsspec('s3')
    cut = (
        aiohttp.ClientPayloadError('not all data'),
        http.client.IncompleteRead(b''),
        parsers.ResponseParserError('xml'),
    )
    for error in (*cut, exceptions.EndpointConnectionError(endpoint_url='a')):
        assert isinstance(error, s3.errors) and s3.final_error(error) is None
    assert s3.final_error(exceptions.NoCredentialsError()) == errno.EIO


@pytest.mark.parametrize('fault', [500, 503, 429, 'cut'])
def test_a_server_that_fails_twice_gives_the_same(server, fault, caplog):
    server.fault = fails(2, fault)
    assert [opened(server.address).read(number) for number in (6, 0)] == [RECORDS[6], RECORDS[0]]
    assert 'Try 3 of 8' in caplog.text and 'Try 4 of 8' not in caplog.text


@pytest.mark.parametrize(('status', 'text'), [(403, 'Permission denied'), (404, 'No such file'), (400, 'status 400')])
def test_what_a_server_refuses_is_not_asked_for_again(server, status, text):
    index = opened(server.address)
    server.fault = lambda method, name, number: status
    server.requests.clear()
    with pytest.raises(DataError, match=rf'^Cannot read train-00000-of-00002.tfrecord, record 1: .*{text}'):
        index.read(1)
    assert len(server.requests) <= 2  # HEAD, and GET if a server does not know HEAD


def test_a_server_that_is_down_is_named_after_the_tries(server, monkeypatch):
    monkeypatch.setattr(remote, 'TRIES', 3)
    server.fault = lambda method, name, number: 503 if name.startswith('train') else None
    where = f'{server.address}/train-0000[01]-of-00002.tfrecord'
    with pytest.raises(StorageError, match=rf"^Cannot read '{where}': .* status 503 \(3 tries in 0 s\)"):
        opened(server.address)


def test_a_server_that_stalls_is_asked_again(server, monkeypatch):
    monkeypatch.setattr(remote, 'TIMEOUT_SECS', 0.2)
    remote._opened_file_system.cache_clear()
    server.fault = fails(1, 1.0)
    try:
        assert storage.read(f'{server.address}/dataset.json') == b'{"num_classes": 3}'
    finally:
        remote._opened_file_system.cache_clear()
    assert len(server.requests) == 2


def test_a_server_without_ranges_is_refused(server):
    server.fault = lambda method, name, number: 'whole'
    with pytest.raises(StorageError, match='sends whole files instead of parts .*copy the folder'):
        opened(server.address)


def test_shards_are_those_of_the_description_or_of_the_page(server, tmp_path):
    listed = shard_names.candidates(server.address)
    assert [name for name in listed if name.startswith('train')] == sorted(path.name for path in tmp_path.glob('tr*'))
    server.lists = False
    with pytest.raises(StorageError, match=r'does not say which shards .*dataset\.yaml .*splits: '):
        segmentation_dataset.get_dataset('camvid', 'train', server.address)
    listing.write_indexes(str(tmp_path))  # the description, with numbers of shards
    (tmp_path / 'dataset.json').unlink()
    listing.write_indexes(str(tmp_path))
    dataset = segmentation_dataset.get_dataset('camvid', 'train', server.address)
    assert [os.path.basename(path) for path in dataset.shards] == [f'train-0000{i}-of-00002.tfrecord' for i in (0, 1)]
    with pytest.raises(StorageError, match=r"Cannot write '.*/index_train.npz': web servers are only read"):
        listing.write_indexes(server.address)


def test_an_index_is_used_whatever_the_time_of_the_copy(server, tmp_path, monkeypatch):
    walked = []
    walk = record_index._walked
    monkeypatch.setattr(record_index, '_walked', lambda path: walked.append(os.path.basename(path)) or walk(path))
    os.utime(tmp_path / 'train-00000-of-00002.tfrecord', (5, 5))
    assert len(opened(server.address)) == 7 and walked == []
    last = bytearray((tmp_path / 'train-00001-of-00002.tfrecord').read_bytes())
    last[-1] ^= 1  # the checksum of the last record
    (tmp_path / 'train-00001-of-00002.tfrecord').write_bytes(last)
    assert len(opened(server.address)) == 7 and walked == ['train-00001-of-00002.tfrecord']


def test_records_without_index_are_found_with_few_requests(server, tmp_path):
    (tmp_path / 'index_train.npz').unlink()
    index = opened(server.address)
    assert [index.read(number) for number in range(7)] == RECORDS
    walk = [request for request in server.requests if request[0] == 'GET' and request[1].startswith('train')]
    assert len(walk) == 2 + 7  # each shard is one block


def test_large_records_are_read_ahead_in_smaller_numbers(monkeypatch, tmp_path):
    index = record_index.RecordIndex(dataset_files.write_split(tmp_path, 'train', [RECORDS]))
    index.shards = ('gs://bucket/shard',)
    for largest, expected in ((1, 32), (16 << 20, 8), (1 << 30, 2)):
        index.length = index.length * 0 + largest
        assert index.parallel_reads == expected


@pytest.fixture
def bucket(monkeypatch):
    """fsspec's files in memory stand for S3."""
    fsspec = pytest.importorskip('fsspec', reason='the package fsspec is not installed')
    files = fsspec.filesystem('memory')
    monkeypatch.setattr(remote.packages, 'require', lambda *arguments: None)
    monkeypatch.setattr(remote, '_opened_file_system', lambda scheme: (InMemory(files), (OSError,), (OSError,)))
    yield 's3://bucket/records'
    files.store.clear()


class InMemory:
    """Files in memory whose paths begin with s3://."""

    def __init__(self, files):
        self._files = files

    def __getattr__(self, name):
        return lambda path, *rest, **named: getattr(self._files, name)(
            path.replace('s3://', 'memory://'), *rest, **named
        )


def check_bucket(folder, tmp_path, put):
    """Reads records, and writes their index."""
    for path in dataset_files.write_split(tmp_path, 'train', [RECORDS[:4], RECORDS[4:]]):
        put(path, f'{folder}/{os.path.basename(path)}')
    assert storage.is_folder(folder) and not storage.is_folder(f'{folder}/none')
    assert not storage.is_file(folder) and not storage.is_file(f'{folder}/none')
    dataset = segmentation_dataset.get_dataset('camvid', 'train', folder)
    index = dataset.open_records()
    assert [index.read(number) for number in range(7)] == RECORDS
    before = dataset.signatures()
    assert listing.write_indexes(folder) == [f'{folder}/index_train.npz']
    assert set(index_file.load(folder, 'train', dataset.shards)) == set(dataset.shards)
    assert dataset.signatures() == before
    for use in (storage.read, storage.stat, storage.opened):
        with pytest.raises(FileNotFoundError):
            use(f'{folder}/none')
    with pytest.raises(DataError, match='does not exist'):
        segmentation_dataset.get_dataset('camvid', 'train', f'{folder}/none')


def test_records_in_a_bucket(bucket, tmp_path):
    check_bucket(bucket, tmp_path, lambda source, target: storage.write(target, pathlib.Path(source).read_bytes()))


@pytest.mark.slow
def test_records_in_s3(tmp_path, monkeypatch):
    """A server of the package moto, asked by s3fs."""
    for name in ('s3fs', 'flask', 'flask_cors'):
        pytest.importorskip(name, reason=f'the package {name} is not installed')
    moto = pytest.importorskip('moto.server', reason='the package moto is not installed')
    import s3fs

    for name, value in (('ACCESS_KEY_ID', 'a'), ('SECRET_ACCESS_KEY', 'b'), ('DEFAULT_REGION', 'us-east-1')):
        monkeypatch.setenv(f'AWS_{name}', value)
    running = moto.ThreadedMotoServer(port=0, verbose=False)
    running.start()
    try:
        host, port = running.get_host_and_port()
        monkeypatch.setenv('AWS_ENDPOINT_URL', f'http://127.0.0.1:{port}')
        s3fs.S3FileSystem().mkdir('bucket')
        check_bucket('s3://bucket/records', tmp_path, s3fs.S3FileSystem().put)
    finally:
        running.stop()
        remote._opened_file_system.cache_clear()
        s3fs.S3FileSystem.clear_instance_cache()
