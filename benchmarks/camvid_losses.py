"""Effect of losses, class weights and averaged weights on the small classes of CamVid.

    python benchmarks/camvid_losses.py --camvid=../shared/data/camvid --workdir=WORKDIR
        [--variants=auto_lovasz,...] [--seeds=0,1,2] [--steps=1500]

The training of benchmarks/camvid.py with other losses. The baseline is the variant `plain`, or without it
benchmarks/results/camvid.json. Prints a line for each variant and writes benchmarks/results/camvid_losses.json after
each run; runs in that file are not repeated, and a training that was stopped is resumed. The environment variable
TF_ENABLE_ONEDNN_OPTS is recorded, as it changes the rounding.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess

import _machine
import camvid

SMALL_CLASSES = ('pole', 'sign', 'pedestrian', 'bicyclist')
VARIANTS = {
    'plain': [],
    'average': ['--moving_average_decay=0.99'],
    'auto': ['--label_weights=auto'],
    'auto_average': ['--label_weights=auto', '--moving_average_decay=0.99'],
    'lovasz': ['--loss=softmax+lovasz'],
    'dice': ['--loss=softmax+dice'],
    'focal': ['--loss=focal'],
    'auto_lovasz': ['--label_weights=auto', '--loss=softmax+lovasz'],
}
WANTED_GAIN = 0.05


def evaluate(records: pathlib.Path, logdir: pathlib.Path, name: str, *flags: str) -> dict:
    """Val figures of the last checkpoint."""
    folder = logdir / name
    command = camvid.program(
        'eval', *camvid.NETWORK, f'--dataset_dir={records}', f'--checkpoint_dir={logdir}', f'--eval_logdir={folder}',
        '--eval_crop_size=361,481', '--max_number_of_evaluations=1', *flags,
    )  # fmt: skip
    subprocess.run(command, check=True)
    metrics = json.loads(next(folder.glob('metrics-*.json')).read_text())
    small = statistics.mean(metrics['class_iou'][name] for name in SMALL_CLASSES)
    return {'miou': metrics['miou'], 'small_classes_miou': small, 'class_iou': metrics['class_iou']}


def measure(records: pathlib.Path, workdir: pathlib.Path, variant: str, seed: int, steps: int) -> dict:
    """One training, and the evaluation of its weights and of their average."""
    logdir = workdir / f'{variant}_seed{seed}'
    flags = VARIANTS[variant]
    trained = camvid.train(records, logdir, seed, steps, *flags)
    run = {
        'variant': variant,
        'seed': seed,
        'minutes': trained['minutes'],
        'onednn': os.environ.get('TF_ENABLE_ONEDNN_OPTS', 'not set'),
        'weights': evaluate(records, logdir, 'eval', '--nouse_moving_average'),
    }
    if any(flag.startswith('--moving_average_decay') for flag in flags):
        run['averaged_weights'] = evaluate(records, logdir, 'eval_average')
    return run


def summary(runs: list[dict]) -> dict:
    """Means over seeds, and the gain of each variant over the plain run for the small classes."""
    means = {}
    for variant in dict.fromkeys(run['variant'] for run in runs):
        own = [run for run in runs if run['variant'] == variant]
        means[variant] = {'seeds': [run['seed'] for run in own]}
        for kind in ('weights', 'averaged_weights'):
            for figure in ('miou', 'small_classes_miou'):
                if all(kind in run for run in own):
                    means[variant][f'{kind}_{figure}'] = statistics.mean(run[kind][figure] for run in own)
    plain = means.get('plain', {}).get('weights_small_classes_miou') or plain_of_camvid()
    for row in means.values():
        if plain is not None:
            row['gain'] = row['weights_small_classes_miou'] - plain
    return means


def plain_of_camvid() -> float | None:
    """The small classes' mean IoU in the runs of benchmarks/camvid.py, if it has run."""
    path = _machine.RESULTS / 'camvid.json'
    if not path.exists():
        return None
    seeds = json.loads(path.read_text())['seeds']
    return statistics.mean(seed['class_iou'][name] for seed in seeds for name in SMALL_CLASSES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--camvid', type=pathlib.Path, required=True)
    parser.add_argument('--workdir', type=pathlib.Path, required=True)
    parser.add_argument('--variants', default='auto_lovasz')
    parser.add_argument('--seeds', default='0,1,2')
    parser.add_argument('--steps', type=int, default=1500)
    arguments = parser.parse_args()
    records = camvid.build(arguments.camvid, arguments.workdir)
    path = _machine.RESULTS / 'camvid_losses.json'
    runs = json.loads(path.read_text())['runs'] if path.exists() else []
    for seed in (int(text) for text in arguments.seeds.split(',')):
        for variant in arguments.variants.split(','):
            if any(run['variant'] == variant and run['seed'] == seed for run in runs):
                continue
            runs.append(measure(records, arguments.workdir, variant, seed, arguments.steps))
            flags = camvid.NETWORK + camvid.TRAINING
            content = {'steps': arguments.steps, 'flags': flags, 'variants': VARIANTS, 'wanted_gain': WANTED_GAIN}
            _machine.write('camvid_losses', {**content, 'means': summary(runs), 'runs': runs})
    for variant, row in summary(runs).items():
        figures = ', '.join(f'{name} {value:.4f}' for name, value in row.items() if name != 'seeds')
        print(f'{variant}, seeds {row["seeds"]}: {figures}')


if __name__ == '__main__':
    main()
