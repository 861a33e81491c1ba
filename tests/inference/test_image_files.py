"""Image files of every kind become the pixels that the network takes. Covers inference/thread_bound.py."""

import contextlib
import io
import os
import re
import tempfile
import time
import types
from threading import get_ident as thread

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageDraw, ImageFile, ImageOps

from deeplab.errors import DataError
from deeplab.inference import image_files
from deeplab.inference.thread_bound import ThreadBound
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


def test_arrays(reader, caplog):
    image = pixels(5, 6)
    assert np.array_equal(reader.of_array(image), image)
    assert np.array_equal(reader.of_array(image.astype(np.int64)), image)
    assert reader.of_array(image.astype(np.float64)).dtype == np.float32
    assert np.array_equal(reader.of_array(image[..., 0])[..., 2], image[..., 0])
    assert np.array_equal(reader.of_array(np.dstack([image, image[..., :1]])), image)
    assert not reader.of_array(image.astype(np.uint16)).any() and 'Convert it to uint8' in caplog.text
    caplog.clear()
    assert np.array_equal(reader.of_array(image.astype(np.uint16) * 257), image) and not caplog.text
    for wrong in (image / 255, image.astype(int) - 300, image[np.newaxis], image[:0], image[..., :1] > 3, image[0, 0]):
        with pytest.raises(DataError, match='0 to 255|height, width|by 255'):
            reader.of_array(wrong)


@pytest.mark.parametrize('value', range(1, 9))
def test_pictures_of_pillow_are_upright(reader, tmp_path, value):
    for kind in ('JPEG', 'PNG', 'TIFF', 'WEBP'):
        path = tmp_path / f'turned.{kind}'
        path.write_bytes(image_samples.turned(kind, value))
        expected = np.asarray(ImageOps.exif_transpose(Image.open(path)))
        assert np.abs(reader.of_picture(Image.open(path)).astype(int) - expected).mean() < 3
        assert np.array_equal(reader.of_picture(Image.open(path)), reader.read(path))
        for changed in (Image.open(path).convert('RGB'), ImageOps.exif_transpose(Image.open(path))):
            assert np.array_equal(reader.of_picture(changed), expected)


def test_damaged_metadata_turns_nothing(reader):
    for value in (0, 9, 7.5, 'six'):
        image = Image.fromarray(pixels(2, 3))
        image.getexif()[0x0112] = value
        assert np.array_equal(reader.of_picture(image), pixels(2, 3))
    image.info['exif'], image._exif = b'Exif\0\0II*\0\xff\xff\xff\xff', None
    assert np.array_equal(reader.of_picture(image), pixels(2, 3))


def opened(path, load=True):
    """An image of Pillow that has read its pixels, and whose file is closed."""
    with Image.open(path) as image:
        if load:
            image.load()
    return image


SPECIAL = {'two.mpo': image_samples.two_frames(), 'deep.png': image_samples.deep()}


@pytest.mark.parametrize('name', ['progressive.jpg', 'cmyk.jpg', 'gray.jpg', 'turned.jpg', 'two.mpo', 'deep.png'])
def test_a_picture_of_pillow_that_nobody_changed_is_decoded_from_its_file(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(SPECIAL.get(name) or GOOD[name][0])
    with contextlib.closing(image_files.Reader(3, 16)) as wide:
        expected = wide.read(path)
        late = io.BytesIO(path.read_bytes())
        late.seek(7)
        lazy = Image.open(late)
        position = late.tell()
        with Image.open(path) as image:
            for same in (image, image, opened(path), lazy):
                assert np.array_equal(wide.of_picture(same), expected)
            if lazy.format != 'PNG':  # in which Pillow looks for an orientation behind the pixels
                assert late.tell() == position
            assert not np.array_equal(wide.of_picture(image.convert('RGB')), expected) or name == 'gray.jpg'


def put_pixel(image):
    image.putpixel((3, 4), (1, 2, 3))


def write_pixel(image):
    image.load()[3, 4] = (1, 2, 3)


def turn(image):
    ImageOps.exif_transpose(image, in_place=True)


def forget_orientation(image):
    del image.getexif()[0x0112]


CHANGES = {
    'put_pixel': put_pixel,
    'write_pixel': write_pixel,
    'paste': lambda image: image.paste('red', (2, 2, 5, 5)),
    'draw': lambda image: ImageDraw.Draw(image).line((0, 0, 9, 9), 'red'),
    'thumbnail': lambda image: image.thumbnail((10, 10)),
    'smaller': lambda image: image.draft('RGB', (8, 8)),
    'gray': lambda image: image.draft('L', image.size),
    'turn': turn,
    'forget_orientation': forget_orientation,
    'transparent': lambda image: image.putalpha(7),
}


@pytest.mark.parametrize('change', CHANGES)
@pytest.mark.parametrize('is_loaded', [False, True])
def test_a_picture_of_pillow_that_was_changed_keeps_its_pixels(reader, tmp_path, change, is_loaded):
    path = tmp_path / 'turned.jpg'
    path.write_bytes(GOOD['turned.jpg'][0])
    image, twin = Image.open(path), Image.open(path)
    for each in (image, twin):
        if is_loaded:
            each.load()
        CHANGES[change](each)
    is_same = is_loaded and change in ('smaller', 'gray')  # too late for them
    expected = reader.read(path) if is_same else np.asarray(ImageOps.exif_transpose(twin).convert('RGB'))
    assert np.array_equal(reader.of_picture(image), expected)


def test_files_of_pictures_that_say_nothing_about_their_pixels(reader, tmp_path):
    path = tmp_path / 'photo.jpg'
    path.write_bytes(GOOD['progressive.jpg'][0])
    image = opened(path)
    path.write_bytes(image_samples.encoded(image_samples.picture(1), 'JPEG'))
    assert np.array_equal(reader.of_picture(image), np.asarray(image))  # the file is another one
    path.unlink()
    assert np.array_equal(reader.of_picture(image), np.asarray(image))
    for kind in ('MPO', 'PNG', 'GIF'):
        second = Image.open(io.BytesIO(image_samples.two_frames(kind)))
        second.seek(1)
        assert np.array_equal(reader.of_picture(second), np.asarray(second.convert('RGB'))), kind


def test_pictures_of_pillow_that_cannot_be_read(reader, tmp_path, monkeypatch):
    path = tmp_path / 'photo.jpg'
    path.write_bytes(GOOD['progressive.jpg'][0])
    with pytest.raises(DataError, match=r'closed before .* load\(\)'):
        reader.of_picture(opened(path, load=False))
    closed = opened(path)
    closed.close()
    with pytest.raises(DataError, match='closed'):
        reader.of_picture(closed)
    truncated = GOOD['progressive.jpg'][0][:-100]
    with pytest.raises(DataError, match='decoded.*truncated'):
        reader.of_picture(Image.open(io.BytesIO(truncated)))
    monkeypatch.setattr(ImageFile, 'LOAD_TRUNCATED_IMAGES', True)
    assert reader.of_picture(Image.open(io.BytesIO(truncated))).shape == (20, 30, 3)


class Pipe(io.RawIOBase):
    """A file without positions."""

    def __init__(self, content):
        self._stream = io.BytesIO(content)

    def readable(self):
        return True

    def readinto(self, buffer):
        return self._stream.readinto(memoryview(buffer)[:100])


@pytest.mark.parametrize('name', ['turned.jpg', 'alpha.png', 'packed.tif', 'array.npy'])
def test_bytes_and_binary_files_are_decoded_as_paths_are(reader, tmp_path, name):
    content = GOOD[name][0]
    expected = read(reader, tmp_path, name, content)
    for same in (content, bytearray(content), memoryview(content)):
        assert np.array_equal(reader.of_content(same), expected)
    with open(tmp_path / name, 'rb') as file, tempfile.SpooledTemporaryFile() as spooled:
        spooled.write(content)  # after which its position is its end
        for same in (file, spooled, io.BytesIO(content), Pipe(content)):
            assert np.array_equal(reader.of_file(same), expected)
        assert np.array_equal(reader.of_file(file), expected)


def test_bytes_and_files_that_cannot_be_read(reader, tmp_path, monkeypatch):
    for content, reason in BAD.values():
        for attempt in (lambda: reader.of_content(content), lambda: reader.of_file(io.BytesIO(content))):  # noqa: B023
            with pytest.raises(DataError, match=re.compile(reason, re.I)):
                attempt()
    (tmp_path / 'text').write_bytes(GOOD['gray.jpg'][0])
    with open(tmp_path / 'text', encoding='utf-8') as file:
        for text in (file, io.StringIO('text')):
            with pytest.raises(TypeError, match="binary.*'rb'"):
                reader.of_file(text)
    with pytest.raises(DataError, match='closed file'):
        reader.of_file(file)
    monkeypatch.setattr(image_files, '_MOST_BYTES', 10)
    for attempt in (reader.of_file, lambda file: reader.of_content(file.read())):
        with pytest.raises(DataError, match='^it has 11 bytes, more than 10'):
            attempt(io.BytesIO(b'x' * 11))


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
    first, second = (ThreadBound(lambda: tf.Graph().as_default()) for _ in range(2))
    assert tf.compat.v1.get_default_graph() is before and tf.executing_eagerly()
    assert first.call(tf.compat.v1.get_default_graph) is first.value
    assert first.call(thread) != second.call(thread)
    first.close()  # not in the reverse order
    second.close()
    second.close()
    left = []
    forgotten = ThreadBound(lambda: contextlib.closing(types.SimpleNamespace(close=lambda: left.append(thread()))))
    owner = forgotten.call(thread)
    del forgotten
    while not left:
        time.sleep(0.01)
    assert left == [owner]
    with pytest.raises(ZeroDivisionError):
        ThreadBound(lambda: 1 / 0)


def test_the_first_page_of_a_tiff_is_taken_with_a_warning(reader, tmp_path, caplog):
    pages = [Image.fromarray(np.full((4, 5, 3), value, np.uint8)) for value in (10, 20, 30)]
    pages[0].save(tmp_path / 'pages.tif', save_all=True, append_images=pages[1:])
    assert (reader.read(tmp_path / 'pages.tif') == 10).all()
    assert "pages.tif' has 3 pages; the first one is taken" in caplog.text
    caplog.clear()
    overview = pages[1].resize((2, 2))
    pages[0].save(tmp_path / 'one.tif', save_all=True, append_images=[overview], tiffinfo={254: 0})
    content = bytearray((tmp_path / 'one.tif').read_bytes())
    first = int.from_bytes(content[4:8], 'little')
    second_at = first + 2 + 12 * int.from_bytes(content[first : first + 2], 'little')
    second = int.from_bytes(content[second_at : second_at + 4], 'little')
    entries = [second + 2 + 12 * i for i in range(int.from_bytes(content[second : second + 2], 'little'))]
    (subfile,) = [entry for entry in entries if int.from_bytes(content[entry : entry + 2], 'little') == 254]
    content[subfile + 8] = 1  # an overview
    (tmp_path / 'one.tif').write_bytes(content)
    reader.read(tmp_path / 'one.tif')
    assert not caplog.text
