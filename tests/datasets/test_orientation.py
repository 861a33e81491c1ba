"""EXIF orientation compared with Pillow's. Covers datasets/image_parts.py."""

import io

import numpy as np
import pytest
from PIL import Image, ImageOps

from deeplab.datasets import orientation
from deeplab.errors import DataError
from tests.helpers import dataset_files

TURNS = range(2, 9)


def pillow(content):
    return Image.open(io.BytesIO(content))


@pytest.mark.parametrize('order', ['<', '>'])
@pytest.mark.parametrize('kind', [3, 4])
@pytest.mark.parametrize('encode', [dataset_files.png, dataset_files.jpeg])
def test_the_tag_is_read_and_reset_without_touching_anything_else(encode, kind, order):
    plain = encode(dataset_files.pixels())
    for value in range(1, 9):
        content = dataset_files.with_exif(plain, dataset_files.exif(value, order, kind))
        assert orientation.read(content) == value == pillow(content).getexif()[0x0112]
        assert orientation.reset(content) == dataset_files.with_exif(plain, dataset_files.exif(1, order, kind))


@pytest.mark.parametrize(
    'data',
    [
        dataset_files.exif(0),
        dataset_files.exif(9),
        dataset_files.exif(6)[:9],
        dataset_files.exif(6)[:20],
        b'',
        b'II*\0\xff\xff\xff\xff',
        b'text',
    ],
)
def test_what_says_nothing_of_value_is_upright(data):
    for encode in (dataset_files.png, dataset_files.jpeg):
        content = dataset_files.with_exif(encode(dataset_files.pixels()), data)
        assert orientation.read(content) == 1
        assert orientation.reset(content) is content


def test_files_without_a_tag_or_cut():
    for content in (
        dataset_files.png(dataset_files.pixels()),
        dataset_files.jpeg(dataset_files.pixels()),
        dataset_files.npy(dataset_files.pixels()),
        b'',
    ):
        assert orientation.read(content) == 1
        assert orientation.reset(content) is content
    for encode in (dataset_files.png, dataset_files.jpeg):
        content = dataset_files.with_exif(encode(dataset_files.pixels()), dataset_files.exif(6))
        for cut in range(len(content)):
            assert orientation.read(content[:cut]) in (1, 6)


def test_the_first_of_two_tags_counts_and_both_are_reset():
    content = dataset_files.with_exif(
        dataset_files.with_exif(dataset_files.jpeg(dataset_files.pixels()), dataset_files.exif(6)),
        dataset_files.exif(3),
    )
    assert orientation.read(content) == 3
    assert orientation.reset(content).count(dataset_files.exif(1)) == 2


@pytest.mark.parametrize('value', TURNS)
def test_pixels_are_turned_as_viewers_do(value):
    for pixels, kind in ((dataset_files.pixels(5, 7), 'RGB'), (dataset_files.ids(5, 7), 'L')):
        content = dataset_files.with_exif(dataset_files.png(pixels), dataset_files.exif(value))
        wanted = np.asarray(ImageOps.exif_transpose(pillow(content)))
        np.testing.assert_array_equal(orientation.turned_pixels(pixels, value), wanted)
        turned = orientation.turned(content, value)
        assert pillow(turned).mode == kind
        np.testing.assert_array_equal(np.asarray(pillow(turned)), wanted)
        assert orientation.read(turned) == 1
        assert orientation.shown_size((5, 7), value) == wanted.shape[:2]


def test_a_palette_and_16_bits_of_gray_survive():
    label = dataset_files.ids(5, 7)
    turned = pillow(orientation.turned(dataset_files.palette_png(label), 6))
    assert turned.mode == 'P'
    np.testing.assert_array_equal(
        np.asarray(turned.convert('RGB'))[0, 0], dataset_files.PALETTE[3 * label[-1, 0] :][:3]
    )
    deep = np.random.RandomState(0).randint(0, 65536, (5, 7, 1)).astype(np.uint16)
    np.testing.assert_array_equal(
        np.asarray(pillow(orientation.turned(dataset_files.deep_png(deep), 8))), np.rot90(deep[..., 0])
    )
    with pytest.raises(DataError, match='EXIF orientation is 8.*16 bits'):
        orientation.turned(dataset_files.deep_png(np.repeat(deep, 3, axis=2)), 8)


@pytest.mark.parametrize('mode', ['RGB', 'L', 'CMYK'])
def test_a_jpeg_is_turned_at_good_quality(mode):
    rows, columns = np.mgrid[:60, :90]
    smooth = np.stack([rows * 4, columns * 2, 255 - rows - columns], axis=2).astype(np.uint8)
    content = dataset_files.with_exif(
        dataset_files.encoded(Image.fromarray(smooth).convert(mode), 'JPEG'), dataset_files.exif(6)
    )
    turned = orientation.turned(content, 6)
    assert orientation.read(turned) == 1
    assert pillow(turned).mode == mode
    wanted = np.rot90(np.asarray(pillow(content)), -1).astype(int)
    assert np.abs(np.asarray(pillow(turned)) - wanted).max() <= 4


TALL, WIDE = (8, 6), (6, 8)


@pytest.mark.parametrize(
    ('image', 'mask', 'wanted'),
    [
        ((WIDE, 6), (TALL, 1), (True, True, True)),  # the mask is upright
        ((WIDE, 6), (WIDE, 1), (False, False, True)),  # the mask was drawn on the stored pixels
        ((WIDE, 6), (WIDE, 6), (True, True, True)),
        ((WIDE, 6), (TALL, 6), (True, False, True)),  # the mask has the image's tag, but upright pixels
        ((WIDE, 1), (TALL, 8), (True, True, True)),
        ((WIDE, 1), (WIDE, 8), (False, False, True)),
        ((TALL, 1), (TALL, 3), (True, True, False)),
        ((WIDE, 3), (WIDE, 1), (True, True, False)),
        ((WIDE, 3), (TALL, 1), None),
        (((6, 6), 6), ((6, 6), 1), (True, True, False)),
    ],
)
def test_sizes_decide(image, mask, wanted):
    decision = orientation.decide(*image, *mask)
    assert decision == (wanted and orientation.Decision(*wanted))
