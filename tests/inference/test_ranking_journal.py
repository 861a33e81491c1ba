"""The journal of `deeplab rank`."""

import numpy as np
import pytest

from deeplab.errors import DataError
from deeplab.inference.ranking_journal import Journal
from deeplab.inference.uncertainty import Uncertainty

SETTINGS = {'network': 'abc'}


def some(seed):
    random = np.random.default_rng(seed)
    features = random.random(8).astype(np.float32)
    return Uncertainty(
        random.dirichlet(np.ones(3)),
        random.random((3, 3)) / 9,
        features / np.linalg.norm(features),
        random.integers(0, 256, (4, 5)).astype(np.uint8),
    )


def written(folder, names, settings=SETTINGS):
    """Writes images and their entries."""
    with Journal(folder, settings) as journal:
        for seed, name in enumerate(names):
            (folder / name).write_bytes(b'image')
            journal.add(str(folder / name), np.full((20, 20, 3), 10 * seed, np.uint8), some(seed))
    return journal


def test_entries_come_back(tmp_path):
    journal = written(tmp_path, ['a', 'b'])
    entries = journal.entries()
    assert list(entries) == [str(tmp_path / 'a'), str(tmp_path / 'b')]
    entry, expected = entries[str(tmp_path / 'b')], some(1)
    np.testing.assert_allclose(entry.by_class, expected.by_class, atol=1e-6)
    np.testing.assert_allclose(entry.shares, expected.shares, atol=1e-6)
    np.testing.assert_allclose(entry.features, expected.features, atol=1e-3)
    assert entry.thumbnail.shape == (17, 17) and (entry.thumbnail == 10).all()
    (shown,) = journal.maps([str(tmp_path / 'b')])
    np.testing.assert_array_equal(shown, expected.map)


def test_a_journal_continues_behind_a_line_that_is_not_complete(tmp_path):
    journal = written(tmp_path, ['a', 'b'])
    path = tmp_path / journal.name
    path.write_bytes(path.read_bytes()[:-40])
    with Journal(tmp_path, SETTINGS) as journal:
        assert journal.missing([str(tmp_path / 'a'), str(tmp_path / 'b')]) == {str(tmp_path / 'b')}
        journal.add(str(tmp_path / 'b'), np.zeros((20, 20, 3), np.uint8), some(5))
    assert len(journal.entries()) == 2


def test_changed_images_and_other_settings_count_as_missing(tmp_path):
    written(tmp_path, ['a', 'b'])
    (tmp_path / 'a').write_bytes(b'another')
    with Journal(tmp_path, SETTINGS) as journal:
        assert journal.missing([str(tmp_path / 'a'), str(tmp_path / 'b')]) == {str(tmp_path / 'a')}
    with Journal(tmp_path, {'network': 'other'}) as journal:
        assert len(journal.missing([str(tmp_path / 'a'), str(tmp_path / 'b')])) == 2


def test_a_journal_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / Journal.name).mkdir()
    with pytest.raises(DataError, match=Journal.name), Journal(tmp_path, SETTINGS):
        pass
