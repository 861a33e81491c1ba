"""Repair of single samples; whole data sets are repaired in test_broken_datasets.py."""

import io
import types

import numpy as np
import pytest
from PIL import Image

from deeplab.checks import inspection, sample_repair
from deeplab.checks.sources import Sample
from deeplab.datasets import images
from tests.helpers import dataset_files


def repaired(image, ids):
    """What becomes of an image and its ids, where nothing about the whole data set is to be changed."""
    return _repaired(Sample('a.png', dataset_files.png(image), dataset_files.png(ids), 'a'))


def _repaired(sample):
    descriptor = types.SimpleNamespace(ignore_label=255)
    data = types.SimpleNamespace(table=None, descriptor=descriptor, source=types.SimpleNamespace(is_records=False))
    return sample_repair.repair(sample, sample_repair.RepairPlan(data, {}, None, {}))


def _ids(height, width):
    return np.random.default_rng(0).integers(0, 3, (height, width), np.uint8)


def _file(values, form):
    stream = io.BytesIO()
    Image.fromarray(values).save(stream, form)
    return stream.getvalue()


@pytest.mark.parametrize(('kind', 'form'), [(np.int32, 'TIFF'), (np.uint16, 'PPM')])
def test_values_of_more_than_8_bits_are_kept(kind, form):
    values = np.arange(0, 60_000, 2500, kind).reshape(4, 6)
    assert np.array_equal(Image.open(io.BytesIO(sample_repair._as_png(_file(values, form), 'image_format'))), values)


DARK = np.arange(192, dtype=np.uint16).reshape(8, 8, 3)  # black in 8 bits


@pytest.mark.parametrize(
    ('content', 'is_blank'),
    [
        (dataset_files.png(DARK[..., 0]), False),
        (dataset_files.npy(DARK), False),
        (dataset_files.deep_png(DARK), False),  # of which Pillow has 8 bits
        (dataset_files.png(DARK[..., 0] // 160 + 1023), True),
        (dataset_files.npy(DARK % 3 * 300), True),
        (dataset_files.png(np.full((8, 8), 7, np.uint8)), True),
    ],
    ids=['gray', 'array', 'colors', 'almost one value', 'one color', '8 bits'],
)
def test_a_dark_image_of_16_bits_is_not_of_one_color(content, is_blank):
    header = images.read_header(content)
    gray = inspection.gray_picture(content, header)
    assert inspection.is_blank(gray, header) == is_blank
    sample = Sample('a.png', content, dataset_files.png(_ids(8, 8)), 'a')
    if is_blank:
        with pytest.raises(sample_repair.LeftOutError, match='blank'):
            _repaired(sample)
    else:
        assert _repaired(sample).image == content
    assert np.ptp(gray) > 200 or is_blank or header.channels == 3


@pytest.mark.parametrize('values', [np.full((2, 2), 0.5, np.float32), np.array([[1, 70_000]], np.int32)])
def test_values_that_png_does_not_have(values):
    with pytest.raises(sample_repair.LeftOutError, match='mask_format.*0 to 65535'):
        sample_repair._as_png(_file(values, 'TIFF'), 'mask_format')


@pytest.mark.parametrize(
    ('mask_size', 'image_size'),
    [
        ((20, 30), (40, 60)),
        ((20, 31), (40, 63)),
        ((20, 31), (40, 61)),
        ((20, 30), (80, 122)),  # half a pixel of the mask
        ((40, 62), (20, 30)),
        ((20, 30), (23, 34)),
    ],
)
def test_a_mask_of_the_same_shape_as_its_image_is_resized(mask_size, image_size):
    done = repaired(dataset_files.pixels(*image_size), ids := _ids(*mask_size))
    assert done.done == ['size']
    rows, columns = (
        ((np.arange(new) + 0.5) * old / new).astype(int) for old, new in zip(mask_size, image_size, strict=True)
    )
    np.testing.assert_array_equal(images.mask_ids(done.mask), ids[rows][:, columns])


@pytest.mark.parametrize(
    ('mask_size', 'image_size'),
    [
        ((20, 30), (40, 63)),
        ((20, 31), (40, 60)),
        ((20, 30), (80, 123)),
        ((40, 63), (20, 30)),
        ((20, 30), (21, 32)),  # may have been cut off as well
        ((20, 30), (18, 27)),
    ],
)
def test_a_mask_of_another_shape_or_of_almost_the_size_of_its_image_is_left_out(mask_size, image_size):
    with pytest.raises(sample_repair.LeftOutError) as caught:
        repaired(dataset_files.pixels(*image_size), _ids(*mask_size))
    assert caught.value.args[0] == 'size'
    assert caught.value.args[1] == (
        f'the image has {image_size[0]} x {image_size[1]} pixels, the mask {mask_size[0]} x {mask_size[1]}'
    )
