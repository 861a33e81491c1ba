"""Options of clones, synchronous workers, replicas and servers: which belong together.

Covers options/machines.py.
"""

import pytest

from deeplab import options
from deeplab.errors import OptionError
from deeplab.options import CloneOptions, ServerOptions
from tests.helpers import training_setup

TWO = ('one:2222', 'two:2222')
DATA = options.DatasetOptions('train', 'records', 'records/tiny.json')


def test_synchronous_workers():
    assert (CloneOptions().workers, CloneOptions(worker_hosts=('localhost:1',)).workers) == (1, 1)
    second = CloneOptions(worker_hosts=TWO, task=1, num_clones=4)
    assert (second.workers, second.parts, second.is_chief) == (2, 8, False)


@pytest.mark.parametrize(
    ('wrong', 'message'),
    [
        ({'task': 2}, r"^task=2 is not allowed: with worker_hosts=\('one:2222', 'two:2222'\) it must be from 0 to 1"),
        ({'task': -1}, '^task=-1 '),
        ({'num_ps_tasks': 1, 'master': 'grpc://here:1'}, '^num_ps_tasks=1 .* no parameter servers; omit one'),
        ({'num_replicas': 2}, '^num_replicas=2 .*worker_hosts.* servers of their own'),
        ({'master': 'grpc://here:1'}, '^master='),
        ({'worker_hosts': ('one:2222', 'ONE:2222')}, 'ONE:2222 is the address of worker 0, too'),
        ({'worker_hosts': ('one',)}, 'HOST:PORT'),
        ({'worker_timeout_secs': 0.0}, '^worker_timeout_secs=0.0 .* greater than 0'),
        ({'restarts': -1}, '^restarts=-1 '),
    ],
)
def test_mistakes(wrong, message):
    with pytest.raises(OptionError, match=message):
        CloneOptions(**{'worker_hosts': TWO, **wrong})


@pytest.mark.parametrize('name', ['worker_timeout_secs', 'restarts', 'reduce_precision'])
def test_what_needs_workers(name):
    with pytest.raises(OptionError, match=f'^{name}=.* also set worker_hosts, or omit it'):
        CloneOptions(**{name: True if name == 'reduce_precision' else 5})


def test_the_batch_is_divided_among_the_clones_of_all_workers():
    machines = CloneOptions(worker_hosts=TWO, num_clones=2)
    chosen = training_setup.options(DATA, 'log', 6, batch_size=24, clones=machines, accumulation_steps=3)
    assert chosen.clone_batch_size == 2
    rule = r'^batch_size=6 .*: the 2 workers of worker_hosts, times num_clones=2, must divide it; set a multiple of 4'
    with pytest.raises(OptionError, match=rule):
        training_setup.options(DATA, 'log', 6, batch_size=6, clones=machines)
    rule = '^accumulation_steps=5 .* batch_size=24 with the 2 workers .* into 1, 2, 3, 6 only.* a multiple of 20'
    with pytest.raises(OptionError, match=rule):
        training_setup.options(DATA, 'log', 6, batch_size=24, clones=machines, accumulation_steps=5)
    with pytest.raises(OptionError, match='^sync_batch_norm=True .* omit it, or xla=True'):
        training_setup.options(DATA, 'log', 6, clones=CloneOptions(sync_batch_norm=True), xla=True)


def test_servers():
    assert ServerOptions('ps', 1, TWO, ('one:1', 'two:1')).address == 'two:1'
    with pytest.raises(OptionError, match='^ps_hosts=.*one:2222 is the address of worker 0, too'):
        ServerOptions('ps', 0, TWO, ('one:2222',))
