"""`deeplab demo` for several seeds: time, val mIoU, and the mIoU of color alone (docs/acceptance.md, row A).

    python benchmarks/demo_seeds.py --workdir=WORKDIR [--seeds=0,1,2]

Runs the demo as a user does, one process a seed. Prints one line and writes benchmarks/results/demo_seeds.json.
"""

import argparse
import json
import pathlib
import resource
import subprocess
import sys
import time

import _machine
import numpy as np
from PIL import Image

WANTED = {'miou': 0.70, 'color_miou': 0.40, 'seconds': 240}


def read_split(folder: pathlib.Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """All counted pixels of a split, [n, 3], and their class ids, [n]."""
    names = (folder / 'ImageSets/Segmentation' / f'{split}.txt').read_text().split()
    pixels, labels = [], []
    for name in names:
        mask = np.asarray(Image.open(folder / 'SegmentationClass' / f'{name}.png')).ravel()
        image = np.asarray(Image.open(folder / 'JPEGImages' / f'{name}.jpg')).reshape(-1, 3)
        pixels.append(image[mask != 255])
        labels.append(mask[mask != 255].astype(np.int64))
    return np.concatenate(pixels), np.concatenate(labels)


def nearest_mean_color_miou(folder: pathlib.Path) -> float:
    """Val mIoU of the class whose mean training color is nearest."""
    classes = json.loads((folder / 'street.json').read_text())['num_classes']
    pixels, labels = read_split(folder, 'train')
    means = np.stack([pixels[labels == label].mean(axis=0) for label in range(classes)])
    pixels, labels = read_split(folder, 'val')
    distances = np.stack([((pixels - mean) ** 2).sum(axis=1) for mean in means])
    confusion = np.bincount(labels * classes + distances.argmin(axis=0), minlength=classes**2).reshape(classes, -1)
    hits = np.diag(confusion)
    return float((hits / (confusion.sum(0) + confusion.sum(1) - hits)).mean())


def measure(workdir: pathlib.Path, seed: int) -> dict:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.time()
    subprocess.run([sys.executable, '-m', 'deeplab', 'demo', f'--workdir={workdir}', f'--seed={seed}'], check=True)
    seconds = time.time() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    metrics = json.loads(next((workdir / 'eval').glob('metrics-*.json')).read_text())
    return {
        'seed': seed,
        'miou': metrics['miou'],
        'class_iou': metrics['class_iou'],
        'color_miou': nearest_mean_color_miou(workdir / 'voc'),
        'seconds': round(seconds, 1),
        'processor_seconds': round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--workdir', type=pathlib.Path, required=True)
    parser.add_argument('--seeds', default='0,1,2')
    arguments = parser.parse_args()
    seeds = []
    for seed in (int(text) for text in arguments.seeds.split(',')):
        seeds.append(measure(arguments.workdir / f'seed{seed}', seed))
        path = _machine.write('demo_seeds', {'wanted': WANTED, 'seeds': seeds})
    print(
        f'val mIoU {[round(row["miou"], 3) for row in seeds]} (wanted {WANTED["miou"]}), color alone '
        f'{[round(row["color_miou"], 3) for row in seeds]} (below {WANTED["color_miou"]}), '
        f'{[row["seconds"] for row in seeds]} s (at most {WANTED["seconds"]}): {path}'
    )


if __name__ == '__main__':
    main()
