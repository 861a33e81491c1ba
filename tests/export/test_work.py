"""Exports of one checkpoint: what they are compared with, and what is advised where that refuses one."""

import dataclasses

import numpy as np
import pytest

from deeplab.errors import OptionError
from deeplab.export import work
from deeplab.export.destinations import Destination
from deeplab.inference import runners
from deeplab.inference.comparison import Comparison
from deeplab.options import ConversionOptions, EngineOptions, ExportOptions
from deeplab.registry import EXPORT_FORMATS, Outputs
from tests.helpers import checkpoint_files, predictor_setup

pytestmark = pytest.mark.usefixtures('tiny_network')
MODEL = dataclasses.replace(predictor_setup.MODEL, crop_size=(33, 49))


@pytest.fixture
def exporting_of(tmp_path):
    """Returns a function that prepares exports of a checkpoint without weights."""
    checkpoint = checkpoint_files.write(tmp_path / 'model.ckpt-7', {'global_step': np.int64(7)})

    def prepared(*formats, model=MODEL, **conversion):
        conversion = ConversionOptions(**conversion)
        options = ExportOptions(model, checkpoint, 'out', formats=formats, conversion=conversion)
        return work.CheckpointExports(options, checkpoint)

    return prepared


def test_an_export_for_any_size_is_compared_with_a_network_for_any_size(exporting_of, tmp_path, monkeypatch):
    class Zeros:
        has_probabilities = True

        def run(self, images, _):
            labels = np.zeros(images.shape[:3], np.int32)
            return Outputs(labels, np.zeros((*labels.shape, 4), np.float32))

        def close(self):
            pass

    monkeypatch.setattr(work, 'ExportRunner', lambda path, record: Zeros())
    monkeypatch.setattr(work.speed, 'measured', lambda path, format_name: None)
    exporting = exporting_of('tflite', 'saved_model', is_resizable=True)
    assert (exporting._reference.fixed_size, exporting._resizable_reference.fixed_size) == ((33, 49), None)
    exporting._images = [predictor_setup.pixels(20, 30)]
    for target, unused in zip(exporting._options.targets, ('_reference', '_resizable_reference'), strict=True):
        monkeypatch.setattr(exporting, '_reference', Zeros())
        monkeypatch.setattr(exporting, '_resizable_reference', Zeros())
        monkeypatch.setattr(exporting, unused, None)
        destination = Destination(target, EXPORT_FORMATS.get(target.format), str(tmp_path / target.format))
        assert exporting._proof(destination, '').comparison.agreement == 1


def test_a_network_of_8_bit_training_is_compared_in_the_rounding_of_its_exports(exporting_of):
    kinds = []
    for step in (None, 0):
        model = dataclasses.replace(MODEL, quantize_delay_step=step)
        exporting = exporting_of('tflite', model=model, is_resizable=True)
        for runner, size in ((exporting._reference, (33, 49)), (exporting._resizable_reference, None)):
            network = runner._of_size(runners._Key(size, True, EngineOptions()), None)
            kinds.append(network.is_portable)
    assert kinds == [False, False, True, True]
    rounding = {op.type for op in network.built.graph.get_operations()} & {'FakeQuantWithMinMaxVars', 'Floor'}
    assert rounding == {'FakeQuantWithMinMaxVars'}  # TensorFlow 1's order needs more operations


def test_a_refused_format_is_not_advised(exporting_of):
    exporting, different = exporting_of('saved_model'), Comparison(1, 0.9, 0.1)
    for name, advice in (('saved_model', 'Use another format, or'), ('onnx', "Use formats='saved_model', or")):
        target = exporting._options.targets[0]._replace(format=name)
        with pytest.raises(OptionError, match=rf'90\.00% of the pixels .* are required\. {advice} another network'):
            exporting._require_agreement(Destination(target, EXPORT_FORMATS.get(name), 'out'), different)
