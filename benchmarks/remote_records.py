"""Records on a web server that answers late: images per second of the input pipeline with and without read-ahead.

    python -m benchmarks.remote_records --records=RECORDS --split=train --output=results.json

A local server waits before each answer. Each figure is of a new process: the input of a training (shuffled), the input
of an evaluation (in order), the check before the first step, and opening without an index, on the disk, on the server
without read-ahead (as many reads at the same time as there are cores), and on the server with it. The places take
turns; the figures are medians.
"""

import argparse
import contextlib
import json
import multiprocessing
import multiprocessing.connection
import pathlib
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from benchmarks import _folder_server, _machine

BATCH = 8
CROP = (321, 321)
WARM_UP = 2  # batches
PLACES = ('disk', 'without', 'with')  # read-ahead


def _serve(folder: str, latency: float, pipe: multiprocessing.connection.Connection) -> None:
    with _folder_server.serving(pathlib.Path(folder), latency) as server:
        pipe.send(server.address)
        pipe.recv()


@contextlib.contextmanager
def serving(folder: str, latency: float) -> Iterator[str]:
    """Runs a server in another process; gives its address."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context('spawn').Process(target=_serve, args=(folder, latency, theirs))
    process.start()
    try:
        yield ours.recv()
    finally:
        ours.send(None)
        process.join()


def measure(task: str, place: str, folder: str, split: str, batches: int) -> dict[str, float]:
    """Does one task in this process; returns its rate or time, and the peak of memory that it adds."""
    from deeplab.checks import record_check
    from deeplab.datasets import record_index, segmentation_dataset
    from deeplab.files import remote

    if place == 'without':
        remote.PARALLEL_READS = 1  # one shard after another
        record_index.RecordIndex.parallel_reads = property(lambda self: 0)
    dataset = segmentation_dataset.get_dataset(f'{folder}/dataset.yaml', split, folder)
    began = time.perf_counter()
    if task == 'open':
        record_index.RecordIndex(dataset.shards)
        return {'seconds': round(time.perf_counter() - began, 2)}
    if task == 'check':
        record_check.check(dataset, dataset.descriptor.num_classes)
        return {'seconds': round(time.perf_counter() - began, 2)}
    return _read(dataset, task == 'train', batches)


def _read(dataset, is_training: bool, batches: int) -> dict[str, float]:
    import tensorflow as tf

    from deeplab import input_preprocess
    from deeplab.core import sessions
    from deeplab.options import AugmentOptions, ResizeOptions
    from deeplab.utils import input_generator

    reader = input_generator.RecordReader(dataset.open_records())
    mean, ignored = (127.5,) * 3, dataset.descriptor.ignore_label
    if is_training:
        steps = list(input_preprocess.train_steps(CROP, ResizeOptions(), AugmentOptions(), mean, ignored).values())
    else:
        steps = input_preprocess.eval_steps((513, 513), ResizeOptions(), mean, ignored, False)
    with tf.Graph().as_default():
        pipeline = input_generator.get(reader, steps, BATCH, is_training)
        batches = min(batches, (pipeline.batches or batches) - WARM_UP)
        with sessions.open_session() as running:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            running.run(pipeline.initializer)
            for _ in range(WARM_UP):
                running.run(pipeline.samples)
            began = time.perf_counter()
            for _ in range(batches):
                running.run(pipeline.samples)
            seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {'images_per_second': round(batches * BATCH / seconds, 1), 'megabytes': round(peak / 1024, 1)}


def main(words: list[str] | None = None) -> dict[str, dict[str, Any]]:
    """Runs the tasks one after the other, and the places in turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--records', required=True, help='folder of records with their description')
    parser.add_argument('--split', default='train')
    parser.add_argument('--latency', type=float, default=0.05, help='seconds before each answer')
    parser.add_argument('--batches', type=int, default=100)
    parser.add_argument('--turns', type=int, default=3)
    parser.add_argument('--output', help='JSON file for the result')
    options = parser.parse_args(words)
    results: dict[str, dict[str, Any]] = {}
    loads = []
    with serving(options.records, options.latency) as address:
        for task in ('train', 'evaluate', 'check', 'open'):
            turns: dict[str, list[dict[str, float]]] = {place: [] for place in PLACES}
            for _ in range(options.turns):
                loads.append(_machine.load())
                for place in PLACES:
                    folder = options.records if place == 'disk' else address
                    turns[place].append(_in_process(task, place, folder, options.split, options.batches))
            results[task] = {place: {**_median(each), 'turns': each} for place, each in turns.items()}
            print(task, {place: _median(each) for place, each in turns.items()}, flush=True)
    if options.output:
        content = {'latency_seconds': options.latency, 'results': results, 'load': loads}
        _machine.write_json(pathlib.Path(options.output), {**content, 'machine': _machine.describe()})
    return results


def _in_process(*arguments: str | int) -> dict[str, float]:
    """Calls `measure` in a new process."""
    code = (
        f'import json; from benchmarks import remote_records; print(json.dumps(remote_records.measure(*{arguments})))'
    )
    done = subprocess.run([sys.executable, '-c', code], stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def _median(turns: list[dict[str, float]]) -> dict[str, float]:
    """Returns the median of each figure."""
    return {name: statistics.median(turn[name] for turn in turns) for name in turns[0]}


if __name__ == '__main__':
    main()
