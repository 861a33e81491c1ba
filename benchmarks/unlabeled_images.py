"""Images without labels: val mIoU of CamVid with labels of every eighth training image, with and without the others.

    python benchmarks/unlabeled_images.py --camvid=../shared/data/camvid --workdir=WORKDIR [--seeds=0,1,2]

Trains with --recipe=small_data on the images with labels alone, and continues from there, for the same steps, once with
the labels alone and once with the rest of the training images as --unlabeled_dir. Prints one line and writes
benchmarks/results/unlabeled_images.json with all trainings that are finished. When it is started again, it repeats no
evaluation that exists and continues a training that was stopped. --seeds and --kinds choose the trainings to run.
"""

import argparse
import json
import pathlib
import statistics
import subprocess

import _data
import _machine
import camvid

EVERY = 8  # of the training images, one has labels
CROP = '--train_crop_size=241,321'
RECIPE = (*camvid.NETWORK, '--recipe=small_data', CROP, '--train_batch_size=8')
DECODER = ('--decoder_output_stride=8', '--decoder_filters=48', '--aspp_convs_filters=96')  # as the recipe sets them
BEGUN, LABELED = 'begun', 'labeled'
SETTINGS = {
    BEGUN: (),  # from nothing; the others continue from it
    LABELED: ('--base_learning_rate=0.002',),
    'confident': ('--base_learning_rate=0.002', '--unlabeled_confidence=0.9', '--unlabeled_ramp_steps=100'),
}


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


def measured(logdir: pathlib.Path, steps: int) -> pathlib.Path:
    """Returns the path of the figures of val, with the averaged weights that the recipe keeps."""
    return logdir / 'eval' / f'metrics-{steps}-moving_average.json'


def train(records: pathlib.Path, logdir: pathlib.Path, seed: int, steps: int, flags: tuple[str, ...]) -> None:
    """Trains and evaluates, unless that is done."""
    if measured(logdir, steps).exists():
        return
    deeplab(
        'train', *RECIPE, f'--dataset_dir={records}', '--train_split=train', f'--train_logdir={logdir}',
        f'--training_number_of_steps={steps}', f'--seed={seed}', *flags,
    )  # fmt: skip
    deeplab(
        'eval', *camvid.NETWORK, f'--dataset_dir={records}', f'--checkpoint_dir={logdir}', '--eval_split=val',
        f'--eval_logdir={logdir / "eval"}', '--eval_crop_size=361,481', '--max_number_of_evaluations=1',
    )  # fmt: skip


def figures(logdir: pathlib.Path, steps: int) -> dict | None:
    """Returns the figures of a training; None if it is not finished."""
    if not measured(logdir, steps).exists():
        return None
    metrics = json.loads(measured(logdir, steps).read_text())
    lines = [json.loads(line) for line in (logdir / 'metrics.jsonl').read_text().splitlines()]
    step = statistics.median(line['seconds_per_step'] for line in lines if 'seconds_per_step' in line)
    used = {key: lines[-1][key] for key in lines[-1] if key.startswith('losses/unlabeled/')}
    return {'miou': metrics['miou'], 'class_iou': metrics['class_iou'], 'seconds_per_step': step, **used}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--camvid', type=pathlib.Path, default=_data.CAMVID)
    parser.add_argument('--workdir', type=pathlib.Path, required=True)
    parser.add_argument('--seeds', default='0,1,2')
    parser.add_argument('--steps', type=int, default=1500, help='from nothing')
    parser.add_argument('--more_steps', type=int, default=800, help='after them')
    parser.add_argument('--kinds', default=','.join(SETTINGS))
    arguments = parser.parse_args()
    workdir = arguments.workdir
    steps = {kind: arguments.steps if kind == BEGUN else arguments.more_steps for kind in SETTINGS}
    records, others = build(arguments.camvid, workdir)
    for seed in filter(None, arguments.seeds.split(',')):
        for kind in arguments.kinds.split(','):
            flags = [*SETTINGS[kind]]
            if kind != BEGUN:
                begun = workdir / f'{BEGUN}_{seed}' / f'model.ckpt-{arguments.steps}'
                flags += [f'--tf_initial_checkpoint={begun}', *DECODER]
            if kind not in (BEGUN, LABELED):
                flags.append(f'--unlabeled_dir={others}')
            train(records, workdir / f'{kind}_{seed}', int(seed), steps[kind], tuple(flags))
    runs: dict[str, dict] = {}
    for kind in SETTINGS:
        folders = sorted(workdir.glob(f'{kind}_[0-9]*'))
        found = {folder.name.rpartition('_')[2]: figures(folder, steps[kind]) for folder in folders}
        runs[kind] = {seed: run for seed, run in found.items() if run is not None}
    gains = {
        kind: {
            seed: run['miou'] - runs[LABELED][seed]['miou'] for seed, run in runs[kind].items() if seed in runs[LABELED]
        }
        for kind in SETTINGS
        if kind not in (BEGUN, LABELED)
    }
    labeled = len((workdir / 'lists' / 'train.txt').read_text().split())
    images = {'labeled': labeled, 'unlabeled': len(list(others.iterdir()))}
    path = _machine.write(
        'unlabeled_images',
        {'steps': steps, 'flags': RECIPE, 'settings': SETTINGS, 'images': images, 'runs': runs, 'gains': gains},
    )
    shown = {kind: {seed: round(run['miou'], 4) for seed, run in runs[kind].items()} for kind in runs}
    print(f'val mIoU by seed, with labels of {labeled} images and {images["unlabeled"]} without: {shown}: {path}')


if __name__ == '__main__':
    main()
