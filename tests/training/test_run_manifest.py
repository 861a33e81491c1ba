"""The run manifest, run.json: its content, and repeating a run from it.

Covers cli/repeat.py and files/run_manifests.py.
"""

import dataclasses
import json
import os
import pathlib
import subprocess

import pytest

from deeplab import cli, train
from deeplab.cli.repeat import seen_from_here
from deeplab.cli.words import UsageError
from deeplab.datasets.record_index import RecordIndex
from deeplab.errors import CheckpointError, OptionError
from deeplab.training import initial_checkpoint, run_manifest, train_loop, train_run
from tests.helpers import dataset_files, evaluation_setup, training_setup

pytestmark = pytest.mark.usefixtures('tiny_network')


def words(data, logdir, *more):
    """A command line for the tiny network."""
    return [
        f'--dataset={data.name}', f'--dataset_dir={data.directory}', f'--train_logdir={logdir}', '--model_variant=tiny',
        '--train_crop_size=17,33', '--aspp_convs_filters=8', '--train_batch_size=2', '--training_number_of_steps=2',
        *more,
    ]  # fmt: skip


def warnings_of(caplog):
    return [record.getMessage() for record in caplog.records if record.levelname == 'WARNING']


def options_of(*line):
    return cli.options_of('train', [str(word) for word in line])


def begin_only(monkeypatch, error=None):
    """Stops training at its first step, or with `error` before it."""

    def begin(options, data, start, bar, hooks, validator, group):
        if error is not None:
            raise error
        for hook in hooks:
            hook.begin(None, start.step)
        return train_loop.TrainResult(start.step, None, 0.0, None)

    monkeypatch.setattr(train_run, '_train', begin)


def test_what_it_says(data, tmp_path, monkeypatch):
    line = words(data, tmp_path / 'log', '--seed', '5', '--noadd_image_level_feature', '--atrous_rates=6,12')
    chosen = options_of(*line)
    begin_only(monkeypatch)
    train.run(chosen)
    content = json.loads((tmp_path / 'log' / 'run.json').read_text())
    (run,) = content['runs']
    assert content['format'] == 1
    assert run['command'] == [*line[:-4], '--seed=5', '--add_image_level_feature=false', '--atrous_rates=6,12']
    assert run['command_line'].startswith('deeplab train --dataset=')
    assert cli.options_of('train', run['command']) == chosen
    assert (run['seed'], run['first_step'], run['folder']) == (5, 0, os.getcwd())
    assert run['options']['model']['aspp']['rates'] == [6, 12]
    rates, image_level, seed = 'AsppOptions.rates', 'AsppOptions.image_level_feature', 'TrainOptions.seed'
    assert {rates: [6, 12], image_level: False, seed: 5}.items() <= run['given'].items()
    assert 'ModelOptions.output_stride' not in run['given'] and run['plugins'] == []
    assert run['options']['optimizer']['weight_decay'] == 4e-5
    assert run['options']['model']['outputs_to_num_classes'] == {'semantic': 3}
    assert run['versions'].keys() >= {'deeplab', 'python', 'tensorflow', 'numpy'}
    assert (run['records']['split'], run['records']['images']) == ('train', 7)
    assert run['records']['shards'].keys() == {f'train-0000{i}-of-00002.tfrecord' for i in range(2)}
    assert run['machine']['cores'] >= 1
    assert run['machine']['memory_gb'] > 0
    assert run['machine']['processor']


def test_every_field_of_the_options_is_in_it(data, tmp_path):
    chosen = training_setup.options(data, tmp_path)
    found = run_manifest.options_as_json(chosen)
    of_command_line = {'command', 'recipe_flags', 'given', 'plugins', 'repeats'}
    assert found.keys() == {field.name for field in dataclasses.fields(chosen)} - of_command_line
    assert json.loads(json.dumps(found)) == found


def test_a_resume_adds_a_run(data, tmp_path, monkeypatch, caplog):
    logdir = tmp_path / 'log'
    begin_only(monkeypatch)
    train.run(options_of(*words(data, logdir)))
    evaluation_setup.write_checkpoint(logdir, step=2)
    assert not [line for line in warnings_of(caplog) if 'resumes' in line]
    train.run(options_of(*words(data, logdir, '--training_number_of_steps=3')))
    (changes,) = [line for line in warnings_of(caplog) if 'resumes at step 2 with other settings' in line]
    assert 'number_of_steps: 2 -> 3.' in changes
    train.run(options_of(*words(data, logdir)))  # nothing to do
    first, second = json.loads((logdir / 'run.json').read_text())['runs']
    assert (first['first_step'], second['first_step']) == (0, 2)
    assert second['options']['number_of_steps'] == 3
    assert first['records'] == second['records']
    assert not [path.name for path in logdir.iterdir() if 'tmp' in path.name]


def test_a_run_from_the_checkpoint_of_step_0_has_the_initial_checkpoint_of_its_weights(
    data, tmp_path, monkeypatch, caplog
):
    logdir, first, other = tmp_path / 'log', tmp_path / 'first', tmp_path / 'other'
    begin_only(monkeypatch)
    for number, folder in enumerate((first, other)):
        evaluation_setup.write_checkpoint(folder, step=number)
    train.run(options_of(*words(data, logdir, f'--tf_initial_checkpoint={first}/model.ckpt-0')))
    evaluation_setup.write_checkpoint(logdir, step=0)
    train.run(options_of(*words(data, logdir, f'--tf_initial_checkpoint={other}/model.ckpt-1')))
    runs = json.loads((logdir / 'run.json').read_text())['runs']
    assert [run['initial_checkpoint']['path'] for run in runs] == [f'{first}/model.ckpt-0'] * 2
    (line,) = [line for line in warnings_of(caplog) if 'begins with the weights of' in line]
    assert f'{logdir}/model.ckpt-0' in line
    assert '/other/model.ckpt-1' in line.rpartition(' -> ')[2]  # a long path is shortened


def test_a_run_that_is_refused_is_not_in_it(data, tmp_path, monkeypatch):
    logdir = tmp_path / 'log'
    begin_only(monkeypatch)
    train.run(options_of(*words(data, logdir)))
    begin_only(monkeypatch, CheckpointError('it does not fit this network'))
    with pytest.raises(CheckpointError):
        train.run(options_of(*words(data, logdir, '--optimizer=adam')))
    assert len(json.loads((logdir / 'run.json').read_text())['runs']) == 1
    assert options_of(f'--from={logdir}').optimizer.name == 'momentum'


def test_it_is_repeated(data, tmp_path, monkeypatch, caplog):
    begin_only(monkeypatch)
    first = options_of(*words(data, tmp_path / 'log', '--seed=9'))
    train.run(first)
    repeated = options_of(f'--from={tmp_path}/log/run.json', f'--train_logdir={tmp_path}/again')
    train.run(repeated)
    assert repeated.seed == 9
    same = {'train_logdir': first.train_logdir, 'command': first.command, 'repeats': None}
    assert dataclasses.replace(repeated, **same) == first
    told = warnings_of(caplog)
    assert not [line for line in told if line.startswith(('The records', 'Versions'))]
    run = run_manifest.load(str(tmp_path / 'again'))
    assert run['command'][-1] == f'--train_logdir={tmp_path}/again'
    assert not [word for word in run['command'] if 'from' in word]
    third = options_of(f'--from={tmp_path}/again')  # the folder will do, and a repetition can be repeated
    assert dataclasses.replace(third, repeats=repeated.repeats) == repeated


@pytest.mark.parametrize('flag', ['dataset_dir', 'unlabeled_dir', 'train_logdir', 'log_dir'])
def test_relative_paths_are_those_of_the_run(flag, tmp_path, monkeypatch):
    for folder in ('here', 'there'):
        (tmp_path / folder / 'photos').mkdir(parents=True)
    monkeypatch.chdir(tmp_path / 'here')
    assert seen_from_here(flag, 'photos', str(tmp_path / 'there')) == str(tmp_path / 'there/photos')


def test_flags_beside_it_win(data, tmp_path, monkeypatch):
    begin_only(monkeypatch)
    train.run(options_of(*words(data, tmp_path / 'log', '--atrous_rates=6', '--atrous_rates=12', '--seed=9')))
    chosen = options_of(f'--from={tmp_path}/log', '--atrous_rates=3', '--seed', '1', '--nofine_tune_batch_norm')
    assert chosen.model.aspp.rates == (3,)
    assert chosen.seed == 1
    assert not chosen.fine_tune_batch_norm
    assert chosen.train_logdir == str(tmp_path / 'log')


def test_another_folder_finds_the_same_files(data, tmp_path, monkeypatch):
    begin_only(monkeypatch)
    monkeypatch.chdir(tmp_path)
    relative = dataclasses.replace(data, name='records/tiny.json', directory='records')
    train.run(options_of(*words(relative, 'log', '--tf_initial_checkpoint=')))
    (tmp_path / 'elsewhere').mkdir()
    monkeypatch.chdir(tmp_path / 'elsewhere')
    chosen = options_of('--from=../log')
    assert chosen.train_logdir == str(tmp_path / 'log')
    assert (chosen.dataset.directory, chosen.dataset.name) == (
        str(tmp_path / 'records'),
        f'{tmp_path}/records/tiny.json',
    )
    assert chosen.model.dense_prediction_cell_json is None
    named = dataclasses.replace(relative, name='cityscapes')
    (tmp_path / 'log' / 'run.json').write_text(
        json.dumps({'runs': [{'command': words(named, 'log'), 'folder': str(tmp_path)}]})
    )
    assert options_of('--from=../log').dataset.name == 'cityscapes'


def repeat(folder, monkeypatch, data, line, *more):
    """The options of a run that was started in `folder` and repeated from a folder below it."""
    (folder / 'run.json').write_text(
        json.dumps({'runs': [{'command': words(data, 'log', *line), 'folder': str(folder)}]})
    )
    (folder / 'elsewhere').mkdir(exist_ok=True)
    monkeypatch.chdir(folder / 'elsewhere')
    return options_of('--from=../run.json', *more)


def test_a_map_of_names_is_found_where_it_is_a_file(data, tmp_path, monkeypatch):
    (tmp_path / 'map.json').write_text('{"a": "b"}')
    (tmp_path / 'a=b').write_text('no map')
    line = ['--tf_initial_checkpoint=model.ckpt', '--checkpoint_rename_map=map.json']
    assert repeat(tmp_path, monkeypatch, data, line).restore.rename_map == f'{tmp_path}/map.json'
    line[1] = '--checkpoint_rename_map=a=b'
    assert repeat(tmp_path, monkeypatch, data, line).restore.rename_map == 'a=b'


def test_a_folder_of_a_data_set_s_name_is_not_the_data_set(data, tmp_path, monkeypatch):
    (tmp_path / 'camvid').mkdir()
    named = dataclasses.replace(data, name='camvid', directory='camvid')
    found = repeat(tmp_path, monkeypatch, named, []).dataset
    assert (found.name, found.directory) == ('camvid', f'{tmp_path}/camvid')


def test_a_flag_can_be_taken_away(data, tmp_path, monkeypatch):
    line = ['--clip_gradient_norm=1', '--atrous_rates=6', '--atrous_rates=12', '--eval_split=val', '--eval_every=5']
    assert repeat(tmp_path, monkeypatch, data, line).optimizer.clip_gradient_norm == 1
    more = ['--clip_gradient_norm=', '-atrous_rates=', '--eval_split=', '--eval_every=', '--seed=3']
    chosen = repeat(tmp_path, monkeypatch, data, line, *more)
    plain = options_of(*words(data, f'{tmp_path}/log', '--seed=3'))
    assert dataclasses.replace(chosen, repeats=None, command=()) == dataclasses.replace(plain, command=())
    flags = [word for word in chosen.command if 'clip' in word or 'rates' in word]
    assert flags == ['--clip_gradient_norm=', '--atrous_rates=']
    for value in ('none', 'Null'):
        with pytest.raises(UsageError, match=f'--clip_gradient_norm={value} .* write --clip_gradient_norm= for'):
            repeat(tmp_path, monkeypatch, data, line, f'--clip_gradient_norm={value}')
    with pytest.raises(UsageError, match='--train_batch_size= is not allowed: it must be a whole number'):
        repeat(tmp_path, monkeypatch, data, line, '--train_batch_size=')


def test_an_empty_split_is_no_validation(data):
    assert not options_of(*words(data, 'log', '--eval_split=')).validation.is_on


def test_other_records_versions_and_code_are_told(data, tmp_path, monkeypatch, caplog):
    begin_only(monkeypatch)
    train.run(options_of(*words(data, tmp_path / 'log')))
    path = tmp_path / 'log' / 'run.json'
    content = json.loads(path.read_text())
    content['runs'][0]['versions']['tensorflow'] = '1.15'
    content['runs'][0]['git'] = {'revision': 'f' * 40, 'is_changed': False}
    path.write_text(json.dumps(content))
    dataset_files.write_split(
        pathlib.Path(data.directory), 'train', [[dataset_files.record(40)], [dataset_files.record(41)]]
    )
    caplog.clear()
    train.run(options_of(f'--from={path}', f'--train_logdir={tmp_path}/again'))
    told = warnings_of(caplog)[-3:]
    assert told[0].startswith('The records differ from the run that is repeated: 7 images then (')
    assert ', 2 now (' in told[0]
    assert told[1].startswith('Versions differ from the run that is repeated: tensorflow 1.15 then, 2.')
    assert told[2].startswith('The code differs from the run that is repeated: revision ffffffffffff then, ')


class TestInitialCheckpointAndValidation:
    def run_of(self, digest, **changes):
        found = {'path': 'model.ckpt', 'digest': digest}
        known = {
            'records': {'digest': 'a'},
            'git': None,
            'versions': {},
            'initial_checkpoint': found,
            'validation_records': None,
        }
        return {'command': ['--seed=1'], **known, **changes}

    def test_the_digest_follows_the_index(self, tmp_path):
        path = tmp_path / 'model.ckpt'
        assert run_manifest.checkpoint(str(path))['digest'] is None
        pathlib.Path(f'{path}.index').write_text('1')
        first = run_manifest.checkpoint(str(path))
        pathlib.Path(f'{path}.index').write_text('2')
        assert first['path'] == str(path)
        assert first['digest'].startswith('sha256:')
        assert first['digest'] != run_manifest.checkpoint(str(path))['digest']

    def test_others_are_told(self):
        old, new = self.run_of('sha256:abc'), self.run_of('sha256:def')
        assert run_manifest.differences(old, old) == []
        (line,) = run_manifest.differences(old, new)
        assert line.startswith('The initial checkpoint differs')
        assert line.endswith('model.ckpt then (abc), model.ckpt now (def).')
        records = [{'digest': digest, 'images': 3, 'split': 'val'} for digest in ('sha256:1', 'sha256:2')]
        old, new = (self.run_of('a', validation_records=each) for each in records)
        (line,) = run_manifest.differences(old, new)
        assert line.startswith('The validation records differ')
        assert '3 images of split val then (1), 3 of split val now (2).' in line

    @pytest.mark.parametrize('old', [{}, {'initial_checkpoint': None}, {'initial_checkpoint': {'digest': None}}])
    def test_nothing_is_said_of_what_was_not_noted(self, old):
        new = self.run_of('b', validation_records={'digest': 'c', 'images': 3, 'split': 'val'})
        assert run_manifest.differences({'records': {'digest': 'a'}, **old}, new) == []

    def test_a_run_that_went_on_has_that_of_the_first(self, tmp_path):
        resumed = self.run_of(None, initial_checkpoint=None, first_step=2)
        for number, earlier in enumerate([[self.run_of('a', first_step=0)], []]):
            path = tmp_path / f'{number}.json'
            path.write_text(json.dumps({'runs': [*earlier, resumed, resumed]}))
            found = run_manifest.load(str(path))['initial_checkpoint']
            assert found == (earlier[0]['initial_checkpoint'] if earlier else None)

    def test_training_notes_them(self, data, tmp_path, monkeypatch):
        begin_only(monkeypatch)
        monkeypatch.setattr(initial_checkpoint, 'check', lambda options: None)
        dataset_files.write_split(pathlib.Path(data.directory), 'val', [[dataset_files.record(40)]])
        (tmp_path / 'model.ckpt-7.index').write_text('tensors')
        train.run(options_of(*words(data, tmp_path / 'log', f'--tf_initial_checkpoint={tmp_path}')))
        run = run_manifest.load(str(tmp_path / 'log'))
        assert run['initial_checkpoint'] == run_manifest.checkpoint(f'{tmp_path}/model.ckpt-7')
        assert run['validation_records'] is None
        train.run(options_of(*words(data, tmp_path / 'log', '--eval_split=val', '--eval_every=2')))
        run = run_manifest.load(str(tmp_path / 'log'))
        assert run['initial_checkpoint'] is None
        assert (run['validation_records']['split'], run['validation_records']['images']) == ('val', 1)


class TestDigest:
    def digest(self, folder):
        paths = sorted(str(path) for path in folder.glob('train-*'))
        return RecordIndex(paths).facts()['digest']

    def test_it_changes_with_a_pixel_and_not_with_the_shards(self, tmp_path):
        records = [dataset_files.record(seed) for seed in range(4)]
        dataset_files.write_split(tmp_path / 'a', 'train', [records])
        dataset_files.write_split(tmp_path / 'b', 'train', [records[:1], records[1:]])
        ids = dataset_files.ids(seed=3)
        ids[0, 0] = (ids[0, 0] + 1) % 3
        other = dataset_files.record(3, label=dataset_files.png(ids))
        assert len(other) - len(records[3]) in range(-9, 10)
        dataset_files.write_split(tmp_path / 'c', 'train', [[*records[:3], other]])
        dataset_files.write_split(tmp_path / 'd', 'train', [records[::-1]])
        digests = [self.digest(tmp_path / name) for name in 'abcd']
        assert digests[0] == digests[1]
        assert len(set(digests)) == 3
        assert digests[0].startswith('sha256:')


class TestGit:
    def test_a_checkout_and_a_package_that_is_only_installed_in_one(self, tmp_path):
        package = tmp_path / 'package'
        package.mkdir()
        (package / '__init__.py').write_text('')
        assert run_manifest.git_revision(package) is None

        def git(*line):
            identity = ['-c', 'user.name=a', '-c', 'user.email=a@b', '-c', 'commit.gpgsign=false']
            subprocess.run(['git', *identity, *line], cwd=tmp_path, check=True, capture_output=True)

        git('init', '-q')
        assert run_manifest.git_revision(package) is None
        git('add', '.')
        git('commit', '-q', '-m', 'first')
        found = run_manifest.git_revision(package)
        assert len(found['revision']) == 40
        assert found['is_changed'] is False
        (package / '__init__.py').write_text('1')
        assert run_manifest.git_revision(package)['is_changed'] is True

    def test_no_git(self, tmp_path, monkeypatch):
        monkeypatch.setenv('PATH', '')
        assert run_manifest.git_revision(tmp_path) is None


_NO_RUNS = ('', '1', '{}', '{"command": [], "first_step": null}')


class TestBadInput:
    def test_no_such_file(self, tmp_path):
        with pytest.raises(OptionError, match=r"--from=.*: '.*none' cannot be read \(No such file.*Pass the run.json"):
            options_of(f'--from={tmp_path}/none')

    @pytest.mark.parametrize('text', ['', '{', '[]', *(f'{{"runs": [{run}]}}' for run in _NO_RUNS), '[' * 10_000])
    def test_something_else(self, tmp_path, text):
        (tmp_path / 'run.json').write_text(text)
        with pytest.raises(OptionError, match=r'is not a run manifest. Pass the run.json of a --train_logdir'):
            options_of(f'--from={tmp_path}')

    def test_a_byte_order_mark_is_skipped_and_other_bytes_are_refused(self, tmp_path):
        (tmp_path / 'run.json').write_text('\ufeff{"runs": [{"command": []}]}', 'utf-8')
        assert run_manifest.load(str(tmp_path)) == {'command': []}
        (tmp_path / 'run.json').write_bytes(b'\xff\xd8')
        with pytest.raises(OptionError, match='is not a run manifest'):
            run_manifest.load(str(tmp_path))

    def test_a_run_without_a_line(self, tmp_path):
        (tmp_path / 'run.json').write_text('{"runs": [{"command": []}]}')
        with pytest.raises(UsageError, match='that run was started from Python'):
            options_of(f'--from={tmp_path}')

    def test_a_flag_that_is_no_more(self, data, tmp_path):
        content = {'runs': [{'command': [*words(data, 'log'), '--old_flag=1']}]}
        (tmp_path / 'run.json').write_text(json.dumps(content))
        with pytest.raises(UsageError, match='Unknown flag --old_flag'):
            options_of(f'--from={tmp_path}')

    def test_a_file_in_its_place_is_kept(self, tmp_path, caplog):
        (tmp_path / 'run.json').write_text('mine')
        run_manifest.write(str(tmp_path), {'command': []})
        assert (tmp_path / 'run.json.unreadable').read_text() == 'mine'
        assert run_manifest.load(str(tmp_path)) == {'command': []}
        assert 'is not a run manifest; it is kept as run.json.unreadable.' in caplog.text
