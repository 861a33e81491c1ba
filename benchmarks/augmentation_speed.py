"""Cost of each augmentation: processor time of the input pipeline for one image, off against on.

    python -m benchmarks.augmentation_speed --records=TFRECORDS [--rounds=8] [--name=augmentation_speed]

Runs in one process and in turn one pipeline for each augmentation, one with all of them, and one with none, as in
training on CamVid (360 x 480 pixels, crops of 361 x 481). The time is the processor time of all threads, which does not
depend on other load of the machine; the best round is used. Prints one line, writes benchmarks/results/NAME.json.
"""

import argparse
import pathlib
import tempfile
import time

import tensorflow as tf

from benchmarks import _machine
from deeplab import cli
from deeplab.core import sessions
from deeplab.datasets.segmentation_dataset import DataSource
from deeplab.training import split_input

BATCH = 8
BATCHES_UNTIMED = 2
BATCHES_TIMED = 6
CASES = {
    'off': [],
    'colors': ['--jitter_brightness=0.2', '--jitter_contrast=0.2', '--jitter_saturation=0.2', '--jitter_hue=0.02'],
    'rotation': ['--rotation_degrees=10'],
    'blur of half the images': ['--blur_sigma=1.5'],
    'cutout': ['--cutout_size=32', '--cutout_count=3'],
    'rare classes in half the crops': ['--rare_class_sampling=0.5'],
    'vertical flips': ['--vertical_flip_probability=0.5'],
    'quarter turns': ['--quarter_turn_probability=0.75'],
    'affine maps': ['--affine_shear=10', '--affine_stretch=0.2', '--affine_shift=0.1'],
    'elastic distortion': ['--elastic_pixels=4'],
    'gamma': ['--jitter_gamma=0.5'],
    'noise': ['--noise_sigma=15'],
    'JPEG': ['--jpeg_loss=70'],
    'mosaics of half the crops': ['--mosaic_probability=0.5'],
    'CutMix of half the crops': ['--cutmix_probability=0.5'],
    'copy-paste on half the crops': ['--copy_paste_probability=0.5'],
}
CASES['all'] = [flag for flags in CASES.values() for flag in flags]
CASES['random set of five'] = ['--random_augmentations=colors,gamma,gaussian_noise,jpeg,affine']


def build(records: pathlib.Path, logdir: str, flags: list[str]) -> tuple[tf.Operation, tf.Operation]:
    """The pipeline of a training line: what starts it, and what takes a batch."""
    line = ['--dataset=camvid', f'--dataset_dir={records}', '--train_crop_size=361,481', f'--train_batch_size={BATCH}']
    options = cli.options_of('train', [*line, f'--train_logdir={logdir}', *flags])
    pipeline = split_input.build_input(options, split_input.open_data(options, DataSource(options.dataset)), 0)
    return pipeline.initializer, tf.group(*pipeline.samples.values())


def seconds_per_image(running: tf.compat.v1.Session, start: tf.Operation, take: tf.Operation) -> float:
    running.run(start)
    for _ in range(BATCHES_UNTIMED):
        running.run(take)
    started = time.process_time()
    for _ in range(BATCHES_TIMED):
        running.run(take)
    seconds = (time.process_time() - started) / (BATCH * BATCHES_TIMED)
    running.run(start)  # drops what waits, and rests
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--records', type=pathlib.Path, required=True)
    parser.add_argument('--rounds', type=int, default=8)
    parser.add_argument('--name', default='augmentation_speed')
    arguments = parser.parse_args()
    times: dict[str, list[float]] = {name: [] for name in CASES}
    with tempfile.TemporaryDirectory() as logdir, tf.Graph().as_default():
        pipelines = {name: build(arguments.records, logdir, flags) for name, flags in CASES.items()}
        with sessions.open_session() as running:
            for _ in range(arguments.rounds):
                for name, pipeline in pipelines.items():
                    times[name].append(seconds_per_image(running, *pipeline))
    best = {name: min(rounds) for name, rounds in times.items()}
    ratios = {name: round(seconds / best['off'], 2) for name, seconds in best.items()}
    result = {
        'ratios': ratios,
        'milliseconds_per_image': {name: round(1000 * seconds, 2) for name, seconds in best.items()},
        'images_per_second_of_one_core': {name: round(1 / seconds, 1) for name, seconds in best.items()},
    }
    path = _machine.write(arguments.name, result)
    shown = ', '.join(f'{name} {ratio:.2f}' for name, ratio in ratios.items())
    print(f'processor time of the input, against that without random changes: {shown}: {path}')


if __name__ == '__main__':
    main()
