"""The membership of this process in a group of synchronous workers: its server, messages, heartbeats, and the end.

Each worker has a TensorFlow server. Messages are texts in a table on the server of task 0, the chief. A heartbeat is a
new connection to the server of another worker, which greets whoever connects. The system and a thread of gRPC answer
it, not the interpreter and not the threads that compute: a worker that takes minutes for a step, a compilation or a
checkpoint answers at once, but one that is killed, frozen or cut off does not.

Each worker watches the chief and its two neighbors in the ring in which gradients travel. The first that loses another
one writes a verdict into the table, which ends the group; all read it there, and later verdicts are dropped. If the
chief is lost, each worker decides alone.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import socket
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import tensorflow as tf
from absl import logging

from deeplab.core import collectives, sessions
from deeplab.deployment import cluster
from deeplab.errors import LostWorkerError, MachineError, reason_of
from deeplab.names import listed
from deeplab.wording import option

CALL_SECS = 5.0  # how long a call to the chief's table may take; the threads that compute there answer it
_POLL_SECS = 0.1
_ATTEMPTS = 5  # to tell a chief that answers heartbeats, but is busy
_MISSING_SHOWN = 8
NCCL = 'NCCL: '  # begins the reasons of errors of sums between GPUs
_NCCL_ADVICE = (
    '. NCCL adds the gradients of GPUs: each worker needs GPUs of its own, all TCP ports must be open between the '
    'machines, and NCCL_SOCKET_IFNAME chooses one of several network interfaces'
)
_CHIEF = '/job:worker/task:0'
_TABLE = 'deeplab/messages'
_PRESENT = b'='  # begins every value in the table, so that an empty one is not an absent one
# The beginning of HTTP/2, which gRPC speaks: a preface and empty settings. The other side sends its own settings.
_SETTINGS = bytes([4])  # the type of a frame, its fourth byte
_GREETING = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + bytes(3) + _SETTINGS + bytes(5)

_Value = TypeVar('_Value')


class Verdict(NamedTuple):
    """Why a group has ended.

    Attributes:
      worker: the worker that is the cause.
      step: the step at which another one noticed it.
      reason: what has happened to it; completes a sentence that begins with the worker.
      is_lost: whether the same command can be run again: it did not end itself with an error.
    """

    worker: int
    step: int
    reason: str
    is_lost: bool = True


class WorkerGroup:
    """The group of workers that train together, seen from one of them.

    Attributes:
      server: this process's own server, for sessions; `start` starts it.
      generation: id of this run of the group, made by the chief.
      step: number of steps that are done; the caller counts.
      on_end: called once, in a thread, when another worker ends the group or is lost; the caller sets it.
      ended: why the group has ended; None while all live.
    """

    def __init__(self, hosts: Sequence[str], task: int, timeout_secs: float) -> None:
        """Creates the membership; `start` makes it one.

        Args:
          hosts: HOST:PORT of all workers.
          task: index of this one.
          timeout_secs: time without an answer after which a worker is lost.
        """
        self._hosts, self.task, self._timeout_secs = tuple(hosts), task, timeout_secs
        self.on_end: Callable[[], None] = lambda: None
        self._patience_secs = min(5.0, timeout_secs / 4)  # of one heartbeat
        self._interval_secs = min(1.0, timeout_secs / 5)
        self._stopped = threading.Event()  # no heartbeats any more
        self._deciding = threading.Lock()
        self._chief_has_left = self._chief_is_lost = False
        self.generation = ''
        self.server = sessions.Server('', (f'/job:worker/task:{task}',), collectives.LEADER)
        self.step = 0
        self.ended: Verdict | None = None

    def start(self, cpu_devices: int = 1) -> None:
        """Starts this worker's server, waits for all others, and begins the heartbeats.

        Args:
          cpu_devices: number of CPU devices of this worker.

        Raises:
          MachineError: the port is taken, or the workers have different lists of hosts.
        """
        config = sessions.config(cpu_devices, collective_leader=collectives.LEADER)
        config.device_filters.extend(self.server.device_filters)
        server = cluster.start_server({'worker': self._hosts}, 'worker', self.task, config)
        self.server = self.server._replace(address=server.target)
        logging.info(
            'Worker %d of %d serves port %s on all addresses of this machine, without a password: keep it inside your '
            'network.', self.task, len(self._hosts), self._hosts[self.task].rpartition(':')[2]
        )  # fmt: skip
        self._table = _Table(f'grpc://{self._hosts[0]}' if self.task else self.server.address)
        self._id = uuid.uuid4().hex.encode()
        self._gather()
        number = len(self._hosts)
        watched = {0, (self.task - 1) % number, (self.task + 1) % number} - {self.task}
        watches = [functools.partial(self._watch, peer) for peer in watched]
        runs: list[Callable[[], None]] = [self._read_end, *watches]
        for run in runs:
            threading.Thread(target=run, name='deeplab-heartbeat', daemon=True).start()

    @property
    def size(self) -> int:
        """Number of workers."""
        return len(self._hosts)

    def check(self) -> None:
        """Raises `MachineError` if the group has ended."""
        if self.ended is not None:
            raise self._error()

    def put(self, key: str, value: bytes) -> None:
        """Gives all workers a value of a key.

        Raises:
          MachineError: the group has ended.
        """
        self._while_it_lives(lambda: self._write(key, value))

    def get(self, key: str) -> bytes:
        """Waits for the value of a key, and returns it.

        Raises:
          MachineError: the group has ended.
        """
        return self._while_it_lives(lambda: self._read(key)[0])

    def end(self, reason: str) -> None:
        """Ends the group because of an error of this worker; the others end with the reason.

        Args:
          reason: completes a sentence that begins with the worker, such as 'has other flags'.
        """
        self._conclude(Verdict(self.task, self.step, reason, is_lost=False), calls_back=False)

    def leave(self) -> None:
        """Ends this membership, with or without a verdict: the others no longer miss this worker.

        The chief waits until all others have left, or for `timeout_secs`: they read in its table why the group ended.
        """
        self._stopped.set()
        if not self._chief_is_lost:  # if it answers again, it must miss this worker
            self._tell(f'left/{self.task}', b'')
        lost = -1 if self.ended is None else self.ended.worker
        others = [f'left/{k}' for k in range(1, len(self._hosts)) if k != lost and self.task == 0]
        given_up = time.monotonic() + self._timeout_secs
        while others and time.monotonic() < given_up:
            with contextlib.suppress(tf.errors.OpError):
                if None not in self._read(*others):
                    return
            time.sleep(_POLL_SECS)

    def explain(self, error: BaseException) -> MachineError:
        """Returns the error with which this worker ends, after an error of an operation that needs the others.

        Waits until the cause is clear, no longer than it takes to lose a worker.
        """
        given_up = time.monotonic() + self._timeout_secs + 2 * CALL_SECS
        while self.ended is None and time.monotonic() < given_up:
            time.sleep(_POLL_SECS)
        if self.ended is None:
            self.end(f'failed ({reason_of(error)})')
        return self._error()

    def _error(self) -> MachineError:
        """Returns the error that states the verdict."""
        assert self.ended is not None
        worker, step, reason, is_lost = self.ended
        own = ', which is this one,' if worker == self.task else ''
        text = f'Worker {worker} ({self._hosts[worker]}){own} {reason}, at step {step}. '
        if is_lost:
            return LostWorkerError(f'{text}Start all workers again: they continue from the last checkpoint')
        return MachineError(f'{text}All others have ended, too{_NCCL_ADVICE if NCCL in reason else ""}')

    def _while_it_lives(self, function: Callable[[], _Value | None]) -> _Value:
        """Returns the first result of a function that is not None; raises `MachineError` if the group ends before."""
        pause = _POLL_SECS / 8
        while self.ended is None:
            with contextlib.suppress(tf.errors.OpError):
                value = function()
                if value is not None:
                    return value
            time.sleep(pause)
            pause = min(2 * pause, 4 * _POLL_SECS)
        raise self._error()

    def _gather(self) -> None:
        """Waits until all workers are there; the chief then gives the group its id.

        A worker that begins again may reach a chief that is about to end, and a chief may read what an earlier worker
        wrote. So the group begins when the chief has seen all servers, and each worker sees its own id in that.
        """
        log_at = time.monotonic() + cluster.PATIENCE_SECS
        missing = [0]
        while True:
            with contextlib.suppress(tf.errors.OpError):
                missing = self._register() if self.task else self._begin()
            if self.generation:
                break
            time.sleep(_POLL_SECS)
            if time.monotonic() >= log_at:
                log_at = time.monotonic() + cluster.PATIENCE_SECS
                names = listed([f'{k} ({self._hosts[k]})' for k in missing], _MISSING_SHOWN)
                logging.info('Worker %d waits for worker %s.%s', self.task, names, cluster.proxy_note())
        logging.info('All %d workers are there.', len(self._hosts))

    def _register(self) -> list[int]:
        """Tells the chief that this worker is there, and reads whether the group has begun; returns who is missing."""
        if not _greets(self._hosts[0], self._patience_secs):
            return [0]
        number, begun = self._table.read('workers', 'begun')
        if number is not None and int(number) != len(self._hosts):
            raise MachineError(
                f'Worker 0 has {int(number)} workers, but this one has {len(self._hosts)}. Use the same '
                f'{option("CloneOptions.worker_hosts")} for all of them'
            )
        self._table.write(f'present/{self.task}', self._id)
        if begun is not None and self._id.decode() in (content := json.loads(begun))['ids']:
            self.generation = content['generation']
        return [0]

    def _begin(self) -> list[int]:
        """Begins the group if all workers are there; returns who is missing."""
        others = range(1, len(self._hosts))
        self._table.write('workers', str(len(self._hosts)).encode())
        ids = self._table.read(*(f'present/{k}' for k in others))
        present = [k for k, one in zip(others, ids, strict=True) if one is not None]
        missing = [k for k in others if k not in present or not _greets(self._hosts[k], self._patience_secs)]
        if not missing:
            generation = self._id.decode()
            content = {'generation': generation, 'ids': [one.decode() for one in ids if one is not None]}
            self._table.write('begun', json.dumps(content).encode())
            self.generation = generation
        return missing

    def _watch(self, peer: int) -> None:
        """Sends heartbeats to another worker until it is lost or has left, or the group has ended.

        Only the time of heartbeats without an answer counts. So a worker that was frozen itself blames nobody.
        """
        silent_secs = took = 0.0
        refusals = 0
        while not self._stopped.wait(max(0.0, self._interval_secs - took)):
            started = time.monotonic()
            patience = max(_POLL_SECS, min(self._patience_secs, self._timeout_secs - silent_secs))
            answer = _greets(self._hosts[peer], patience)
            took = min(time.monotonic() - started, self._patience_secs)
            silent_secs = 0.0 if answer else silent_secs + max(took, self._interval_secs)
            refusals = refusals + 1 if answer is None else 0
            is_gone = refusals > 1  # nobody listens there: that is no network which fails for a while
            if is_gone or silent_secs >= self._timeout_secs:
                if self._has_left(peer):
                    return
                self._chief_is_lost |= peer == 0
                silent = f'has not answered worker {self.task} for {self._timeout_secs:g} s'
                self._conclude(Verdict(peer, self.step, 'has ended' if is_gone else silent))

    def _has_left(self, peer: int) -> bool:
        """Returns whether a worker has left before it stopped to answer."""
        if peer == 0:
            return self._chief_has_left
        with contextlib.suppress(tf.errors.OpError):
            return self._read(f'left/{peer}')[0] is not None
        return False

    def _read_end(self) -> None:
        """Reads in the table whether the group has ended, or a worker was replaced, until this worker leaves."""
        others = range(1, len(self._hosts)) if self.task == 0 else ()
        while not self._stopped.wait(self._interval_secs):
            with contextlib.suppress(tf.errors.OpError):
                verdict, left = self._read('end', 'left/0')
                begun, *present = self._table.read('begun', *(f'present/{k}' for k in others))
                self._chief_has_left |= left is not None
                ids = b'' if begun is None else begun
                replaced = [k for k, one in zip(others, present, strict=True) if one is None or one not in ids]
                if verdict is not None:
                    self._conclude(Verdict(*json.loads(verdict)))
                elif self.generation.encode() not in ids:
                    self._conclude(Verdict(0, self.step, 'was started again'))
                elif replaced:
                    self._conclude(Verdict(replaced[0], self.step, 'was started again, or twice'))

    def _conclude(self, verdict: Verdict, calls_back: bool = True) -> None:
        """Ends the group with a verdict, or with the verdict that another worker gave before."""
        with self._deciding:
            if self._stopped.is_set():
                return
            self._stopped.set()
        if verdict.worker or self.task == 0:  # else nobody can read it
            key, text = f'{self.generation}/end', json.dumps(verdict).encode()
            first = self._from_chief(lambda: self._table.write_once(key, text))
            verdict = verdict if first is None else Verdict(*json.loads(first))
            self._tell(f'left/{self.task}', b'')
        self.ended = verdict
        if calls_back:
            self.on_end()

    def _read(self, *keys: str) -> list[bytes | None]:
        """Returns the messages of this run of the group."""
        return self._table.read(*(f'{self.generation}/{key}' for key in keys))

    def _write(self, key: str, value: bytes) -> bool:
        """Writes a message of this run of the group."""
        self._table.write(f'{self.generation}/{key}', value)
        return True

    def _tell(self, key: str, value: bytes) -> None:
        """Writes a message if the chief still answers."""
        self._from_chief(lambda: self._write(key, value))

    def _from_chief(self, call: Callable[[], _Value]) -> _Value | None:
        """Returns the result of a call to the chief's table; None if the chief no longer answers."""
        for _ in range(_ATTEMPTS):
            with contextlib.suppress(tf.errors.OpError):
                return call()
            if not _greets(self._hosts[0], self._patience_secs):
                break
        return None


class _Table:
    """The texts in the memory of the chief's server, by key.

    The keys of the table itself are hashes, because TensorFlow has no table of texts by texts. A session of its own
    reaches it, whose calls end after `CALL_SECS`.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._session: tf.compat.v1.Session | None = None
        with tf.Graph().as_default() as self._graph, tf.device(f'{_CHIEF}/device:CPU:0'):
            table = tf.raw_ops.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.string, shared_name=_TABLE)
            self._keys = tf.compat.v1.placeholder(tf.int64, [None])
            self._values = tf.compat.v1.placeholder(tf.string, [None])
            find = functools.partial(
                tf.raw_ops.LookupTableFindV2, table_handle=table, keys=self._keys, default_value=tf.constant('')
            )
            self._find = find()
            self._insert = tf.raw_ops.LookupTableInsertV2(table_handle=table, keys=self._keys, values=self._values)
            lock = tf.raw_ops.MutexLock(mutex=tf.raw_ops.MutexV2(shared_name=f'{_TABLE}/lock'))
            with tf.control_dependencies([lock]):
                earlier = find()
            first = tf.where(tf.equal(earlier, ''), self._values, earlier)
            insert = tf.raw_ops.LookupTableInsertV2(table_handle=table, keys=self._keys, values=first)
            with tf.control_dependencies([insert]):
                release = tf.raw_ops.ConsumeMutexLock(mutex_lock=lock)
            with tf.control_dependencies([release]):
                self._insert_once = tf.identity(first)

    def read(self, *keys: str) -> list[bytes | None]:
        """Returns the values of keys, None where there is none; raises `tf.errors.OpError` without an answer."""
        values = self._run(self._find, {self._keys: [_hashed(key) for key in keys]}) if keys else []
        return [value.removeprefix(_PRESENT) if value else None for value in values]

    def write(self, key: str, value: bytes) -> None:
        """Sets the value of a key; raises `tf.errors.OpError` without an answer."""
        self._run(self._insert, {self._keys: [_hashed(key)], self._values: [_PRESENT + value]})

    def write_once(self, key: str, value: bytes) -> bytes:
        """Sets the value of a key unless it has one, and returns the value that it has then.

        Of several workers that write at the same time, one is first, and all of them get its value.

        Raises:
          tf.errors.OpError: there is no answer.
        """
        first: bytes = self._run(self._insert_once, {self._keys: [_hashed(key)], self._values: [_PRESENT + value]})[0]
        return first.removeprefix(_PRESENT)

    def _run(self, fetch: Any, feeds: dict[tf.Tensor, Any]) -> Any:
        session = self._session
        if session is None:
            session = self._session = sessions.connect(self._graph, sessions.Server(self._address, [_CHIEF]), CALL_SECS)
        try:
            return session.run(fetch, feeds, tf.compat.v1.RunOptions(timeout_in_ms=round(1000 * CALL_SECS)))
        except tf.errors.DeadlineExceededError:
            raise  # the server may be busy
        except tf.errors.OpError:
            self._session = None  # the server may have been replaced
            raise


def _hashed(key: str) -> int:
    """Returns the 64 bits under which a value is in the table."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], signed=True)


def _greets(address: str, patience_secs: float) -> bool | None:
    """Returns whether the server at HOST:PORT greets a new connection in time; None if nobody listens there."""
    host, _, port = address.rpartition(':')
    given_up = time.monotonic() + patience_secs
    try:
        with socket.create_connection((host.strip('[]'), int(port)), patience_secs) as connection:
            connection.settimeout(max(0.01, given_up - time.monotonic()))
            connection.sendall(_GREETING)
            return connection.recv(9)[3:4] == _SETTINGS
    except ConnectionRefusedError:
        return None
    except OSError:
        return False
