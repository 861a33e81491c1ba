"""The file beside a checkpoint with what tasks have chosen for it."""

import logging

import pytest

from deeplab.core import checkpoints
from deeplab.errors import DataError
from deeplab.inference import network_source, task_calibration


def test_choices_are_read_back(tmp_path):
    path = str(tmp_path / 'model.ckpt-3')
    assert task_calibration.load(path) == {}
    task_calibration.save(path, {})
    assert not list(tmp_path.iterdir())
    task_calibration.save(path, {'edges': {'threshold': 0.25}})
    assert task_calibration.load(path) == {'edges': {'threshold': 0.25}}


def test_merge_finds_a_checkpoint_by_its_name(tmp_path):
    source = network_source.at(str(tmp_path / 'model.ckpt-3'))
    assert not source.exists()
    (tmp_path / 'model.ckpt-3.index').write_text('')
    assert source.exists()


def test_a_broken_file_is_named(tmp_path):
    path = str(tmp_path / 'model.ckpt-3')
    (tmp_path / f'model.ckpt-3{checkpoints.CALIBRATION}').write_text('{')
    with pytest.raises(DataError, match=r'model\.ckpt-3\.calibration\.json.*evaluate the checkpoint again'):
        task_calibration.load(path)


def test_an_evaluation_goes_on_without_the_file(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        task_calibration.save(str(tmp_path / 'missing' / 'model.ckpt-3'), {'edges': {'threshold': 0.25}})
    assert 'predictions use the defaults' in caplog.text


def test_only_splits_for_validation_choose():
    assert [task_calibration.is_for_validation(split) for split in ('val', 'val_fine', 'train', 'test')] == [
        True, True, False, False
    ]  # fmt: skip


def test_an_old_checkpoint_is_removed_with_its_choices(tmp_path):
    for ending in ('.index', '.data-00000-of-00001', checkpoints.CALIBRATION):
        (tmp_path / f'model.ckpt-3{ending}').write_text('')
    checkpoints._remove(str(tmp_path / 'model.ckpt-3'))
    assert not list(tmp_path.iterdir())
