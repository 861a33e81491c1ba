"""Trains on tiles of drawn GeoTIFF files, evaluates, and predicts rasters up to 50,000 x 50,000 pixels.

The commands are deeplab's own. The large raster is a tiled, compressed BigTIFF with data in some of its blocks; its
prediction is stopped after some blocks, continued, and checked: projection, transform, the pixels of blocks, and the
polygons in the coordinates of the map.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)
import rasterio  # noqa: E402
from rasterio.windows import Window  # noqa: E402

from benchmarks import _machine  # noqa: E402
from tests.helpers import drawn_rasters  # noqa: E402

TILE = 2048
AGREEMENT = 0.9  # of the predicted large raster with the drawn classes, which colors alone tell apart
NETWORK = ('--model_variant=mobilenet_v2', '--depth_multiplier=0.35', '--output_stride=16')


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--workdir', type=pathlib.Path, required=True)
    parser.add_argument('--side', type=int, default=50_000, help='rows and columns of the large raster')
    parser.add_argument('--share', type=float, default=0.1, help='share of its blocks with data')
    parser.add_argument('--steps', type=int, default=200)
    parser.add_argument('--stop_after', type=int, default=10, help='blocks before the prediction is stopped')
    parser.add_argument('--output', type=pathlib.Path)
    return parser.parse_args()


def deeplab(*words, stop_when=None):
    """Runs a command; returns seconds, the peak memory of its processes in bytes, and its output."""
    start = time.monotonic()
    command = [sys.executable, '-m', 'deeplab', *map(str, words)]
    with tempfile.TemporaryFile('w+') as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, cwd=sys.path[0])
        if stop_when is not None:
            while process.poll() is None and not stop_when():
                time.sleep(0.2)
            process.send_signal(signal.SIGTERM)
        _, status, usage = os.wait4(process.pid, 0)  # with the memory of the processes that it started
        file.seek(0)
        output = file.read()
    if status and stop_when is None:
        raise SystemExit(f'{" ".join(command)}\n{output}')
    return {'seconds': round(time.monotonic() - start, 1), 'peak_mib': usage.ru_maxrss >> 10, 'output': output}


def draw_large(path, side, share):
    """Writes a BigTIFF of four bands with data in blocks spread over it; returns the number of blocks with data."""
    random, written = np.random.default_rng(0), []
    profile = {'driver': 'GTiff', 'height': side, 'width': side, 'count': 4, 'dtype': 'uint16', 'nodata': 0}
    profile |= {'crs': drawn_rasters.PROJECTION, 'tiled': True, 'blockxsize': 512, 'blockysize': 512}
    profile |= {'compress': 'deflate', 'zlevel': 1, 'BIGTIFF': 'YES', 'SPARSE_OK': True, 'num_threads': 2}
    pixel = drawn_rasters.PIXEL
    profile['transform'] = rasterio.Affine(pixel, 0, drawn_rasters.LEFT, 0, -pixel, drawn_rasters.TOP)
    with rasterio.open(path, 'w', **profile) as raster:
        for top in range(0, side, TILE):
            for left in range(0, side, TILE):
                if random.random() < share:
                    height, width = min(TILE, side - top), min(TILE, side - left)
                    values = drawn_rasters.bands(drawn_rasters.ids(height, width, len(written)), len(written))
                    raster.write(values, window=Window(left, top, width, height))
                    written.append((top, left))
    return written


def polygons(path, raster):
    """Number and share of the map of the polygons of a raster, which are compared with the classes of its pixels."""
    area, count = 0.0, 0
    with open(path) as file:
        for line in file:
            if line.startswith('{"type": "Feature",'):
                rings = json.loads(line.rstrip(',\n'))['geometry']['coordinates']
                for ring in rings:  # holes run the other way, so they are negative
                    x, y = np.array(ring).T - np.array(ring[0])[:, np.newaxis]
                    area += float((x[:-1] * y[1:] - x[1:] * y[:-1]).sum()) / 2
                count += 1
    with rasterio.open(raster) as dataset:
        pixel = abs(dataset.transform.a * dataset.transform.e)
        classes = sum(int((dataset.read(1, window=window) != 255).sum()) for _, window in dataset.block_windows(1))
    share = area / (classes * pixel)
    assert 0.98 < share < 1.02, share
    return {'polygons': count, 'geojson_bytes': path.stat().st_size, 'area_of_polygons': round(share, 4)}


def main():
    options = arguments()
    work = options.workdir
    work.mkdir(parents=True, exist_ok=True)
    for number in range(4):
        drawn_rasters.pair(work, f'area{number}', 700, 900, number)
    records, logs, result = work / 'records', work / 'logs', {}
    folders = [f'--image_folder={work}/images', f'--mask_folder={work}/masks', f'--output_dir={records}']
    deeplab(
        'build_folder_data',
        *folders,
        '--tile_size=257,257',
        '--tile_overlap=32',
        '--val_fraction=0.25',
        '--value_range=0,3000',
    )
    result['doctor'] = deeplab('doctor', records, f'--output={work}')['output'].strip().splitlines()[-1]
    data = [f'--dataset={records}/dataset.yaml', f'--dataset_dir={records}']
    schedule = [f'--training_number_of_steps={options.steps}', '--train_batch_size=4', '--train_crop_size=129,129']
    schedule += ['--optimizer=adam', '--adam_learning_rate=0.001', '--batch_norm_decay=0.9', '--train_split=train']
    train = deeplab('train', *data, *schedule, *NETWORK, f'--train_logdir={logs}')
    result['train_seconds'] = train['seconds']
    deeplab('eval', *data, *NETWORK, f'--checkpoint_dir={logs}', '--eval_split=val', f'--eval_logdir={work}/eval',
            '--eval_crop_size=257,257', '--max_number_of_evaluations=1')  # fmt: skip
    (metrics,) = (work / 'eval').glob('metrics*.json')
    result['val_miou'] = json.loads(metrics.read_text())['miou']
    large = work / 'large.tif'
    blocks = draw_large(large, options.side, options.share)
    result |= {'side': options.side, 'blocks': (-(-options.side // TILE)) ** 2, 'blocks_with_data': len(blocks)}
    result['raster_bytes'] = large.stat().st_size
    predict = ['predict', large, f'--checkpoint_dir={logs}', '--save=geotiff,geojson']
    predict += [f'--output_dir={work}/predictions']
    folder = work / 'predictions' / 'geotiff' / 'large.tif.blocks'

    def has_enough():
        return folder.is_dir() and len(list(folder.glob('*.png'))) >= options.stop_after

    small = deeplab('predict', work / 'images' / 'area0.tif', *predict[2:])
    result['peak_mib_of_a_raster_of_700_x_900'] = small['peak_mib']
    stopped = deeplab(*predict, stop_when=has_enough)
    result['blocks_when_stopped'] = len(list(folder.glob('*.png')))
    continued = deeplab(*predict)
    result |= {'seconds_until_stopped': stopped['seconds'], 'seconds_continued': continued['seconds']}
    result['peak_mib'] = continued['peak_mib']
    result['continued'] = [line for line in continued['output'].splitlines() if 'blocks exist' in line]
    with rasterio.open(large) as source, rasterio.open(folder.with_name('large.tif')) as target:
        assert (target.crs, target.transform, target.shape) == (source.crs, source.transform, source.shape)
        agreement = []
        for number, (top, left) in enumerate(blocks[:20]):
            labels = target.read(1, window=Window(left, top, TILE, TILE))
            truth = drawn_rasters.ids(*labels.shape, number)
            is_valid = source.dataset_mask(window=Window(left, top, TILE, TILE)) > 0
            assert ((labels == 255) == ~is_valid).all()
            agreement.append(float((labels == truth)[is_valid].mean()))
        result['agreement_with_the_drawn_classes'] = round(float(np.mean(agreement)), 4)
        assert np.mean(agreement) > AGREEMENT, agreement
    result['result_bytes'] = folder.with_name('large.tif').stat().st_size
    result |= polygons(work / 'predictions' / 'geojson' / 'large.geojson', folder.with_name('large.tif'))
    print(json.dumps(result, indent=1))
    if options.output:
        _machine.write_json(options.output, {**result, 'machine': _machine.describe()})


if __name__ == '__main__':
    main()
