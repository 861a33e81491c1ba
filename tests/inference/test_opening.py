"""Networks with the weights of a checkpoint, opened in an engine.

Covers inference/network.py.
"""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from deeplab import common, model
from deeplab.inference import opening
from deeplab.inference.network import InferenceNetwork
from deeplab.options import EngineOptions, ModelOptions, PredictionOptions
from deeplab.registry import BACKBONES, register
from tests.toy_network import TOY

MODEL = ModelOptions({common.OUTPUT_TYPE: 3}, crop_size=(33, 49), model_variant='toy')


@pytest.fixture(scope='module')
def weights(tmp_path_factory):
    """A checkpoint of the toy network with its initial weights; the network is known while the tests run."""
    path = str(tmp_path_factory.mktemp('checkpoint') / 'model.ckpt-0')
    with BACKBONES.changes_undone():
        register(TOY)
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            model.multi_scale_logits(tf.zeros([1, *MODEL.crop_size, 3]), MODEL)
            session.run(tf.compat.v1.global_variables_initializer())
            tf.compat.v1.train.Saver().save(session, path, write_meta_graph=False)
        yield opening.Weights(path)


def _images(n=2, height=33, width=49):
    return np.random.default_rng(0).uniform(0, 255, [n, height, width, 3]).astype(np.float32)


def test_a_network_of_any_size_predicts_as_one_of_that_size(weights):
    of_one = InferenceNetwork(MODEL, PredictionOptions(), 2, with_probabilities=True)
    of_any = InferenceNetwork(dataclasses.replace(MODEL, crop_size=None), PredictionOptions(), None, True)
    images = _images()
    with opening.opened(of_one, weights, EngineOptions()) as predict:
        expected = predict(images)
    with opening.opened(of_any, weights, EngineOptions()) as predict:
        found = predict(images)
        larger = predict(_images(1, 65, 33))
    assert expected.labels.dtype == np.int32 and expected.probabilities.dtype == np.float32
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_allclose(found.probabilities, expected.probabilities, atol=1e-5)
    assert len(np.unique(found.labels)) > 1
    assert larger.labels.shape == (1, 65, 33) and larger.probabilities.shape == (1, 65, 33, 3)


@pytest.mark.parametrize('engine', ['openvino', 'onnxruntime', 'tflite'])
def test_each_engine_gives_the_labels_of_tensorflow(weights, engine):
    network = InferenceNetwork(MODEL, PredictionOptions(), 1, with_probabilities=True)
    images = _images(1)
    with opening.opened(network, weights, EngineOptions()) as predict:
        expected = predict(images)
    with opening.opened(network, weights, EngineOptions(engine)) as predict:
        found = predict(images)
    assert found.labels.dtype == np.int32 and found.probabilities.dtype == np.float32
    assert np.mean(found.labels == expected.labels) >= 0.999
    np.testing.assert_allclose(found.probabilities, expected.probabilities, atol=1e-4)
