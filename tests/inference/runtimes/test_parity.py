"""One small network of each backbone family in each engine: labels and probabilities of TensorFlow."""

import numpy as np
import pytest

from deeplab import common
from deeplab.inference import opening
from deeplab.inference.network import InferenceNetwork
from deeplab.options import AsppOptions, DecoderOptions, EngineOptions, ModelOptions, NasOptions, PredictionOptions
from deeplab.programs.benchmark.inference import write_random_weights
from deeplab.registry import ENGINES
from deeplab.system import packages

LONG = pytest.mark.long
CLASSES = {common.OUTPUT_TYPE: 5}
ASPP = AsppOptions(rates=(1, 2), filters=16)
DECODER = DecoderOptions(output_strides=(4,), filters=16)
FAMILIES = {
    'mobilenet_v2': {'depth_multiplier': 0.25, 'output_stride': 8},
    'mobilenet_v3_small_seg': {'depth_multiplier': 0.5},
    'resnet_v1_50_beta': {'aspp': ASPP, 'decoder': DECODER},
    'xception_41': {'aspp': ASPP, 'decoder': DECODER},
    'mobilenet_edgetpu': {'depth_multiplier': 0.5},
    'resnet_v1_18': {'aspp': ASPP},
    'nas_pnasnet': {'aspp': ASPP, 'nas': NasOptions(4)},
    'nas_hnasnet': {'aspp': ASPP, 'nas': NasOptions(4), 'output_stride': 8},
}
SLOW = ('mobilenet_v2', 'mobilenet_v3_small_seg')


def _cases():
    """Each family in each engine; ONNX Runtime, for which networks convert for long, apart."""
    for variant in FAMILIES:
        yield pytest.param(variant, ('openvino', 'tflite'), marks=pytest.mark.slow if variant in SLOW else LONG)
        yield pytest.param(variant, ('onnxruntime',), marks=pytest.mark.slow if variant == 'mobilenet_v2' else LONG)


def _log(probabilities):
    """The logits but for one offset a pixel; classes that are all but impossible are equal."""
    return np.log(np.maximum(probabilities, 1e-20))


@pytest.mark.parametrize(('variant', 'engines'), list(_cases()))
def test_networks_in_each_engine(variant, engines, tmp_path):
    options = ModelOptions(CLASSES, crop_size=(49, 65), model_variant=variant, **FAMILIES[variant])
    network = InferenceNetwork(options, PredictionOptions(), 1, with_probabilities=True)
    weights = opening.Weights(str(tmp_path / 'model.ckpt'))
    write_random_weights(network, weights.checkpoint)
    images = np.random.default_rng(1).uniform(0, 255, [1, 49, 65, 3]).astype(np.float32)
    with opening.opened(network, weights, EngineOptions()) as predict:
        expected = predict(images)
    logits = _log(expected.probabilities)
    missing = [engine for engine in engines if packages.missing(ENGINES.get(engine).requires)]
    for engine in engines:
        if engine in missing:
            continue
        with opening.opened(network, weights, EngineOptions(engine)) as predict:
            found = predict(images)
        assert np.mean(found.labels == expected.labels) >= 0.999, engine
        difference = np.abs(_log(found.probabilities) - logits).max()
        assert difference <= 1e-3 * logits.std(), f'{engine}: {difference} of {logits.std()}'
    if missing:
        pytest.skip(f'{missing} are not installed')
