import functools
import io
import struct

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from deeplab.datasets import images
from deeplab.errors import DataError
from tests.helpers import dataset_files
from tests.helpers.damage import damaged


def read_png(content):
    return np.asarray(Image.open(io.BytesIO(content)))


def test_header_by_content():
    assert images.read_header(dataset_files.jpeg(dataset_files.pixels(5, 9))) == images.Header('jpeg', 5, 9)
    assert images.read_header(dataset_files.png(dataset_files.pixels(5, 9))) == images.Header('png', 5, 9)
    assert images.read_whole(dataset_files.png(dataset_files.pixels(5, 9)[..., 0])) == images.Header('png', 5, 9, 1)
    assert images.read_whole(dataset_files.npy(dataset_files.pixels(5, 9))) == images.Header('npy', 5, 9)


read_ends = functools.partial(images.read_whole, decodes=False)


@pytest.mark.parametrize('channels', [1, 2, 3, 4])
def test_headers_say_channels_and_bits_as_they_are_stored(channels):
    deep = np.random.RandomState(0).randint(0, 65536, (5, 9, channels)).astype(np.uint16)
    assert images.read_whole(dataset_files.deep_png(deep)) == images.Header('png', 5, 9, channels, 16)
    assert images.read_whole(dataset_files.npy(deep)) == images.Header('npy', 5, 9, channels, 16)
    plain = deep.astype(np.uint8)
    assert images.read_whole(dataset_files.png(plain.squeeze())) == images.Header('png', 5, 9, channels, 8)


@pytest.mark.parametrize('options', [{}, {'progressive': True}, {'subsampling': 0}], ids=str)
@pytest.mark.parametrize('mode', ['RGB', 'L', 'CMYK'])
def test_a_damaged_jpeg_is_refused_where_decoding_all_of_its_pixels_fails(mode, options):
    stream = io.BytesIO()
    Image.fromarray(dataset_files.pixels(40, 70)).convert(mode).save(stream, 'JPEG', **options)
    assert images.read_whole(stream.getvalue()).size == (40, 70)
    refused = 0
    for content in damaged(stream.getvalue(), 150):
        try:
            Image.open(io.BytesIO(content)).load()
        except (OSError, SyntaxError, ValueError, IndexError, struct.error):
            refused += 1
            with pytest.raises(DataError):
                images.read_whole(content)
    assert refused > 30


def test_headers_of_other_kinds():
    assert images.read_header(dataset_files.jpeg(dataset_files.ids())) == images.Header('jpeg', 6, 8, 1)
    assert images.read_header(dataset_files.palette_png(dataset_files.ids())) == images.Header('png', 6, 8, 3)
    assert images.read_header(dataset_files.four_bit_png(dataset_files.ids())) == images.Header('png', 6, 8, 1)


READS_AS = {  # what is stored: the numbers of channels that it may be read as
    ('jpeg', 1): {1, 3},
    ('jpeg', 3): {3},
    ('png', 1): {1, 3},
    ('png', 2): {1, 2, 3},
    ('png', 3): {3},
    ('png', 4): {3, 4},
    ('npy', 1): {1},
    ('npy', 3): {3},
    ('npy', 5): {5},
}


@pytest.mark.parametrize(('image_format', 'stored'), READS_AS)
def test_channels_that_a_file_may_be_read_as(image_format, stored):
    header = images.Header(image_format, 2, 2, stored)
    assert {n for n in range(1, 7) if header.reads_as(n)} == READS_AS[image_format, stored]


@pytest.mark.parametrize('kind', ['|u1', '<u2', '>u2'])
@pytest.mark.parametrize('order', ['C', 'F'])
def test_arrays_of_every_order(kind, order):
    array = np.random.RandomState(0).randint(0, 256, (4, 3, 5)).astype(kind)
    read = images.read_array(dataset_files.npy(np.asarray(array, order=order)))
    assert read.dtype == (np.uint8 if kind == '|u1' else np.uint16)
    np.testing.assert_array_equal(read, array)
    np.testing.assert_array_equal(images.read_array(dataset_files.npy(array[..., 0])), array[..., :1])


@pytest.mark.parametrize(
    ('content', 'message'),
    [
        (dataset_files.npy(np.zeros((3, 4, 2), np.float32)), 'it is an array of float32; an image is uint8 or uint16'),
        (dataset_files.npy(np.zeros((3, 4), np.uint32)), 'it is an array of uint32; an image is uint8 or uint16'),
        (
            dataset_files.npy(np.zeros(3, np.uint8)),
            r'it is an array of shape \[3\]; an image is \[height, width, channels\]',
        ),
        (dataset_files.npy(np.zeros((3, 0, 2), np.uint8)), r'it is an array of shape \[3, 0, 2\]; an image is .*'),
        (
            dataset_files.npy(np.zeros((3, 4, 2), np.uint16))[:-3],
            r'it cannot be decoded \(array file is truncated, 3 bytes .*',
        ),
        (dataset_files.npy(np.zeros((3, 4, 2), np.uint8))[:40], r'its header is invalid \(.*\)'),
        (b'\x93NUMPY', r'its header is invalid \(.*\)'),
    ],
)
def test_arrays_that_are_no_images(content, message):
    with pytest.raises(DataError, match=f'^{message}$'):
        images.read_whole(content)


def array_file(text, version=b'\1\0', length=None):
    """A file of NumPy's format with that header."""
    size = (len(text) if length is None else length).to_bytes(2 if version == b'\1\0' else 4, 'little')
    return images.ARRAY_MAGIC + version + size + text.encode() + bytes(24)


GOOD_TEXT = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 4, 3), }"


@pytest.mark.parametrize(
    'content',
    [
        array_file(GOOD_TEXT.replace("'", '"')),
        array_file(GOOD_TEXT, b'\2\0'),
        array_file(GOOD_TEXT, b'\3\0'),
        array_file("{'shape':(2L,4L,3L),'fortran_order':False,'descr':'u1'}"),  # by Python 2, in another order
    ],
)
def test_arrays_of_other_writers(content):
    assert images.read_array(content).shape == (2, 4, 3)


@pytest.mark.parametrize(
    ('content', 'message'),
    [
        (array_file(GOOD_TEXT, b'\1\1'), r'its header is invalid \(.*unknown version\)'),
        (array_file(GOOD_TEXT, length=60_000), r'its header is invalid \(it has 60,010 bytes; the file has 96\)'),
        (array_file(GOOD_TEXT.replace('(2', '(-2')), r'its header is invalid \(shape is missing or damaged\)'),
        (array_file(GOOD_TEXT.replace('False', '1')), r'its header is invalid \(fortran_order is missing .*\)'),
        (array_file(GOOD_TEXT.replace('descr', 'desc')), r'its header is invalid \(descr is missing or damaged\)'),
        (array_file(GOOD_TEXT.replace('(2', '(9' + '9' * 17)), r'it cannot be decoded \(array file is truncated, .*'),
        (array_file(GOOD_TEXT.replace('|u1', '|S\n')), r"it is an array of '\|S\\n'; an image is uint8 or uint16"),
        (array_file(GOOD_TEXT.replace("'|u1'", "[('a', '|u1')]")), r"""it is an array of "\[\('a', '\|u1.*"""),
    ],
)
def test_array_headers_are_checked_before_anything_is_allocated(content, message):
    with pytest.raises(DataError, match=f'^{message}$'):
        images.read_array(content)


DAMAGED = {
    'npy': dataset_files.npy(dataset_files.pixels()),
    'columns.npy': dataset_files.npy(np.zeros((4, 3, 5), np.uint16, order='F')),
    'jpeg': dataset_files.with_exif(dataset_files.jpeg(dataset_files.pixels()), dataset_files.exif(6)),
    'png': dataset_files.with_exif(dataset_files.png(dataset_files.ids()), dataset_files.exif(6)),
    'palette.png': dataset_files.palette_png(dataset_files.ids()),
}


@pytest.mark.filterwarnings('ignore:.*EXIF|.*Tag data|.*Truncated|.*Metadata:UserWarning')  # by Pillow
@pytest.mark.parametrize('kind', DAMAGED)
def test_a_damaged_file_is_read_or_refused(kind):
    read = refused = 0
    for content in damaged(DAMAGED[kind], 400, end=130 if 'npy' in kind else None):
        for action in (images.read_whole, read_ends, images.mask_as_gray_png):
            try:
                action(content)
                read += 1
            except DataError as error:
                assert '\n' not in str(error)
                refused += 1
    assert read > 5
    assert refused > 300


@pytest.mark.parametrize(
    ('content', 'message'),
    [
        (b'', 'it is empty'),
        (b'GIF89a....', 'it is neither JPEG nor PNG'),
        (b'\xff\xd8\xff', 'its header is invalid'),
        (b'\x89PNG\r\n\x1a\n', 'its header is invalid'),
    ],
)
def test_no_image(content, message):
    with pytest.raises(DataError, match=f'^{message}$'):
        images.read_whole(content)


@pytest.mark.parametrize('kind', ['JPEG', 'progressive', 'PNG'])
def test_what_is_cut_is_refused_just_as_tensorflow_does(kind):
    image = Image.fromarray(dataset_files.pixels(40, 50))
    stream = io.BytesIO()
    image.save(stream, 'PNG' if kind == 'PNG' else 'JPEG', progressive=kind == 'progressive')
    content = stream.getvalue()
    assert images.read_whole(content).height == 40
    accepted = 0
    for cut in [*range(1, 30), *range(30, len(content), len(content) // 25)]:
        with pytest.raises(DataError):
            images.read_whole(content[:-cut])
        try:
            tf.io.decode_jpeg(content[:-cut], channels=3)
            accepted += 1
            images.read_whole(content[:-cut], decodes=False)
        except tf.errors.InvalidArgumentError:
            if content[-cut - 1] != 0xFF:
                with pytest.raises(DataError):
                    images.read_whole(content[:-cut], decodes=False)
    assert accepted <= 1  # a JPEG that lacks its last byte alone


def test_bytes_behind_the_end_and_a_thumbnail_do_no_harm():
    small, large = dataset_files.jpeg(dataset_files.pixels(8, 8)), dataset_files.jpeg(dataset_files.pixels(40, 50))
    thumbnail = b'\xff\xe2' + (len(small) + 2).to_bytes(2, 'big') + small
    for read in (images.read_whole, read_ends):
        for behind in (b'\xff\xda more', b'\0' * 7):
            assert read(large[:2] + thumbnail + large[2:] + behind).height == 40
            assert read(dataset_files.png(dataset_files.pixels(40, 50)) + behind).height == 40
        with pytest.raises(DataError):
            read(large[:2] + thumbnail + large[2:-2])


def test_mask_counts():
    label = np.array([[0, 1, 1], [255, 2, 1]], np.uint8)
    mask = images.read_mask(dataset_files.png(label))
    assert (mask.mode, mask.height, mask.width, mask.channels, mask.is_palette) == ('L', 2, 3, 1, False)
    np.testing.assert_array_equal(mask.counts, np.bincount(label.ravel(), minlength=256))
    painted = images.read_mask(dataset_files.palette_png(label))
    assert painted.is_palette
    np.testing.assert_array_equal(painted.counts, mask.counts)


def test_masks_that_are_not_one_channel():
    mask = images.read_mask(dataset_files.png(dataset_files.pixels()))
    assert (mask.mode, mask.channels, mask.counts) == ('RGB', 3, None)
    assert images.read_mask(dataset_files.png(dataset_files.ids().astype(np.uint16))).counts is None
    with pytest.raises(DataError, match="^it is an array in NumPy's format; masks are PNG$"):
        images.read_mask(dataset_files.npy(dataset_files.ids()))
    with pytest.raises(DataError, match='^it is a JPEG, .*; export it as PNG from the program in which it was drawn'):
        images.read_mask(dataset_files.jpeg(dataset_files.ids()))


def test_good_masks_are_kept_byte_for_byte():
    content = dataset_files.png(dataset_files.ids())
    assert images.mask_as_gray_png(content) is content


@pytest.mark.parametrize('colors', [2, 4, 16, 200])
def test_indices_of_a_palette_are_ids(colors):
    label = dataset_files.ids(20, 30, classes=colors)
    gray = images.mask_as_gray_png(dataset_files.palette_png(label))
    assert Image.open(io.BytesIO(gray)).mode == 'L'
    np.testing.assert_array_equal(read_png(gray), label)
    np.testing.assert_array_equal(tf.io.decode_png(gray, channels=1)[..., 0], label)


def test_sixteen_bits_are_taken_while_ids_are_below_256():
    label = dataset_files.ids().astype(np.uint16)
    np.testing.assert_array_equal(read_png(images.mask_as_gray_png(dataset_files.png(label))), label)
    label[0, 0] = 300
    with pytest.raises(DataError, match='^it has 16 bits and contains the id 300; the largest id is 255$'):
        images.mask_as_gray_png(dataset_files.png(label))


@pytest.mark.parametrize(('channels', 'mode'), [(2, 'LA'), (3, 'RGB'), (4, 'RGBA')])
def test_several_channels_are_refused(channels, mode):
    array = np.zeros((3, 4, channels), np.uint8)
    with pytest.raises(DataError, match=rf'^it has {channels} channels \({mode}\), but a mask has one channel of ids;'):
        images.mask_as_gray_png(dataset_files.png(array))


@pytest.mark.parametrize('colors', [False, True])
@pytest.mark.parametrize('bits', [1, 2, 4])
def test_samples_of_few_bits_are_ids(bits, colors):
    label = dataset_files.ids(5, 7, classes=2**bits)
    content = dataset_files.few_bit_png(label, bits, colors)
    np.testing.assert_array_equal(images.read_mask(content).counts, np.bincount(label.ravel(), minlength=256))
    np.testing.assert_array_equal(read_png(images.mask_as_gray_png(content)), label)


def test_masks_are_turned_as_their_orientation_says():
    label = dataset_files.ids(5, 7)
    for content in (dataset_files.png(label), dataset_files.palette_png(label), dataset_files.few_bit_png(label, 2)):
        turned = images.mask_as_gray_png(dataset_files.with_exif(content, dataset_files.exif(6)), 6)
        np.testing.assert_array_equal(read_png(turned), np.rot90(label, -1))
        assert images.read_mask(turned).orientation == 1
    kept = images.mask_as_gray_png(dataset_files.with_exif(dataset_files.png(label), dataset_files.exif(6)))
    assert kept == dataset_files.with_exif(dataset_files.png(label), dataset_files.exif(1))
