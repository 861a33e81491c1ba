"""docs/distributed_training.md: its commands train with processes of this machine, small images and few steps."""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import time

import pytest

from deeplab.datasets import build_folder_data
from deeplab.options import BuildFolderOptions
from tests.helpers import dataset_files, processes, servers, training_setup

pytestmark = pytest.mark.slow
ROOT = pathlib.Path(__file__).parents[1]
PAGE = (ROOT / 'docs' / 'distributed_training.md').read_text(encoding='utf-8')
STEPS = 3
SMALL = (
    *('--train_crop_size=33,33', '--log_steps=1', f'--training_number_of_steps={STEPS}'),
    *('--train_batch_size=4', '--startup_delay_steps=0'),
)
TIMEOUT_SECS = 240


def commands(beginning, section=PAGE):
    """The page's commands that begin so, as lists of words without `deeplab`."""
    lines = [line for block in re.findall(r'```sh\n(.*?)```', section, re.DOTALL) for line in block.splitlines()]
    chosen = [line.split() for line in lines if line.startswith(f'deeplab {beginning}')]
    return [words[1:] for words in chosen]


def on_this_machine(words):
    """The words of a command with an unused address in the place of each machine of the page, as a function of them."""
    machines = sorted(set(re.findall(r'[\w.-]+:222\d', ' '.join(map(' '.join, words)))))
    here = dict(zip(machines, servers.free_addresses(len(machines)), strict=True))
    pattern = re.compile('|'.join(map(re.escape, machines)))
    return [[pattern.sub(lambda match: here[match[0]], word) for word in each] for each in words]


@pytest.fixture
def start(tmp_path):
    """Starts a command of the page, with a small training, in a process, which ends with the test.

    The records are in the folder in which it runs.
    """
    network = training_setup.write_plugin(tmp_path)
    for name in ('images', 'masks'):
        (tmp_path / name).mkdir()
    for seed in range(8):
        (tmp_path / f'images/{seed}.png').write_bytes(dataset_files.png(dataset_files.pixels(40, 40, seed)))
        mask = dataset_files.png(dataset_files.ids(40, 40, classes=3, seed=seed))
        (tmp_path / f'masks/{seed}.png').write_bytes(mask)
    build_folder_data.run(
        BuildFolderOptions(f'{tmp_path}/images', f'{tmp_path}/masks', output_dir=f'{tmp_path}/records', num_classes=3)
    )
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get('PYTHONPATH')])])
    made = []

    def started(words, *changes, **variables):
        small = [] if words[0] == 'server' else [*network, *SMALL, *changes]
        log = tmp_path / f'log-{len(made)}'
        with log.open('w') as output:
            process = processes.Forked(
                processes.deeplab, [*words, *small], cwd=tmp_path, stdout=output, stderr=output,
                env={'PYTHONPATH': paths, **variables},
            )  # fmt: skip
        process.log = log
        made.append(process)
        return process

    yield started
    for process in made:
        process.kill()
        process.wait()


def until(condition):
    end = time.monotonic() + TIMEOUT_SECS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def assert_trained(trainings, folder):
    """All processes end well, and the chief's folder has the losses of every step and the last checkpoint."""
    for process in trainings:
        assert process.wait(TIMEOUT_SECS) == 0, process.log.read_text()[-3000:]
    steps = [json.loads(line)['step'] for line in (folder / 'metrics.jsonl').read_text().splitlines()]
    assert sorted(set(steps)) == list(range(1, STEPS + 1))
    assert (folder / f'model.ckpt-{STEPS}.index').exists()


def test_synchronous_workers_and_bytes_of_a_stranger(start, tmp_path):
    ((one, *_),) = [on_this_machine(commands('train'))]
    (hosts,) = [word.partition('=')[2].split(',') for word in one if word.startswith('--worker_hosts=')]
    first = start(one)
    for host, port in (address.split(':') for address in hosts):
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=5) as stranger:
            stranger.sendall(b'GET / HTTP/1.1\r\n\r\n')
    second = start(one, '--task=1')
    assert_trained([first, second], tmp_path / 'logs/train')


def test_launch(start, tmp_path):
    (words,) = commands('launch')
    assert_trained([start(words)], tmp_path / 'logs/train')


def test_workers_that_a_scheduler_numbers(start, tmp_path):
    section = PAGE.partition('### SLURM, Kubernetes, Open MPI, TF_CONFIG')[2].partition('\n## ')[0]
    (words,) = on_this_machine(commands('train', section))
    trainings = [start(words, JOB_COMPLETION_INDEX=str(task)) for task in (0, 1)]
    assert_trained(trainings, tmp_path / 'logs/train')


def test_parameter_servers(start, tmp_path):
    """Task 1 waits before task 0 starts, and begins before task 0 has done all steps; a repeated command ends at once.

    Servers end by Ctrl-C.
    """
    section = PAGE.partition('## Parameter servers')[2]
    lines = on_this_machine([*commands('server', section), *commands('train', section)])
    assert [words[0] for words in lines] == ['server'] * 3 + ['train'] * 2
    running = [start(words) for words in lines[:3]]
    steps = 400
    first, second = lines[3:]
    longer = f'--training_number_of_steps={steps}'
    other = start(second, longer)
    until(lambda: 'waits for task 0' in other.log.read_text())
    assert other.poll() is None
    chief = start(first, longer)
    for process, end in ((chief, r'Trained to step \d+ in '), (other, r'Ended at step \d+, as task 1 of 2\.')):
        assert process.wait(TIMEOUT_SECS) == 0, process.log.read_text()[-3000:]
        assert re.search(end, process.log.read_text())
        assert 'global step ' in process.log.read_text()
    last = max(int(path.stem.partition('-')[2]) for path in (tmp_path / 'logs/train').glob('model.ckpt-*.index'))
    assert steps <= last < 2 * steps  # the other worker may have been computing
    again = start(first, longer)
    assert again.wait(TIMEOUT_SECS) == 0 and 'Nothing to train' in again.log.read_text()
    for process in running:
        process.send_signal(signal.SIGINT)
    assert [process.wait(30) for process in running] == [130, 130, 130]
