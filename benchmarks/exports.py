"""Every format and variant of an export beside its checkpoint: mean IoU, size, speed, memory.

    python -m benchmarks.exports --records=TFRECORD [--checkpoint=CHECKPOINT] [--folder=DIR] [--output=FILE]
        [--formats=tflite,onnx:int8] [network flags of deeplab export_model]

Without further flags the network is that of the CamVid checkpoint. The exports are calibrated on the split train and
evaluated on val. Prints the table of docs/deployment.md; the JSON file has all figures.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import tempfile
from collections.abc import Sequence
from typing import Any

from benchmarks import _data

CHECKPOINT = _data.CAMVID.parents[1] / 'goldens/checkpoints/mobilenet_v2_camvid/model.ckpt-1500'
NETWORK = (
    '--model_variant=mobilenet_v2',
    '--depth_multiplier=0.5',
    '--output_stride=16',
    '--num_classes=11',
    '--crop_size=361,481',
    '--dataset=camvid',
)
FORMATS = (
    'frozen,saved_model,tflite,tflite:float16,tflite:dynamic_int8,tflite:int8,onnx,onnx:float16,onnx:int8,openvino,'
    'openvino:float16'
)
RESULTS = pathlib.Path(__file__).parent / 'results' / 'exports.json'


def main(words: Sequence[str] | None = None) -> int:
    """Exports, measures and writes; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--records', required=True)
    parser.add_argument('--checkpoint', default=str(CHECKPOINT))
    parser.add_argument('--formats', default=FORMATS)
    parser.add_argument('--folder', help='for the exports; a temporary one if it is not given')
    parser.add_argument('--output', type=pathlib.Path, default=RESULTS)
    arguments, network = parser.parse_known_args(words)
    from deeplab import cli

    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or temporary
        for name in arguments.formats.split(','):  # each in the folder of all, under its own name
            path = os.path.join(folder, name.replace(':', '_'))
            line = [f'--checkpoint_path={arguments.checkpoint}', f'--export_path={path}', f'--format={name}']
            line += [f'--dataset_dir={arguments.records}', '--verify_split=val', *(network or NETWORK)]
            if status := cli.main(['export_model', *line]):
                return status
        document = collected(pathlib.Path(folder, 'export.json'))
    arguments.output.write_text(json.dumps(document, indent=1) + '\n')
    print('\n'.join(table(document)))
    return 0


def collected(*paths: pathlib.Path) -> dict[str, Any]:
    """Returns the figures of export.json files without the folders of this machine."""
    exports: dict[str, Any] = {}
    document: dict[str, Any] = {}
    for path in paths:
        document = json.loads(path.read_text(encoding='utf-8'))
        for entry in document['exports'].values():
            entry['checkpoint'] = os.path.basename(entry['checkpoint'])
            exports[f'{entry["format"]}:{entry["variant"]}'] = entry
    return {'exports': exports, 'machine': document['machine']}


def table(document: dict[str, Any]) -> list[str]:
    """Returns the rows of the table of docs/deployment.md."""
    rows = [
        '| export | MB | load, s | first, ms | image, ms | peak MB | equal labels | mIoU | difference (95 %) |',
        '|---|---|---|---|---|---|---|---|---|',
    ]
    for name, entry in document['exports'].items():
        figures, verified = entry['figures'], entry['verified']
        value, low, high = verified['difference']
        rows.append(
            f'| {name} | {figures["bytes"] / 1e6:.1f} | {figures["load_seconds"]:.2f} '
            f'| {1000 * figures["first_seconds"]:.0f} | {1000 * figures["seconds"]:.0f} '
            f'| {figures["peak_bytes"] / 1e6:.0f} | {entry["comparison"]["agreement"]:.3%} '
            f'| {verified["miou"]:.4f} | {value:+.4f} ({low:+.4f} to {high:+.4f}) |'
        )
    return rows


if __name__ == '__main__':
    raise SystemExit(main())
