"""The original's rounding: each part against its definition, and whole networks against the goldens, bit for bit."""

import fractions

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import session
from tests.parity import goldens, network_options, original_arithmetic, test_networks

# Networks of four families, with and without a decoder and atrous convolutions.
EXACT = ['mobilenet_v2', 'resnet_v1_18']
SLOW = ['mobilenet_edgetpu', 'mobilenet_v2_aspp_decoder', 'mobilenet_v2_half_os8']
LONG = ['nas_pnasnet', 'resnet_v1_50', 'resnet_v1_50_beta_multi_grid', 'xception_41', 'xception_65_aspp_decoder']
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


@pytest.mark.parametrize(('count', 'blocks'), [(7, [7]), (320, [320]), (321, [160, 160, 1]), (960, [320] * 3)])
def test_a_product_rounds_after_each_term_and_each_block(count, blocks):
    random = np.random.RandomState(count)
    left = random.normal(size=(2, count)).astype(np.float32)
    right = random.normal(size=(count, 3)).astype(np.float32)
    result = original_arithmetic.product(left, right)
    edges = np.cumsum([0, *blocks])
    assert edges[-1] == count
    for row in range(2):
        for column in range(3):
            sums = [_exact_sum(left[row, a:b], right[a:b, column]) for a, b in zip(edges, edges[1:], strict=False)]
            expected = sums[0]
            for part in sums[1:]:
                expected = expected + part
            assert result[row, column] == expected


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


@pytest.mark.parametrize(
    ('count', 'results', 'parts'),
    [(396, 4, [198, 198]), (1428, 4, [240, 240, 240, 240, 240, 228]), (1428, 1025, [286] * 4 + [284])],
)
def test_gradients_of_weights_add_up_in_shares(count, results, parts):
    random = np.random.RandomState(count)
    patches = random.normal(size=(count, 1)).astype(np.float32)
    outer = random.normal(size=(count, results)).astype(np.float32)
    gradient = original_arithmetic.weight_gradient(patches, outer)
    edges = np.cumsum([0, *parts])
    assert edges[-1] == count
    sums = [_exact_sum(patches[a:b, 0], outer[a:b, 0]) for a, b in zip(edges, edges[1:], strict=False)]
    halves = [sums[:3], sums[3:]] if results == 4 and count > 1000 else [sums]
    totals = []
    for half in halves:
        total = half[0]
        for part in half[1:]:
            total = total + part
        totals.append(total)
    assert gradient[0, 0] == (totals[0] if len(totals) == 1 else totals[0] + totals[1])


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
