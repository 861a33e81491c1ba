"""Dense prediction cells: reading the JSON file, its errors, and the resulting head."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import dropout, layers, moving_updates, tf_compat
from deeplab.core.heads import dense_prediction_cell as cell
from deeplab.errors import OptionError
from deeplab.options import AsppOptions, ModelOptions
from deeplab.registry import HEADS

POOLING_CELL = [
    {'op': 'pyramid_pooling', 'input': -1, 'grid_size': [2, 1]},
    {'op': 'conv', 'input': 0, 'kernel': 1},
    {'op': 'conv', 'input': -1, 'kernel': [3, 3], 'rate': [2, 1]},
]


def options(path, output_stride=16, **others):
    return ModelOptions(
        {'semantic': 3},
        output_stride=output_stride,
        dense_prediction_cell_json=str(path),
        **{'crop_size': (65, 97), **others},
    )


def build(features, model_options, is_training=False):
    with layers.mode_scope(is_training=is_training, fine_tune_batch_norm=is_training):
        return HEADS.chosen(model_options).build(features, model_options)


@pytest.fixture
def write(tmp_path):
    def write_cell(content):
        path = tmp_path / 'cell.json'
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write_cell


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def test_the_published_cell():
    branches = cell.load(cell.PUBLISHED_CELL)
    assert [branch.input for branch in branches] == [-1, 0, 1, 0, 0]
    assert [branch.rate for branch in branches] == [(1, 6), (18, 15), (6, 3), (1, 1), (6, 21)]
    assert {(branch.op, branch.kernel) for branch in branches} == {('conv', 3)}


def test_a_relative_path_is_tried_in_the_working_folder_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(cell.load(cell.PUBLISHED_CELL)) == 5  # in the package
    mine = tmp_path / cell.PUBLISHED_CELL
    mine.parent.mkdir(parents=True)
    mine.write_text(json.dumps(POOLING_CELL))
    assert len(cell.load(cell.PUBLISHED_CELL)) == 3
    assert cell.find('core/dense_prediction_cell_branch5_top1_cityscapes.json').parent.name == 'core'


def test_a_file_that_is_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError, match=f"dense_prediction_cell_json='no.json': .* {cell.PUBLISHED_CELL}"):
        cell.load('no.json')
    with pytest.raises(OptionError, match='no such file'):
        cell.load(str(tmp_path / 'no.json'))


CONV = {'op': 'conv', 'input': -1, 'kernel': 3, 'rate': [1, 6]}


@pytest.mark.parametrize(
    ('content', 'message'),
    [
        ({}, 'the document is {}; it must be a list of at least one branch.'),
        ([], 'the document is []; it must be a list of at least one branch.'),
        ([CONV, 3], '[1] is 3; it must be an object with the keys op and input.'),
        ([{}], '[0].op is missing; it must be one of conv, pyramid_pooling.'),
        ([CONV | {'op': 'pool'}], '[0].op is "pool"; it must be one of conv, pyramid_pooling.'),
        ([CONV | {'op': ['conv']}], '[0].op is ["conv"]; it must be one of conv, pyramid_pooling.'),
        ([CONV | {'input': 0}], '[0].input is 0; it must be -1 for the features here.'),
        (
            [CONV, CONV | {'input': 1}],
            '[1].input is 1; it must be -1 for the features or an earlier branch, 0.',
        ),
        (
            [CONV, CONV, CONV | {'input': 2}],
            '[2].input is 2; it must be -1 for the features or an earlier branch, 0 to 1.',
        ),
        ([CONV | {'input': True}], '[0].input is true; it must be -1 for the features here.'),
        (
            [CONV, CONV, CONV | {'kernel': 'x'}],
            '[2].kernel is "x"; it must be an integer of 1 or more, such as 3 (kernels are square).',
        ),
        (
            [CONV | {'kernel': [1, 3]}],
            '[0].kernel is [1, 3]; it must be an integer of 1 or more, such as 3 (kernels are square).',
        ),
        (
            [{'op': 'conv', 'input': -1, 'kernel': 3}],
            '[0].rate is missing; it must be two integers of 1 or more, for rows and columns, such as [1, 6].',
        ),
        (
            [CONV | {'rate': [0, 1]}],
            '[0].rate is [0, 1]; it must be two integers of 1 or more, for rows and columns, such as [1, 6].',
        ),
        (
            [{'op': 'pyramid_pooling', 'input': -1, 'grid_size': 4}],
            '[0].grid_size is 4; it must be two integers of 1 or more, for rows and columns, such as [1, 6].',
        ),
        (
            [CONV | {'rates': [1, 1]}],
            '[0].rates is [1, 1]; the key is unknown; known keys: op, input, kernel, rate, grid_size, target_size.',
        ),
    ],
)
def test_a_malformed_cell(write, content, message):
    path = write(content)
    with pytest.raises(OptionError) as caught:
        cell.load(str(path))
    assert str(caught.value) == f"dense_prediction_cell_json='{path}': {message}"


def test_a_file_that_is_not_json(write):
    path = write('[{"op": "conv",\n "rate" 1}]')
    with pytest.raises(OptionError, match=r'is not JSON: line 2, column 9: .*'):
        cell.load(str(path))
    path.write_bytes(b'\xff\xfe\xff')
    with pytest.raises(OptionError, match='cannot be read'):
        cell.load(str(path))


@pytest.mark.parametrize(('output_stride', 'multiplier'), [(16, 1), (8, 2), (4, 4)])
def test_rates_keep_their_reach_in_the_image(output_stride, multiplier):
    assert cell.rate_multiplier(options(cell.PUBLISHED_CELL, output_stride)) == multiplier


def test_output_stride_32_is_refused():
    with pytest.raises(
        OptionError, match=r'output_stride=32 .* dense_prediction_cell_json: .* output_stride=16 or 8\.'
    ):
        HEADS.chosen(options(cell.PUBLISHED_CELL, 32))


def test_a_cell_and_no_head_contradict_each_other():
    with pytest.raises(OptionError, match='with_batch_norm=False .* contradicts dense_prediction_cell_json'):
        HEADS.chosen(options(cell.PUBLISHED_CELL, aspp=AsppOptions(with_batch_norm=False)))


def test_variables_and_shape(graph, write):
    out = build(tf.zeros([2, 5, 7, 8]), options(write(POOLING_CELL)))
    assert out.shape.as_list() == [2, 5, 7, 256]
    weights = {
        v.op.name: v.shape.as_list() for v in tf.compat.v1.trainable_variables() if v.op.name.endswith('weights')
    }
    assert weights == {
        'meta_architecture/branch0/weights': [1, 1, 8, 256],
        'meta_architecture/branch1/weights': [1, 1, 256, 256],
        'meta_architecture/branch2_depthwise/depthwise_weights': [3, 3, 8, 1],
        'meta_architecture/branch2_pointwise/weights': [1, 1, 8, 256],
        'meta_architecture/concat_projection/weights': [1, 1, 768, 256],
    }


@pytest.mark.parametrize(('grid', 'window'), [((1, 1), (5, 7)), ((2, 1), (3, 7)), ((2, 4), (3, 2))])
def test_pooling_averages_windows_of_a_cell_of_the_grid(graph, grid, window):
    values = np.random.RandomState(0).normal(size=[1, 5, 7, 2]).astype(np.float32)
    expected = np.array(
        [
            [values[0, y : y + window[0], x : x + window[1]].mean((0, 1)) for x in range(7 - window[1] + 1)]
            for y in range(5 - window[0] + 1)
        ]
    )
    pooled = cell._pool(tf.constant(values), grid, options(cell.PUBLISHED_CELL))
    with tf.compat.v1.Session() as session:
        np.testing.assert_allclose(session.run(pooled)[0], expected, atol=1e-6)


def test_pooling_over_a_larger_crop_than_the_network_sees(graph, write):
    with pytest.raises(OptionError, match='image_pooling_crop_size is larger .* 257,257 and 65,97 at this scale'):
        build(tf.zeros([1, 5, 7, 8]), options(write(POOLING_CELL), image_pooling_crop_size=(257, 257)))


def test_unknown_size(graph, write):
    features = tf.compat.v1.placeholder(tf.float32, [None, None, None, 4])
    with pytest.raises(OptionError, match='Pooling over a grid of 2x1 .* crop_size'):
        build(features, options(write(POOLING_CELL), crop_size=None))
    whole = [{'op': 'pyramid_pooling', 'input': -1, 'grid_size': [1, 1]}, CONV]
    out = build(features, options(write(whole), crop_size=None))
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        assert session.run(out, {features: np.ones([2, 5, 9, 4])}).shape == (2, 5, 9, 256)


def test_rates_of_rows_and_columns_differ(graph, write):
    image = np.zeros([1, 15, 15, 1], np.float32)
    image[0, 7, 7] = 1
    kernel = np.arange(1, 10, dtype=np.float32).reshape([3, 3, 1, 1])
    cell_file = write([{'op': 'conv', 'input': -1, 'kernel': [3, 3], 'rate': [2, 5]}])
    out = build(tf.constant(image), options(cell_file))
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        for variable in tf.compat.v1.trainable_variables():
            if variable.op.name.endswith('weights'):
                is_kernel = variable.op.name.endswith('depthwise_weights')
                variable.load(kernel if is_kernel else np.ones(variable.shape), session)
        result = session.run(out)[0, :, :, 0]
    expected = np.zeros([15, 15], np.float32)
    expected[5:10:2, 2:13:5] = kernel[::-1, ::-1, 0, 0]  # a correlation shows a point the kernel turned round
    np.testing.assert_allclose(result / result.max(), expected / 9, rtol=1e-4)


def test_dropout_stands_before_the_projection(graph, write, monkeypatch):
    calls = []

    @tf_compat.add_arg_scope
    def recorded(values, keep_probability, *, scope, is_training=False, trained_scopes=()):
        calls.append((values.op.name, keep_probability, scope, is_training))
        return tf.identity(values, name='dropped')

    monkeypatch.setattr(dropout, 'dropout', recorded)
    build(tf.zeros([1, 5, 7, 8]), options(write(POOLING_CELL)), is_training=True)
    assert calls == [('meta_architecture/concat', 0.9, 'concat_projection_dropout', True)]
    projection = graph.get_operation_by_name('meta_architecture/concat_projection/Conv2D')
    assert projection.inputs[0].op.name == 'meta_architecture/dropped'
    assert {update.decay for update in moving_updates.registered()} == {0.9997}


def test_a_second_build_shares_the_variables(graph, write):
    model_options = options(write(POOLING_CELL))
    with tf.compat.v1.variable_scope('', reuse=tf.compat.v1.AUTO_REUSE):
        build(tf.zeros([1, 5, 7, 8]), model_options)
        count = len(tf.compat.v1.global_variables())
        build(tf.zeros([1, 5, 7, 8]), model_options)
    assert len(tf.compat.v1.global_variables()) == count == 5 * 5


def test_the_cell_file_comes_with_the_package():
    package = pathlib.Path(cell.__file__).parents[2]
    assert (package.parent / cell.PUBLISHED_CELL).is_file()
