"""`deeplab server`: its options, and that it serves."""

import types

import pytest
import tensorflow as tf

from deeplab import cli
from deeplab.core import sessions
from deeplab.errors import MachineError, OptionError
from deeplab.options import CloneOptions, ServerOptions
from deeplab.programs import server
from tests.helpers import servers


def test_it_computes_for_others():
    (master,) = servers.start(workers=1, parameter_servers=0)
    with tf.Graph().as_default(), sessions.open_session(server=sessions.Server(master)) as running:
        assert running.run(tf.constant(2) * 3) == 6


def test_a_port_that_is_taken():
    (master,) = servers.start(workers=1, parameter_servers=0)
    address = master.removeprefix('grpc://')
    with pytest.raises(MachineError, match=f'worker 0 cannot listen at {address}'):
        server.start(ServerOptions('worker', 0, (address,)))


def test_ctrl_c_is_heard(monkeypatch):
    """The command line exits with status 130, as tests/test_distributed_page.py checks."""

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
        (['--job_name=ps'], '--ps_hosts is empty: set HOST:PORT of each ps.'),
        (
            ['--ps_hosts=grpc://a:1'],
            '--ps_hosts=grpc://a:1 is not allowed: each address must be HOST:PORT, with a port from 1 to 65535; '
            'separate several by commas.',
        ),
    ],
)
def test_bad_input_of_a_server(words, message):
    with pytest.raises(OptionError) as error:
        cli.options_of('server', ['--worker_hosts=c:3', *words])
    assert str(error.value) == message


@pytest.mark.parametrize('address', ['a:99999', 'a:0', 'a:port', 'a', ':1', 'a:1/b', 'a:-1', 'a:1_0', '[::1]', 'a b:1'])
def test_addresses_that_are_none(address):
    with pytest.raises(OptionError, match='must be HOST:PORT, with a port from 1 to 65535'):
        ServerOptions('worker', 0, ('c:3', address))
    with pytest.raises(OptionError, match=r'must be the address of a running server, grpc://HOST:PORT, .* 65535'):
        CloneOptions(master=f'grpc://{address}')


@pytest.mark.parametrize(
    ('workers', 'ps', 'message'),
    [
        (('a:1', 'b:1', 'a:1'), (), 'worker_hosts=.* is not allowed: a:1 is the address of worker 0, too'),
        (('a:1', 'A:01'), (), 'A:01 is the address of worker 0, too'),
        (('a:1', 'b:2'), ('b:1', 'b:2'), 'ps_hosts=.* is not allowed: b:2 is the address of worker 1, too'),
        (('localhost:1',), ('127.0.0.1:1',), 'ps_hosts=.* is not allowed: 127.0.0.1:1 is the address of worker 0, too'),
    ],
)
def test_one_address_of_two_servers(workers, ps, message):
    with pytest.raises(OptionError, match=message):
        ServerOptions('worker', 0, workers, ps)


def test_addresses_of_one_machine_or_port():
    assert ServerOptions('worker', 1, ('a:1', 'a:2', '[::1]:65535'), ('b:1', 'c:1')).address == 'a:2'


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
        ({'num_ps_tasks': 1}, ('num_ps_tasks=1', "set master='grpc://HOST:PORT'", 'one machine, set only num_clones')),
        ({'startup_delay_steps': -1}, ('startup_delay_steps=-1', '0 or more')),
    ],
)
def test_bad_input_of_a_training_on_several_machines(changes, parts):
    with pytest.raises(OptionError) as error:
        CloneOptions(**changes)
    assert not [part for part in parts if part not in str(error.value)], str(error.value)
