"""ASPP: image pooling and gate against NumPy."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import dropout, layers, tf_compat
from deeplab.core.heads import aspp
from deeplab.errors import OptionError
from deeplab.options import AsppOptions, ModelOptions
from deeplab.registry import HEADS

FEATURES = np.random.RandomState(1).normal(size=(2, 5, 7, 4)).astype(np.float32)


def options(crop_size=(65, 97), pooling_crop=None, pooling_stride=(1, 1), output_stride=16, **aspp_fields):
    return ModelOptions(
        {'semantic': 3},
        crop_size=crop_size,
        output_stride=output_stride,
        image_pooling_crop_size=pooling_crop,
        image_pooling_stride=pooling_stride,
        aspp=AsppOptions(filters=3, **aspp_fields),
    )


@pytest.mark.parametrize('fine_tune_batch_norm', [False, True])
def test_dropout_stands_behind_the_projection(fine_tune_batch_norm, monkeypatch):
    calls = []

    @tf_compat.add_arg_scope
    def recorded(values, keep_probability, *, scope, is_training=False, trained_scopes=()):
        calls.append((values.op.name, keep_probability, scope, is_training))
        return values

    monkeypatch.setattr(dropout, 'dropout', recorded)
    with tf.Graph().as_default(), layers.mode_scope(is_training=True, fine_tune_batch_norm=fine_tune_batch_norm):
        HEADS.chosen(options()).build(tf.constant(FEATURES), options())
    assert calls == [('concat_projection/Relu', 0.9, 'concat_projection_dropout', True)]


def test_the_image_level_feature_is_never_bounded(graph):
    bounded = dataclasses.replace(options(), use_bounded_activation=True)
    with layers.mode_scope(is_training=False, fine_tune_batch_norm=False):
        HEADS.chosen(bounded).build(tf.constant(FEATURES), bounded)
    kinds = {op.name.split('/')[0]: op.type for op in graph.get_operations() if op.type in ('Relu', 'Relu6')}
    assert (kinds['image_pooling'], kinds['aspp0'], kinds['concat_projection']) == ('Relu', 'Relu6', 'Relu6')


def pooled(model_options):
    return aspp._pool(tf.constant(FEATURES), model_options).numpy()


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        graph.seed = 5
        yield graph


def build(model_options):
    """The head on FEATURES, and the variables by name, run once."""
    with layers.mode_scope(is_training=False, fine_tune_batch_norm=False):
        out = HEADS.chosen(model_options).build(tf.constant(FEATURES), model_options)
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        return session.run([out, {v.op.name: v for v in tf.compat.v1.model_variables()}])


@pytest.mark.parametrize(
    'model_options',
    [options(), options(crop_size=None), options(pooling_crop=(65, 97), pooling_stride=(4, 5))],
    ids=['crop', 'no crop', 'pooling crop'],
)
def test_one_window_over_all_positions(model_options):
    np.testing.assert_allclose(pooled(model_options), FEATURES.mean(axis=(1, 2), keepdims=True), atol=1e-6)


def test_the_window_is_the_pooling_crop_at_the_features_stride():
    found = pooled(options(pooling_crop=(33, 49), pooling_stride=(2, 3)))
    expected = np.zeros([2, 2, 2, 4])
    for row in range(2):
        for column in range(2):
            window = FEATURES[:, 2 * row : 2 * row + 3, 3 * column : 3 * column + 4]
            expected[:, row, column] = window.mean(axis=(1, 2))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_window_follows_the_output_stride():
    # 5 by 7 positions are now a crop of 33 by 49.
    found = pooled(options(crop_size=(33, 49), pooling_crop=(17, 25), output_stride=8))
    assert found.shape == (2, 3, 4, 4)
    np.testing.assert_allclose(found[:, 2, 3], FEATURES[:, 2:, 3:].mean(axis=(1, 2)), atol=1e-6)


def test_a_pooling_crop_beyond_the_crop():
    with pytest.raises(OptionError, match='image_pooling_crop_size is larger .* 65,129 and 65,97 at this scale'):
        pooled(options(pooling_crop=(65, 129)))


@pytest.mark.parametrize('piecewise', [False, True])
def test_the_gate_multiplies_at_the_end(graph, piecewise):
    out, values = build(
        options(with_squeeze_and_excitation=True, with_concat_projection=False, image_se_uses_qsigmoid=piecewise)
    )
    norm = ['BatchNorm/' + name for name in ('beta', 'gamma', 'moving_mean', 'moving_variance')]
    assert sorted(values) == sorted(
        ['image_pooling/weights', 'image_pooling/biases', 'aspp0/weights', *[f'aspp0/{name}' for name in norm]]
    )
    scores = FEATURES.mean(axis=(1, 2)) @ values['image_pooling/weights'][0, 0]
    gate = np.clip(scores + 3, 0, 6) * 0.16667 if piecewise else 1 / (1 + np.exp(-scores))
    branch = np.maximum(FEATURES @ values['aspp0/weights'][0, 0], 0) / np.sqrt(1 + 1e-5)
    np.testing.assert_allclose(out, branch * gate[:, None, None], rtol=1e-4, atol=1e-6)


def test_a_gate_of_several_windows_is_resized_with_corners(graph):
    out, values = build(
        options(
            pooling_crop=(33, 97),
            pooling_stride=(2, 1),
            with_squeeze_and_excitation=True,
            with_concat_projection=False,
        )
    )
    windows = np.stack([FEATURES[:, :3].mean(axis=(1, 2)), FEATURES[:, 2:].mean(axis=(1, 2))], axis=1)  # [n, 2, c]
    ends = 1 / (1 + np.exp(-windows @ values['image_pooling/weights'][0, 0]))
    share = np.linspace(0, 1, 5)[None, :, None]
    gate = ends[:, :1] * (1 - share) + ends[:, 1:] * share  # [n, 5, filters]
    branch = np.maximum(FEATURES @ values['aspp0/weights'][0, 0], 0) / np.sqrt(1 + 1e-5)
    np.testing.assert_allclose(out, branch * gate[:, :, None], rtol=1e-4, atol=1e-6)


def test_the_gate_follows_the_projection_of_all_branches(graph):
    out, values = build(options(with_squeeze_and_excitation=True, rates=(1,)))
    assert out.shape == (2, 5, 7, 3)
    # The gate is no branch: two branches are projected.
    assert values['concat_projection/weights'].shape == (1, 1, 6, 3)


@pytest.mark.parametrize(
    ('aspp_fields', 'message'),
    [
        (
            {'image_level_feature': False},
            'with_squeeze_and_excitation=True needs the image-level feature. .*image_level_feature=True',
        ),
        (
            {'rates': (6, 12), 'with_concat_projection': False},
            r'with_squeeze_and_excitation=True gates 3 channels, .* rates=\(6, 12\) .* 9\. Set '
            'with_concat_projection=True, or omit rates',
        ),
    ],
)
def test_a_gate_that_does_not_fit(aspp_fields, message):
    with pytest.raises(OptionError, match=message):
        HEADS.chosen(options(with_squeeze_and_excitation=True, **aspp_fields))
