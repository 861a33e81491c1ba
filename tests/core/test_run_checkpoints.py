"""Which checkpoints of a folder a training resumes from, overwrites and removes."""

import os
import shutil

import pytest
import tensorflow as tf

from deeplab.core import checkpoints, run_checkpoints
from deeplab.errors import CheckpointError
from tests.core.test_checkpoints import damage_file, write


def put(folder, name, step=0):
    """Puts a checkpoint of the user's own into `folder`, which no state file lists; returns its path."""
    made = write(folder.parent / 'made', step, a=1.0)
    folder.mkdir(exist_ok=True)
    for ending in ('.index', '.data-00000-of-00001'):
        shutil.move(made + ending, folder / f'{name}{ending}')
    return str(folder / name)


def names(folder):
    return sorted(path.name.removesuffix('.index') for path in folder.glob('*.index'))


@pytest.mark.parametrize('name', ['model.ckpt', 'model.ckpt-30000'])
def test_the_initial_checkpoint_in_the_same_folder_is_not_resumed_from(tmp_path, name, caplog):
    logdir = tmp_path / 'log'
    initial = put(logdir, name)
    assert run_checkpoints.of_run(str(logdir), initial) == []
    assert run_checkpoints.newest_of_run(str(logdir), str(logdir)) is None  # its folder stands for it
    own = write(logdir, 5)
    assert run_checkpoints.newest_of_run(str(logdir), os.path.relpath(initial)) == own
    assert not caplog.records


def test_a_checkpoint_of_another_name_is_not_resumed_from(tmp_path):
    put(tmp_path / 'log', 'model.ckpt')
    put(tmp_path / 'log', 'best-7')
    assert run_checkpoints.newest_of_run(str(tmp_path / 'log')) is None


def test_the_state_file_comes_first(tmp_path):
    write(tmp_path / 'log', 9)
    own = write(tmp_path / 'log', 5)
    assert run_checkpoints.newest_of_run(str(tmp_path / 'log')) == own


@pytest.mark.parametrize('state', [None, 'no such format {', 'model_checkpoint_path: "model.ckpt-70"\n'])
def test_without_a_state_file_the_runs_own_names_count(tmp_path, state, caplog):
    logdir = tmp_path / 'log'
    initial = put(logdir, 'model.ckpt-30000')
    write(logdir, 5)
    own = write(logdir, 10)
    (logdir / 'checkpoint').unlink()
    if state is not None:
        (logdir / 'checkpoint').write_text(state)
    assert run_checkpoints.newest_of_run(str(logdir), initial) == own
    assert "'checkpoint'" in caplog.text


def test_where_all_that_is_listed_is_damaged_the_others_are_tried(tmp_path):
    other = write(tmp_path, 3)
    write(tmp_path, 5, a=1.0)
    damage_file(tmp_path / 'model.ckpt-5.data-00000-of-00001')
    assert run_checkpoints.newest_of_run(str(tmp_path)) == other


def test_the_writer_removes_what_the_run_has_written_alone(tmp_path):
    logdir = tmp_path / 'log'
    put(logdir, 'model.ckpt')
    put(logdir, 'model.ckpt-1')
    write(logdir, 2)
    resumed = write(logdir, 3)
    checkpoints.write_state(str(logdir), ['model.ckpt', 'model.ckpt-2', 'model.ckpt-3'])
    with tf.Graph().as_default():
        tf.compat.v1.train.get_or_create_global_step()
        writer = checkpoints.CheckpointWriter(str(logdir), keep=2)
        writer.adopt(resumed, 3)
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            for step in (4, 5):
                writer.save(session, step)
    assert names(logdir) == ['model.ckpt', 'model.ckpt-1', 'model.ckpt-4', 'model.ckpt-5']
    assert run_checkpoints.of_run(str(logdir))[:2] == [str(logdir / 'model.ckpt-5'), str(logdir / 'model.ckpt-4')]


def test_data_without_an_index_stay_where_no_run_was(tmp_path):
    data = tmp_path / 'model.ckpt-30000.data-00000-of-00001'
    data.write_bytes(b'being copied')
    checkpoints.remove_leftovers(str(tmp_path))
    assert data.exists()


def test_an_initial_checkpoint_that_would_be_overwritten_is_refused(tmp_path):
    initial = put(tmp_path / 'log', 'model.ckpt-100')
    logdir = str(tmp_path / 'log')
    with pytest.raises(CheckpointError, match='initial_checkpoint=.*overwritten'):
        run_checkpoints.require_not_overwritten(logdir, initial, None, 100)
    with pytest.raises(CheckpointError, match='overwritten'):
        run_checkpoints.require_not_overwritten(logdir, initial, 50, 100)
    run_checkpoints.require_not_overwritten(logdir, initial, None, 99)
    run_checkpoints.require_not_overwritten(logdir, initial, 100, 200)  # resumed beyond it
    run_checkpoints.require_not_overwritten(str(tmp_path / 'other'), initial, None, 100)
    run_checkpoints.require_not_overwritten(logdir, put(tmp_path / 'log', 'model.ckpt'), None, 100)
