"""How synchronous workers scale: measured with workers of one core each, and a model of the step for more of them.

    python benchmarks/scaling.py --records=TFRECORDS --workdir=WORKDIR [--turns=3]

Takes turns with: one worker on one core, with the part of the batch that a worker of two has; two workers, a core each;
two trainings that know nothing of each other, a core each, which shows what the shared memory and caches cost; four
workers on two cores, for their bytes alone. Then it adds vectors of several sizes with 2, 3 and 4 workers, fits latency
and bandwidth of this machine, and computes the efficiency of up to 256 workers for networks of 1, 10 and 100 Gbit/s.
Prints one line, writes benchmarks/results/scaling.json and docs/pictures/scaling.svg.
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys

import _machine
import numpy as np

WANTED = 0.9
PART = 4  # images of one worker in a step
STEPS, SKIPPED = 60, 20
SIZES = (10_000, 100_000, 1_000_000, 4_000_000)  # values of the vectors that are added
GBITS = (1, 10, 100)
MOST_WORKERS = 256
# Assumed latency of one message between machines, in seconds; on the loopback interface it is measured.
NETWORK_LATENCY = 50e-6
ADDING = """
import sys, time
import tensorflow as tf
from deeplab.core import collectives, sessions
task, hosts, sizes = int(sys.argv[1]), sys.argv[2].split(','), [int(size) for size in sys.argv[3].split(',')]
config = sessions.config(collective_leader=collectives.LEADER)
config.device_filters.append(f'/job:worker/task:{task}')
server = tf.distribute.Server({'worker': hosts}, job_name='worker', task_index=task, config=config)
one = collectives.Participant(collectives.WORKERS, len(hosts))
with tf.Graph().as_default() as graph:
    sums = [one.sum(tf.zeros([size]))[0] for size in sizes]
target = sessions.Server(server.target, [f'/job:worker/task:{task}'], collectives.LEADER)
with sessions.open_session(graph, 1, target) as session:
    for total, size in zip(sums, sizes):
        seconds = []
        for _ in range(25):
            start = time.perf_counter()
            session.run(total)
            seconds.append(time.perf_counter() - start)
        if task == 0:
            print(size, sorted(seconds[5:])[10], flush=True)
"""


def addresses(number: int) -> str:
    """Unused addresses of this machine, separated by commas."""
    sockets = [socket.create_server(('localhost', 0)) for _ in range(number)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ','.join(f'localhost:{port}' for port in ports)


def start(call: list[str], core: int | None, **options) -> subprocess.Popen:
    """Starts a process, on one core if that is given."""
    pin = None if core is None else lambda: os.sched_setaffinity(0, {core})
    return subprocess.Popen(call, preexec_fn=pin, **options)


def loopback_bytes() -> int:
    """Bytes that the loopback interface has sent."""
    (line,) = (
        line for line in pathlib.Path('/proc/net/dev').read_text().splitlines() if line.strip().startswith('lo:')
    )
    return int(line.split(':')[1].split()[8])


def trainings(arguments: argparse.Namespace, workers: int, alone: int = 0) -> dict:
    """Trains with synchronous workers, or `alone` without each other; returns images per second and bytes of a step."""
    logdirs = [arguments.workdir / f'scaling_{workers}_{alone}_{number}' for number in range(workers or alone)]
    hosts = addresses(workers) if workers else ''
    sent, processes = loopback_bytes(), []
    for number, logdir in enumerate(logdirs):
        subprocess.run(['rm', '-rf', str(logdir)], check=True)
        call = [
            sys.executable, '-m', 'deeplab', 'train', '--dataset=camvid', '--train_split=train', '--seed=7',
            '--model_variant=mobilenet_v2', '--depth_multiplier=0.5', '--train_crop_size=241,321', '--log_steps=1',
            f'--train_batch_size={PART * max(1, workers)}', f'--dataset_dir={arguments.records}',
            f'--training_number_of_steps={STEPS}', '--save_interval_secs=100000', f'--train_logdir={logdir}',
        ]  # fmt: skip
        call += [f'--worker_hosts={hosts}', f'--task={number}'] if workers else []
        processes.append(start(call, number % 2, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL))
    if any(process.wait() for process in processes):
        raise SystemExit('a training failed; run its command alone to see why')
    sent = loopback_bytes() - sent
    seconds = []
    for logdir in logdirs[:1] if workers else logdirs:
        lines = [json.loads(line) for line in (logdir / 'metrics.jsonl').read_text().splitlines()]
        seconds.append(statistics.median(line['seconds_per_step'] for line in lines[SKIPPED:]))
    step = statistics.mean(seconds)
    return {
        'step_seconds': step,
        'images_per_second': PART * max(1, workers) / step,
        'bytes_per_step_and_worker': sent / STEPS / workers if workers else 0,
    }


def seconds_of_sums(workers: int) -> dict[int, float]:
    """Median seconds of the sum of vectors over workers on this machine, by number of float32 values."""
    hosts = addresses(workers)
    calls = [[sys.executable, '-c', ADDING, str(task), hosts, ','.join(map(str, SIZES))] for task in range(workers)]
    processes = [
        start(
            call,
            task % 2,
            stdout=subprocess.PIPE if not task else subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for task, call in enumerate(calls)
    ]
    lines = processes[0].communicate()[0].splitlines()
    for process in processes[1:]:
        process.wait()
    return {int(size): float(seconds) for size, seconds in map(str.split, lines)}


def fit(sums: dict[int, dict[int, float]]) -> dict[str, float]:
    """Fits seconds = 2 (n - 1) latency + 2 (n - 1) / n bytes / bandwidth to sums by workers and size."""
    rows, wanted = [], []
    for workers, seconds_by_size in sums.items():
        for size, seconds in seconds_by_size.items():
            rows.append(np.array([2 * (workers - 1), 2 * (workers - 1) / workers * 4 * size]) / seconds)
            wanted.append(1.0)  # relative errors count
    (latency, per_byte), *_ = np.linalg.lstsq(np.array(rows), np.array(wanted), rcond=None)
    return {'latency_seconds': float(latency), 'bytes_per_second': float(1 / per_byte)}


def efficiency(workers: int, compute: float, data: float, gbits: float) -> float:
    """Efficiency of workers against one: time to compute a part over the time of the whole step, without overlap."""
    reduction = 2 * (workers - 1) * NETWORK_LATENCY + 2 * (workers - 1) / workers * data * 8 / (gbits * 1e9)
    return compute / (compute + reduction)


def draw(curves: dict[str, list[float]], numbers: list[int], path: pathlib.Path) -> None:
    """Draws efficiency by number of workers, one line for each network, as SVG."""
    import vl_convert  # of the extra `report`

    values = [
        {'workers': number, 'efficiency': value, 'network': name}
        for name, points in curves.items()
        for number, value in zip(numbers, points, strict=True)
    ]
    chart = {
        '$schema': 'https://vega.github.io/schema/vega-lite/v5.json',
        'width': 460,
        'height': 240,
        'data': {'values': values},
        'mark': {'type': 'line', 'point': True},
        'encoding': {
            'x': {'field': 'workers', 'type': 'quantitative', 'scale': {'type': 'log', 'base': 2}},
            'y': {'field': 'efficiency', 'type': 'quantitative', 'scale': {'domain': [0, 1]}},
            'color': {'field': 'network', 'type': 'nominal', 'sort': list(curves)},
        },
    }
    path.write_text(vl_convert.vegalite_to_svg(chart))


def turn(arguments: argparse.Namespace) -> dict[str, dict]:
    """Trains once with each number of workers, together and apart; returns the figures of each."""
    return {
        'one_worker': trainings(arguments, 1),
        'two_workers': trainings(arguments, 2),
        'two_apart': trainings(arguments, 0, alone=2),
        'one_apart': trainings(arguments, 0, alone=1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--records', type=pathlib.Path, required=True)
    parser.add_argument('--workdir', type=pathlib.Path, required=True)
    parser.add_argument('--turns', type=int, default=3)
    arguments = parser.parse_args()
    arguments.workdir.mkdir(parents=True, exist_ok=True)
    os.environ['TF_CPP_MIN_LOG_LEVEL'] = '2'
    load = _machine.load()
    turns = [turn(arguments) for _ in range(arguments.turns)]
    four = trainings(arguments, 4)
    sums = {workers: seconds_of_sums(workers) for workers in (2, 3, 4)}

    def median(name: str) -> float:
        return statistics.median(each[name]['step_seconds'] for each in turns)

    def ratio(name: str, other: str) -> float:
        """Median of the turns' ratios of the seconds of a step."""
        return statistics.median(each[name]['step_seconds'] / each[other]['step_seconds'] for each in turns)

    data = statistics.median(each['two_workers']['bytes_per_step_and_worker'] for each in turns)
    numbers = [2**power for power in range(MOST_WORKERS.bit_length())]
    curves = {
        f'{gbits} Gbit/s': [efficiency(number, median('one_worker'), data, gbits) for number in numbers]
        for gbits in GBITS
    }
    result = {
        'wanted': WANTED,
        'efficiency': ratio('one_worker', 'two_workers'),
        'efficiency_beyond_shared_cores': ratio('two_apart', 'two_workers'),
        'efficiency_of_two_apart': ratio('one_apart', 'two_apart'),
        'one_worker_against_plain_training': ratio('one_worker', 'one_apart'),
        'reduction_seconds': median('two_workers') - median('two_apart'),
        'turns': turns,
        'four_workers_on_two_cores': four,
        'seconds_of_sums': sums,
        'fitted_to_sums': fit(sums),
        'model': {
            'compute_seconds': median('one_worker'),
            'bytes': data,
            'latency_seconds': NETWORK_LATENCY,
            'workers': numbers,
            'efficiency': curves,
        },
        'load_before': load,
    }  # fmt: skip
    path = _machine.write('scaling', result)
    draw(curves, numbers, pathlib.Path(__file__).resolve().parent.parent / 'docs' / 'pictures' / 'scaling.svg')
    print(
        f'two workers: efficiency {result["efficiency"]:.3f}, {result["efficiency_beyond_shared_cores"]:.3f} beyond '
        f'the shared cores, {data / 1e6:.2f} MB for each step and worker: {path}'
    )
    sys.exit(result['efficiency_beyond_shared_cores'] < WANTED)


if __name__ == '__main__':
    main()
