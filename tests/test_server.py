"""`deeplab server`: its options, and that it serves."""

import types

import pytest
import tensorflow as tf

from deeplab import cli, server
from deeplab.core import sessions
from deeplab.errors import MachineError, OptionError
from deeplab.options import CloneOptions, ServerOptions
from tests import servers


def test_it_computes_for_others():
    (master,) = servers.start(workers=1, parameter_servers=0)
    with tf.Graph().as_default(), sessions.open_session(master=master) as running:
        assert running.run(tf.constant(2) * 3) == 6


def test_a_port_that_is_taken():
    (master,) = servers.start(workers=1, parameter_servers=0)
    address = master.removeprefix('grpc://')
    with pytest.raises(MachineError, match=f'worker 0 cannot listen at {address}'):
        server.start(ServerOptions('worker', 0, (address,)))


def test_ctrl_c_is_heard(monkeypatch):
    """The command line exits with status 130, as test_several_machines.py checks."""

    def wait():
        raise KeyboardInterrupt

    monkeypatch.setattr(server, 'threading', types.SimpleNamespace(Event=lambda: types.SimpleNamespace(wait=wait)))
    monkeypatch.setattr(server, 'start', lambda options: types.SimpleNamespace(target='grpc://here:1'))
    with pytest.raises(KeyboardInterrupt):
        server.run(ServerOptions('worker', 0, ('here:1',)))


def test_the_line():
    words = ['--job_name=ps', '--task=1', '--ps_hosts=a:1,b:2', '--worker_hosts=c:3']
    options = cli.options_of('server', words)
    assert options == ServerOptions('ps', 1, ('c:3',), ('a:1', 'b:2'))
    assert options.address == 'b:2'


@pytest.mark.parametrize(
    ('words', 'message'),
    [
        (['--task=1'], '--task=1 is not allowed: --worker_hosts has the servers 0 to 0.'),
        (['--job_name=ps'], '--ps_hosts is empty: give HOST:PORT of each ps.'),
        (
            ['--ps_hosts=grpc://a:1'],
            '--ps_hosts=grpc://a:1 is not allowed: each address must be HOST:PORT; separate several by commas.',
        ),
    ],
)
def test_bad_input_of_a_server(words, message):
    with pytest.raises(OptionError) as error:
        cli.options_of('server', ['--worker_hosts=c:3', *words])
    assert str(error.value) == message


@pytest.mark.parametrize(
    ('changes', 'parts'),
    [
        ({'task': 1}, ('task=1', 'num_replicas=1', 'must be 0')),
        (
            {'task': 2, 'num_replicas': 2, 'num_ps_tasks': 1, 'master': 'grpc://a:1'},
            ('task=2', 'num_replicas=2', 'from 0 to 1'),
        ),
        ({'master': 'here:2222'}, ("master='here:2222'", 'grpc://HOST:PORT')),
        ({'num_replicas': 2, 'master': 'grpc://a:1'}, ('num_replicas=2', 'parameter servers', 'set num_ps_tasks')),
        ({'num_ps_tasks': 1}, ('num_ps_tasks=1', "set master='grpc://HOST:PORT'")),
        ({'startup_delay_steps': -1}, ('startup_delay_steps=-1', '0 or more')),
    ],
)
def test_bad_input_of_a_training_on_several_machines(changes, parts):
    with pytest.raises(OptionError) as error:
        CloneOptions(**changes)
    assert not [part for part in parts if part not in str(error.value)], str(error.value)
