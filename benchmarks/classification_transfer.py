"""A classifier of drawn shapes from nothing, then segmentation of scenes of the shapes from it and from nothing.

    python benchmarks/classification_transfer.py --workdir=WORKDIR [--seeds=0,1,2] [--steps=3000]

Trains the classifier once, then a network for scenes with and without it for each seed, with the same steps. Prints one
line and writes benchmarks/results/classification_transfer.json.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time

import _drawn_shapes
import _machine
import numpy as np

WANTED = {'accuracy': 0.9, 'training_seconds': 300}
IMAGES = {'train': 300, 'val': 30}  # of each class
SCENES = {'train': 200, 'val': 60}
NETWORK = ('--model_variant=mobilenet_v2', '--depth_multiplier=0.5')
RATES = ('--optimizer=scheduled_adam', '--base_learning_rate=0.004', '--batch_norm_decay=0.95')
CLASSIFIER = (
    *NETWORK, *RATES, '--task=classification', '--train_image_size=64', '--preprocessing_name=lenet',
    '--train_batch_size=32', '--fine_tune_batch_norm=true',
    '--save_interval_secs=100000', '--eval_split=val', '--eval_every=1000',
)  # fmt: skip
SEGMENTATION = (
    *NETWORK, *RATES, '--train_crop_size=129,129', '--train_batch_size=8', '--fine_tune_batch_norm=true',
    '--training_number_of_steps=300', '--initialize_last_layer=false', '--save_interval_secs=100000',
    '--decoder_output_stride=4',
)  # fmt: skip


def deeplab(*words: str) -> float:
    """Runs a program; returns its seconds."""
    started = time.monotonic()
    subprocess.run([sys.executable, '-m', 'deeplab', *words], check=True)
    return round(time.monotonic() - started, 1)


def write_data(workdir: pathlib.Path) -> None:
    """Draws both data sets and builds their records."""
    for seed, split in enumerate(IMAGES):
        _drawn_shapes.write_classes(workdir / 'shapes' / split, IMAGES[split], seed)
        _drawn_shapes.write_scenes(workdir / 'scenes', split, SCENES[split], seed)
    deeplab('build_classification_data', f'--image_folder={workdir}/shapes', f'--output_dir={workdir}/shape_records')
    names = ','.join(('background', *_drawn_shapes.CLASSES))
    deeplab(
        'build_folder_data', f'--image_folder={workdir}/scenes/images', f'--mask_folder={workdir}/scenes/masks',
        f'--class_names={names}', f'--output_dir={workdir}/scene_records',
    )  # fmt: skip


def classifier(workdir: pathlib.Path, steps: int) -> dict:
    """Trains the classifier; returns its figures."""
    logdir, records = workdir / 'classifier', workdir / 'shape_records'
    seconds = deeplab(
        'train', f'--dataset={records}/dataset.yaml', f'--dataset_dir={records}', '--train_split=train',
        f'--train_logdir={logdir}', f'--training_number_of_steps={steps}', *CLASSIFIER,
    )  # fmt: skip
    figures = json.loads((logdir / 'eval' / f'metrics-{steps}.json').read_text())['metrics']['classification']
    return {'steps': steps, 'training_seconds': seconds, **figures}


def miou(workdir: pathlib.Path, seed: int, initial: pathlib.Path | None) -> float:
    """Trains on the scenes; returns the mIoU of val."""
    logdir, records = workdir / f'scenes_{seed}_{"pretrained" if initial else "scratch"}', workdir / 'scene_records'
    data = (f'--dataset={records}/dataset.yaml', f'--dataset_dir={records}')
    begun = (f'--tf_initial_checkpoint={initial}',) if initial else ()
    deeplab('train', *data, '--train_split=train', f'--train_logdir={logdir}', f'--seed={seed}', *begun, *SEGMENTATION)
    words = (f'--checkpoint_dir={logdir}', f'--eval_logdir={logdir}/eval', '--max_number_of_evaluations=1')
    deeplab('eval', *data, '--eval_split=val', '--eval_crop_size=129,129', *words)
    (path,) = (logdir / 'eval').glob('metrics-*.json')
    return json.loads(path.read_text())['miou']


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--workdir', type=pathlib.Path, required=True)
    parser.add_argument('--seeds', default='0,1,2')
    parser.add_argument('--steps', type=int, default=3000)
    arguments = parser.parse_args()
    load, workdir = _machine.load(), arguments.workdir
    write_data(workdir)
    measured = {'classifier': classifier(workdir, arguments.steps), 'seeds': []}
    for seed in map(int, arguments.seeds.split(',')):
        row = {'seed': seed, 'scratch': miou(workdir, seed, None)}
        row['pretrained'] = miou(workdir, seed, workdir / 'classifier' / f'model.ckpt-{arguments.steps}')
        measured['seeds'].append(row)
        path = _machine.write('classification_transfer', {'wanted': WANTED, **measured, 'load_before': load})
    means = [float(np.mean([row[kind] for row in measured['seeds']])) for kind in ('scratch', 'pretrained')]
    of_classes = measured['classifier']
    print(
        f'accuracy {of_classes["accuracy"]:.3f} (wanted {WANTED["accuracy"]}) in {of_classes["training_seconds"]} s; '
        f'val mIoU of scenes {means[0]:.3f} from nothing, {means[1]:.3f} from the classifier: {path}'
    )


if __name__ == '__main__':
    main()
