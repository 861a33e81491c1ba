"""Image classifiers compared with TF-Slim's and the original's, with the same weights (goldens: classifiers)."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import classifier, layers
from deeplab.options import ModelOptions
from deeplab.registry import BACKBONES
from tests.helpers import given_weights
from tests.parity import goldens

pytestmark = pytest.mark.rewritten

TOLERANCE = 1e-4  # of the golden's standard deviation


def pytest_generate_tests(metafunc):
    if 'golden' in metafunc.fixturenames:
        cases = goldens.find(goldens.directory(metafunc.config), 'classifiers')
        metafunc.parametrize('golden', cases, ids=[case.name for case in cases])


def test_classifier(golden):
    facts, arrays = golden.facts, golden.arrays
    backbone = BACKBONES.get(facts['network'])
    options = ModelOptions(
        {'semantic': facts['classes']},
        model_variant=facts['network'],
        output_stride=max(backbone.output_strides),
        depth_multiplier=facts['depth_multiplier'],
        # TF-Slim's classifiers have multiples of 8 for every multiplier, the original's segmentation networks have not.
        divisible_by=8 if 'divisible_by' in backbone.reads else None,
        input_channels=arrays['image'].shape[-1],
    )
    image = arrays['image'][np.newaxis].astype(np.float32)
    normalized = eval(facts['normalization'], {'x': image})  # such as 'x * 2 / 255 - 1'
    with given_weights.network() as network, layers.mode_scope(is_training=False, fine_tune_batch_norm=False):
        features, end_points = backbone.build(tf.constant(normalized, tf.float32), options)
        logits = classifier.logits(features, end_points, options, facts['classes'])
    assert network.shapes == {name: list(shape) for name, shape in facts['variables']}
    assert network.trained == set(facts['trainable'])
    result = network.run(logits, values=functools.partial(goldens.weights, gain=facts['gain']))
    assert result.shape == (1, 1, 1, facts['classes']) and result.dtype == np.float32
    np.testing.assert_allclose(result[:, 0, 0], arrays['logits'], rtol=0, atol=TOLERANCE * arrays['logits'].std())
