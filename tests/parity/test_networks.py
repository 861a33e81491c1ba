"""Every network that exists, held to what the original computes with the same weights."""

import dataclasses

import numpy as np
import tensorflow as tf

from deeplab import common, model
from tests.parity import copies, goldens, network_options

TOLERANCE = 1e-4  # of the golden's standard deviation
AGREEMENT = 0.9995  # of the labels


def pytest_generate_tests(metafunc):
    if 'golden' in metafunc.fixturenames:
        found = goldens.find(goldens.directory(metafunc.config), 'networks')
        metafunc.parametrize('golden', found, ids=lambda golden: golden.name)


@dataclasses.dataclass
class Built:
    """A golden's network in a graph of its own: tensors to compare with the golden."""

    logits: dict
    labels: tf.Tensor
    variables: list
    trainable: list


def _build(options, model_options, image) -> Built:
    images = tf.constant(image[np.newaxis], tf.float32)
    logits = {}
    if 'eval_scales' in options:
        predictions = model.predict_labels_multi_scale(
            images, model_options, options['eval_scales'], options.get('flip', False)
        )
    else:
        pyramid = options.get('image_pyramid')
        logits = model.multi_scale_logits(images, model_options, image_pyramid=pyramid)[common.OUTPUT_TYPE]
        predictions = model.predict_labels(images, model_options, pyramid)
    return Built(
        logits, predictions[common.OUTPUT_TYPE], tf.compat.v1.model_variables(), tf.compat.v1.trainable_variables()
    )


def test_network(golden):
    facts, arrays = copies.without_copy(golden.facts), golden.arrays
    model_options = network_options.model_options(facts['flags'], facts['options'])
    with tf.Graph().as_default():
        built = _build(facts['options'], model_options, arrays['image'])
        shapes = {v.op.name: v.shape.as_list() for v in built.variables}
        assert shapes == {name: list(shape) for name, shape in facts['variables']}
        assert {v.op.name for v in built.trainable} == set(facts['trainable'])
        assert sum(int(np.prod(shapes[v.op.name])) for v in built.trainable) == facts['parameters']
        with tf.compat.v1.Session() as session:
            initializers = [v.initializer for v in built.variables]
            session.run(initializers, goldens.initial_values(built.variables, facts['options']['gain']))
            labels = session.run(built.labels)
            copies.assign_copy(session, golden.facts, built.variables)
            logits = session.run(built.logits)
    expected = {key.split(':')[1]: value for key, value in arrays.items() if key.startswith('logits:')}
    assert logits.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(logits[key], value, rtol=0, atol=TOLERANCE * value.std(), err_msg=key)
    assert labels.shape == arrays['labels'].shape
    assert np.mean(labels == arrays['labels']) >= AGREEMENT
