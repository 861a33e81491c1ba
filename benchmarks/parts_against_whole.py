"""Whether the results of four jobs with --part, joined by deeplab merge, equal the results of one run.

    python benchmarks/parts_against_whole.py --camvid=CAMVID --checkpoint=CHECKPOINT --workdir=WORKDIR [--parts=4]

CAMVID has the layout of PASCAL VOC (JPEGImages, SegmentationClass, ImageSets/Segmentation), CHECKPOINT is a folder with
a checkpoint of a training on it. The parts of a command run at the same time, as processes. Compared are the bytes of
records and pictures, the counts of eval exactly and its other figures by their largest relative difference, the
entries of predictions.json, and the findings of doctor. Prints one line, writes benchmarks/results/NAME.json.
"""

import argparse
import json
import math
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import _machine

ALONE = ('seconds', 'images_per_second', 'free')  # what depends on the moment


def run(program: str, *words: str) -> None:
    subprocess.run([sys.executable, '-m', 'deeplab', program, *words], check=True, capture_output=True)


def run_both(
    program: str, output: str, folder: pathlib.Path, parts: int, *words: str, file: str = ''
) -> list[pathlib.Path]:
    """Runs a program at once and in parts; returns the folders of both results."""
    folders = [folder / program / name for name in ('whole', 'parts')]
    for path in folders:
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
    run(program, *words, f'--{output}={folders[0] / file}')
    lines = [[*words, f'--{output}={folders[1] / file}', f'--part={number + 1}/{parts}'] for number in range(parts)]
    jobs = [
        subprocess.Popen(
            [sys.executable, '-m', 'deeplab', program, *line], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for line in lines
    ]
    statuses = [job.wait() for job in jobs]
    if any(statuses):
        raise SystemExit(f'a part of {program} failed')
    run('merge', str(folders[1]))
    return folders


def differing(folders: Sequence[pathlib.Path], pattern: str) -> dict[str, int]:
    """Number of files that fit a pattern, and how many of them are in one folder alone or have other bytes."""
    contents = [
        {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob(pattern) if path.is_file()}
        for folder in folders
    ]
    names = contents[0].keys() | contents[1].keys()
    differ = sum(contents[0].get(name) != contents[1].get(name) for name in names)
    return {'files': len(names), 'files_that_differ': differ}


def leaves(value: Any, name: str = '') -> Iterator[tuple[str, Any]]:
    """Yields the values in JSON content by their names."""
    if isinstance(value, (dict, list)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, each in items:
            if key not in ALONE:
                yield from leaves(each, f'{name}.{key}')
    else:
        yield name, value


def compared(folders: Sequence[pathlib.Path], pattern: str) -> dict[str, Any]:
    """Compares the values of a JSON file in both folders."""
    whole, parts = (dict(leaves(json.loads(next(folder.glob(pattern)).read_text()))) for folder in folders)
    assert whole.keys() == parts.keys()
    floats = [(whole[name], parts[name]) for name in whole if isinstance(whole[name], float)]
    others = [name for name in whole if not isinstance(whole[name], float) and whole[name] != parts[name]]
    differences = [abs(one - other) / max(abs(one), math.ulp(0.0)) for one, other in floats]
    return {
        'values': len(whole),
        'counts_and_texts_that_differ': len(others),
        'largest_relative_difference': max(differences, default=0.0),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ('camvid', 'checkpoint', 'workdir'):
        parser.add_argument(f'--{name}', type=lambda text: pathlib.Path(text).resolve(), required=True)
    parser.add_argument('--parts', type=int, default=4)
    parser.add_argument('--name', default='parts_against_whole')
    given = parser.parse_args()
    camvid, folder, parts = given.camvid, given.workdir, given.parts
    lists = camvid / 'ImageSets' / 'Segmentation'
    voc = [f'--image_folder={camvid}/JPEGImages', '--image_format=jpg', f'--list_folder={lists}', '--num_shards=8']
    voc += [f'--semantic_segmentation_folder={camvid}/SegmentationClass']
    records = run_both('build_voc2012_data', 'output_dir', folder, parts, *voc)
    data = ['--dataset=camvid', f'--dataset_dir={records[0]}', f'--checkpoint_dir={given.checkpoint}']
    network = ['--model_variant=mobilenet_v2', '--depth_multiplier=0.5']
    once = '--max_number_of_evaluations=1'
    figures = run_both(
        'eval', 'eval_logdir', folder, parts, *data, *network, once, '--eval_crop_size=361,481', '--metrics=all'
    )
    images = folder / 'val.txt'
    images.write_text(''.join(f'{camvid}/JPEGImages/{name}.jpg\n' for name in (lists / 'val.txt').read_text().split()))
    masks = run_both(
        'predict', 'output_dir', folder, parts, str(images), f'--checkpoint_dir={given.checkpoint}', '--save=mask'
    )
    once = '--max_number_of_iterations=1'
    raw = '--also_save_raw_predictions'
    pictures = run_both('vis', 'vis_logdir', folder, parts, *data, *network, once, '--vis_crop_size=361,481', raw)
    findings = run_both('doctor', 'output', folder, parts, str(camvid), '--dataset=camvid', file='found.json')
    results = {
        'parts': parts,
        'shards': differing(records, '*.tfrecord'),
        'eval': compared(figures, 'metrics-*.json'),
        'tables_of_eval': differing(figures, 'per_image*.csv'),
        'masks_of_predict': differing(masks, '*.png'),
        'predictions.json': compared(masks, 'predictions.json'),
        'pictures_of_vis': differing(pictures, '*.png'),
        'doctor': compared(findings, 'found.json'),
    }
    path = _machine.write(given.name, results)
    print(f'{parts} parts against one run: {json.dumps(results)}: {path}')


if __name__ == '__main__':
    main()
