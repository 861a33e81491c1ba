"""Whether predictions that are written as annotations become the same masks again, for each format that is read.

    python -m benchmarks.annotation_round_trip --images=IMAGES --checkpoint=CHECKPOINT --workdir=WORKDIR

Predicts a folder of images with `--save=FORMAT` at `--polygon_tolerance=0` and 1 and `--minimum_area=0`, builds records
of each result with `build_folder_data --annotations`, and compares the masks in the records with the predicted masks.
COCO needs pycocotools. Prints one line for each format, writes benchmarks/results/annotation_round_trip.json.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
from PIL import Image

from benchmarks import _machine
from deeplab.datasets import images, record_index, wire
from deeplab.datasets.annotations import formats

FORMATS = [name for name in formats.WRITERS if name != 'geojson']  # which no builder reads
WANTED = {0: 1.0, 1: 0.995}  # share of equal pixels, by tolerance
PARTS = {'supervisely': 'supervisely', 'labelme': 'labelme', 'cvat': 'cvat.xml', 'coco': 'coco.json'}


def deeplab(*words: str) -> None:
    subprocess.run([sys.executable, '-m', 'deeplab', *words], check=True, capture_output=True)


def masks_of(records: pathlib.Path) -> dict[str, np.ndarray]:
    """The masks of records, by the name of their image."""
    index = record_index.RecordIndex(sorted(map(str, records.glob('*.tfrecord'))))
    masks = {}
    for number in range(len(index)):
        features = wire.read_features(index.read(number))
        name, content = (features[f'image/{key}'] for key in ('filename', 'segmentation/class/encoded'))
        masks[pathlib.PurePosixPath(name.decode()).stem] = images.read_ids(content)
    return masks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--images', type=pathlib.Path, required=True)
    parser.add_argument('--checkpoint', required=True)
    parser.add_argument('--dataset', default='camvid', help='names of the classes')
    parser.add_argument('--workdir', type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    result: dict = {}
    for tolerance, wanted in WANTED.items():
        folder = arguments.workdir / f'tolerance_{tolerance}'
        shutil.rmtree(folder, ignore_errors=True)
        predict = ['predict', str(arguments.images), f'--checkpoint_dir={arguments.checkpoint}']
        predict += [f'--dataset={arguments.dataset}', f'--output_dir={folder}', f'--save=mask,{",".join(FORMATS)}']
        deeplab(*predict, f'--polygon_tolerance={tolerance}', '--minimum_area=0')
        summary = json.loads((folder / 'predictions.json').read_text())
        predicted = {path.stem: np.asarray(Image.open(path)) for path in (folder / 'mask').rglob('*.png')}
        for name in FORMATS:
            records = folder / f'records_{name}'
            deeplab(
                'build_folder_data', f'--annotations={folder / PARTS.get(name, f"{name}.json")}',
                f'--image_folder={arguments.images}', f'--output_dir={records}',
                f'--class_names={",".join(summary["classes"])}', '--unlabeled=ignore',
            )  # fmt: skip
            masks = masks_of(records)
            assert masks.keys() == predicted.keys()
            shares = [float((masks[image] == mask).mean()) for image, mask in predicted.items()]
            shown = {'mean': float(np.mean(shares)), 'least': min(shares), 'images': len(shares), 'wanted': wanted}
            result.setdefault(name, {})[f'tolerance_{tolerance}'] = shown
            print(f'{name}, tolerance {tolerance}: {shown["mean"]:.4%} equal, {shown["least"]:.4%} in the worst image')
    print(_machine.write('annotation_round_trip', {'formats': result}))
    sys.exit(any(shown['mean'] < shown['wanted'] for found in result.values() for shown in found.values()))


if __name__ == '__main__':
    main()
