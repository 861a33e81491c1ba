"""What labels of the images that `deeplab rank` puts first are worth on CamVid, beside labels of random images.

    python benchmarks/label_ranking.py --camvid=../shared/data/camvid --workdir=WORKDIR [--seeds=0,1,2] [--steps=1500]

Of each seed: draws 60 labeled training images, trains with --recipe=small_data, ranks the other 307 with this network,
and trains again from the beginning with the first 60 of them added, with 60 random ones added, and with the first 60 of
a ranking for the images of val (--target, without their labels). Prints one line and
writes benchmarks/results/label_ranking.json after each training. When it is started again, it repeats no training that
has been evaluated and continues one that was stopped.
"""

import argparse
import json
import pathlib
import shlex
import shutil
import statistics
import subprocess

import _data
import _machine
import camvid
import numpy as np

FIRST, ADDED = 60, 60  # labeled images, and images that get labels
RECIPE = (*camvid.NETWORK, '--recipe=small_data', '--train_crop_size=241,321', '--train_batch_size=8')
KINDS = ('labeled', 'random', 'ranked', 'targeted')


def draw(names: list[str], seed: int) -> tuple[list[str], list[str], list[str]]:
    """Returns the images that have labels, the others, and a random part of these."""
    order = [names[i] for i in np.random.default_rng(seed).permutation(len(names))]
    return sorted(order[:FIRST]), sorted(order[FIRST:]), sorted(order[FIRST : FIRST + ADDED])


def build(data: pathlib.Path, folder: pathlib.Path, train: list[str], val: list[str]) -> pathlib.Path:
    """Writes the records of some training images and of val; returns their folder."""
    lists = folder / 'lists'
    lists.mkdir(parents=True, exist_ok=True)
    for split, names in (('train', train), ('val', val)):
        (lists / f'{split}.txt').write_text('\n'.join(names) + '\n')
    folders = {**_data.layout(data), 'list_folder': lists}
    flags = [f'--{name}={path}' for name, path in folders.items()]
    records = folder / 'tfrecord'
    subprocess.run(
        camvid.program('build_voc2012_data', '--image_format=jpg', f'--output_dir={records}', *flags), check=True
    )
    return records


def train(records: pathlib.Path, logdir: pathlib.Path, seed: int, arguments: argparse.Namespace) -> dict:
    """Trains and evaluates, unless that has been done; returns the figures of val with the averaged weights."""
    measured = logdir / 'eval' / f'metrics-{arguments.steps}-moving_average.json'
    if not measured.exists():
        training = camvid.program(
            'train', *RECIPE, f'--dataset_dir={records}', '--train_split=train', f'--train_logdir={logdir}',
            f'--training_number_of_steps={arguments.steps}', f'--seed={seed}',
        )  # fmt: skip
        subprocess.run([*shlex.split(arguments.prefix), *training], check=True)
        evaluation = camvid.program(
            'eval', *camvid.NETWORK, f'--dataset_dir={records}', f'--checkpoint_dir={logdir}', '--eval_split=val',
            f'--eval_logdir={logdir / "eval"}', '--eval_crop_size=361,481', '--max_number_of_evaluations=1',
        )  # fmt: skip
        subprocess.run(evaluation, check=True)
    metrics = json.loads(measured.read_text())
    return {'miou': metrics['miou'], 'class_iou': metrics['class_iou']}


def ranked(data: pathlib.Path, folder: pathlib.Path, names: dict[str, list[str]], logdir: pathlib.Path) -> list[str]:
    """Returns the images that `deeplab rank` puts first; `names`: images with labels, the others, and the target."""
    for inside, of_folder in names.items():
        (folder / inside).mkdir(parents=True, exist_ok=True)
        for name in of_folder:
            shutil.copy(_data.layout(data)['image_folder'] / f'{name}.jpg', folder / inside)
    output = folder / 'ranking'
    ranking = camvid.program(
        'rank', str(folder / 'others'), f'--checkpoint_dir={logdir}', f'--labeled={folder / "labeled"}',
        f'--first={ADDED}', f'--output_dir={output}', *([f'--target={folder / "target"}'] if 'target' in names else []),
    )  # fmt: skip
    subprocess.run(ranking, check=True)
    return sorted(pathlib.Path(line).stem for line in (output / 'ranking.txt').read_text().splitlines())


def sequences(names: list[str]) -> dict[str, int]:
    """Returns the number of images of each sequence."""
    prefixes = [name.split('_')[0] for name in names]
    return {prefix: prefixes.count(prefix) for prefix in sorted(set(prefixes))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--camvid', type=pathlib.Path, required=True)
    parser.add_argument('--workdir', type=pathlib.Path, required=True)
    parser.add_argument('--seeds', default='0,1,2')
    parser.add_argument('--steps', type=int, default=1500)
    parser.add_argument('--kinds', default=','.join(KINDS), help='of trainings, to run some of them first')
    parser.add_argument('--prefix', default='', help='command before each training, such as "nice -n 10"')
    arguments = parser.parse_args()
    lists = _data.layout(arguments.camvid)['list_folder']
    names, val = ((lists / f'{split}.txt').read_text().split() for split in ('train', 'val'))
    seeds: list[dict] = []
    for seed in map(int, arguments.seeds.split(',')):
        labeled, others, drawn = draw(names, seed)
        row: dict = {'seed': seed}
        seeds.append(row)
        for kind in (kind for kind in KINDS if kind in arguments.kinds.split(',')):
            folder = arguments.workdir / f'{kind}_{seed}'
            chosen = folder / 'lists' / 'train.txt'
            if chosen.exists() and (folder / 'logs').exists():
                added = sorted(set(chosen.read_text().split()) - set(labeled))  # as the training was begun
            elif kind in ('ranked', 'targeted'):
                names_of = {'labeled': labeled, 'others': others} | ({'target': val} if kind == 'targeted' else {})
                added = ranked(arguments.camvid, folder, names_of, arguments.workdir / f'labeled_{seed}' / 'logs')
            else:
                added = drawn if kind == 'random' else []
            records = build(arguments.camvid, folder, sorted(labeled + added), val)
            row[kind] = {'sequences': sequences(added), **train(records, folder / 'logs', seed, arguments)}
            means = {
                kind: statistics.mean(each[kind]['miou'] for each in seeds if kind in each)
                for kind in KINDS
                if kind in row
            }
            result = {'steps': arguments.steps, 'first': FIRST, 'added': ADDED, 'flags': RECIPE, 'mean_miou': means}
            path = _machine.write('label_ranking', {**result, 'seeds': seeds})
    shown = ', '.join(f'{kind} {mean:.4f}' for kind, mean in means.items())
    print(f'val mIoU, mean of {len(seeds)} seeds: {shown}: {path}')


if __name__ == '__main__':
    main()
