"""Two runs with the same seed end with the same bytes: clones, mixed precision, every kind of network.

tests/training/test_train.py shows it of runs that are killed.
"""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf

from deeplab import train
from deeplab.core import checkpoints, sessions
from deeplab.deployment import model_deploy
from deeplab.options import AsppOptions, DatasetOptions, DecoderOptions, LossOptions, ModelOptions
from deeplab.training import training_step
from tests.helpers import training_setup
from tests.parity.test_training import Batches

pytestmark = [pytest.mark.rewritten, pytest.mark.usefixtures('tiny_network')]


def bytes_of(path):
    reader = checkpoints.open_reader(str(path))
    return {name: reader.get_tensor(name).tobytes() for name in reader.get_variable_to_shape_map()}


def assert_same_bytes(first, second):
    first, second = bytes_of(first), bytes_of(second)
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []


def test_the_same_bytes(data, tmp_path):
    changes = {'clones': training_setup.two_clones(), 'batch_size': 4}
    changes |= {'precision': 'bfloat16', 'loss': LossOptions(top_k_percent_pixels=0.25)}
    first, second = (train.run(training_setup.options(data, tmp_path / name, 6, **changes)) for name in 'ab')
    assert_same_bytes(first.checkpoint, second.checkpoint)


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


# Of the same operations as others, whose gradients test_compute_types.py and parity show.
_LONG = ('mobilenet_v3_large_seg', 'xception_41', 'mobilenet_edgetpu', 'nas_hnasnet', 'nas_pnasnet')


@pytest.mark.parametrize(
    'name', [pytest.param(n, marks=pytest.mark.long if n in _LONG else pytest.mark.slow) for n in NETWORKS]
)
def test_every_kind_of_network(name):
    """Two sessions of one graph; that a graph is built the same again, the test above shows."""
    size, steps, rng = (65, 97), 3, np.random.RandomState(0)
    arrays = {'images': rng.uniform(0, 255, [steps, 4, *size, 3]), 'labels': rng.randint(0, 3, [steps, 4, *size, 1])}
    network = ModelOptions({'semantic': 3}, crop_size=size, model_variant=name, **NETWORKS[name])
    options = training_setup.options(DatasetOptions('train', '.'), '.', steps, batch_size=4)
    options = dataclasses.replace(options, model=network)
    ends = []
    with tf.Graph().as_default():
        tf.compat.v1.set_random_seed(3)
        step = tf.compat.v1.train.get_or_create_global_step()
        batches = Batches(arrays)
        build = functools.partial(train._build_deeplab, batches, options, 255, step)
        clones = model_deploy.create_clones(model_deploy.DeploymentConfig(), build)
        train_step = training_step.build_train_step(clones, options, tf.constant(0.05), step)
        variables = {variable.op.name: variable for variable in tf.compat.v1.global_variables()}
        for _ in range(2):
            with sessions.open_session(keeps_sums=True) as running:
                running.run(tf.compat.v1.global_variables_initializer())
                for number in range(steps):
                    feed = {batches.images: arrays['images'][number], batches.labels: arrays['labels'][number]}
                    assert running.run(train_step.is_applied, feed)
                ends.append({each: value.tobytes() for each, value in running.run(variables).items()})
    assert [each for each in ends[0] if ends[0][each] != ends[1][each]] == []
