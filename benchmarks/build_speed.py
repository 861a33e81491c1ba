"""Throughput of the record builder against a plain writer that does one image after the other; same bytes.

    python benchmarks/build_speed.py --data=CAMVID [--rounds=5] [--name=build_speed]

CAMVID has the layout of PASCAL VOC (JPEGImages, SegmentationClass, ImageSets/Segmentation). The plain writer reads
image and mask, decodes both with Pillow to check them, and writes a serialized tf.train.Example with TensorFlow.
Builder and plain writer run in turns, with one thread and with one per core; the ratio is the median of the rounds.
Prints one line, writes benchmarks/results/NAME.json.
"""

import argparse
import hashlib
import io
import pathlib
import statistics
import tempfile
import time

import _machine
import numpy as np
import tensorflow as tf
from PIL import Image

from deeplab.datasets import build_voc2012_data
from deeplab.options import BuildVocOptions

SHARDS = 4


def feature(value: bytes | int) -> tf.train.Feature:
    if isinstance(value, bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))


def example(image: bytes, label: bytes, name: str) -> bytes:
    """The record of an image and its mask, decoded to check them."""
    with Image.open(io.BytesIO(image)) as decoded:
        decoded.load()
        width, height = decoded.size
    with Image.open(io.BytesIO(label)) as decoded:
        decoded.load()
        if decoded.mode == 'P':
            stream = io.BytesIO()
            Image.fromarray(np.asarray(decoded)).save(stream, 'PNG')
            label = stream.getvalue()
    features = {
        'image/encoded': image,
        'image/filename': name.encode(),
        'image/format': b'jpeg',
        'image/height': height,
        'image/width': width,
        'image/channels': 3,
        'image/segmentation/class/encoded': label,
        'image/segmentation/class/format': b'png',
    }
    message = tf.train.Example(
        features=tf.train.Features(feature={key: feature(value) for key, value in features.items()})
    )
    return message.SerializeToString(deterministic=True)


def write_plainly(data: pathlib.Path, output: pathlib.Path) -> None:
    output.mkdir(parents=True)
    for split in ('train', 'val'):
        names = (data / 'ImageSets' / 'Segmentation' / f'{split}.txt').read_text().split()
        each = -(-len(names) // SHARDS)
        for shard in range(SHARDS):
            with tf.io.TFRecordWriter(str(output / f'{split}-{shard:05d}-of-{SHARDS:05d}.tfrecord')) as writer:
                for name in names[shard * each : (shard + 1) * each]:
                    image = (data / 'JPEGImages' / f'{name}.jpg').read_bytes()
                    label = (data / 'SegmentationClass' / f'{name}.png').read_bytes()
                    writer.write(example(image, label, name))


def build(data: pathlib.Path, output: pathlib.Path, workers: int | None) -> None:
    build_voc2012_data.run(
        BuildVocOptions(
            image_folder=str(data / 'JPEGImages'),
            semantic_segmentation_folder=str(data / 'SegmentationClass'),
            list_folder=str(data / 'ImageSets' / 'Segmentation'),
            image_format='jpg',
            output_dir=str(output),
            num_shards=SHARDS,
            num_workers=workers,
        )
    )


def digest(folder: pathlib.Path) -> str:
    found = hashlib.sha256()
    for path in sorted(folder.glob('*.tfrecord')):
        found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--data', type=pathlib.Path, required=True)
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--name', default='build_speed')
    arguments = parser.parse_args()
    writers = {
        'plain': lambda output: write_plainly(arguments.data, output),
        'builder, one thread': lambda output: build(arguments.data, output, 1),
        'builder': lambda output: build(arguments.data, output, None),
    }
    seconds: dict[str, list[float]] = {name: [] for name in writers}
    processor: dict[str, list[float]] = {name: [] for name in writers}
    digests = set()
    for _ in range(arguments.rounds):
        for name, write in writers.items():
            with tempfile.TemporaryDirectory() as folder:
                output = pathlib.Path(folder, 'records')
                wall, used = time.monotonic(), time.process_time()
                write(output)
                seconds[name].append(time.monotonic() - wall)
                processor[name].append(time.process_time() - used)
                digests.add(digest(output))
    result = {
        'speed_against_plain': {
            name: round(statistics.median(p / s for p, s in zip(seconds['plain'], times, strict=True)), 2)
            for name, times in seconds.items()
        },
        'processor_seconds': {name: round(min(times), 2) for name, times in processor.items()},
        'seconds': {name: round(min(times), 2) for name, times in seconds.items()},
        'same_bytes': len(digests) == 1,
    }
    path = _machine.write(arguments.name, result)
    shown = ', '.join(f'{name} {ratio:.2f}' for name, ratio in result['speed_against_plain'].items())
    print(f'throughput against a plain sequential writer: {shown}; same bytes: {result["same_bytes"]}: {path}')


if __name__ == '__main__':
    main()
