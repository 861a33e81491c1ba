"""Two runs with the same seed end with the same bytes: clones, mixed precision, kills, every kind of network."""

import dataclasses

import pytest

from deeplab import train
from deeplab.core import checkpoints
from deeplab.options import AsppOptions, DecoderOptions, LossOptions, ModelOptions
from tests import training_setup
from tests.training.test_train import read_until, start

pytestmark = pytest.mark.usefixtures('tiny_network')


@pytest.fixture
def data(tmp_path):
    return training_setup.write_data(tmp_path / 'records')


def bytes_of(path):
    reader = checkpoints.open_reader(str(path))
    return {name: reader.get_tensor(name).tobytes() for name in reader.get_variable_to_shape_map()}


def assert_same_bytes(first, second):
    first, second = bytes_of(first), bytes_of(second)
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []


@pytest.mark.parametrize(
    'changes',
    [
        {'clones': training_setup.two_clones(), 'batch_size': 4},
        {'precision': 'bfloat16', 'loss': LossOptions(top_k_percent_pixels=0.25)},
    ],
    ids=['two clones', 'bfloat16 and hard pixels'],
)
def test_the_same_bytes(data, tmp_path, changes):
    first, second = (train.run(training_setup.options(data, tmp_path / name, 6, **changes)) for name in 'ab')
    assert_same_bytes(first.checkpoint, second.checkpoint)


@pytest.mark.slow
def test_killed_and_started_again_it_ends_in_the_same_bytes(data, tmp_path):
    steps = 300
    straight = train.run(training_setup.options(data, tmp_path / 'straight', steps))
    for step in (20, 60):
        with start(data.directory, tmp_path / 'killed', steps) as process:
            read_until(process, step)
            process.kill()
    resumed = train.run(training_setup.options(data, tmp_path / 'killed', steps))
    assert_same_bytes(straight.checkpoint, resumed.checkpoint)


_ASPP = AsppOptions(rates=(2, 4), filters=32)
NETWORKS = {
    'mobilenet_v2': {'aspp': _ASPP, 'decoder': DecoderOptions((4,), 32), 'image_pyramid': (0.5, 1.0)},
    'mobilenet_v3_large_seg': {'aspp': dataclasses.replace(_ASPP, with_squeeze_and_excitation=True)},
    'mobilenet_edgetpu': {},
    'resnet_v1_18': {'decoder': DecoderOptions((4,), 32)},
    'xception_41': {'aspp': _ASPP, 'output_stride': 8},
    'nas_hnasnet': {'output_stride': 8},
    'nas_pnasnet': {},
}


@pytest.mark.parametrize(
    'name',
    [
        pytest.param(n, marks=pytest.mark.long if n.startswith(('nas_', 'mobilenet_v3')) else pytest.mark.slow)
        for n in NETWORKS
    ],
)
def test_every_kind_of_network(data, tmp_path, name):
    model = ModelOptions({'semantic': 3}, crop_size=(97, 129), model_variant=name, **NETWORKS[name])
    runs = []
    for folder in 'ab':
        options = training_setup.options(data, tmp_path / folder, 3, batch_size=4)
        runs.append(train.run(dataclasses.replace(options, model=model)))
    assert_same_bytes(runs[0].checkpoint, runs[1].checkpoint)
