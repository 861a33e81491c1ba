"""Image files of every kind become the pixels that the network takes. Covers inference/held.py."""

import contextlib
import os
import re
import time
import types
from threading import get_ident as thread

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from deeplab.errors import DataError
from deeplab.inference import held, image_files
from tests.helpers import image_samples
from tests.helpers.damage import damaged
from tests.helpers.predictor_setup import pixels

GOOD, BAD = image_samples.good(), image_samples.bad()


@pytest.fixture(scope='module')
def reader():
    made = image_files.Reader()
    yield made
    made.close()
    made.close()


def read(reader, folder, name, content):
    path = folder / name
    path.write_bytes(content)
    return reader.read(path)


@pytest.mark.parametrize('name', GOOD)
def test_a_good_file(reader, tmp_path, name):
    content, size = GOOD[name]
    found = read(reader, tmp_path, name, content)
    assert found.shape == (*size, 3) and found.dtype == np.uint8
    assert reader.bytes_of(tmp_path / name) == found.nbytes or name.endswith('.npy')
    if name.startswith(('plain', 'packed', 'alpha', 'array')):
        assert np.array_equal(found, pixels(*size))
    if name.startswith('sixteen'):
        assert np.array_equal(found, np.repeat((image_samples.sixteen_bits() >> 8)[..., np.newaxis], 3, 2))
    if name.startswith('turned') and name != 'turned.jpg':
        assert np.array_equal(found, np.rot90(pixels(*size[::-1]), -1))


def test_jpeg_and_png_have_the_pixels_of_records(reader, tmp_path):
    for name in ('progressive.jpg', 'cmyk.jpg', 'palette.png', 'gray_alpha.png', 'sixteen.png'):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            expected = session.run(tf.io.decode_jpeg(GOOD[name][0], channels=3))
        assert np.array_equal(read(reader, tmp_path, name, GOOD[name][0]), expected), name


@pytest.mark.parametrize('name', BAD)
def test_a_bad_file_is_refused_with_the_reason(reader, tmp_path, name):
    content, reason = BAD[name]
    with pytest.raises(DataError, match=re.compile(reason, re.I)):
        read(reader, tmp_path, name, content)
    assert reader.bytes_of(tmp_path / name) >= 0


@pytest.mark.filterwarnings('ignore::UserWarning')  # of Pillow, about damaged metadata
def test_a_damaged_file_is_read_or_refused(reader, tmp_path):
    refused = 0
    for name in ('array.npy', 'turned.jpg', 'palette.png', 'turned.tif', 'plain.bmp', 'alpha.webp', 'palette.gif'):
        for content in damaged(GOOD[name][0], 60, end=120):
            try:
                assert read(reader, tmp_path, name, content).ndim == 3
            except DataError as error:
                assert '\n' not in str(error), name
                refused += 1
    assert refused > 150


def test_an_image_above_the_own_limit_is_refused_with_its_size(reader, tmp_path, monkeypatch):
    monkeypatch.setattr(image_files, 'MOST_PIXELS', 599)
    for name in ('plain.bmp', 'gray.jpg'):
        with pytest.raises(DataError, match='30 x 20 = 600 .* 599'):
            read(reader, tmp_path, name, GOOD[name][0])


def test_what_is_no_file_is_refused_without_waiting(reader, tmp_path):
    os.mkfifo(tmp_path / 'pipe.jpg')
    for name in ('pipe.jpg', 'missing.jpg', ''):
        with pytest.raises(DataError):
            reader.read(tmp_path / name)


def test_arrays(reader):
    image = pixels(5, 6)
    assert np.array_equal(reader.of_array(image), image)
    assert np.array_equal(reader.of_array(image.astype(np.int64)), image)
    assert reader.of_array(image.astype(np.float64)).dtype == np.float32
    assert np.array_equal(reader.of_array(image[..., 0])[..., 2], image[..., 0])
    assert np.array_equal(reader.of_array(np.dstack([image, image[..., :1]])), image)
    for wrong in (image / 255, image.astype(int) - 300, image[np.newaxis], image[:0], image[..., :1] > 3, image[0, 0]):
        with pytest.raises(DataError, match='0 to 255|height, width|by 255'):
            reader.of_array(wrong)


def test_unusual_modes_of_pillow(reader):
    numbers = np.array([[0, 7, 255]], np.int32)
    assert reader.of_picture(Image.fromarray(numbers))[..., 0].tolist() == numbers.tolist()  # mode I, of 8 bits
    assert reader.of_picture(Image.fromarray(numbers << 8))[..., 0].tolist() == numbers.tolist()  # of 16
    gray = Image.new('LA', (2, 1), (200, 255))
    assert (reader.of_picture(gray.convert('La')) == 200).all()


def test_gray_networks_and_networks_of_sixteen_bits(tmp_path):
    gray = image_files.Reader(1, 16)
    for name in ('sixteen.png', 'sixteen.tif'):
        found = read(gray, tmp_path, name, GOOD[name][0])
        assert np.allclose(found[..., 0] * 257, image_samples.sixteen_bits())
    with pytest.raises(DataError, match='3 channels.*1'):
        read(gray, tmp_path, 'array.npy', GOOD['array.npy'][0])
    gray.close()


def test_suffixes_are_those_of_images():
    assert {'.jpg', '.png', '.webp', '.tif', '.gif', '.npy'} <= image_files.suffixes()
    assert not {'.eps', '.pdf', '.mpg', '.txt'} & image_files.suffixes()


def test_a_held_graph_is_not_the_default_graph_of_the_caller():
    before = tf.compat.v1.get_default_graph()
    first, second = (held.Held(lambda: tf.Graph().as_default()) for _ in range(2))
    assert tf.compat.v1.get_default_graph() is before and tf.executing_eagerly()
    assert first.call(tf.compat.v1.get_default_graph) is first.value
    assert first.call(thread) != second.call(thread)
    first.close()  # not in the reverse order
    second.close()
    second.close()
    left = []
    forgotten = held.Held(lambda: contextlib.closing(types.SimpleNamespace(close=lambda: left.append(thread()))))
    owner = forgotten.call(thread)
    del forgotten
    while not left:
        time.sleep(0.01)
    assert left == [owner]
    with pytest.raises(ZeroDivisionError):
        held.Held(lambda: 1 / 0)
