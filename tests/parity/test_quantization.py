"""Networks with fake quantization, compared with the original's, with the same weights and ranges."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from deeplab import common, model
from tests.helpers import given_weights
from tests.parity import goldens, network_options

pytestmark = pytest.mark.rewritten

# One rounding that falls the other way moves a value by a whole step. Which do depends on the processor: the difference
# is 0 without oneDNN, 0.006 with AVX-512, 0.007 with AVX2, and 1.7 without 8-bit arithmetic.
TOLERANCE = 0.01  # of the golden's standard deviation, on average
AGREEMENT = 0.995  # of the labels


def pytest_generate_tests(metafunc):
    found = goldens.find(goldens.directory(metafunc.config), 'quantized')
    every = metafunc.config.getoption('--goldens')  # whoever names a folder wants all of it
    slow = [() if every or not golden.name.endswith('_plain') else pytest.mark.slow for golden in found]
    cases = [pytest.param(golden, id=golden.name, marks=marks) for golden, marks in zip(found, slow, strict=True)]
    metafunc.parametrize('golden', cases)


def test_network_in_8_bits(golden):
    facts, arrays = golden.facts, golden.arrays
    options = network_options.model_options([*facts['flags'], '--quantize_delay_step=0'], facts['options'])
    image = arrays['image'][np.newaxis].astype(np.float32)
    with given_weights.network() as network:
        images = tf.compat.v1.placeholder(tf.float32, image.shape)
        logits = model.multi_scale_logits(images, options)[common.OUTPUT_TYPE][common.MERGED_LOGITS]
        names = [op.name for op in logits.graph.get_operations() if op.type == 'FakeQuantWithMinMaxVars']
    assert network.shapes == {name: list(shape) for name, shape in facts['variables']}
    assert sorted(names) == sorted(facts['fake_quantizations'])
    values = functools.partial(goldens.weights, gain=facts['options']['gain'])
    ours = network.run(logits, {images: image}, values)
    expected = arrays['logits']
    assert np.abs(ours - expected).mean() <= TOLERANCE * expected.std()
    assert np.mean(ours.argmax(-1) == expected.argmax(-1)) >= AGREEMENT
