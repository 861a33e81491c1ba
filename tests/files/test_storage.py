"""Tests for files/storage.py: paths with a scheme. Reading of files in memory: tests/datasets/test_index_file.py."""

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
