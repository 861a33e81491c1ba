"""The folder of a cross-validation: what is written is read, wherever the folder is, or refused in one line."""

import dataclasses
import json
import os

import pytest

from deeplab.errors import DataError
from deeplab.files import cross_validation
from deeplab.files.cross_validation import CrossValidation, Fold


def fold(folder, number, **values):
    logdir = os.path.join(folder, f'fold{number}')
    checkpoint, metrics = os.path.join(logdir, 'model.ckpt-7'), os.path.join(logdir, 'eval', 'metrics-7.json')
    return dataclasses.replace(Fold(number, f'fold{number}', logdir, checkpoint, True, 0.5, metrics), **values)


def two_folds(folder, **values):
    folder = str(folder)
    folds = (fold(folder, 1), fold(folder, 2, miou=None, metrics=None, use_moving_average=False))
    return CrossValidation(folder, 2, folds, **values)


def test_what_is_written_is_read_also_from_another_place(tmp_path):
    os.mkdir(tmp_path / 'one')
    written = two_folds(tmp_path / 'one', settings={'seed': 3}, results={'miou': 0.5})
    path = cross_validation.write(written)
    assert os.path.basename(path) == 'cross_validation.json' and os.listdir(tmp_path / 'one') == [
        os.path.basename(path)
    ]
    assert cross_validation.read(str(tmp_path / 'one')) == written
    os.rename(tmp_path / 'one', tmp_path / 'two')
    assert cross_validation.read(str(tmp_path / 'two')) == two_folds(
        tmp_path / 'two', settings={'seed': 3}, results={'miou': 0.5}
    )


def test_a_folder_that_is_no_finished_cross_validation_is_refused(tmp_path):
    folder = str(tmp_path)
    assert not cross_validation.is_in(folder) and cross_validation.load(folder) is None
    with pytest.raises(DataError, match=r'not the folder of a cross-validation.*no cross_validation\.json'):
        cross_validation.read(folder)
    cross_validation.write(CrossValidation(folder, 3, (fold(folder, 3), fold(folder, 1))))
    assert [each.number for each in cross_validation.load(folder).folds] == [1, 3]
    with pytest.raises(DataError, match='not finished: 2 of 3 folds'):
        cross_validation.read(folder)


@pytest.mark.parametrize('change', ['{', '[]', '{}', 'folds', 'number'])
def test_a_damaged_file_is_refused(tmp_path, change):
    path = cross_validation.write(two_folds(tmp_path))
    content = json.loads((tmp_path / 'cross_validation.json').read_text())
    if change == 'folds':
        del content['folds'][0]['split']
    elif change == 'number':
        content['number_of_folds'] = 'two'
    text = json.dumps(content) if change in ('folds', 'number') else change
    (tmp_path / 'cross_validation.json').write_text(text)
    with pytest.raises(DataError) as error:
        cross_validation.read(str(tmp_path))
    assert path in str(error.value) and 'Remove it' in str(error.value) and '\n' not in str(error.value)
