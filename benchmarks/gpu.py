"""What GPUs make of the trainings here: run by a person who has some, it writes one JSON to send back.

    python -m benchmarks.gpu --workdir=WORKDIR

on one machine: networks and precisions on one GPU, then all GPUs as clones and as workers, and whether losses of the
GPU follow losses of the CPU. Then, at the same time on each of several machines, with the same list and its own task:

    python -m benchmarks.gpu --workdir=WORKDIR --worker_hosts=one:2222,two:2222 --task=0

which also needs the next ports, one for each training, and between GPUs all TCP ports. The images are drawn. What has
run is kept in WORKDIR: the same command continues, and a training that fails is noted with the end of its log. Prints
one line for each training and writes benchmarks/results/gpu.json. `--try_on_cpu` tries all of it with tiny networks and
without GPUs.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

from benchmarks import _data, _machine

STEPS, SKIPPED = 60, 20
COMPARED_STEPS = 10  # of losses on the GPU and the CPU
COMPARED = 'losses_'  # begins the names of trainings whose losses are compared: without TF32
SIZE = 600, 800  # height and width of the drawn images
SETTINGS = {
    'float32': (),
    'float16': ('--precision=float16',),
    'bfloat16': ('--precision=bfloat16',),
    'float32_xla': ('--xla',),
    'float16_xla': ('--precision=float16', '--xla'),
}
LINES_OF_A_FAILURE = 30
LONGEST_SECS = 1800.0


@dataclasses.dataclass(frozen=True)
class Network:
    """A network, the side of its square crops in pixels, and images of a step on one GPU."""

    name: str
    flags: tuple[str, ...]
    crop: int
    images: int


NETWORKS = (
    Network('mobilenet_v2', ('--model_variant=mobilenet_v2',), 513, 16),
    Network('resnet_v1_50_beta', ('--model_variant=resnet_v1_50_beta', '--atrous_rates=6,12,18'), 513, 8),
    Network(
        'xception_65', ('--model_variant=xception_65', '--atrous_rates=6,12,18', '--decoder_output_stride=4'), 513, 8
    ),
)
TINY = Network('tiny', ('--model_variant=mobilenet_v2', '--depth_multiplier=0.25'), 65, 2)


@dataclasses.dataclass(frozen=True)
class Case:
    """A training: its name, its flags, images of a step on all GPUs, and how many processes `deeplab launch` starts."""

    name: str
    flags: tuple[str, ...]
    images: int
    workers: int = 0
    steps: int = STEPS


def cases_of_one_machine(networks: Sequence[Network], gpus: int) -> list[Case]:
    """The trainings on one GPU, on all of them in three ways, and the ones whose losses are compared."""
    cases = []
    for network in networks:
        for setting, flags in SETTINGS.items():
            cases.append(
                Case(f'{network.name}_{setting}', (*training(network, network.images), *flags), network.images)
            )
    smallest = networks[0]
    for name, flags in (('gpu', ()), ('gpu_again', ()), ('cpu', ('--clone_on_cpu',))):
        words = (*training(smallest, 2), '--last_layers_contain_logits_only=false', *flags)
        cases.append(Case(f'{COMPARED}{name}', words, 2, steps=COMPARED_STEPS))
    if gpus > 1:
        for network in dict.fromkeys((networks[0], networks[-1])):
            images = network.images * gpus
            for setting in ('float32', 'float16'):
                words = (*training(network, images), *SETTINGS[setting])
                name = f'{network.name}_{setting}_{gpus}'
                cases.append(Case(f'{name}_clones', (*words, f'--num_clones={gpus}'), images))
                cases.append(Case(f'{name}_workers', words, images, workers=gpus))
            words = (*training(network, images), f'--num_clones={gpus}', '--sync_batch_norm')
            cases.append(Case(f'{network.name}_float32_{gpus}_clones_sync_batch_norm', words, images))
    return cases


def cases_of_machines(networks: Sequence[Network], gpus: int, hosts: Sequence[str], task: int) -> list[Case]:
    """The trainings on several machines with `gpus` clones each; each has ports of its own."""
    cases = []
    for network in dict.fromkeys((networks[0], networks[-1])):
        for name, flags in (
            ('float32', ()),
            ('float16', SETTINGS['float16']),
            ('float32_reduced', ('--reduce_precision',)),
        ):
            images = network.images * gpus * len(hosts)
            addresses = [f'{host}:{int(port) + len(cases)}' for host, _, port in (h.rpartition(':') for h in hosts)]
            words = (
                *(*training(network, images), f'--num_clones={gpus}', *flags),
                *(f'--worker_hosts={",".join(addresses)}', f'--task={task}'),
            )
            cases.append(Case(f'{network.name}_{name}_{len(hosts)}x{gpus}', words, images))
    return cases


def training(network: Network, images: int) -> tuple[str, ...]:
    """The flags of a training of a network with so many images in a step."""
    crop = f'--train_crop_size={network.crop},{network.crop}'
    return (*network.flags, crop, f'--train_batch_size={images}')


def run(case: Case, arguments: argparse.Namespace, records: pathlib.Path) -> dict:
    """Trains; returns seconds of a step, images per second and losses, or the end of the log of a failure."""
    logdir = arguments.workdir / case.name
    shutil.rmtree(logdir, ignore_errors=True)
    words = [
        'train', '--dataset=camvid', '--train_split=train', f'--dataset_dir={records}', '--seed=7', '--log_steps=1',
        f'--training_number_of_steps={case.steps}', '--save_interval_secs=100000', f'--train_logdir={logdir}',
        *case.flags, *(['--clone_on_cpu'] if arguments.try_on_cpu else []),
    ]  # fmt: skip
    if case.workers:
        words = ['launch', f'--workers={case.workers}', '--', *words]
    environment = os.environ | ({'NVIDIA_TF32_OVERRIDE': '0'} if case.name.startswith(COMPARED) else {})
    started = time.monotonic()
    log = arguments.workdir / f'{case.name}.log'
    with log.open('w') as output:
        try:
            done = subprocess.run(
                [sys.executable, '-m', 'deeplab', *words],
                stdout=output, stderr=output, timeout=LONGEST_SECS, env=environment,
            )  # fmt: skip
            status = str(done.returncode)
        except subprocess.TimeoutExpired:
            status = f'no end after {LONGEST_SECS:g} s'
    result: dict = {'flags': case.flags, 'images': case.images, 'seconds': round(time.monotonic() - started, 1)}
    if status != '0':
        end = log.read_text(errors='replace').splitlines()[-LINES_OF_A_FAILURE:]
        return {**result, 'status': status, 'end_of_log': end}
    if not logdir.exists():  # of another machine, which is the chief
        return result
    lines = [json.loads(line) for line in (logdir / 'metrics.jsonl').read_text().splitlines()]
    lines = [line for line in lines if 'loss' in line]
    step = statistics.median(line['seconds_per_step'] for line in lines[min(SKIPPED, len(lines) // 2) :])
    losses = [line['loss'] for line in lines]
    return {**result, 'step_seconds': step, 'images_per_second': case.images / step, 'losses': losses}


def gpus_of_this_machine() -> list[str]:
    """Names of the GPUs that TensorFlow finds, from a process of its own, so that this one reserves none."""
    program = (
        'import tensorflow as tf\n'
        'for gpu in tf.config.list_physical_devices("GPU"):\n'
        '    print("GPU:", tf.config.experimental.get_device_details(gpu).get("device_name"))'
    )
    lines = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True, check=True).stdout
    return [line.removeprefix('GPU: ') for line in lines.splitlines() if line.startswith('GPU: ')]


def driver() -> str:
    """Version of the NVIDIA driver, and the links between GPUs, if nvidia-smi tells them."""
    try:
        words = ['nvidia-smi', '--query-gpu=driver_version,memory.total', '--format=csv,noheader']
        versions = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        return versions + subprocess.run(['nvidia-smi', 'topo', '-m'], capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        return f'unknown: {error}'


def comparison(results: dict[str, dict]) -> dict:
    """How far losses on the GPU are from the CPU's, relatively, and from the GPU's own in a second run."""
    losses = {name: results.get(f'{COMPARED}{name}', {}).get('losses') for name in ('gpu', 'gpu_again', 'cpu')}
    if None in losses.values():
        return {}

    def largest(name: str) -> float:
        return max(abs(a - b) / abs(b) for a, b in zip(losses['gpu'], losses[name], strict=True))

    return {'losses_from_cpu': largest('cpu'), 'losses_from_second_run': largest('gpu_again')}


def efficiency(results: dict[str, dict], networks: Sequence[Network]) -> dict[str, float]:
    """Images per second of each training on several GPUs, divided by one GPU's times their number."""
    values = {}
    for name, own in results.items():
        for network in networks:
            for setting in SETTINGS:
                one = results.get(f'{network.name}_{setting}', {}).get('images_per_second')
                gpus = own['images'] / network.images
                if name.startswith(f'{network.name}_{setting}_') and gpus > 1 and one and 'images_per_second' in own:
                    values[name] = own['images_per_second'] / one / gpus
    return values


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--workdir', type=pathlib.Path, required=True)
    parser.add_argument('--worker_hosts', default='', help='HOST:PORT of each machine, separated by commas')
    parser.add_argument('--task', type=int, default=0, help='place of this machine in --worker_hosts')
    parser.add_argument('--try_on_cpu', action='store_true', help='a tiny network, and two clones on the CPU')
    arguments = parser.parse_args(words)
    names = ['CPU', 'CPU'] if arguments.try_on_cpu else gpus_of_this_machine()
    if not names:
        raise SystemExit('TensorFlow finds no GPU here (docs/gpu.md, Install); --try_on_cpu tries the script without')
    networks = (TINY,) if arguments.try_on_cpu else NETWORKS
    arguments.workdir.mkdir(parents=True, exist_ok=True)
    records = arguments.workdir / 'records'
    if not records.exists():
        _data.build(_data.generate(arguments.workdir / 'images', {'train': 64}, SIZE), arguments.workdir / 'unready')
        (arguments.workdir / 'unready').rename(records)
    cases = cases_of_one_machine(networks, len(names))
    if arguments.worker_hosts:
        cases = cases_of_machines(networks, len(names), arguments.worker_hosts.split(','), arguments.task)
    for number, case in enumerate(cases, 1):
        file = arguments.workdir / 'trainings' / f'{case.name}.json'
        if not file.exists():
            _machine.write_json(file, run(case, arguments, records))
        done = json.loads(file.read_text())
        speed = done.get('images_per_second')
        outcome = (
            f'{speed:.1f} images per second' if speed else f'status {done["status"]}' if 'status' in done else 'ok'
        )
        print(f'{number} of {len(cases)}: {case.name}: {outcome}', flush=True)
    files = sorted((arguments.workdir / 'trainings').glob('*.json'))
    results = {path.stem: json.loads(path.read_text()) for path in files}
    path = arguments.workdir / 'tried_on_cpu.json' if arguments.try_on_cpu else _machine.RESULTS / 'gpu.json'
    _machine.write_json(
        path,
        {
            'gpus': names,
            'driver': driver(),
            **comparison(results),
            'efficiency': efficiency(results, networks),
            'trainings': results,
            'machine': _machine.describe(),
        },
    )
    print(f'{sum("status" not in each for each in results.values())} of {len(results)} trainings ended well: {path}')


if __name__ == '__main__':
    main()
