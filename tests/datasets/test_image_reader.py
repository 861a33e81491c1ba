"""Names of the original's `build_data` and `get_dataset_colormap` in scripts of its users."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from deeplab import train
from deeplab.datasets import build_data, example, record_index, segmentation_dataset
from deeplab.datasets.build_data import ImageReader
from deeplab.errors import DataError, OptionError
from deeplab.options import DatasetOptions
from tests.helpers import dataset_files, training_setup

ROOT = pathlib.Path(__file__).parents[2]
NAMES = """
import sys
sys.path.append('deeplab/datasets')
sys.path.append('deeplab/utils')
import build_data
import get_dataset_colormap

print(build_data.ImageReader('png', channels=1).read_image_dims(open(sys.argv[1], 'rb').read()))
print(get_dataset_colormap.bit_get(6, 1), 'tensorflow' in sys.modules)
"""
# Writes the images of a folder as the original's users do, in TensorFlow 1's mode.
SCRIPT = """
import glob, os, sys
import numpy as np
import tensorflow.compat.v1 as tf
sys.path.append('deeplab/datasets')
import build_data

folder, mode = sys.argv[1:]
if mode == 'version 1':
    tf.disable_v2_behavior()

def convert():
    image_reader = build_data.ImageReader('jpeg', channels=3)
    label_reader = build_data.ImageReader('png', channels=1)
    with tf.python_io.TFRecordWriter(os.path.join(folder, 'train-000-of-001.tfrecord')) as writer:
        for path in sorted(glob.glob(os.path.join(folder, '*.jpg'))):
            image_data = tf.gfile.GFile(path, 'rb').read()
            height, width = image_reader.read_image_dims(image_data)
            seg_data = tf.gfile.GFile(path[:-4] + '.png', 'rb').read()
            assert label_reader.read_image_dims(seg_data) == (height, width)
            assert label_reader.decode_image(seg_data).shape == (height, width, 1)
            assert image_reader.decode_image(image_data).shape == (height, width, 3)
            name = os.path.basename(path)[:-4]
            example = build_data.image_seg_to_tfexample(image_data, name, height, width, seg_data)
            writer.write(example.SerializeToString())

if mode == 'session':
    with tf.Graph().as_default(), tf.Session():
        convert()
        assert not tf.get_default_graph().get_operations()
else:
    convert()
"""


def run_script(tmp_path, text, *arguments):
    """The output of a script that lies elsewhere and runs in the folder above deeplab/."""
    script = tmp_path / 'script.py'
    script.write_text(text)
    command = [sys.executable, str(script), *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env={}, check=True, capture_output=True, text=True).stdout


def records_of_user(folder, name='train-000-of-001.tfrecord'):
    """A shard that a script would write."""
    contents = []
    for seed in range(training_setup.IMAGES):
        image, mask = (
            dataset_files.jpeg(dataset_files.pixels(20 + seed, 30, seed)),
            dataset_files.png(dataset_files.ids(20 + seed, 30, 3, seed)),
        )
        record = build_data.image_seg_to_tfexample(image, f'image {seed}', 20 + seed, np.int64(30), mask)
        contents.append(record.SerializeToString())
    dataset_files.write_shard(folder / name, contents)


def test_scripts_import_modules_by_their_names_alone(tmp_path):
    (tmp_path / 'a.png').write_bytes(dataset_files.png(dataset_files.ids(5, 7)))
    assert run_script(tmp_path, NAMES, tmp_path / 'a.png') == '(5, 7)\n1 False\n'


@pytest.mark.parametrize(
    ('image_format', 'encode'), [('jpeg', dataset_files.jpeg), ('jpg', dataset_files.jpeg), ('png', dataset_files.png)]
)
def test_reader_of_images(image_format, encode):
    content = encode(dataset_files.pixels(11, 9))
    reader = ImageReader(image_format)
    assert reader.read_image_dims(content) == (11, 9)
    with tf.Graph().as_default() as graph:
        pixels = reader.decode_image(content)
        assert not graph.get_operations()
    np.testing.assert_array_equal(pixels, tf.io.decode_jpeg(content, channels=3).numpy())
    np.testing.assert_array_equal(ImageReader(image_format, channels=0).decode_image(content), pixels)


def test_reader_of_masks_and_mistakes():
    mask = dataset_files.ids(6, 8)
    np.testing.assert_array_equal(ImageReader('png', channels=1).decode_image(dataset_files.png(mask))[..., 0], mask)
    with pytest.raises(DataError, match='4 channels; 1 or 3 are allowed'):
        ImageReader('png', channels=0).decode_image(dataset_files.png(np.zeros((2, 2, 4), np.uint8)))
    with pytest.raises(DataError, match='cannot be decoded'):
        ImageReader().decode_image(b'text')
    with pytest.raises(DataError, match='neither JPEG nor PNG'):
        ImageReader().read_image_dims(b'text')
    with pytest.raises(OptionError, match=r"image_format='gif'.*jpeg, jpg, png"):
        ImageReader('gif')
    with pytest.raises(OptionError, match='channels=2'):
        ImageReader(channels=2)


def test_records_hold_what_builders_write():
    image, mask = dataset_files.png(dataset_files.pixels()), dataset_files.png(dataset_files.ids())
    ours = example.encode(image, 'png', 'ä', 6, 8, label_bytes=mask)
    for name in ('ä', 'ä'.encode()):
        record = build_data.image_seg_to_tfexample(image, name, 6, 8, mask)
        assert record == tf.train.Example.FromString(ours)
    features = record.features.feature
    assert features['image/height'] == build_data.int64_list_feature(6) == build_data._int64_list_feature([6])
    assert features['image/filename'] == build_data._bytes_list_feature('ä')
    jpeg = build_data.image_seg_to_tfexample(
        dataset_files.jpeg(dataset_files.pixels()), 'a', 6, 8, mask
    ).features.feature
    assert jpeg['image/format'] == build_data.bytes_list_feature(b'jpeg')


def test_records_of_scripts_train(tmp_path, tiny_network):
    records_of_user(tmp_path)
    (tmp_path / 'tiny.json').write_text('{"num_classes": 3}')
    data = DatasetOptions('train', str(tmp_path), str(tmp_path / 'tiny.json'))
    train.run(training_setup.options(data, tmp_path / 'log', 2))
    assert len(training_setup.losses(tmp_path / 'log')) == 2


def test_shards_may_be_numbered_from_1(tmp_path):
    for name in ('train-1-of-2.tfrecord', 'train-2-of-2.tfrecord'):
        records_of_user(tmp_path, name)
    assert len(segmentation_dataset.get_dataset('camvid', 'train', str(tmp_path)).shards) == 2
    (tmp_path / 'train-1-of-2.tfrecord').unlink()
    with pytest.raises(DataError, match='train-1-of-2.tfrecord missing'):
        segmentation_dataset.get_dataset('camvid', 'train', str(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize('mode', ['version 1', 'session', 'eager'])
def test_a_script_of_the_original_writes_records(tmp_path, mode):
    for seed in range(3):
        (tmp_path / f'{seed}.jpg').write_bytes(dataset_files.jpeg(dataset_files.pixels(seed=seed)))
        (tmp_path / f'{seed}.png').write_bytes(dataset_files.png(dataset_files.ids(seed=seed)))
    run_script(tmp_path, SCRIPT, tmp_path, mode)
    index = record_index.RecordIndex([str(tmp_path / 'train-000-of-001.tfrecord')])
    for seed in range(3):
        record = example.parse(index.read(seed))
        assert record.image_name == str(seed) and record.label_bytes == (tmp_path / f'{seed}.png').read_bytes()
