"""Images without labels: val mIoU of CamVid with labels of every eighth training image, with and without the others.

    python benchmarks/unlabeled_images.py --camvid=../shared/data/camvid --workdir=WORKDIR [--seeds=0,1,2]

Trains with --recipe=small_data on the images with labels alone, and with the rest of the training images as
--unlabeled_dir, for the same steps. Prints one line and writes benchmarks/results/unlabeled_images.json, once both
trainings of a seed are there. When it is started again, it repeats no evaluation that exists and continues a training
that was stopped. With --kinds, it runs only some of the trainings.
"""

import argparse
import json
import pathlib
import statistics
import subprocess

import _data
import _machine
import camvid

EVERY = 8  # of the training images, this one has labels
CROP = '--train_crop_size=241,321'
RECIPE = (*camvid.NETWORK, '--recipe=small_data', CROP, '--train_batch_size=8')
KINDS = ('labeled', 'unlabeled')


def deeplab(name: str, *flags: str) -> None:
    subprocess.run(camvid.program(name, *flags), check=True)


def build(data: pathlib.Path, workdir: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """Writes the records of the images with labels and of val, and a folder of links to the other training images."""
    from deeplab.datasets import build_voc2012_data
    from deeplab.options import BuildVocOptions

    folders = _data.layout(data)
    lists, records, others = workdir / 'lists', workdir / 'records', workdir / 'unlabeled'
    names = (folders['list_folder'] / 'train.txt').read_text().split()
    if not (records / 'val-00000-of-00004.tfrecord').exists():
        lists.mkdir(parents=True, exist_ok=True)
        (lists / 'train.txt').write_text('\n'.join(names[::EVERY]) + '\n')
        (lists / 'val.txt').write_text((folders['list_folder'] / 'val.txt').read_text())
        paths = {name: str(path) for name, path in {**folders, 'list_folder': lists}.items()}
        build_voc2012_data.run(BuildVocOptions(image_format='jpg', output_dir=str(records), **paths))
    others.mkdir(exist_ok=True)
    for number, name in enumerate(names):
        link = others / f'{name}.jpg'
        if number % EVERY and not link.exists():
            link.symlink_to(folders['image_folder'].resolve() / f'{name}.jpg')
    return records, others


def trained(records: pathlib.Path, logdir: pathlib.Path, seed: int, steps: int, flags: tuple[str, ...]) -> dict:
    """Trains, unless that is done; returns the figures of val, with the averaged weights that the recipe keeps."""
    measured = logdir / 'eval' / f'metrics-{steps}-moving_average.json'
    if not measured.exists():
        deeplab(
            'train', *RECIPE, f'--dataset_dir={records}', '--train_split=train', f'--train_logdir={logdir}',
            f'--training_number_of_steps={steps}', f'--seed={seed}', *flags,
        )  # fmt: skip
        deeplab(
            'eval', *camvid.NETWORK, f'--dataset_dir={records}', f'--checkpoint_dir={logdir}', '--eval_split=val',
            f'--eval_logdir={logdir / "eval"}', '--eval_crop_size=361,481', '--max_number_of_evaluations=1',
        )  # fmt: skip
    metrics = json.loads(measured.read_text())
    lines = [json.loads(line) for line in (logdir / 'metrics.jsonl').read_text().splitlines()]
    step = statistics.median(line['seconds_per_step'] for line in lines if 'seconds_per_step' in line)
    used = {key: lines[-1][key] for key in lines[-1] if key.startswith('losses/unlabeled/')}
    return {'miou': metrics['miou'], 'class_iou': metrics['class_iou'], 'seconds_per_step': step, **used}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--camvid', type=pathlib.Path, default=_data.CAMVID)
    parser.add_argument('--workdir', type=pathlib.Path, required=True)
    parser.add_argument('--seeds', default='0,1,2')
    parser.add_argument('--steps', type=int, default=800)
    parser.add_argument('--kinds', default=','.join(KINDS))
    arguments = parser.parse_args()
    records, others = build(arguments.camvid, arguments.workdir)
    flags = {'labeled': (), 'unlabeled': (f'--unlabeled_dir={others}',)}
    runs = []
    for seed in map(int, arguments.seeds.split(',')):
        run: dict = {'seed': seed}
        for kind in arguments.kinds.split(','):
            run[kind] = trained(records, arguments.workdir / f'{kind}_{seed}', seed, arguments.steps, flags[kind])
        if set(KINDS) <= set(run):
            runs.append({**run, 'gain': run['unlabeled']['miou'] - run['labeled']['miou']})
    if not runs:
        return
    means = {kind: statistics.mean(run[kind]['miou'] for run in runs) for kind in KINDS}
    times = [run['unlabeled']['seconds_per_step'] / run['labeled']['seconds_per_step'] for run in runs]
    images = {
        'labeled': len((arguments.workdir / 'lists' / 'train.txt').read_text().split()),
        'unlabeled': len(list(others.iterdir())),
    }
    result = {'steps': arguments.steps, 'flags': RECIPE, 'images': images, 'seeds': runs, 'mean_miou': means}
    path = _machine.write('unlabeled_images', {**result, 'step_time_ratio': statistics.median(times)})
    print(
        f'val mIoU {means["labeled"]:.4f} with labels of every {EVERY}th image, {means["unlabeled"]:.4f} with the '
        f'others as images without labels, seeds {[run["seed"] for run in runs]}: {path}'
    )


if __name__ == '__main__':
    main()
