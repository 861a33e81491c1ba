"""Synchronous workers that are killed, frozen and cut off end in the weights of an undisturbed training.

    python benchmarks/worker_failures.py --records=TFRECORDS --workdir=WORKDIR [--failures=100]

Trains CamVid with two, three and four workers on this machine, with validation, `--worker_timeout_secs=5` and
`--restarts`. At random moments a worker is killed (and started again, as a scheduler would), frozen for some seconds,
or the connection from one worker to another stops to forward for some seconds. A run has ten failures; then its losses
of all steps and its last checkpoint are compared with a run without failures, to the byte. What has run is kept in
WORKDIR: the same command continues. Prints one line, writes benchmarks/results/worker_failures.json.
"""

import argparse
import collections
import contextlib
import hashlib
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import threading
import time

import _machine

FAILURES_PER_RUN = 10
KINDS = ('kill', 'freeze', 'cut')
SECONDS = (1.0, 14.0)  # how long a failure lasts, shorter or longer than the time after which a worker is lost
PAUSE = (4.0, 30.0)  # between the end of a failure and the next one
PATIENCE = 30.0  # with the other workers when worker 0 has ended
LONGEST_RUN = 1800.0


class Proxy:
    """A TCP proxy on the loopback interface that can stop to forward."""

    def __init__(self, target: int) -> None:
        self._target = target
        self.forwards = threading.Event()
        self.forwards.set()
        self._listener = socket.create_server(('localhost', 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            near, _ = self._listener.accept()
            threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        self.forwards.wait()
        try:
            far = socket.create_connection(('localhost', self._target))
        except OSError:
            near.close()
            return
        for source, sink in ((near, far), (far, near)):
            threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self.forwards.wait()
                sink.sendall(data)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class Workers:
    """Workers of one training, each behind proxies of its own, started again when they end with an error."""

    def __init__(self, number: int, logdir: pathlib.Path, arguments: argparse.Namespace) -> None:
        sockets = [socket.create_server(('localhost', 0)) for _ in range(number)]
        ports = [each.getsockname()[1] for each in sockets]
        for each in sockets:
            each.close()
        self.number, self._logdir = number, logdir
        self._proxies = {
            (near, far): Proxy(ports[far]) for near in range(number) for far in range(number) if near != far
        }
        self._calls = [self._call(task, ports, arguments) for task in range(number)]
        self._processes = [self._start(task) for task in range(number)]
        self.starts = number
        self._last_moment: float | None = None

    def _call(self, task: int, ports: list[int], arguments: argparse.Namespace) -> list[str]:
        seen = [ports[far] if far == task else self._proxies[task, far].port for far in range(self.number)]
        return [
            sys.executable, '-m', 'deeplab', 'train', '--dataset=camvid', '--train_split=train', '--seed=7',
            '--model_variant=mobilenet_v2', '--depth_multiplier=0.5', '--train_crop_size=65,65',
            '--train_batch_size=12', '--eval_split=val', '--eval_every=100', '--log_steps=1', '--save_interval_secs=3',
            f'--training_number_of_steps={arguments.steps}', f'--dataset_dir={arguments.records}',
            f'--train_logdir={self._logdir}', '--worker_timeout_secs=5', '--restarts=1000', f'--task={task}',
            '--worker_hosts=' + ','.join(f'localhost:{port}' for port in seen),
        ]  # fmt: skip

    def _start(self, task: int) -> subprocess.Popen:
        with self._logdir.with_suffix(f'.{task}.log').open('a') as log:
            return subprocess.Popen(self._calls[task], stderr=log, stdout=log, start_new_session=True)

    def are_done(self) -> bool:
        """Starts workers again that have ended with an error, while worker 0 trains; whether all have ended.

        A worker that is killed when the training is complete and starts again would wait for worker 0 in vain.
        """
        statuses = [process.poll() for process in self._processes]
        if statuses[0] == 0:
            self._last_moment = self._last_moment or time.monotonic() + PATIENCE
            return None not in statuses or time.monotonic() > self._last_moment
        for task, status in enumerate(statuses):
            if status not in (None, 0):
                self._processes[task] = self._start(task)
                self.starts += 1
        return False

    def fail(self, kind: str, draw: random.Random) -> dict:
        """Lets a random worker or connection fail for a random time; returns what was done."""
        seconds = draw.uniform(*SECONDS)
        near, far = draw.choice(sorted(self._proxies))
        if kind == 'cut':
            self._proxies[near, far].forwards.clear()
            self._wait(seconds)
            self._proxies[near, far].forwards.set()
            return {'kind': kind, 'from': near, 'to': far, 'seconds': round(seconds, 1)}
        process = self._processes[near]  # leads a group: `deeplab train` computes in a child
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL if kind == 'kill' else signal.SIGSTOP)
            self._wait(seconds if kind == 'freeze' else 0)
            if kind == 'freeze':
                os.killpg(process.pid, signal.SIGCONT)
        return {'kind': kind, 'worker': near, 'seconds': round(seconds, 1) if kind == 'freeze' else 0}

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.are_done()
            time.sleep(0.1)

    def kill(self) -> None:
        """Ends all workers."""
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def losses(logdir: pathlib.Path) -> dict[int, str]:
    """The losses of all steps by number, as metrics.jsonl has them, the last one of a step that ran again."""
    lines = [json.loads(line) for line in (logdir / 'metrics.jsonl').read_text().splitlines()]
    return {line['step']: repr(line['loss']) for line in lines if 'loss' in line}


def digests(logdir: pathlib.Path, steps: int) -> list[str]:
    """The digests of the files of the last checkpoint."""
    files = sorted(logdir.glob(f'model.ckpt-{steps}.*'))
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.suffix != '.json']


def train(number: int, failures: int, logdir: pathlib.Path, arguments: argparse.Namespace, seed: str) -> dict:
    """Trains with `failures` failures; returns what was done, and what came out."""
    draw = random.Random(seed)
    kinds = [*KINDS * (failures // len(KINDS)), *KINDS[: failures % len(KINDS)]]
    draw.shuffle(kinds)
    done: list[dict] = []
    started = time.monotonic()
    workers = Workers(number, logdir, arguments)
    try:
        due = started + draw.uniform(*PAUSE)
        while not workers.are_done():
            if time.monotonic() - started > LONGEST_RUN:
                raise SystemExit(f'{logdir}: no end after {LONGEST_RUN:g} s; the failures were {done}')
            if kinds and time.monotonic() > due:
                done.append({'at': round(time.monotonic() - started, 1), **workers.fail(kinds.pop(), draw)})
                due = time.monotonic() + draw.uniform(*PAUSE)
            time.sleep(0.1)
    finally:
        workers.kill()
    return {
        'workers': number,
        'failures': done,
        'seconds': round(time.monotonic() - started, 1),
        'starts_by_script': workers.starts,
        'digests': digests(logdir, arguments.steps),
        'losses': losses(logdir),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--records', type=pathlib.Path, required=True)
    parser.add_argument('--workdir', type=pathlib.Path, required=True)
    parser.add_argument('--failures', type=int, default=100)
    parser.add_argument('--steps', type=int, default=600)
    arguments = parser.parse_args()
    arguments.workdir.mkdir(parents=True, exist_ok=True)
    os.environ['TF_CPP_MIN_LOG_LEVEL'] = '2'
    runs: list[dict] = []
    undisturbed: dict[int, dict] = {}
    while sum(len(run['failures']) for run in runs) < arguments.failures:
        number = 2 + len(runs) % 3
        for index, failures in ((None, 0), (len(runs), FAILURES_PER_RUN)):
            name = f'undisturbed_{number}' if index is None else f'run_{index}'
            file = arguments.workdir / f'{name}.json'
            if not file.exists():
                logdir = arguments.workdir / name
                result = train(number, failures, logdir, arguments, name)
                file.with_suffix('.tmp').write_text(json.dumps(result))
                file.with_suffix('.tmp').rename(file)
            result = json.loads(file.read_text())
            if index is None:
                undisturbed[number] = result
        wanted = undisturbed[number]
        runs.append(
            {name: result[name] for name in ('workers', 'failures', 'seconds', 'starts_by_script')}
            | {
                'steps': len(result['losses']),
                'losses_that_differ': sum(result['losses'].get(s) != loss for s, loss in wanted['losses'].items()),
                'weights_are_equal': bool(wanted['digests']) and result['digests'] == wanted['digests'],
            }
        )
    kinds = collections.Counter(failure['kind'] for run in runs for failure in run['failures'])
    equal = sum(run['weights_are_equal'] and not run['losses_that_differ'] for run in runs)
    path = _machine.write('worker_failures', {'failures': dict(kinds), 'runs_that_are_equal': equal, 'runs': runs})
    print(f'{sum(kinds.values())} failures, {equal} of {len(runs)} trainings equal to the byte: {path}')
    sys.exit(equal < len(runs))


if __name__ == '__main__':
    main()
