"""Inference preprocessing compared with the original (goldens: tables/preprocess)."""

import numpy as np
import pytest
import tensorflow as tf

from deeplab import common, input_preprocess
from deeplab.options import ResizeOptions
from deeplab.registry import BACKBONES
from tests.parity import goldens

pytestmark = pytest.mark.rewritten

# Without a variant the original pads with the RGB mean, which the ResNets (not all of them built yet) subtract.
RGB_MEAN = (123.15, 115.90, 103.06)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    folder = goldens.directory(metafunc.config)
    metafunc.parametrize(('number', 'case'), list(enumerate(goldens.table(folder, 'preprocess') or [])))


@pytest.fixture(scope='module')
def arrays(pytestconfig):
    folder = goldens.directory(pytestconfig)
    places = (folder / 'tables' / 'preprocess.npz', folder / 'preprocess.npz')
    with np.load(next(place for place in places if place.is_file())) as loaded:
        return dict(loaded)


def test_evaluation_steps(number, case, arrays):
    resize = ResizeOptions(*(case.get(key) for key in ('min_resize_value', 'max_resize_value', 'resize_factor')))
    variant = case.get('model_variant')
    mean = BACKBONES.get(variant).normalization.mean_pixel_of(3) if variant in BACKBONES.names() else RGB_MEAN
    steps = input_preprocess.eval_steps((case['crop_height'], case['crop_width']), resize, mean, 255)
    sample = {common.IMAGE: tf.constant(arrays['raw_image']), common.LABEL: tf.constant(arrays['raw_label'])}
    out = input_preprocess.apply_steps(sample, steps)
    np.testing.assert_array_equal(out[common.LABEL], arrays[f'label_{number}'])
    np.testing.assert_allclose(out[common.IMAGE], arrays[f'image_{number}'], atol=1e-4)
    original = arrays[f'original_{number}']
    height, width = int(out[common.HEIGHT]), int(out[common.WIDTH])
    assert (height, width) == original.shape[:2]
    np.testing.assert_allclose(out[common.IMAGE][:height, :width], original, atol=1e-4)
