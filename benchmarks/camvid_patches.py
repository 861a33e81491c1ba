"""Pre-training on patches of CamVid's own training images, for the recipe for small data: gain or loss on val.

    python benchmarks/camvid_patches.py --camvid=../shared/data/camvid --workdir=WORKDIR [--seeds=0,1,2] [--steps=1500]

Cuts the training images into patches whose class is the class of most of their pixels, trains a classifier of them, and
then trains with --recipe=small_data from it and from nothing. Prints one line and writes
benchmarks/results/camvid_patches.json after each seed. When it is started again, it repeats no evaluation that
exists and continues a training that was stopped.
"""

import argparse
import json
import pathlib
import statistics
import subprocess

import _data
import _machine
import camvid
import numpy as np
from PIL import Image

DESCRIPTION = pathlib.Path(__file__).resolve().parents[1] / 'deeplab/datasets/descriptors/camvid.json'
SIDE, STRIDE = 64, 32  # of patches, in pixels
MAJORITY = 0.5  # smallest share of the most frequent class in a patch
MOST_PATCHES = 2000  # of each class
HELD_OUT = 10  # the patches of each such image measure the classifier
CLASSIFIER = (
    '--model_variant=mobilenet_v2', '--depth_multiplier=0.5', '--task=classification', f'--train_image_size={SIDE}',
    '--preprocessing_name=lenet', '--train_batch_size=32', '--flip_probability=0.5', '--optimizer=scheduled_adam',
    '--base_learning_rate=0.003', '--learning_policy=cosine', '--slow_start_step=100', '--slow_start_learning_rate=0',
    '--slow_start_burnin_type=linear', '--batch_norm_decay=0.98', '--eval_split=val',
)  # fmt: skip
RECIPE = (
    *camvid.NETWORK, '--recipe=small_data', '--train_crop_size=241,321', '--train_batch_size=8',
    # The recipe itself sets these only for a network that begins from nothing.
    '--decoder_output_stride=8', '--decoder_filters=48', '--aspp_convs_filters=96', '--initialize_last_layer=false',
)  # fmt: skip


def deeplab(name: str, *flags: str) -> None:
    subprocess.run(camvid.program(name, *flags), check=True)


def majority(mask: np.ndarray) -> tuple[int, float]:
    """Returns the most frequent class of a mask [h, w], and its share of all pixels; ignored pixels are no class."""
    counts = np.bincount(mask.ravel(), minlength=_data.IGNORED + 1)[: _data.CLASSES]
    return int(counts.argmax()), float(counts.max() / mask.size)


def write_patches(data: pathlib.Path, folder: pathlib.Path, class_names: list[str]) -> dict:
    """Writes FOLDER/SPLIT/CLASS/IMAGE_ROW_COLUMN.png from the training images; returns the patches of each class."""
    folders = _data.layout(data)
    names = (folders['list_folder'] / 'train.txt').read_text().split()
    places: dict[tuple[str, int], list] = {}
    for number, name in enumerate(names):
        split = 'val' if number % HELD_OUT == 0 else 'train'
        mask = np.asarray(Image.open(folders['semantic_segmentation_folder'] / f'{name}.png'))  # [h, w]
        for row in range(0, mask.shape[0] - SIDE + 1, STRIDE):
            for column in range(0, mask.shape[1] - SIDE + 1, STRIDE):
                class_id, share = majority(mask[row : row + SIDE, column : column + SIDE])
                if share >= MAJORITY:
                    places.setdefault((split, class_id), []).append((name, row, column))
    random, counts = np.random.default_rng(0), {}
    for (split, class_id), all_places in sorted(places.items()):
        chosen = random.permutation(len(all_places))[:MOST_PATCHES]
        inside = folder / split / class_names[class_id]
        inside.mkdir(parents=True, exist_ok=True)
        for name, row, column in (all_places[i] for i in chosen):
            box = (column, row, column + SIDE, row + SIDE)
            Image.open(folders['image_folder'] / f'{name}.jpg').crop(box).save(inside / f'{name}_{row}_{column}.png')
        counts.setdefault(split, {})[class_names[class_id]] = len(chosen)
    return counts


def minutes(logdir: pathlib.Path) -> float:
    """Returns the time between the first and the last line of the log of a training."""
    times = [json.loads(line)['time'] for line in (logdir / 'metrics.jsonl').read_text().splitlines()]
    return round((times[-1] - times[0]) / 60, 1)


def classifier(data: pathlib.Path, workdir: pathlib.Path, steps: int) -> dict:
    """Trains the classifier of patches; returns its figures."""
    logdir, patches, records = workdir / 'classifier', workdir / 'patches', workdir / 'patch_records'
    measured = logdir / 'eval' / f'metrics-{steps}.json'
    counts = logdir / 'patches.json'
    if not measured.exists():
        class_names = json.loads(DESCRIPTION.read_text())['class_names']
        _machine.write_json(counts, write_patches(data, patches, class_names))
        deeplab('build_classification_data', f'--image_folder={patches}', f'--output_dir={records}')
        deeplab(
            'train', f'--dataset={records}/dataset.yaml', f'--dataset_dir={records}', f'--train_logdir={logdir}',
            f'--training_number_of_steps={steps}', f'--eval_every={steps}', *CLASSIFIER,
        )  # fmt: skip
    figures = json.loads(measured.read_text())['metrics']['classification']
    return {'steps': steps, 'minutes': minutes(logdir), 'patches': json.loads(counts.read_text()), **figures}


def segmentation(records: pathlib.Path, logdir: pathlib.Path, seed: int, steps: int, initial: str | None) -> dict:
    """Trains with the recipe; returns the figures of val, with the averaged weights that the recipe keeps."""
    measured = logdir / 'eval' / f'metrics-{steps}-moving_average.json'
    if not measured.exists():
        begun = (f'--tf_initial_checkpoint={initial}',) if initial else ()
        deeplab(
            'train', *RECIPE, f'--dataset_dir={records}', '--train_split=train', f'--train_logdir={logdir}',
            f'--training_number_of_steps={steps}', f'--seed={seed}', *begun,
        )  # fmt: skip
        deeplab(
            'eval', *camvid.NETWORK, f'--dataset_dir={records}', f'--checkpoint_dir={logdir}', '--eval_split=val',
            f'--eval_logdir={logdir / "eval"}', '--eval_crop_size=361,481', '--max_number_of_evaluations=1',
        )  # fmt: skip
    metrics = json.loads(measured.read_text())
    return {'miou': metrics['miou'], 'class_iou': metrics['class_iou'], 'minutes': minutes(logdir)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--camvid', type=pathlib.Path, required=True)
    parser.add_argument('--workdir', type=pathlib.Path, required=True)
    parser.add_argument('--seeds', default='0,1,2')
    parser.add_argument('--steps', type=int, default=1500)
    parser.add_argument('--classifier_steps', type=int, default=2000)
    arguments = parser.parse_args()
    workdir, runs = arguments.workdir, []
    records = camvid.build(arguments.camvid, workdir)
    of_patches = classifier(arguments.camvid, workdir, arguments.classifier_steps)
    initial = str(workdir / 'classifier' / f'model.ckpt-{arguments.classifier_steps}')
    for seed in map(int, arguments.seeds.split(',')):
        run: dict = {'seed': seed}
        for kind, begun in (('pretrained', initial), ('scratch', None)):
            run[kind] = segmentation(records, workdir / f'{kind}_{seed}', seed, arguments.steps, begun)
        runs.append({**run, 'gain': run['pretrained']['miou'] - run['scratch']['miou']})
        means = {kind: statistics.mean(row[kind]['miou'] for row in runs) for kind in ('scratch', 'pretrained')}
        result = {'steps': arguments.steps, 'flags': RECIPE, 'classifier_flags': CLASSIFIER, 'classifier': of_patches}
        path = _machine.write('camvid_patches', {**result, 'seeds': runs, 'mean_miou': means})
    print(
        f'val mIoU {means["scratch"]:.4f} from nothing, {means["pretrained"]:.4f} from the classifier of patches '
        f'(accuracy {of_patches["accuracy"]:.3f}), seeds {[row["seed"] for row in runs]}: {path}'
    )


if __name__ == '__main__':
    main()
