"""Engines in 8 bits: what `--engine=auto --precision=auto` takes, and the mean IoU of each (docs/engines.md).

    python -m benchmarks.engines_in_8_bits --records=TFRECORDS [--camvid=FOLDER] [--checkpoint=FOLDER] [--rounds=5]

The checkpoint of CamVid is calibrated on images of train, and evaluated on val with TensorFlow in float32, with each
engine in 8 bits, and `--rounds` times with 'auto'. On a busy machine, the fastest time of a candidate in these rounds
says most. Prints one line, writes benchmarks/results/engines_in_8_bits.json.
"""

import argparse
import importlib.metadata
import json
import pathlib
import shutil
import tempfile

from benchmarks import _data, _machine, exports, rows

NAMES = ('tflite', 'openvino', 'onnxruntime')


def _evaluated(line: list[str], folder: pathlib.Path, *engine: str) -> dict:
    """Returns the metrics file of one evaluation."""
    from deeplab import cli

    shutil.rmtree(folder, ignore_errors=True)
    if status := cli.main(['eval', *line, f'--eval_logdir={folder}', *engine]):
        raise SystemExit(status)
    (path,) = folder.glob('metrics-*.json')
    return json.loads(path.read_text(encoding='utf-8'))


def measure(arguments: argparse.Namespace, folder: pathlib.Path) -> dict:
    """Returns the mean IoU of each engine, and the candidates of 'auto' with their fastest times."""
    from deeplab.registry import ENGINES

    images = folder / 'images'
    images.mkdir()
    layout = _data.layout(arguments.camvid)
    for name in (layout['list_folder'] / 'train.txt').read_text().split():
        (images / f'{name}.jpg').symlink_to(layout['image_folder'] / f'{name}.jpg')
    shutil.copytree(arguments.checkpoint, folder / 'checkpoint')  # converted networks are kept beside it
    line = [
        *rows.CAMVID_NETWORK.split(), '--dataset=camvid', '--eval_crop_size=361,481', '--max_number_of_evaluations=1',
        f'--dataset_dir={arguments.records}', f'--checkpoint_dir={folder / "checkpoint"}',
    ]  # fmt: skip
    calibration, logs = f'--calibration_dir={images}', folder / 'eval'
    mious = {'tensorflow in float32': _evaluated(line, logs)['miou']}
    for name in NAMES:
        found = _evaluated(line, logs, f'--engine={name}', '--precision=int8', calibration)
        mious[f'{name} in int8'] = found['miou']
    chosen = [_evaluated(line, logs, '--engine=auto', '--precision=auto', calibration) for _ in range(arguments.rounds)]
    candidates: dict[str, dict] = {}
    for each in [candidate for found in chosen for candidate in found['engine_candidates']]:
        name, seconds = f'{each["engine"]} in {each["precision"]}', each['seconds']
        if seconds is not None:
            fastest = min(seconds, candidates.get(name, each)['seconds'])
            candidates[name] = {'seconds': fastest, 'agreement': each['agreement']}
    return {
        'images': len(list(images.iterdir())),
        'taken': [f'{found["engine"]} in {found["precision"]}' for found in chosen],
        'miou_of_taken': [found['miou'] for found in chosen],
        'candidates': candidates,
        'miou': mious,
        'engine_versions': {name: ENGINES.get(name).version() for name in NAMES},
        'nncf': importlib.metadata.version('nncf'),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--records', required=True)
    parser.add_argument('--camvid', type=pathlib.Path, default=_data.CAMVID)
    parser.add_argument('--checkpoint', type=pathlib.Path, default=exports.CHECKPOINT.parent)
    parser.add_argument('--rounds', type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = measure(arguments, pathlib.Path(folder))
    path = _machine.write('engines_in_8_bits', {**result, 'load': _machine.load()})
    shown = ', '.join(f'{name} {miou:.4f}' for name, miou in result['miou'].items())
    print(f'auto takes {" / ".join(result["taken"])}; mean IoU: {shown}: {path}')


if __name__ == '__main__':
    main()
