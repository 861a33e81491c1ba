"""Finding, comparing, restoring and writing checkpoints, on tiny graphs.

Covers core/checkpoint_reader.py.
"""

import os
import pathlib
import tempfile

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import checkpoints
from deeplab.errors import CheckpointError


def write(directory, step=0, keep=5, **values):
    """Writes DIRECTORY/model.ckpt-STEP with the given variables and global_step."""
    with tf.Graph().as_default():
        for name, value in values.items():
            tf.compat.v1.get_variable(name, initializer=tf.constant(value))
        counter = tf.compat.v1.train.get_or_create_global_step()
        writer = checkpoints.CheckpointWriter(str(directory), keep)
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            session.run(counter.assign(step))
            return writer.save(session, step)


def damage_file(path):
    """Changes one byte in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def make_variables(**shapes):
    return [
        tf.compat.v1.get_variable(name, shape, initializer=tf.zeros_initializer()) for name, shape in shapes.items()
    ]


class TestPaths:
    def test_good_path(self, tmp_path):
        path = write(tmp_path, a=1.0)
        assert checkpoints.check_path(path) == path

    @pytest.mark.parametrize('ending', ['.index', '.data-00000-of-00001'])
    def test_one_of_its_files(self, tmp_path, ending):
        path = write(tmp_path, a=1.0)
        with pytest.raises(CheckpointError) as error:
            checkpoints.check_path(path + ending)
        assert str(error.value).startswith(f"'{path}{ending}' is one of a checkpoint's files.")
        assert str(error.value).endswith(f': {path}')

    def test_folder(self, tmp_path):
        write(tmp_path, 6, a=1.0)
        path = write(tmp_path, 7, a=1.0)
        assert checkpoints.check_path(str(tmp_path)) == path
        assert checkpoints.step_of(str(tmp_path)) == 7

    @pytest.mark.parametrize('name', ['model.ckpt', 'model.ckpt-30000'])
    def test_a_published_archive_as_it_is_unpacked(self, tmp_path, name):
        """Nothing but the checkpoint's two files and the exported graph; and what archives of macOS bring along."""
        path = write(tmp_path / 'made', a=1.0)
        archive = tmp_path / 'deeplabv3_mnv2_pascal_train_aug'
        archive.mkdir()
        for ending in ('.index', '.data-00000-of-00001'):
            os.replace(path + ending, archive / f'{name}{ending}')
            (archive / f'._{name}{ending}').write_bytes(b'junk')
        (archive / 'frozen_inference_graph.pb').write_bytes(b'graph')
        assert checkpoints.check_path(str(archive)) == str(archive / name)
        assert checkpoints.newest(str(archive)) == checkpoints.newest_whole(str(archive)) == str(archive / name)
        assert set(checkpoints.entries(f'{archive}/')) == {'a', 'global_step'}
        (tmp_path / 'made' / 'cache').mkdir()
        archive = archive.rename(tmp_path / 'made' / 'cache' / archive.name)  # as `deeplab download` unpacks it
        assert checkpoints.check_path(str(archive.parent)) == str(archive / name)
        assert checkpoints.find_checkpoint(str(archive.parent)) == str(archive / name)
        (archive.parent / 'another').mkdir()
        with pytest.raises(CheckpointError, match='There is no checkpoint in the folder'):
            checkpoints.check_path(str(archive.parent))

    def test_restoring_from_a_folder(self, tmp_path):
        write(tmp_path, a=2.5)
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            variables = make_variables(a=[])
            assert checkpoints.restore_matching(session, str(tmp_path), variables).restored == ('a',)
            assert session.run(variables[0]) == 2.5

    def test_empty_folder(self, tmp_path):
        with pytest.raises(
            CheckpointError, match="There is no checkpoint in the folder '.*'. A checkpoint consists of files"
        ):
            checkpoints.check_path(str(tmp_path))

    @pytest.mark.parametrize('ending', ['', '.index', '.data-00000-of-00001'])
    def test_find_takes_any_file(self, tmp_path, ending):
        path = write(tmp_path, a=1.0)
        assert checkpoints.find(path + ending) == checkpoints.find(str(tmp_path)) == path

    def test_nothing(self, tmp_path):
        with pytest.raises(CheckpointError, match="There is no checkpoint '.*nowhere'"):
            checkpoints.check_path(str(tmp_path / 'nowhere'))


class TestReading:
    def test_entries_and_step(self, tmp_path):
        path = write(tmp_path, 12, a=np.zeros((2, 3), np.float32))
        assert checkpoints.entries(path) == {
            'a': checkpoints.Entry((2, 3), tf.float32),
            'global_step': checkpoints.Entry((), tf.int64),
        }
        assert checkpoints.step_of(path) == 12

    def test_damage(self, tmp_path):
        path = write(tmp_path, a=np.arange(100.0))
        assert checkpoints.damage(path) is None
        damage_file(pathlib.Path(f'{path}.data-00000-of-00001'))
        assert 'is damaged' in str(checkpoints.damage(path))

    def test_file_that_was_cut(self, tmp_path):
        path = write(tmp_path, a=np.arange(100.0))
        os.truncate(f'{path}.data-00000-of-00001', 50)
        assert 'is damaged' in str(checkpoints.damage(path))

    def test_damaged_index(self, tmp_path):
        path = write(tmp_path, a=1.0)
        pathlib.Path(f'{path}.index').write_bytes(b'nonsense')
        with pytest.raises(CheckpointError, match='is damaged'):
            checkpoints.entries(path)

    def test_unreadable_names_what_is_damaged(self, tmp_path):
        path = write(tmp_path, a=np.arange(100.0), b=np.ones(3))
        assert checkpoints.unreadable(path) == {}
        data = pathlib.Path(f'{path}.data-00000-of-00001')
        content = bytearray(data.read_bytes())
        content[5] ^= 0xFF
        data.write_bytes(content)
        found = checkpoints.unreadable(path)
        assert list(found) == ['a']
        assert 'Checksum' in found['a']


ODD_FOLDERS = ('br[1]x', 'st*r', 'back\\slash[?')


@pytest.mark.parametrize('folder', ODD_FOLDERS)
class TestOddPaths:
    """A path is never a pattern: neither in our code nor in what TensorFlow makes of it."""

    def test_everything_is_found_and_read(self, tmp_path, folder):
        odd = tmp_path / folder
        write(odd, 1, a=1.0)
        path = write(odd, 2, a=np.arange(100.0))
        assert checkpoints.newest_whole(str(odd)) == checkpoints.newest(str(odd)) == path
        assert checkpoints.step_of(path) == 2
        assert checkpoints.entries(str(odd))['a'].shape == (100,)
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            variables = make_variables(a=[100])
            variables[0] = tf.compat.v1.get_variable('b', initializer=np.zeros(100))
            checkpoints.restore_matching(session, path, variables[:1], {'b': 'a'})
            assert session.run(variables[0])[99] == 99.0

    def test_damage_is_told_with_the_real_path(self, tmp_path, folder):
        path = write(tmp_path / folder, a=np.arange(100.0))
        os.truncate(f'{path}.data-00000-of-00001', 50)
        assert f"'{path}' is damaged (a" in str(checkpoints.damage(path))

    def test_old_checkpoints_go_and_those_of_other_folders_stay(self, tmp_path, folder):
        """What a pattern in place of the path would match: `br[1]x` also means the folder `br1x`."""
        others = [tmp_path / name for name in ('br1x', 'star')]
        for other in others:
            write(other, 1)
        with tf.Graph().as_default():
            tf.compat.v1.train.get_or_create_global_step()
            writer = checkpoints.CheckpointWriter(str(tmp_path / folder), keep=1)
            with tf.compat.v1.Session() as session:
                session.run(tf.compat.v1.global_variables_initializer())
                for step in (1, 2, 3):
                    writer.save(session, step)
        expected = ['checkpoint', 'model.ckpt-3.data-00000-of-00001', 'model.ckpt-3.index']
        assert sorted(file.name for file in (tmp_path / folder).iterdir()) == expected
        for other in others:
            assert (other / 'model.ckpt-1.index').exists()
            assert (other / 'model.ckpt-1.data-00000-of-00001').exists()


def test_a_checkpoint_that_replaces_another_has_no_thresholds_of_it(tmp_path):
    path = write(tmp_path, 3, a=1.0)
    thresholds, other = (pathlib.Path(name + checkpoints.CALIBRATION) for name in (path, f'{path}0'))
    for file in (thresholds, other):
        file.write_text('{}')
    assert write(tmp_path, 3, a=2.0) == path
    assert not thresholds.exists() and other.exists()


def test_a_name_of_a_checkpoint_is_no_pattern_either(tmp_path, monkeypatch):
    path = write(tmp_path, a=2.0)
    odd = str(tmp_path / 'mo[d]el.ckpt')
    for ending in ('.index', '.data-00000-of-00001'):
        os.replace(path + ending, odd + ending)
    monkeypatch.setattr(tempfile, 'tempdir', str(tmp_path / '[1]'))
    assert checkpoints.open_reader(odd).get_tensor('a') == 2.0


class TestNewest:
    def test_none(self, tmp_path):
        assert checkpoints.newest(str(tmp_path)) is None
        assert checkpoints.newest_whole(str(tmp_path)) is None

    def test_state_file_rules(self, tmp_path):
        old, new = write(tmp_path, 5, a=1.0), write(tmp_path, 10, a=1.0)
        assert checkpoints.newest(str(tmp_path)) == new
        state = (tmp_path / 'checkpoint').read_text()
        (tmp_path / 'checkpoint').write_text(state.replace('model.ckpt-10', 'model.ckpt-5'))
        assert checkpoints.newest(str(tmp_path)) == old

    def test_without_state_file_the_highest_step(self, tmp_path):
        write(tmp_path, 9, a=1.0)
        new = write(tmp_path, 10, a=1.0)
        (tmp_path / 'checkpoint').unlink()
        assert checkpoints.newest(str(tmp_path)) == new

    def test_moved_folder(self, tmp_path):
        (tmp_path / 'old').mkdir()
        write(tmp_path / 'old', 3, a=1.0)
        state = f'model_checkpoint_path: "{tmp_path}/old/model.ckpt-3"\n'
        (tmp_path / 'old' / 'checkpoint').write_text(state)
        (tmp_path / 'old').rename(tmp_path / 'new')
        assert checkpoints.newest(str(tmp_path / 'new')) == str(tmp_path / 'new' / 'model.ckpt-3')

    def test_goes_back_over_damaged_ones_and_says_so(self, tmp_path, caplog):
        good, bad = write(tmp_path, 1, a=1.0), write(tmp_path, 2, a=np.arange(100.0))
        damage_file(tmp_path / 'model.ckpt-2.data-00000-of-00001')
        with caplog.at_level('WARNING'):
            assert checkpoints.newest_whole(str(tmp_path)) == good
        assert f"'{bad}' is damaged" in caplog.text
        assert 'Trying the previous checkpoint.' in caplog.text

    def test_files_that_cannot_be_opened_are_not_called_damaged(self, tmp_path, monkeypatch):
        write(tmp_path, 1, a=1.0)

        def refuse(path):
            raise tf.errors.OpError(None, None, f'{path}.index; Permission denied', 2)

        monkeypatch.setattr(tf.train, 'load_checkpoint', refuse)
        with pytest.raises(CheckpointError, match='Permission denied') as error:
            checkpoints.newest_whole(str(tmp_path))
        assert 'damaged' not in str(error.value)

    def test_all_damaged(self, tmp_path):
        write(tmp_path, 1, a=1.0)
        (tmp_path / 'model.ckpt-1.index').write_bytes(b'')
        with pytest.raises(CheckpointError, match='All 1 checkpoints in .* are damaged. Move them'):
            checkpoints.newest_whole(str(tmp_path))


class TestRestore:
    def test_all(self, tmp_path):
        path = write(tmp_path, 4, a=np.ones((2, 3), np.float32), b=5.0)
        with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
            variables = make_variables(a=[2, 3])
            operations = len(graph.get_operations())
            checkpoints.restore_all(session, path, variables)
            assert len(graph.get_operations()) == operations
            np.testing.assert_array_equal(session.run(variables[0]), np.ones((2, 3)))

    def test_all_names_what_differs_and_what_is_missing_and_changes_nothing(self, tmp_path):
        path = write(tmp_path, a=np.ones(21, np.float32), b=5.0)
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            a, b, c = make_variables(a=[3], b=[], c=[2])
            session.run(tf.compat.v1.global_variables_initializer())
            with pytest.raises(CheckpointError) as error:
                checkpoints.restore_all(session, path, [a, b, c])
            assert session.run(b) == 0.0
        message = str(error.value)
        assert f"The checkpoint '{path}' does not match this network" in message
        details = 'In detail: 1 variable differs (a: [3] here, [21] in the checkpoint); it lacks 1 of 3 variables (c)'
        assert message.endswith(f'or pass another checkpoint. {details}')

    def test_matching(self, tmp_path):
        path = write(tmp_path, a=np.ones(21, np.float32), b=5.0, d=np.int32(3))
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            variables = make_variables(a=[3], b=[], c=[2], d=[])
            session.run(tf.compat.v1.global_variables_initializer())
            report = checkpoints.restore_matching(session, path, variables)
            assert session.run(variables[1]) == 5.0
            np.testing.assert_array_equal(session.run(variables[0]), np.zeros(3))
        assert report.restored == ('b',)
        assert report.missing == ('c',)
        expected = ('a: [3] here, [21] in the checkpoint', 'd: float32 here, int32 in the checkpoint')
        assert report.mismatched == expected

    def test_values_that_are_not_finite_are_named(self, tmp_path, caplog):
        path = write(tmp_path, a=np.float32([1, np.nan]), b=5.0)
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            checkpoints.restore_all(session, path, make_variables(a=[2], b=[]))
        assert 'values that are NaN or infinite (a).' in caplog.text


class TestWriter:
    def test_newest_few_stay_and_a_step_is_written_once(self, tmp_path):
        with tf.Graph().as_default():
            tf.compat.v1.train.get_or_create_global_step()
            writer = checkpoints.CheckpointWriter(str(tmp_path), keep=2)
            with tf.compat.v1.Session() as session:
                session.run(tf.compat.v1.global_variables_initializer())
                for step in (0, 1, 2):
                    path = writer.save(session, step)
                time = os.stat(f'{path}.index').st_mtime_ns
                assert writer.save(session, 2) == path
                assert os.stat(f'{path}.index').st_mtime_ns == time
        names = {file.name for file in tmp_path.iterdir()}
        kept = {f'model.ckpt-{step}.{end}' for step in (1, 2) for end in ('index', 'data-00000-of-00001')}
        assert names == {'checkpoint', *kept}

    def test_adopted_checkpoints_count_among_the_kept(self, tmp_path):
        write(tmp_path, 1)
        path = write(tmp_path, 2)
        checkpoints.write_state(str(tmp_path), ['model.ckpt-1', 'model.ckpt-2'])
        with tf.Graph().as_default():
            tf.compat.v1.train.get_or_create_global_step()
            writer = checkpoints.CheckpointWriter(str(tmp_path), keep=2)
            writer.adopt(path, 2)
            with tf.compat.v1.Session() as session:
                session.run(tf.compat.v1.global_variables_initializer())
                writer.save(session, 3)
        assert sorted(file.name for file in tmp_path.glob('*.index')) == ['model.ckpt-2.index', 'model.ckpt-3.index']

    def test_two_devices_still_write_one_file(self, tmp_path):
        with tf.Graph().as_default():
            with tf.device('/cpu:0'):
                tf.compat.v1.get_variable('a', initializer=tf.zeros([2]))
            with tf.device('/cpu:1'):
                tf.compat.v1.get_variable('b', initializer=tf.zeros([2]))
            writer = checkpoints.CheckpointWriter(str(tmp_path))
            proto = tf.compat.v1.ConfigProto(device_count={'CPU': 2})
            with tf.compat.v1.Session(config=proto) as session:
                session.run(tf.compat.v1.global_variables_initializer())
                writer.save(session, 1)
        assert [file.name for file in tmp_path.glob('*.data-*')] == ['model.ckpt-1.data-00000-of-00001']

    def test_folder_that_is_gone(self, tmp_path):
        with tf.Graph().as_default():
            tf.compat.v1.train.get_or_create_global_step()
            writer = checkpoints.CheckpointWriter(str(tmp_path / 'file' / 'inside'))
            (tmp_path / 'file').write_text('')
            with tf.compat.v1.Session() as session:
                session.run(tf.compat.v1.global_variables_initializer())
                with pytest.raises(CheckpointError, match='The checkpoint of step 3 cannot be written'):
                    writer.save(session, 3)


def test_leftovers_of_a_killed_run_are_removed(tmp_path):
    write(tmp_path, 1)
    (tmp_path / 'model.ckpt-2.data-00000-of-00001').write_bytes(b'half')
    (tmp_path / 'model.ckpt-2.data-00000-of-00001.tempstate123').write_bytes(b'half')
    (tmp_path / 'checkpoint.tmpabc').write_text('half')
    (tmp_path / 'notes.txt').write_text('mine')
    checkpoints.remove_leftovers(str(tmp_path))
    expected = ['checkpoint', 'model.ckpt-1.data-00000-of-00001', 'model.ckpt-1.index', 'notes.txt']
    assert sorted(file.name for file in tmp_path.iterdir()) == expected
