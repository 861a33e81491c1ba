"""Inference preprocessing against what the original computes (goldens: tables/preprocess)."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from deeplab import common, input_preprocess
from deeplab.options import ResizeOptions

TABLES = pathlib.Path(__file__).parents[1] / 'goldens' / 'tables'
CASES = json.loads((TABLES / 'preprocess.json').read_text())
# What each variant's normalisation turns into zero; without a variant the original takes the RGB mean.
MEANS = {'mobilenet_v2': (127.5,) * 3}


@pytest.mark.parametrize('number', range(len(CASES)))
def test_evaluation_steps(number):
    case = CASES[number]
    arrays = np.load(TABLES / 'preprocess.npz')
    resize = ResizeOptions(*(case.get(key) for key in ('min_resize_value', 'max_resize_value', 'resize_factor')))
    mean = MEANS.get(case.get('model_variant'), (123.15, 115.90, 103.06))
    steps = input_preprocess.eval_steps((case['crop_height'], case['crop_width']), resize, mean, 255)
    sample = {common.IMAGE: tf.constant(arrays['raw_image']), common.LABEL: tf.constant(arrays['raw_label'])}
    out = input_preprocess.apply_steps(sample, steps)
    np.testing.assert_array_equal(out[common.LABEL], arrays[f'label_{number}'])
    np.testing.assert_allclose(out[common.IMAGE], arrays[f'image_{number}'], atol=1e-4)
    original = arrays[f'original_{number}']
    height, width = int(out[common.HEIGHT]), int(out[common.WIDTH])
    assert (height, width) == original.shape[:2]
    np.testing.assert_allclose(out[common.IMAGE][:height, :width], original, atol=1e-4)
