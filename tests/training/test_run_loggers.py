"""Experiment trackers: what a training tells them, and the examples in docs/plugins.

Covers training/run_loggers.py, training/loggers/tensorboard.py and registry/loggers.py.
"""

import dataclasses
import json
import pathlib
import sys
import types

import pytest

from deeplab import cli, train
from deeplab.errors import OptionError
from deeplab.files import user_modules
from deeplab.options import LoggerOptions, ValidationOptions
from deeplab.registry import LOGGERS, LoggedRun, Logger, Parameter, RunLogger, register
from deeplab.system import packages
from deeplab.training.run_loggers import RunLoggers
from deeplab.training.train_loop import TrainResult
from tests.helpers import dataset_files, training_setup
from tests.helpers.registries import changes_undone

pytestmark = pytest.mark.usefixtures('tiny_network')
PLUGINS = pathlib.Path(__file__).parents[2] / 'docs' / 'plugins'


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    data = training_setup.write_data(tmp_path_factory.mktemp('loggers') / 'records')
    dataset_files.write_split(pathlib.Path(data.directory), 'val', [[dataset_files.record(9, 21, 33)]])
    return data


@pytest.fixture
def calls():
    """The calls of a registered logger `notes`, whose method `notes_broken` raises an exception."""
    calls = []

    class Notes(RunLogger):
        def __init__(self, run, notes_broken):
            self._broken = notes_broken
            self._note('create', run)

        def _note(self, name, *arguments):
            calls.append((name, *arguments))
            if name == self._broken:
                raise ValueError('the tracker is down\nfor today')

        def scalars(self, step, values):
            self._note('scalars', step, values)

        def summary(self, step, summary):
            self._note('summary', step, summary)

        def validation(self, step, figures):
            self._note('validation', step, figures)

        def end(self, status, reason):
            self._note('end', status, reason)

    with changes_undone(LOGGERS):
        broken = Parameter('notes_broken', 'none', 'Method of notes that fails.')
        register(Logger(name='notes', summary='Notes.', create=Notes, parameters=(broken,)))
        yield calls


def test_a_logger_is_told_what_happens(data, tmp_path, calls):
    validation = ValidationOptions('val', 2)
    loggers = LoggerOptions(('notes', 'tensorboard'))
    options = training_setup.options(data, tmp_path / 'log', 3, loggers=loggers, validation=validation, log_steps=2)
    train.run(options)
    assert [call[0] for call in calls] == ['create', 'scalars', 'validation', 'validation', 'end']  # in order
    run = calls[0][1]
    assert (run.directory, run.step) == (str(tmp_path / 'log'), 0)
    assert run.manifest == json.loads((tmp_path / 'log' / 'run.json').read_text())['runs'][0]
    flat = run.options()
    assert (flat['optimizer.learning_rate.base'], flat['batch_size'], flat['loggers.names'][0]) == (0.05, 2, 'notes')
    assert not any(isinstance(value, dict) and value for value in flat.values())
    lines = [json.loads(line) for line in (tmp_path / 'log' / 'metrics.jsonl').read_text().splitlines()]
    (_, step, values), (_, validated, figures) = calls[1:3]
    assert (step, validated) == (2, 2)
    assert values == {name: value for name, value in lines[0].items() if name not in ('step', 'time')}
    assert figures['eval/miou_1.0_overall'] == lines[1]['miou']
    assert None not in figures.values()
    assert calls[-1] == ('end', 'finished', '')
    assert list((tmp_path / 'log').glob('events.out.*')) and list((tmp_path / 'log' / 'eval').glob('events.out.*'))


@pytest.mark.parametrize('broken', ['create', 'scalars', 'end'])
def test_a_logger_that_fails_does_not_end_training(broken, data, tmp_path, calls, caplog):
    loggers = LoggerOptions(('notes',), {'notes_broken': broken})
    log = tmp_path / 'log'
    train.run(training_setup.options(data, log, 3, loggers=loggers))
    plain = tmp_path / 'plain'
    training_setup.trained(data, plain, 3)
    assert training_setup.losses(log) == training_setup.losses(plain)
    warnings = [message for message in caplog.messages if message.startswith('The logger ')]
    assert warnings == ['The logger notes has failed (ValueError: the tracker is down). Training continues without it.']
    assert [call[0] for call in calls].count(broken) == 1
    assert not list(log.glob('events.out.*'))  # TensorBoard is not among the loggers


@pytest.mark.parametrize(
    ('ended', 'expected'),
    [
        (TrainResult(3, 1.0, 0.1, None, signal=15), ('end', 'stopped', '')),
        (OptionError('the loss\nis not finite'), ('end', 'failed', 'the loss')),
        (KeyboardInterrupt(), ('end', 'failed', 'KeyboardInterrupt')),
    ],
)
def test_a_logger_is_told_how_training_ends(ended, expected, tmp_path, calls):
    loggers = RunLoggers(LoggerOptions(('notes',)))

    def run():
        loggers.begin(None, 0)
        if isinstance(ended, BaseException):
            raise ended
        return ended

    if isinstance(ended, BaseException):
        with pytest.raises(type(ended)):
            loggers.run(LoggedRun(str(tmp_path), 0, {}), run)
    else:
        assert loggers.run(LoggedRun(str(tmp_path), 0, {}), run) is ended
    assert calls[1:] == [expected]


def test_a_training_that_does_not_begin_is_not_logged(tmp_path, calls):
    loggers = RunLoggers(LoggerOptions(('notes',)))

    def run():
        raise OptionError('no memory')

    with pytest.raises(OptionError):
        loggers.run(LoggedRun(str(tmp_path), 0, {}), run)
    assert calls == []


def test_the_flag(calls):
    line = ['--train_logdir=logs', '--dataset_dir=records']
    assert cli.options_of('train', line).loggers.names == ('tensorboard',)
    assert cli.options_of('train', [*line, '--logger=']).loggers.names == ()
    options = cli.options_of('train', [*line, '--logger=tensorboard,notes', '--notes_broken=end']).loggers
    assert (options.names, options.notes_broken) == (('tensorboard', 'notes'), 'end')
    with pytest.raises(OptionError, match='--logger=wandb is not known.*Known: notes, tensorboard'):
        cli.options_of('train', [*line, '--logger=wandb'])
    with pytest.raises(OptionError, match='--notes_broken=end is not allowed: it applies to notes only'):
        cli.options_of('train', [*line, '--notes_broken=end'])


def _line(data, plugin, *words):
    model = ['--model_variant=tiny', '--train_crop_size=17,33', '--aspp_convs_filters=8', '--train_batch_size=2']
    return [
        *(f'--plugins={PLUGINS / plugin}', f'--dataset={data.name}', f'--dataset_dir={data.directory}', *model),
        *('--log_steps=1', '--eval_split=val', '--eval_every=2', '--train_logdir=log', *words),
    ]


@pytest.mark.slow
def test_mlflow_with_its_local_store(data, tmp_path, monkeypatch):
    if packages.missing(['mlflow']):
        pytest.skip('mlflow is not installed')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv('MLFLOW_TRACKING_URI', (tmp_path / 'runs').as_uri())
    monkeypatch.setenv('MLFLOW_DISABLE_TELEMETRY', 'true')
    monkeypatch.setenv('MLFLOW_ALLOW_FILE_STORE', 'true')
    with changes_undone(LOGGERS):
        for steps in (2, 4):  # the second one resumes
            words = ['--logger=tensorboard,mlflow', f'--training_number_of_steps={steps}']
            assert cli.main(['train', *_line(data, 'mlflow_logger.py', *words, '--mlflow_experiment=street')]) == 0
    from mlflow.tracking import MlflowClient

    client = MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name('street').experiment_id])
    assert run.info.status == 'FINISHED'
    assert run.data.params['model.model_variant'] == 'tiny'
    lines = [json.loads(line) for line in pathlib.Path('log/metrics.jsonl').read_text().splitlines()]
    losses = {metric.step: metric.value for metric in client.get_metric_history(run.info.run_id, 'loss')}
    assert losses == {line['step']: line['loss'] for line in lines if 'loss' in line}
    mious = client.get_metric_history(run.info.run_id, 'eval/miou_1.0_overall')
    assert [(metric.step, metric.value) for metric in mious] == [
        (line['step'], line['miou']) for line in lines if 'miou' in line
    ]
    assert sorted(file.path for file in client.list_artifacts(run.info.run_id)) == ['run-0.json', 'run-2.json']


def test_weights_and_biases_with_a_stand_in(data, tmp_path, monkeypatch):
    """Calls the functions of wandb that the example needs, as wandb documents them, without the package."""
    logged, started, ended = [], [], []

    class Run:
        id = 'abc123'
        summary = {}

        def define_metric(self, name, step_metric):
            assert (name, step_metric) == ('*', 'step')

        def log(self, values):
            logged.append(values)

        def finish(self, exit_code):
            ended.append(exit_code)

    def init(*, project, dir, id, resume, config):
        started.append((project, id, resume, config['model.model_variant']))
        return Run()

    monkeypatch.setitem(sys.modules, 'wandb', types.SimpleNamespace(init=init))
    monkeypatch.chdir(tmp_path)
    with changes_undone(LOGGERS):
        user_modules.run_file(PLUGINS / 'wandb_logger.py', 'plugin')
        for steps in (2, 3):
            options = training_setup.options(data, tmp_path / 'log', steps, loggers=LoggerOptions(('wandb',)))
            train.run(dataclasses.replace(options, validation=ValidationOptions('val', 2)))
    assert started == [('deeplab', None, 'allow', 'tiny'), ('deeplab', 'abc123', 'allow', 'tiny')]
    assert [values['step'] for values in logged if 'loss' in values] == [1, 2, 3]
    assert [values['step'] for values in logged if 'eval/miou_1.0_overall' in values] == [2, 3]
    assert (ended, Run.summary) == ([0, 0], {'status': 'finished'})


def test_the_page_shows_the_example():
    page = (PLUGINS.parent / 'extending.md').read_text(encoding='utf-8')
    assert f'# mlflow_logger.py\n{(PLUGINS / "mlflow_logger.py").read_text(encoding="utf-8")}```' in page
