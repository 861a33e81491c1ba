"""NAS networks: paths, cells and their flags. The goldens cover the whole networks.

Covers core/backbones/_nas_cell.py.
"""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import dropout, layers, moving_updates, weight_decays
from deeplab.core.backbones import _nas_cell as nas_cell
from deeplab.core.backbones import nas
from deeplab.core.backbones._nas_cell import Branch
from deeplab.errors import OptionError
from deeplab.options import DecoderOptions, ModelOptions, NasOptions
from deeplab.registry import BACKBONES
from tests.helpers import given_weights

# A shorter path by the same rule, which keeps the tests quick.
SHORT = nas.HNASNET._replace(levels=(0, 1, 0), scope='short')


def options(variant='nas_hnasnet', output_stride=8, nas_options=None, **others):
    return ModelOptions(
        outputs_to_num_classes={'semantic': 3},
        model_variant=variant,
        output_stride=output_stride,
        nas=nas_options or NasOptions(stem_output_filters=4),
        **others,
    )


def built(architecture, model_options, images, is_training=False, weight_decay=0.0):
    with layers.mode_scope(is_training=is_training, fine_tune_batch_norm=True, weight_decay=weight_decay):
        return nas.build(images, model_options, architecture=architecture)


@pytest.fixture
def network():
    with given_weights.network() as network:
        yield network


@pytest.fixture
def step():
    with tf.Graph().as_default():
        tf.compat.v1.set_random_seed(7)
        yield tf.compat.v1.train.create_global_step()


@pytest.mark.parametrize(
    ('output_stride', 'levels'),
    [
        (8, (1,) * 12),
        (16, (1,) * 4 + (2,) * 8),
        (32, (1,) * 4 + (2,) * 4 + (3,) * 4),
    ],
)
def test_pnasnet_goes_down_as_far_as_the_output_stride(output_stride, levels):
    assert nas.cell_levels(nas.PNASNET, output_stride) == levels


def test_hnasnet_keeps_its_path():
    assert nas.cell_levels(nas.HNASNET, 8) == (0, 0, 0, 1, 2, 1, 2, 2, 3, 3, 2, 1)
    with pytest.raises(OptionError, match='output_stride=16 .* stride 8'):
        nas.cell_levels(nas.HNASNET, 16)


@pytest.mark.parametrize(
    ('given', 'message'),
    [
        (options(output_stride=16), r'output_stride=16 .* nas_hnasnet\..* 8\.'),
        (options('nas_pnasnet', 4), r'output_stride=4 .* nas_pnasnet\..* 8, 16, 32\.'),
        (
            options('nas_pnasnet', 16, decoder=DecoderOptions(output_strides=(2,))),
            r'output_strides=\(2,\) .* nas_pnasnet: .* 4, 8, 16\.',
        ),
    ],
)
def test_the_registry_refuses(given, message):
    with pytest.raises(OptionError, match=message):
        BACKBONES.chosen(given)


@pytest.mark.parametrize(
    ('nas_options', 'message'),
    [
        (
            NasOptions(use_classification_head=True),
            'use_classification_head=True is not supported',
        ),
        (
            NasOptions(remove_os32_stride=True),
            'remove_os32_stride=True .* nas_pnasnet at output_stride=32: .* Set output_stride=16, or omit '
            'remove_os32_stride',
        ),
    ],
)
def test_what_a_network_cannot_be_is_refused(network, nas_options, message):
    with pytest.raises(OptionError, match=message):
        built(nas.PNASNET, options('nas_pnasnet', 32, nas_options), tf.zeros([1, 9, 9, 3]))
    assert not network.weights


@pytest.mark.parametrize('removed', [False, True])
def test_end_points_follow_the_levels(network, removed):
    given = options(output_stride=16, nas_options=NasOptions(stem_output_filters=4, remove_os32_stride=removed))
    path = nas.HNASNET._replace(levels=(1, 2, 3, 2), scope='deep')
    features, end_points = built(path, given, tf.zeros([2, 65, 97, 3]))
    sizes = [(9, 13), (5, 7), (5, 7) if removed else (3, 4), (5, 7)]
    assert end_points['Stem'].shape.as_list() == [2, 17, 25, 128]
    for i, (size, level) in enumerate(zip(sizes, path.levels, strict=True)):
        assert end_points[f'Cell_{i}'].shape.as_list() == [2, *size, 5 * 4 * 2**level]
    assert features.shape == end_points['Cell_3'].shape
    # Weights do not depend on where a cell lies, so a checkpoint fits either way.
    assert network.shapes['deep/cell_2/comb_iter_0/left/atrous_5x5/weights'] == [5, 5, 32, 32]


def test_decoder_end_points_lie_at_their_strides():
    """By the levels alone: a skip at stride s comes from a cell of level log2(s / 4), or from the stem."""
    for architecture in (nas.PNASNET, nas.HNASNET):
        for stride, name in BACKBONES.get(architecture.name).decoder_end_points.items():
            kind, _, number = name.partition('_')
            level = architecture.levels[int(number)] if kind == 'Cell' else 0
            assert 4 * 2**level == stride


@pytest.mark.parametrize('size', [(1, 2), (7, 10), (34, 33)])
@pytest.mark.parametrize('operation', [nas_cell.SEPARABLE, nas_cell.ATROUS, nas_cell.MAX_POOL, nas_cell.IDENTITY])
def test_every_operation_strides_alike(network, operation, size):
    genotype = ((Branch(operation, 3, nas_cell.INPUT), Branch(nas_cell.MAX_POOL, 3, nas_cell.PREVIOUS)),)
    style = nas_cell.CellStyle(genotype)
    net = nas_cell.cell(
        tf.zeros([1, *size, 3]),
        tf.zeros([1, 12, 5, 2]),
        style,
        filters=4,
        stride=2,
        scope='cell',
    )
    assert net.shape.as_list() == [1, (size[0] + 1) // 2, (size[1] + 1) // 2, 4]


def test_an_unknown_operation_is_named(network):
    genotype = ((Branch('avg_pool', 3, nas_cell.INPUT), Branch(nas_cell.IDENTITY, 1, nas_cell.PREVIOUS)),)
    images = tf.zeros([1, 5, 5, 2])
    with pytest.raises(ValueError, match="operation 'avg_pool'"):
        nas_cell.cell(
            images,
            images,
            nas_cell.CellStyle(genotype),
            filters=2,
            stride=1,
            scope='cell',
        )


@pytest.mark.parametrize(('side', 'channels', 'projected'), [(5, 4, False), (5, 3, True), (9, 4, False)])
def test_the_cell_before_is_projected_where_it_has_other_channels(network, side, channels, projected):
    genotype = ((Branch(nas_cell.IDENTITY, 1, nas_cell.INPUT), Branch(nas_cell.IDENTITY, 1, nas_cell.PREVIOUS)),)
    nas_cell.cell(
        tf.zeros([1, 5, 5, 2]),
        tf.zeros([1, side, side, channels]),
        nas_cell.CellStyle(genotype),
        filters=4,
        stride=1,
        scope='cell',
    )
    assert ('cell/prev_1x1/weights' in network.weights) == projected
    assert 'cell/1x1/weights' in network.weights


def test_a_cell_by_hand(network):
    """One block of two identities: the sum of the projected input and the projected, resized cell before."""
    genotype = ((Branch(nas_cell.IDENTITY, 1, nas_cell.INPUT), Branch(nas_cell.IDENTITY, 1, nas_cell.PREVIOUS)),)
    inputs = np.array([[1.0, -2.0, 3.0]] * 3, np.float32).reshape(1, 3, 3, 1)
    previous = np.array([[[0.0, -1.0], [4.0, -1.0]]] * 2, np.float32)[np.newaxis]  # [1, 2, 2, 2]
    with layers.mode_scope(is_training=False, fine_tune_batch_norm=False):
        net = nas_cell.cell(
            tf.constant(inputs),
            tf.constant(previous),
            nas_cell.CellStyle(genotype),
            filters=1,
            stride=1,
            scope='cell',
        )
    ends = {'cell/1x1/weights': 10.0, 'gamma': 1.0, 'moving_variance': 1.0, 'cell/prev_1x1/weights': 1.0}

    def value(name, shape):
        return np.full(shape, next((each for end, each in ends.items() if name.endswith(end)), 0.0))

    result = network.run(net, values=value)[0, :, :, 0]
    expected = np.array([[10.0, 0.0, 30.0]] * 3) + np.array([[0.0, 2.0, 4.0]] * 3)
    np.testing.assert_allclose(result, expected / np.sqrt(1 + layers.HEAD_BATCH_NORM_EPSILON), rtol=1e-5)


def test_initial_weights_lie_in_the_fan_in_bound():
    weights = nas_cell.fan_in_uniform([3, 3, 4, 50], (1, 2)).numpy()
    assert np.abs(weights).max() <= 1 / 6
    assert weights.var() == pytest.approx(1 / (3 * 36), rel=0.1)


@pytest.mark.slow
def test_training_reaches_every_weight(network):
    images = tf.random.stateless_normal([2, 41, 54, 3], (1, 2))
    features, _ = built(SHORT, options(output_stride=4), images, is_training=True, weight_decay=0.5)
    loss = tf.reduce_mean(features**2)
    names = sorted(network.trained)
    gradients = tf.gradients(loss, [network.weights[name] for name in names])
    assert None not in gradients
    assert weight_decays.factors() == {name: 0.5 for name in names if name.endswith('weights')}
    assert len(tf.compat.v1.losses.get_regularization_losses()) == len(weight_decays.factors())
    assert {update.decay for update in moving_updates.registered()} == {0.9997}
    assert len(moving_updates.registered()) == len(names) - len(weight_decays.factors())
    norms = network.run([tf.norm(gradient) for gradient in gradients])
    assert np.all(np.isfinite(norms))
    assert min(norms) > 0


def test_sizes_may_be_unknown(network):
    image = np.random.RandomState(0).uniform(-1, 1, (1, 38, 51, 3)).astype(np.float32)
    unknown = tf.compat.v1.placeholder(tf.float32, [None, None, None, 3])
    static, _ = built(SHORT, options(output_stride=4), tf.constant(image))
    dynamic, _ = built(SHORT, options(output_stride=4), unknown)
    assert dynamic.shape.as_list() == [None, None, None, 20]
    # Down from 10 rows to 5 and up again to 9.
    assert static.shape.as_list() == [1, 9, 13, 20]
    expected, result = network.run([static, dynamic], {unknown: image})
    np.testing.assert_allclose(result, expected, atol=1e-5 * expected.std())


def test_bounded_activation_is_of_the_head(network):
    built(SHORT, options(output_stride=4, use_bounded_activation=True), tf.zeros([1, 17, 17, 3]))
    assert {op.type for op in network.graph.get_operations()} & {'Relu', 'Relu6'} == {'Relu'}


def test_paths_are_dropped_by_depth_and_progress(step):
    given = NasOptions(drop_path_keep_prob=0.6)
    scheduled = nas._keep_probability(dataclasses.replace(given, total_training_steps=100), 2, 12)
    at_once = nas._keep_probability(given, 2, 12)
    assert nas._keep_probability(NasOptions(), 2, 12) is None
    full = 1 - 0.4 * 3 / 12
    with tf.compat.v1.Session() as session:
        for at, expected in ((0, 1.0), (50, 1 - 0.5 * 0.4 * 3 / 12), (100, full), (500, full)):
            session.run(step.assign(at))
            assert session.run([scheduled, at_once]) == pytest.approx([expected, full])


def test_drop_path_drops_whole_images_by_seed_and_step(step):
    images = tf.ones([64, 2, 2, 3])
    assert dropout.drop_path(images, 0.5, scope='still') is images
    dropped = dropout.drop_path(images, 0.25, scope='drop_path', is_training=True)
    elsewhere = dropout.drop_path(images, 0.25, scope='elsewhere', is_training=True)
    with tf.compat.v1.Session() as session:
        session.run(step.assign(1))
        first, other = session.run([dropped, elsewhere])
        again = session.run(dropped)
        session.run(step.assign(2))
        later = session.run(dropped)
    assert set(np.unique(first)) == {0.0, 4.0}
    assert np.all(first == first[:, :1, :1, :1])
    assert 4 <= (first[:, 0, 0, 0] > 0).sum() <= 28
    np.testing.assert_array_equal(first, again)
    assert np.any(first != later)
    assert np.any(first != other)


def test_only_training_drops_paths(network):
    tf.compat.v1.train.create_global_step()
    given = options(output_stride=4, nas_options=NasOptions(stem_output_filters=4, drop_path_keep_prob=0.5))
    images = tf.zeros([1, 17, 17, 3])
    built(SHORT, given, images)
    assert not [op for op in network.graph.get_operations() if 'drop_path' in op.name]
    built(SHORT, given, images, is_training=True)
    places = {op.name.rsplit('/drop_path/', 1)[0] for op in network.graph.get_operations() if '/drop_path/' in op.name}
    assert len(places) == 2 * 5 * len(SHORT.levels)
