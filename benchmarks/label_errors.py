"""How many damaged masks of CamVid `deeplab doctor --folds` puts first.

    python benchmarks/label_errors.py --camvid=../shared/data/camvid --workdir=WORKDIR [--folds=4] [--steps=600]

Damages 40 of the 367 training masks, ten each in four ways: two classes swapped; an object of more than 0.5 % of the
image filled with the class around it; a shift of 8 pixels; the mask of another image. Trains a network without each
fold of the damaged data (--recipe=small_data), lets the doctor list all images, and counts the damaged masks among the
first 40 and 60. Prints one line and writes benchmarks/results/label_errors.json. When it is started again, it repeats
no training that has ended and continues one that was stopped.
"""

import argparse
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import time

import _data
import _machine
import camvid
import numpy as np
from PIL import Image

EACH, FIRST, WANTED = 10, 60, 32
KINDS = ('removed', 'swapped', 'shifted', 'other')
SHIFT = 8  # pixels
LEAST = 0.005  # share of the image of a removed object, and of each swapped class
RING = 3  # pixels around an object, whose class fills it
OBJECTS = ('pole', 'sign', 'fence', 'car', 'pedestrian', 'bicyclist')
DESCRIPTION = pathlib.Path(__file__).resolve().parents[1] / 'deeplab/datasets/descriptors/camvid.json'
RECIPE = (
    *(flag for flag in camvid.NETWORK if not flag.startswith('--dataset')), '--recipe=small_data',
    '--train_crop_size=241,321', '--train_batch_size=8',
)  # fmt: skip


def swapped(mask: np.ndarray, random: np.random.Generator) -> np.ndarray | None:
    """Returns the mask with two classes swapped; None if it has fewer than two that are large enough."""
    counts = np.bincount(mask.ravel(), minlength=256)[: _data.CLASSES]
    large = np.flatnonzero(counts > LEAST * mask.size)
    if len(large) < 2:
        return None
    one, other = random.choice(large, 2, replace=False)
    table = np.arange(256, dtype=np.uint8)
    table[[one, other]] = other, one
    return table[mask]


def removed(mask: np.ndarray, random: np.random.Generator) -> np.ndarray | None:
    """Returns the mask without an object, filled with the most frequent class around it; None if there is none."""
    from deeplab.core.connected_components import connected_components

    names = json.loads(DESCRIPTION.read_text())['class_names']
    numbers = connected_components(mask, np.isin(mask, [names.index(name) for name in OBJECTS]))
    large = np.flatnonzero(np.bincount(numbers.ravel())[1:] > LEAST * mask.size) + 1
    if not len(large):
        return None
    region = numbers == random.choice(large)
    padded = np.pad(region, RING)
    near = [np.roll(padded, step, axis) for axis in (0, 1) for step in range(-RING, RING + 1)]
    ring = np.logical_or.reduce(near)[RING:-RING, RING:-RING] & ~region
    around = np.bincount(mask[ring], minlength=256)[: _data.CLASSES]
    around[mask[region][0]] = 0
    return np.where(region, np.uint8(around.argmax()), mask) if around.any() else None


def shifted(mask: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Returns the mask moved up, down, left or right; the border is repeated."""
    down, right = [(SHIFT, 0), (-SHIFT, 0), (0, SHIFT), (0, -SHIFT)][random.integers(4)]
    rows = np.clip(np.arange(mask.shape[0]) - down, 0, mask.shape[0] - 1)
    columns = np.clip(np.arange(mask.shape[1]) - right, 0, mask.shape[1] - 1)
    return mask[rows][:, columns]


def damage(data: pathlib.Path, folder: pathlib.Path, seed: int) -> dict[str, str]:
    """Writes images and masks of the training split, 40 of them damaged; returns the damage of these by name."""
    folders = _data.layout(data)
    names = (folders['list_folder'] / 'train.txt').read_text().split()

    def read(name: str) -> np.ndarray:
        return np.asarray(Image.open(folders['semantic_segmentation_folder'] / f'{name}.png'))  # [h, w]

    random, damages, masks = np.random.default_rng(seed), {}, {}
    order = random.permutation(names).tolist()
    for kind in KINDS:  # few images have an object to remove
        for name in [name for name in order if name not in damages]:
            if sum(other == kind for other in damages.values()) == EACH:
                break
            if kind == 'other':
                mask = read(random.choice([other for other in names if other != name]))
            else:
                mask = {'swapped': swapped, 'removed': removed, 'shifted': shifted}[kind](read(name), random)
            if mask is not None:
                damages[name], masks[name] = kind, mask
    for inside in ('images', 'masks'):
        (folder / inside).mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copy(folders['image_folder'] / f'{name}.jpg', folder / 'images')
        Image.fromarray(masks.get(name, read(name))).save(folder / 'masks' / f'{name}.png')
    return damages


def train_fold(records: pathlib.Path, logdir: pathlib.Path, fold: int, arguments: argparse.Namespace) -> float:
    """Trains without a fold, unless that has been done; returns the mIoU of the fold, with the averaged weights."""
    measured = logdir / 'eval' / f'metrics-{arguments.steps}-fold{fold}-moving_average.json'
    if not measured.exists():
        training = camvid.program(
            'train', *RECIPE, f'--dataset_dir={records}', f'--fold={fold}', f'--train_logdir={logdir}',
            f'--training_number_of_steps={arguments.steps}', f'--seed={arguments.seed}',
        )  # fmt: skip
        subprocess.run([*shlex.split(arguments.prefix), *training], check=True)
        evaluation = camvid.program(
            'eval', f'--dataset_dir={records}', f'--checkpoint_dir={logdir}', f'--eval_split=fold{fold}',
            f'--eval_logdir={logdir / "eval"}', '--eval_crop_size=361,481', '--max_number_of_evaluations=1',
        )  # fmt: skip
        subprocess.run(evaluation, check=True)
    return json.loads(measured.read_text())['miou']


def write_folds(folder: pathlib.Path, mious: list[float], steps: int) -> None:
    """Writes the file that makes the trainings a cross-validation."""
    from deeplab.files import cross_validation

    folds = [
        cross_validation.Fold(
            number, f'fold{number}', str(folder / f'fold{number}'),
            str(folder / f'fold{number}' / f'model.ckpt-{steps}'), True, miou,
        )
        for number, miou in enumerate(mious, 1)
    ]  # fmt: skip
    cross_validation.write(cross_validation.CrossValidation(str(folder), len(folds), tuple(folds)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--camvid', type=pathlib.Path, required=True)
    parser.add_argument('--workdir', type=pathlib.Path, required=True)
    parser.add_argument('--folds', type=int, default=4)
    parser.add_argument('--steps', type=int, default=600)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--prefix', default='', help='command before each training, such as "nice -n 10"')
    parser.add_argument('--only_train', action='store_true', help='end before the doctor')
    arguments = parser.parse_args()
    workdir, folder = arguments.workdir, arguments.workdir / 'folds'
    damages = damage(arguments.camvid, workdir / 'damaged', arguments.seed)
    records = workdir / 'tfrecord'
    build = camvid.program(
        'build_folder_data', f'--image_folder={workdir / "damaged/images"}',
        f'--mask_folder={workdir / "damaged/masks"}', f'--output_dir={records}', '--dataset=camvid',
        f'--folds={arguments.folds}',
    )  # fmt: skip
    subprocess.run(build, check=True)
    numbers = range(1, arguments.folds + 1)
    mious = [train_fold(records, folder / f'fold{fold}', fold, arguments) for fold in numbers]
    if arguments.only_train:
        return
    write_folds(folder, mious, arguments.steps)
    findings = workdir / 'findings.json'
    doctor = camvid.program(
        'doctor', str(records), f'--folds={folder}', f'--output={findings}', f'--html={workdir / "findings.html"}'
    )
    started = time.monotonic()
    subprocess.run(doctor, check=False)  # its status is 1, as near-duplicates of other masks are an error
    seconds = round(time.monotonic() - started, 1)
    order = [re.match("'([^']+)'", row['image'])[1] for row in json.loads(findings.read_text())['mask_contradictions']]
    ranks = {name: order.index(name) + 1 for name in damages}
    first = {kind: sum(ranks[name] <= FIRST for name in damages if damages[name] == kind) for kind in KINDS}
    rows = [{'image': name, 'damage': damages[name], 'rank': ranks[name]} for name in sorted(ranks, key=ranks.get)]
    result = {
        'steps': arguments.steps, 'folds': arguments.folds, 'flags': RECIPE, 'fold_miou': mious, 'masks': len(order),
        'damaged': len(damages), f'within_first_{FIRST}': sum(first.values()), f'by_damage_within_first_{FIRST}': first,
        'within_first_40': sum(rank <= len(damages) for rank in ranks.values()), 'wanted': WANTED, 'seconds': seconds,
        'ranks': rows,
    }  # fmt: skip
    path = _machine.write('label_errors', result)
    print(
        f'{sum(first.values())} of {len(damages)} damaged masks in the first {FIRST}, wanted {WANTED}: {first}: {path}'
    )


if __name__ == '__main__':
    main()
