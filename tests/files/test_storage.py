"""Tests for files/storage.py: paths with a scheme. Reading of files in memory: tests/datasets/test_index_file.py."""

import io
import types

import pytest

from deeplab.errors import DataError
from deeplab.files import storage


@pytest.mark.parametrize(
    'use', [storage.is_folder, storage.is_file, storage.file_names, storage.stat, storage.read, storage.opened]
)
def test_unknown_schemes_are_refused_with_the_known_ones(use):
    with pytest.raises(DataError, match=r"^'foo://bucket/records' .* knows file://, gs://.*, but not foo://"):
        use('foo://bucket/records')


def test_local_paths_have_no_scheme(tmp_path):
    for path in (str(tmp_path), 'C:/records', 'records'):
        storage.require_known_scheme(path)
    storage.require_known_scheme('gs://bucket/records')


class StrictFile(io.BytesIO):
    """A file in a storage in which every access beyond the end is an error."""

    def __init__(self, path, mode):
        assert (path, mode) == ('gs://bucket/file', 'rb')
        super().__init__(bytes(range(10)))

    def size(self):
        return 10

    def seek(self, offset):
        assert offset < 10
        return super().seek(offset)

    def read(self, size):
        assert self.tell() + size <= 10
        return super().read(size)


@pytest.mark.parametrize(('size', 'offset'), [(3, 0), (10, 0), (11, 0), (3, 7), (4, 7), (1, 9), (5, 10), (5, 100)])
def test_a_remote_file_is_never_read_beyond_its_end(size, offset, monkeypatch):
    monkeypatch.setattr(storage, '_gfile', lambda path: types.SimpleNamespace(GFile=StrictFile))
    file = storage.opened('gs://bucket/file')
    assert file.read_at(size, offset) == bytes(range(10))[offset : offset + size]
    file.close()
