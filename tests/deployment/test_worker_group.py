"""The group of synchronous workers: how it begins, messages, heartbeats, and how each end is explained.

The plain tests have all workers in this process; the slow ones kill and freeze processes.
"""

import contextlib
import os
import queue
import re
import signal
import socket
import threading
import time

import pytest
import tensorflow as tf

from deeplab.deployment import cluster, worker_group
from deeplab.errors import LostWorkerError, MachineError
from tests.helpers import group_worker, processes, servers, tcp_proxy

TIMEOUT = 1.0


class Members:
    """Workers of one group in this process."""

    def __init__(self, number, timeout=TIMEOUT, views=None):
        self.hosts = servers.free_addresses(number)
        self.ends = [0] * number
        views = views(self.hosts) if views else [self.hosts] * number
        self.groups = [worker_group.WorkerGroup(view, task, timeout) for task, view in enumerate(views)]
        for task, group in enumerate(self.groups):
            group.on_end = lambda task=task: self._count(task)

    def _count(self, task):
        self.ends[task] += 1

    def start(self):
        threads = [threading.Thread(target=group.start) for group in self.groups]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self

    def leave(self):
        threads = [threading.Thread(target=group.leave) for group in self.groups]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


@pytest.fixture
def members():
    made = []

    def make(*arguments, **more):
        made.append(Members(*arguments, **more))
        return made[-1]

    yield make
    for each in made:
        each.leave()


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_one_worker_is_a_group(members):
    (group,) = members(1).start().groups
    group.put('a', b'')
    assert group.get('a') == b'' and group.server.address.startswith('grpc://') and group.generation
    assert group.server.device_filters == ('/job:worker/task:0',)


def test_messages_reach_all_and_later_ones_replace_earlier_ones(members):
    first, second, third = members(3).start().groups
    assert first.generation == second.generation == third.generation
    second.put('facts', b'\0abc')
    assert first.get('facts') == third.get('facts') == b'\0abc'
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(third.get('later')))
    waiting.start()
    first.put('later', b'now')
    waiting.join()
    assert answers == [b'now']
    first.put('later', b'then')
    assert second.get('later') == b'then'


def test_a_stranger_ends_nothing(members):
    together = members(2).start()
    for address in together.hosts:
        host, _, port = address.rpartition(':')
        for content in (
            b'GET / HTTP/1.1\r\nHost: here\r\n\r\n',
            bytes(range(256)) * 64,
            b'',
            worker_group._GREETING * 9,
        ):
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=5) as stranger:
                stranger.sendall(content)
    time.sleep(1.5 * TIMEOUT)
    assert [group.ended for group in together.groups] == [None, None]
    together.groups[1].put('still', b'there')
    assert together.groups[0].get('still') == b'there'


def test_an_error_of_a_worker_ends_all_with_its_reason(members):
    together = members(3).start()
    together.groups[1].step = 7
    together.groups[1].end('has other records')
    until(lambda: all(group.ended for group in together.groups))
    for group in together.groups:
        error = group.explain(tf.errors.CancelledError(None, None, 'closed'))
        assert isinstance(error, MachineError) and not isinstance(error, LostWorkerError)
        own = ', which is this one,' if group is together.groups[1] else ''
        assert str(error).startswith(f'Worker 1 ({together.hosts[1]}){own} has other records, at step 7. ')
    assert together.ends == [1, 0, 1]
    with pytest.raises(MachineError, match='has other records'):
        together.groups[0].get('what nobody writes')


def test_a_worker_that_has_left_is_not_missed(members, monkeypatch):
    together = members(3).start()
    together.groups[2].leave()
    greets = worker_group._greets
    monkeypatch.setattr(
        worker_group, '_greets', lambda host, *rest: None if host == together.hosts[2] else greets(host, *rest)
    )
    time.sleep(1.5 * TIMEOUT)
    assert [group.ended for group in together.groups] == [None] * 3
    together.groups[1].put('still', b'there')
    assert together.groups[0].get('still') == b'there'


def test_workers_that_end_the_group_at_the_same_time_agree_on_one_verdict(members):
    together = members(6).start()
    barrier = threading.Barrier(6)

    def end(group):
        barrier.wait()
        group.end(f'has reason {group.task}')

    threads = [threading.Thread(target=end, args=(group,)) for group in together.groups]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (verdict,) = {group.ended for group in together.groups}
    assert verdict.reason == f'has reason {verdict.worker}'


def test_a_link_between_two_neighbors_that_fails(members):
    """Workers 1 and 2 of four no longer reach each other, but all others: one of them is named."""
    links = []

    def views(hosts):
        links.extend(tcp_proxy.Proxy(hosts[task]) for task in (1, 2))
        return [
            hosts,
            [*hosts[:2], links[1].address, hosts[3]],
            [hosts[0], links[0].address, *hosts[2:]],
            hosts,
        ]

    together = members(4, views=views).start()
    for group in together.groups:
        group.step = 5
    for link in links:  # shorter than the timeout
        link.forwards.clear()
    time.sleep(TIMEOUT / 2)
    for link in links:
        link.forwards.set()
    time.sleep(1.5 * TIMEOUT)
    assert [group.ended for group in together.groups] == [None] * 4
    stopped = time.monotonic()
    for link in links:
        link.forwards.clear()
    until(lambda: all(group.ended for group in together.groups))
    assert time.monotonic() - stopped < 4 * TIMEOUT
    (verdict,) = {group.ended for group in together.groups}
    assert verdict in [
        (2, 5, 'has not answered worker 1 for 1 s', True),
        (1, 5, 'has not answered worker 2 for 1 s', True),
    ]
    assert together.ends == [1] * 4
    for link in links:
        link.forwards.set()
        link.close()


def test_it_waits_for_a_late_worker_and_says_for_whom(members, monkeypatch, caplog):
    monkeypatch.setattr(cluster, 'PATIENCE_SECS', 0.2)
    together = members(2)
    waiting = threading.Thread(target=together.groups[0].start)
    with caplog.at_level('INFO'):
        waiting.start()
        until(lambda: f'Worker 0 waits for worker 1 ({together.hosts[1]}).' in caplog.text)
        together.groups[1].start()
        waiting.join()
    assert 'without a password' in caplog.text and caplog.text.count('All 2 workers are there.') == 2


def test_lists_of_different_lengths(members):
    together = members(2)
    waiting = threading.Thread(target=together.groups[0].start)
    waiting.start()
    wrong = worker_group.WorkerGroup([together.hosts[0], *servers.free_addresses(2)], 2, TIMEOUT)
    with pytest.raises(MachineError, match='^Worker 0 has 2 workers, but this one has 3. .* the same worker_hosts'):
        wrong.start()
    together.groups[1].start()
    waiting.join()


def test_the_port_is_taken():
    with socket.create_server(('', 0)) as other:
        address = f'localhost:{other.getsockname()[1]}'
        with pytest.raises(MachineError, match=f'worker 0 cannot listen at {address}'):
            worker_group.WorkerGroup([address], 0, TIMEOUT).start()


def test_an_error_without_a_lost_worker_ends_all(members, monkeypatch):
    monkeypatch.setattr(worker_group, 'CALL_SECS', 0.1)
    first, second = members(2, 0.3).start().groups
    error = first.explain(tf.errors.InternalError(None, None, 'out of order'))
    assert 'which is this one, failed (out of order)' in str(error) and 'NCCL' not in str(error)
    until(lambda: second.ended)


class Process:
    """A worker in a process of its own, and its lines."""

    def __init__(self, hosts, task, timeout, errors):
        self.errors = errors
        read_input, write_input = os.pipe()
        read_output, write_output = os.pipe()
        with errors.open('w') as stderr:
            self.process = processes.Forked(
                group_worker.main, hosts, task, timeout, stdin=read_input, stdout=write_output, stderr=stderr
            )
        os.close(read_input)
        os.close(write_output)
        self._input = open(write_input, 'w')
        self._lines = queue.Queue()
        threading.Thread(target=self._read, args=[open(read_output)], daemon=True).start()

    def _read(self, output):
        with output:
            for line in output:
                self._lines.put(line)

    def line(self):
        return self._lines.get(timeout=90).rstrip('\n')

    def send(self, line):
        self._input.write(f'{line}\n')
        self._input.flush()

    def end(self):
        self.process.kill()
        self.process.wait()
        self._input.close()


@pytest.fixture
def separate(tmp_path):
    made = []

    def make(hosts, tasks, timeout=3):
        for task in tasks:
            made.append(Process(hosts, task, timeout, tmp_path / f'stderr-{len(made)}'))
        return made[-len(tasks) :]

    yield make
    for each in made:
        each.end()


def lost(hosts, worker, reason):
    again = 'Start all workers again: they continue from the last checkpoint'
    return rf'LostWorkerError: Worker {worker} \({hosts[worker]}\) {reason}, at step \d+\. {again}'


@pytest.mark.parametrize('victim', [pytest.param(0, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.long)])
def test_a_killed_worker_is_named_at_once(separate, victim):
    hosts = servers.free_addresses(4)
    all_of_them = separate(hosts, range(4), timeout=60)
    for each in all_of_them:
        assert each.line().startswith('started ')
    killed = time.monotonic()
    all_of_them[victim].process.kill()
    for task, each in enumerate(all_of_them):
        if task != victim:
            assert each.line() == 'on_end'
            assert re.fullmatch(lost(hosts, victim, 'has ended'), each.line())
            assert each.line().startswith('left after ')
    assert time.monotonic() - killed < 15
    assert all_of_them[victim - 1].errors.read_text().count('\n') < 40


@pytest.mark.parametrize('victim', [pytest.param(0, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.long)])
def test_a_frozen_worker_is_named_and_ends_when_it_goes_on(separate, victim):
    hosts = servers.free_addresses(3)
    all_of_them = separate(hosts, range(3))
    for each in all_of_them:
        assert each.line().startswith('started ')
    frozen = all_of_them[victim].process
    frozen.send_signal(signal.SIGSTOP)
    time.sleep(1.5)  # shorter than the timeout: nobody ends, and the frozen one blames nobody
    frozen.send_signal(signal.SIGCONT)
    time.sleep(4)
    all_of_them[1].send('put still there')
    all_of_them[2].send('get still')
    assert all_of_them[2].line() == 'got there'
    stopped = time.monotonic()
    frozen.send_signal(signal.SIGSTOP)
    for task, each in enumerate(all_of_them):
        if task != victim:
            assert each.line() == 'on_end'
            assert re.fullmatch(lost(hosts, victim, r'has not answered worker \d for 3 s'), each.line())
    assert 2 < time.monotonic() - stopped < 12
    frozen.send_signal(signal.SIGCONT)
    assert all_of_them[victim].line() == 'on_end'
    assert all_of_them[victim].line().startswith('LostWorkerError: Worker ')
    for each in all_of_them:
        assert each.line().startswith('left after ')
        assert each.process.wait(20) == 0


def test_a_worker_that_has_lost_the_chief_does_not_leave_it(members, monkeypatch):
    """A chief that goes on after it was frozen must notice that it is alone."""
    first, second = members(2).start().groups
    greets = worker_group._greets
    monkeypatch.setattr(worker_group, '_greets', lambda host, secs: host != second._hosts[0] and greets(host, secs))
    until(lambda: second.ended)
    assert second.ended.worker == 0
    monkeypatch.undo()
    second.leave()
    assert first._read('left/1') == [None]


@pytest.mark.slow
def test_all_leave_at_the_end(separate):
    all_of_them = separate(servers.free_addresses(3), range(3))
    for each in all_of_them:
        assert each.line().startswith('started ')
    for each in all_of_them:
        each.send('leave')
        time.sleep(1)  # the chief waits, and whoever has gone is not missed
    for each in all_of_them:
        assert each.line().startswith('left after ')
        assert each.process.wait(20) == 0


@pytest.mark.slow
def test_a_worker_that_begins_again_belongs_to_the_next_group(separate):
    hosts = servers.free_addresses(2)
    chief, second = separate(hosts, range(2), timeout=60)
    first_generation = chief.line()
    assert second.line() == first_generation
    chief.process.send_signal(signal.SIGSTOP)  # it does not notice that worker 1 has gone
    second.process.kill()
    second.process.wait()
    (again,) = separate(hosts, [1], timeout=60)
    time.sleep(5)
    chief.process.send_signal(signal.SIGCONT)
    assert chief.line() == 'on_end'
    assert re.search(r'Worker 1 \(.*\) (was started again, or twice|has ended), at step', chief.line())
    chief.process.wait()
    (new_chief,) = separate(hosts, [0], timeout=60)
    begun = new_chief.line()
    assert begun.startswith('started ') and begun != first_generation and again.line() == begun
