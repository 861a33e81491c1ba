"""Programs that read records from a web server give, to the byte, what they give with records on a disk."""

import dataclasses
import json
import pathlib

import pytest

from benchmarks import _folder_server
from deeplab import cli, train
from deeplab import eval as eval_program
from deeplab.errors import DataError
from deeplab.files import remote
from deeplab.options import DoctorOptions, EvalOptions, WaitOptions
from deeplab.programs import doctor
from tests.helpers import training_setup

for name in ('fsspec', 'aiohttp'):
    pytest.importorskip(name, reason=f'the package {name} is not installed')

pytestmark = pytest.mark.usefixtures('tiny_network')
STEPS = 9  # more than an epoch


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    """Records on a disk."""
    return training_setup.write_data(tmp_path_factory.mktemp('records'))


@pytest.fixture
def server(data, monkeypatch):
    """A web server that refuses every fifth answer."""
    monkeypatch.setattr(remote, 'FIRST_WAIT_SECS', 0.01)
    with _folder_server.serving(pathlib.Path(data.directory)) as running:
        running.fault = lambda method, name, number: 503 if len(running.requests) % 5 == 0 else None
        yield running


def on_server(data, server):
    return dataclasses.replace(data, directory=server.address, name=f'{server.address}/{pathlib.Path(data.name).name}')


def content(result):
    folder = pathlib.Path(result.checkpoint).parent
    return [path.read_bytes() for path in sorted(folder.glob('model.ckpt-*.data-*'))]


@pytest.mark.parametrize('skips', [False, True])
def test_a_training_and_its_evaluation(data, server, tmp_path, skips):
    data = dataclasses.replace(data, skip_corrupt_records=skips)
    far = on_server(data, server)
    near = training_setup.trained(data, tmp_path / 'near', STEPS)
    result = train.run(training_setup.options(far, tmp_path / 'far', STEPS))
    assert content(result) == content(near) != []
    assert training_setup.losses(tmp_path / 'far') == training_setup.losses(tmp_path / 'near')
    assert server.requests and {given for _, name, given in server.requests if name.startswith('train')} > {None}
    options = training_setup.options(data, tmp_path)
    rounds = [
        eval_program.run(
            EvalOptions(
                dataclasses.replace(options.model, crop_size=(33, 33)), each, str(tmp_path / 'near'),
                str(tmp_path / f'eval_{number}'), wait=WaitOptions(0, 1, 0),
            )
        ).rounds[0]
        for number, each in enumerate((data, far))
    ]  # fmt: skip
    assert rounds[0].metrics == rounds[1].metrics


def test_an_outage_ends_a_training_that_can_be_resumed(data, server, tmp_path, monkeypatch):
    """The error names file and tries, and the last checkpoint; the run that resumes is as one without an outage."""
    monkeypatch.setattr(remote, 'TRIES', 3)
    near = training_setup.trained(data, tmp_path / 'near', STEPS)
    options = training_setup.options(on_server(data, server), tmp_path / 'far', STEPS)
    checked, taken = 2 + training_setup.IMAGES, 10  # requests before the first step, and of the steps before the outage

    def fault(method, name, number):
        read = [each for each in server.requests if each[0] == 'GET' and each[1].startswith('train')]
        return 503 if len(read) > checked + taken else None

    server.fault = fault
    with pytest.raises(DataError, match=r"Cannot read 'http.*train-0000.*status 503 \(3 tries in .*No step is lost: "):
        train.run(options)
    server.fault = lambda method, name, number: None
    result = train.run(options)
    assert content(result)[-1] == content(near)[-1] and 0 < len(training_setup.losses(tmp_path / 'far')) == STEPS


def test_doctor(data, server, tmp_path):
    findings = [
        doctor.run(DoctorOptions(folder, dataset=data.name, output=str(tmp_path / f'{number}.json')))
        for number, folder in enumerate((data.directory, server.address))
    ]
    near, far = (json.loads((tmp_path / f'{number}.json').read_text()) for number in (0, 1))
    assert near['findings'] == far['findings'] and len(findings) == 2
    assert near['splits'] == far['splits']


def test_command_lines(data, server, tmp_path, capsys):
    assert cli.main(['datasets', server.address]) == 0
    assert 'train  7 images in 2 shards' in capsys.readouterr().out
    folders = [f'--dataset_dir={server.address}', f'--eval_logdir={tmp_path}']
    assert cli.main(['eval', *folders, '--checkpoint_dir=https://host/log']) == 2
    assert '--checkpoint_dir=https://host/log is not allowed: it must be on a local disk' in capsys.readouterr().err
