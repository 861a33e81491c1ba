"""A split of very many records: how fast it is opened and shuffled with an index, and how much memory that takes.

    python -m benchmarks.records_at_scale --records=1000000 --output=results.json

Records are tiny, so the times are those of the bookkeeping alone. Everything runs in new processes, whose peak of
memory is measured. Orders are compared, too: a run that resumes, and all workers together, must read what one reads.
"""

import argparse
import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np

from benchmarks import _machine
from deeplab.checks import record_check
from deeplab.datasets import example, images, index_file, record_index, segmentation_dataset, tfrecord

SPLIT = 'train'
SEED = 3
POSITIONS = 10_000  # that are read


def write(folder: pathlib.Path, records: int, shards: int) -> None:
    """Writes shards of records that differ in their names alone."""
    image = images.encode_png(np.zeros((2, 2, 3), np.uint8))
    mask = images.encode_png(np.zeros((2, 2), np.uint8))
    each = -(-records // shards)
    for shard in range(shards):
        with open(folder / f'{SPLIT}-{shard:05d}-of-{shards:05d}.tfrecord', 'wb') as file:
            for number in range(shard * each, min((shard + 1) * each, records)):
                file.write(tfrecord.framed(example.encode(image, 'png', f'{number:09}', 2, 2, 3, mask)))


def measure(task: str, folder: str) -> dict[str, float]:
    """Does one task in this process; returns its seconds, and the megabytes that it added to the peak of memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    dataset = segmentation_dataset.get_dataset('camvid', SPLIT, folder)
    records = dataset.open_records()
    seconds = {'open': time.perf_counter() - started}
    if task == 'index':
        index_file.write(folder, SPLIT, records)
    elif task == 'shuffle':
        seconds |= shuffle(records)
    elif task == 'check':
        for name in ('first_check', 'second_check'):
            started = time.perf_counter()
            record_check.check(dataset, 11, cache_dir=f'{folder}/cache')
            seconds[name] = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {**{name: round(value, 3) for name, value in seconds.items()}, 'megabytes': round(peak / 1024, 1)}


def shuffle(records: record_index.RecordIndex) -> dict[str, float]:
    """Reads in the order of training; requires that a run that resumes and several workers read the same."""
    from deeplab.utils import input_generator

    n = len(records)
    started = time.perf_counter()
    order = input_generator.permutation(n, SEED, 1)
    seconds = {'permutation': time.perf_counter() - started}
    assert (np.bincount(order, minlength=n) == 1).all()
    started = time.perf_counter()
    positions = range(n, n + POSITIONS)
    whole = [input_generator.record_at(position, n, SEED)[1] for position in positions]
    for record in whole:
        name = example.parse(records.read(record)).image_name
        assert int(name) == record, (name, record)
    seconds['read'] = time.perf_counter() - started
    resumed = [input_generator.record_at(position, n, SEED)[1] for position in positions[POSITIONS // 2 :]]
    assert resumed == whole[POSITIONS // 2 :] == order[POSITIONS // 2 : POSITIONS].tolist()
    workers = [[p for p in positions if p // 8 % 3 == task] for task in range(3)]
    assert sorted(p for mine in workers for p in mine) == list(positions)
    return seconds


def main(words: list[str] | None = None) -> dict[str, dict[str, float]]:
    """Runs the tasks one after the other, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--records', type=int, default=1_000_000)
    parser.add_argument('--shards', type=int, default=100)
    parser.add_argument('--with_check', action='store_true', help='also check all records before training, twice')
    parser.add_argument('--output', help='JSON file for the result')
    options = parser.parse_args(words)
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as name:
        write(pathlib.Path(name), options.records, options.shards)
        tasks = {'without_index': 'index', 'with_index': 'open', 'shuffled': 'shuffle'}
        for title, task in (tasks | ({'checked': 'check'} if options.with_check else {})).items():
            call = f'scale.measure({task!r}, {name!r})'
            code = f'import json; from benchmarks import records_at_scale as scale; print(json.dumps({call}))'
            done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
            found[title] = json.loads(done.stdout.splitlines()[-1])
            print(title, found[title], flush=True)
    if options.output:
        content = {'records': options.records, 'machine': _machine.describe(), 'results': found}
        pathlib.Path(options.output).write_text(json.dumps(content, indent=1) + '\n')
    return found


if __name__ == '__main__':
    main()
