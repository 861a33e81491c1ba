"""Tests for files/storage.py: paths with a scheme.

Other storages: tests/files/test_remote.py; files in TensorFlow's memory: tests/datasets/test_index_file.py.
"""

import sys

import pytest

from deeplab.errors import DataError, OptionError
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
        storage.require_known_scheme(path, is_data_set=False)
    storage.require_known_scheme('gs://bucket/records')
    storage.require_known_scheme('gs://bucket/log', is_data_set=False)


@pytest.mark.parametrize('path', ['https://host/log', 's3://bucket/log', 'HTTP://host/log'])
def test_other_files_than_data_sets_are_not_read_by_fsspec(path):
    with pytest.raises(DataError, match=rf"^'{path}' cannot be used here: only records .*Copy it to a local disk"):
        storage.require_known_scheme(path, is_data_set=False)


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, 's3fs', None)
    with pytest.raises(OptionError, match=r"'s3://bucket/records' needs .*s3fs, .*'deeplab-toolkit\[remote\]'"):
        storage.read('s3://bucket/records')
