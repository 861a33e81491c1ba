"""The choice between the weights of a checkpoint and their moving averages."""

import json
import shutil

import numpy as np
import pytest

from deeplab import wording
from deeplab.errors import CheckpointError
from deeplab.inference.run_weights import WeightsChoice
from tests.helpers import checkpoint_files

FIELD = 'EvalOptions.use_moving_average'


def write_checkpoint(path, has_averages=True):
    averages = {'w/ExponentialMovingAverage': np.ones(1, np.float32)} if has_averages else {}
    return checkpoint_files.write(path, {'w': np.zeros(1, np.float32), **averages})


@pytest.fixture
def log(tmp_path):
    checkpoint_files.write_run(tmp_path / 'log', 0.99)
    return tmp_path / 'log'


def chosen(path, asked=None):
    return WeightsChoice(asked, FIELD).takes_averages(str(path))


@pytest.mark.parametrize('place', ['model.ckpt-7', 'best/model.ckpt-7'])
def test_the_averages_of_a_run_that_names_a_decay(log, place, caplog):
    path = write_checkpoint(log / place)
    with caplog.at_level('INFO'), wording.flag_names({FIELD: 'use_moving_average'}):
        assert chosen(path)
    (record,) = caplog.records
    assert record.levelname == 'INFO'
    assert f'{log}/run.json names moving_average_decay=0.99: the moving averages' in record.message
    assert '--use_moving_average=false selects the weights.' in record.message


@pytest.mark.parametrize('asked', [True, False])
def test_what_the_options_say_is_done_without_a_word(log, asked, caplog):
    with caplog.at_level('INFO'):
        assert chosen(write_checkpoint(log / 'model.ckpt-7'), asked) is asked
    assert not caplog.records


def test_a_checkpoint_from_before_the_decay_has_only_weights(log, caplog):
    path = write_checkpoint(log / 'model.ckpt-7', has_averages=False)
    with caplog.at_level('INFO'):
        assert not chosen(path)
    assert 'the weights are used, as the checkpoint has no moving averages' in caplog.text


def test_the_newest_run_decides(log, caplog):
    path = write_checkpoint(log / 'model.ckpt-7')
    checkpoint_files.write_run(log, 0.99, None)
    assert not chosen(path)
    assert 'also holds moving averages' in caplog.text
    checkpoint_files.write_run(log, None, 0.9)
    assert chosen(path)


def test_checkpoints_without_a_run_of_their_own(log, tmp_path, caplog):
    write_checkpoint(log / 'model.ckpt-7')
    for path in (log / 'model.ckpt', tmp_path / 'elsewhere' / 'model.ckpt-7'):
        path.parent.mkdir(exist_ok=True)
        for ending in ('.index', '.data-00000-of-00001'):
            shutil.copy(f'{log}/model.ckpt-7{ending}', f'{path}{ending}')
        caplog.clear()
        assert not chosen(path)
        assert f"'{path}' also holds moving averages" in caplog.text and 'use_moving_average=True' in caplog.text
    caplog.clear()
    assert not chosen(write_checkpoint(tmp_path / 'plain' / 'model.ckpt', has_averages=False))
    assert not caplog.records


@pytest.mark.parametrize('options', [None, [], {}, {'moving_average_decay': 'much'}, {'moving_average_decay': True}])
def test_a_run_json_from_anywhere(log, options):
    (log / 'run.json').write_text(json.dumps({'format': 1, 'runs': [{'command': [], 'options': options}]}))
    assert not chosen(write_checkpoint(log / 'model.ckpt-7'))


def test_checkpoints_of_one_training_are_logged_once(log, caplog):
    paths = [write_checkpoint(log / f'model.ckpt-{step}') for step in (1, 2)]
    old = write_checkpoint(log / 'model.ckpt-0', has_averages=False)
    choice = WeightsChoice(None, FIELD)
    with caplog.at_level('INFO'):
        assert [choice.takes_averages(path) for path in paths] == [True, True]
    assert len(caplog.records) == 1 and choice.taken is True
    assert not choice.takes_averages(old)
    assert choice.taken is None


def test_a_checkpoint_that_cannot_be_read(log):
    (log / 'model.ckpt-7.index').write_bytes(b'nothing')
    with pytest.raises(CheckpointError, match='cannot be read'):
        chosen(log / 'model.ckpt-7')
