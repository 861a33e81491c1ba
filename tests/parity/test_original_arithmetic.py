"""The original's rounding: each part against its definition, and whole networks against the goldens, bit for bit."""

import fractions

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import session
from tests.parity import goldens, network_options, original_arithmetic, original_products, test_networks

# Networks of four families, with and without a decoder, atrous convolutions and an image pyramid.
EXACT = ['resnet_v1_18']
SLOW = ['mobilenet_edgetpu', 'mobilenet_v2_aspp_decoder', 'mobilenet_v2_half_os8', 'mobilenet_v2_image_pyramid_max']
LONG = [
    'mobilenet_v2',
    'nas_pnasnet',
    'resnet_v1_50',
    'resnet_v1_50_beta_multi_grid',
    'resnet_v1_101_beta_os8',
    'xception_41',
    'xception_65_aspp_decoder',
]
CASES = [
    *EXACT,
    *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW),
    *(pytest.param(name, marks=pytest.mark.long) for name in LONG),
]


def test_reciprocal_root_is_near_the_true_one():
    values = np.exp(np.linspace(-12, 12, 4096)).astype(np.float32)
    true = 1 / np.sqrt(values.astype(np.float64))
    estimate = original_arithmetic._estimated_reciprocal_root(values)
    assert 1e-4 < np.abs(estimate / true - 1).max() < 1.5 * 2.0**-12
    roots = original_arithmetic.reciprocal_root(values)
    assert 1e-7 < np.abs(roots / true - 1).max() < 4 * 2.0**-24


def test_what_is_left_of_a_vector_takes_a_true_root():
    values = np.linspace(0.5, 2, 8 + 5).astype(np.float32)
    roots = original_arithmetic.reciprocal_root(values)
    np.testing.assert_array_equal(roots[8:], np.float32(1) / np.sqrt(values[8:]))
    np.testing.assert_array_equal(roots[:8], original_arithmetic.reciprocal_root(values[:8]))


def _exact_sum(left, right):
    """Adds one product after the other to a float32, with one rounding for both."""
    total = np.float32(0)
    for a, b in zip(left, right, strict=True):
        exact = fractions.Fraction(float(a)) * fractions.Fraction(float(b)) + fractions.Fraction(float(total))
        total = np.float32(float(exact))
    return total


def test_square_root_is_near_the_true_one():
    values = np.concatenate([[0, 1e-40], np.exp(np.linspace(-40, 12, 4096))]).astype(np.float32).reshape(-1, 3)
    roots = original_arithmetic.square_root(values)
    assert roots.shape == values.shape
    assert roots.ravel()[0] == roots.ravel()[1] == 0  # numbers too small for a mantissa are none there
    true = np.sqrt(values.ravel()[2:].astype(np.float64))
    assert 1e-7 < np.abs(roots.ravel()[2:] / true - 1).max() < 4 * 2.0**-24


# Each met in a golden, whose bits change with the cut.
SHARDS = [
    ((72, 12, 1089), [[72]]),
    ((256, 4, 1250), [[128], [128]]),
    ((256, 21, 289), [[256]]),
    ((384, 64, 25), [[384]]),
    ((384, 64, 81), [[192], [192]]),
    ((576, 160, 25), [[288], [288]]),
    ((960, 160, 25), [[240, 240], [240, 240]]),
    ((960, 320, 25), [[320, 320, 320]]),
    ((728, 728, 162), [[248, 248, 232]]),
    ((728, 256, 9), [[368, 360]]),
    ((728, 256, 25), [[248, 248, 232]]),
    ((1280, 256, 18), [[320, 320, 320, 320]]),
    ((2048, 256, 18), [[296, 296, 296, 296, 296, 296, 272]]),
    ((1428, 72, 12), [[480, 480, 468]]),
    ((1428, 12, 72), [[240, 240, 240], [240, 240, 228]]),
    ((2178, 32, 27), [[280, 280, 280, 256], [272, 272, 272, 266]]),
    ((2048, 256, 50), [[296, 296, 296, 296, 296, 296, 272]]),
]


@pytest.mark.parametrize(('sizes', 'lengths'), SHARDS)
def test_products_are_cut_by_their_size(sizes, lengths):
    shards = original_products.eigen_shards(*sizes)
    assert [[end - start for start, end in shard] for shard in shards] == lengths
    edges = [edge for shard in shards for edge in shard]
    assert edges[0][0] == 0
    assert edges[-1][1] == sizes[0]
    assert all(before[1] == after[0] for before, after in zip(edges, edges[1:], strict=False))


def test_a_product_rounds_once():
    assert original_products.eigen_shards(2, 1, 1) == [[(0, 2)]]
    # 1 + 2**-24 + 2**-60: float64 would lose the last, and float32 round what is left to the even neighbour, 1.
    left = np.array([[1, 2**-24 * (1 + 2**-12)]], np.float32)
    right = np.array([[1], [1 - 2**-12 + 2**-24]], np.float32)
    assert original_products.contraction(left, right)[0, 0] == 1 + 2**-23
    assert original_products.contraction(-left, right)[0, 0] == -1 - 2**-23
    right[1] = 1 - 2**-12  # less than the half
    assert original_products.contraction(left, right)[0, 0] == 1


@pytest.mark.parametrize(
    ('length', 'parts'), [(384, [384]), (396, [198, 198]), (769, [384, 193, 192]), (1000, [384, 308, 308])]
)
def test_long_blocks_are_cut_once_more(length, parts):
    blocks = original_products.library_blocks(10, 10 + length)
    assert [end - start for start, end in blocks] == parts
    assert blocks[0][0] == 10


@pytest.mark.parametrize(('terms', 'columns', 'rows'), [(7, 3, 2), (396, 3, 2), (1428, 8, 12), (960, 160, 25)])
def test_a_product_rounds_after_each_term_and_each_block(terms, columns, rows):
    random = np.random.RandomState(terms)
    left = random.normal(size=(rows, terms)).astype(np.float32)
    right = random.normal(size=(terms, columns)).astype(np.float32)
    result = original_products.contraction(left, right)
    for row, column in ((0, 0), (rows - 1, columns - 1)):
        shard_sums = []
        for shard in original_products.eigen_shards(terms, columns, rows):
            blocks = [part for block in shard for part in original_products.library_blocks(*block)]
            shard_sums.append(_in_order([_exact_sum(left[row, a:b], right[a:b, column]) for a, b in blocks]))
        assert result[row, column] == _in_order(shard_sums)


def _in_order(parts):
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


@pytest.mark.parametrize(
    ('shape', 'terms'),
    [((2, 3, 4, 8), 5), ((2, 9, 9, 256), 900), ((2, 1, 1, 200), 1000), ((1, 1, 1, 100), 7)],
    ids=['together', 'image by image', 'one pixel each', 'one pixel'],
)
def test_input_gradients_are_products(shape, terms):
    random = np.random.RandomState(0)
    outer = random.normal(size=shape).astype(np.float32)
    kernel = random.normal(size=(terms, shape[3])).astype(np.float32)
    gradient = original_products.input_gradient(outer, kernel)
    assert gradient.dtype == np.float32
    np.testing.assert_allclose(gradient, outer.astype(np.float64) @ kernel.T.astype(np.float64), rtol=1e-3, atol=1e-4)


def test_a_single_pixel_adds_up_sixteen_products_at_a_time():
    random = np.random.RandomState(0)
    outer = random.normal(size=(1, 1, 1, 200)).astype(np.float32)
    kernel = random.normal(size=(3, 200)).astype(np.float32)
    blocks = []
    for first in range(0, 200, 16):
        total = np.float32(0)
        for factor, weight in zip(outer[0, 0, 0, first : first + 16], kernel[1, first : first + 16], strict=True):
            total = total + factor * weight
        blocks.append(total)
    assert original_products.input_gradient(outer, kernel)[0, 0, 0, 1] == _in_order(blocks)


def test_images_of_a_large_kernel_come_in_shares():
    random = np.random.RandomState(0)
    patches = random.normal(size=(3, 2, 2, 2000)).astype(np.float32)
    outer = random.normal(size=(3, 2, 2, 2000)).astype(np.float32)  # 4 million weights: two images at a time
    gradient = original_products.weight_gradient(patches, outer)
    flat, flat_outer = patches[..., 0].reshape(-1), outer[..., 0].reshape(-1)
    expected = _exact_sum(flat[:8], flat_outer[:8]) + _exact_sum(flat[8:], flat_outer[8:])
    assert gradient[0, 0] == expected


@pytest.mark.parametrize('padding', ['SAME', 'VALID'])
@pytest.mark.parametrize(('size', 'stride', 'rate'), [(1, 1, 1), (1, 2, 1), (3, 1, 1), (3, 2, 1), (3, 1, 2)])
def test_convolutions_and_gradients_are_tensorflows_but_for_rounding(size, stride, rate, padding, monkeypatch):
    random = np.random.RandomState(0)
    image = random.normal(size=(2, 9, 10, 5)).astype(np.float32)
    kernel = random.normal(size=(size, size, 5, 4)).astype(np.float32)
    results = []
    for is_original in (False, True):
        if is_original:
            original_arithmetic.install(monkeypatch)
        with tf.Graph().as_default(), tf.compat.v1.Session() as running:
            given, weights = tf.constant(image), tf.constant(kernel)
            if rate == 1:
                outputs = tf.nn.conv2d(given, weights, stride, padding)
            else:
                outputs = tf.nn.atrous_conv2d(given, weights, rate, padding)
            factors = tf.reshape(tf.range(tf.size(outputs), dtype=tf.float32), tf.shape(outputs)) / 100
            fetches = [outputs, *tf.gradients(tf.reduce_sum(outputs * factors), [given, weights])]
            results.append(running.run(fetches))
    for value, expected in zip(results[1], results[0], strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-3)


def test_adam_is_tensorflows_but_for_rounding():
    random = np.random.RandomState(0)
    gradients = random.normal(size=(3, 20)).astype(np.float32)
    values = []
    for kind in (tf.compat.v1.train.AdamOptimizer, original_arithmetic.Adam):
        with tf.Graph().as_default(), tf.compat.v1.Session() as running:
            weights = tf.compat.v1.get_variable('weights', initializer=tf.ones([20]), use_resource=True)
            given = tf.compat.v1.placeholder(tf.float32, [20])
            step = kind(0.1).apply_gradients([(given, weights)])
            running.run(tf.compat.v1.global_variables_initializer())
            for gradient in gradients:
                running.run(step, {given: gradient})
            values.append(running.run(tf.compat.v1.global_variables()))
    for value, expected in zip(*values, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)


def _sum_of_sides(early_decay=()):
    """What flows back from 1, 1e8 and a term of weight decay, -1e8: all depends on their order."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as running:
        tf.compat.v1.train.get_or_create_global_step()
        value = tf.identity(tf.constant(1.0))
        sides = [value * tf.constant(1.0), value * tf.constant(1e8)]
        with tf.name_scope('kernel/Regularizer/'):
            sides.append(value * tf.constant(-1e8))
        gradient = tf.gradients(tf.add_n(sides), value, aggregation_method=tf.AggregationMethod.EXPERIMENTAL_TREE)
        running.run(tf.compat.v1.global_variables_initializer())
        return running.run(gradient)[0]


def test_with_a_pyramid_later_sides_come_first(monkeypatch):
    with tf.Graph().as_default(), tf.compat.v1.Session() as running:
        results = []
        for has_pyramid in (False, True):
            original_arithmetic.install(monkeypatch, has_pyramid)
            value = tf.identity(tf.constant(1.0))
            sides = [value * tf.constant(factor) for factor in (1.0, 1e8, -1e8)]
            (gradient,) = tf.gradients(
                tf.add_n(sides), value, aggregation_method=tf.AggregationMethod.EXPERIMENTAL_TREE
            )
            results.append(running.run(gradient))
    assert results == [0.0, 1.0]  # (1 + 1e8) - 1e8 and (-1e8 + 1e8) + 1


def test_weight_decay_comes_last_but_where_it_came_early(monkeypatch):
    original_arithmetic.install(monkeypatch, has_pyramid=True)
    assert _sum_of_sides() == 0.0  # (1e8 + 1) - 1e8
    monkeypatch.undo()
    original_arithmetic.install(monkeypatch, has_pyramid=True, early_decay=['kernel'])
    assert _sum_of_sides() == 1.0  # (1e8 - 1e8) + 1


def test_a_gradient_of_nothing_has_no_place():
    assert original_arithmetic._place('gradients/a/b_grad/mul', {'a/b': 7}) == 7
    assert original_arithmetic._place('gradients/b_gradient_sum/AddN', {'b': 3}) == 3
    with pytest.raises(ValueError, match='gradients/c_grad/mul is the gradient of no operation'):
        original_arithmetic._place('gradients/c_grad/mul', {'b': 3})


def test_exponentials():
    values = np.linspace(-80, 0, 4001).astype(np.float32)
    true = np.exp(values.astype(np.float64))
    for exponential, most in (
        (original_arithmetic._library_exponential, 0.51),
        (original_arithmetic.exponential, 2.0),
    ):
        given = exponential(values)
        units = np.abs(given - true) / np.spacing(true.astype(np.float32))
        assert given.dtype == np.float32
        assert 0.4 < units.max() < most


def test_softmax_sums_to_one():
    logits = np.random.RandomState(0).normal(0, 5, (100, 7)).astype(np.float32)
    probabilities = original_arithmetic.softmax(logits)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-6)
    assert (probabilities.argmax(axis=1) == logits.argmax(axis=1)).all()


@pytest.mark.parametrize('name', CASES)
def test_logits_to_the_last_bit(name, monkeypatch, request):
    found = {golden.name: golden for golden in goldens.find(goldens.directory(request.config), 'networks')}
    if name not in found:
        pytest.skip(f'{goldens.directory(request.config)} has no golden of {name}')
    if not original_arithmetic.kernels_round_alike():
        pytest.skip('depthwise convolutions round in another way here; is TF_ENABLE_ONEDNN_OPTS=0?')
    facts, arrays = found[name].facts, found[name].arrays
    original_arithmetic.install(monkeypatch)
    options = network_options.model_options(facts['flags'], facts['options'])
    with tf.Graph().as_default(), session.open_session(keeps_sums=True) as running:
        built = test_networks._build(facts['options'], options, arrays['image'])
        initializers = [variable.initializer for variable in built.variables]
        running.run(initializers, goldens.initial_values(built.variables, facts['options']['gain']))
        logits = running.run(built.logits)
    for key, value in logits.items():
        np.testing.assert_array_equal(value, arrays[f'logits:{key}'])
