"""Every network compared with the original, with the same weights.

Covers common.py, core/feature_extractor.py and core/backbones/xception.py.
"""

import functools
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from deeplab import common, model
from tests.helpers import given_weights
from tests.parity import goldens, network_options

pytestmark = pytest.mark.rewritten

TOLERANCE = 1e-4  # of the golden's standard deviation
AGREEMENT = 0.9995  # of the labels
WIDEST = 2e-3  # where rounding is amplified; a wrong operation differs by a hundred times as much
# Plain pytest keeps one of each backbone family and head; these consist of the same parts as others.
SAME_PARTS = (
    'nas_hnasnet',
    'resnet_v1_101_beta_os8',
    'resnet_v1_50',
    'xception_65_aspp_decoder',
    'xception_65_bounded',
    'xception_71_dpc',
)


def pytest_generate_tests(metafunc):
    if 'golden' in metafunc.fixturenames:
        found = goldens.find(goldens.directory(metafunc.config), 'networks')
        every = metafunc.config.getoption('--goldens')  # whoever names a folder wants all of it
        slow = [() if every or golden.name not in SAME_PARTS else pytest.mark.slow for golden in found]
        cases = [pytest.param(golden, id=golden.name, marks=marks) for golden, marks in zip(found, slow, strict=True)]
        metafunc.parametrize('golden', cases)


class Built(NamedTuple):
    """Tensors to compare with a golden."""

    images: tf.Tensor
    labels: tf.Tensor
    logits: dict[str, tf.Tensor]


def _build(options, model_options, shape, monkeypatch) -> Built:
    """Builds the network once, for labels and logits."""
    images = tf.compat.v1.placeholder(tf.float32, [1, *shape])
    if 'eval_scales' in options:
        predictions = model.predict_labels_multi_scale(
            images, model_options, options['eval_scales'], options.get('flip', False)
        )
        return Built(images, predictions[common.OUTPUT_TYPE], {})
    scales = []
    multi_scale_logits = model.multi_scale_logits

    def recorded(*arguments, **keywords):
        scales.append(multi_scale_logits(*arguments, **keywords))
        return scales[-1]

    monkeypatch.setattr(model, 'multi_scale_logits', recorded)
    predictions = model.predict_labels(images, model_options, options.get('image_pyramid'))
    return Built(images, predictions[common.OUTPUT_TYPE], scales[0][common.OUTPUT_TYPE])


def _largest_difference(logits, expected):
    """Of all logits, in standard deviations of the expected ones."""
    return max(np.abs(logits[key] - value).max() / value.std() for key, value in expected.items())


def _tolerance_of_amplified_rounding(amplified):
    """The tolerance for a network that amplifies rounding.

    Bounded activations make a deep random network ill-conditioned: one unit in the last place of the image moves the
    logits of `xception_65_bounded` by 6e-4 of their deviation. The original's rounding and ours may each do that.
    """
    return min(max(2 * amplified, TOLERANCE), WIDEST)


def test_network(golden, monkeypatch):
    facts, arrays = golden.facts, golden.arrays
    model_options = network_options.model_options(facts['flags'], facts['options'])
    image = arrays['image'][np.newaxis].astype(np.float32)
    with given_weights.network() as network:
        built = _build(facts['options'], model_options, image.shape[1:], monkeypatch)
    assert network.shapes == {name: list(shape) for name, shape in facts['variables']}
    assert network.trained == set(facts['trainable'])
    assert sum(int(np.prod(network.shapes[name])) for name in network.trained) == facts['parameters']
    values = functools.partial(goldens.weights, gain=facts['options']['gain'])
    labels, logits = network.run([built.labels, built.logits], {built.images: image}, values)
    expected = {key.split(':')[1]: value for key, value in arrays.items() if key.startswith('logits:')}
    assert logits.keys() == expected.keys()
    tolerance = TOLERANCE
    if expected and _largest_difference(logits, expected) > TOLERANCE:
        neighbor = np.nextafter(image, np.float32(np.inf))
        moved = network.run(built.logits, {built.images: neighbor}, values)
        tolerance = _tolerance_of_amplified_rounding(_largest_difference(moved, logits))
    if expected:
        assert _largest_difference(logits, expected) <= tolerance
    assert labels.shape == arrays['labels'].shape
    assert np.mean(labels == arrays['labels']) >= AGREEMENT
