"""Loss formulas combined with class weights and hard example mining."""

import numpy as np
import pytest
import tensorflow as tf

from deeplab.core import scale_losses
from deeplab.options import LossOptions
from deeplab.registry import BATCH, LOSSES, Loss, register
from tests.helpers import computed_losses
from tests.helpers.registries import changes_undone

WEIGHTS = (1.0, 0.5, 2.0, 4.0)


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, (2, 5, 7, 1)).astype(np.int32)
    labels[0, 0] = 255
    return tf.constant(rng.normal(0, 2, (2, 5, 7, 4)), tf.float32), tf.constant(labels)


def loss_of(case, **options):
    return scale_losses.losses_of_scales({'merged_logits': case[0]}, case[1], 255, LossOptions().changed(**options))[
        'merged_logits'
    ]


def test_a_sum_adds_its_terms(case):
    found = loss_of(case, formula='softmax+0.5*dice+2*lovasz', label_weights=WEIGHTS)
    assert list(found.terms) == ['softmax', 'dice', 'lovasz']
    softmax, dice, lovasz = (float(loss_of(case, formula=name, label_weights=WEIGHTS).value) for name in found.terms)
    assert [float(term) for term in found.terms.values()] == [softmax, dice, lovasz]
    assert float(found.value) == pytest.approx(softmax + 0.5 * dice + 2 * lovasz, rel=1e-6)


def test_a_term_alone_may_have_a_weight(case):
    assert float(loss_of(case, formula='3*focal').value) == pytest.approx(
        3 * float(loss_of(case, formula='focal').value)
    )


def test_each_name_means_its_function(case):
    regions = computed_losses.regions_of(*case, 255)
    expected = {
        'softmax': scale_losses.mean_of_counted(computed_losses.softmax(*case, 255, WEIGHTS)),
        'focal': scale_losses.mean_of_counted(computed_losses.focal(*case, 255, WEIGHTS)),
        'dice': scale_losses.mean_of_classes(computed_losses.regions('dice', regions), WEIGHTS),
        'jaccard': scale_losses.mean_of_classes(computed_losses.regions('jaccard', regions), WEIGHTS),
        'lovasz': scale_losses.mean_of_classes(computed_losses.regions('lovasz', regions), WEIGHTS),
        'tversky': scale_losses.mean_of_classes(computed_losses.regions('tversky', regions), WEIGHTS),
    }
    assert len({float(value) for value in expected.values()}) == 6
    for name, value in expected.items():
        assert float(loss_of(case, formula=name, label_weights=WEIGHTS).value) == float(value), name


def test_settings_reach_their_terms(case):
    focal = scale_losses.mean_of_counted(computed_losses.focal(*case, 255, None, 0.1, 1.5))
    assert float(loss_of(case, formula='focal', focal_gamma=1.5, label_smoothing=0.1).value) == float(focal)
    softmax = scale_losses.mean_of_counted(computed_losses.softmax(*case, 255, None, 0.1))
    assert float(loss_of(case, label_smoothing=0.1).value) == float(softmax)
    found = computed_losses.regions(
        'tversky', computed_losses.regions_of(*case, 255), tversky_alpha=0.2, tversky_beta=0.9
    )
    tversky = scale_losses.mean_of_classes(found, None)
    found = loss_of(case, formula='tversky', tversky_alpha=0.2, tversky_beta=0.9)
    assert float(found.value) == float(tversky)


def test_hard_pixels_are_a_matter_of_pixel_terms(case):
    whole, hard = (loss_of(case, formula='softmax+dice', top_k_percent_pixels=share) for share in (1.0, 0.25))
    assert float(hard.terms['softmax']) > float(whole.terms['softmax'])
    assert float(hard.terms['dice']) == float(whole.terms['dice'])


def test_labels_shrink_to_the_logits():
    labels = np.zeros((1, 5, 5, 1), np.int32)
    labels[0, ::2, ::2] = 1  # the corners and the middle, which 3x3 logits see
    logits = tf.constant(np.broadcast_to(np.float32([0, 50]), (1, 3, 3, 2)))
    found = loss_of((logits, tf.constant(labels)), formula='dice+lovasz', upsample_logits=False)
    assert float(found.value) == pytest.approx(0.0, abs=1e-6)


def test_a_stride_leaves_the_loss_of_every_second_row_and_column(case):
    logits, labels = case
    formula = 'softmax+dice+2*lovasz'
    found = loss_of((logits, labels), formula=formula, stride=2, label_weights=WEIGHTS)
    expected = loss_of((logits[:, ::2, ::2], labels[:, ::2, ::2]), formula=formula, label_weights=WEIGHTS)
    assert float(found.value) == pytest.approx(float(expected.value), rel=1e-6)
    assert float(found.value) != pytest.approx(float(loss_of(case, formula=formula, label_weights=WEIGHTS).value))


@pytest.mark.parametrize('stride', [1, 2])
def test_a_loss_of_the_batch_gets_whole_images(case, stride):
    given = []

    def last(logits, labels):
        given.extend([logits, labels])
        return tf.reduce_sum(logits)

    with changes_undone(LOSSES):
        register(Loss(name='last', summary='Sum.', function=last, of=BATCH))
        loss_of(case, formula='last', stride=stride)
    logits, labels = (tensor[:, ::stride, ::stride] for tensor in case)
    np.testing.assert_array_equal(given[0], logits)
    np.testing.assert_array_equal(given[1], np.where(labels == 255, -1, labels)[..., 0])


def test_the_plain_loss_adds_no_operation():
    """What follows the logits is the cross entropy and its mean, nothing for sums or weights."""
    kinds, options = [], LossOptions(upsample_logits=False)
    for build in (
        lambda *case: scale_losses.losses_of_scales({'m': case[0]}, case[1], 255, options)['m'].value,
        lambda *case: tf.identity(scale_losses.mean_of_counted(computed_losses.softmax(*case, 255))),
    ):
        with tf.Graph().as_default() as graph:
            build(tf.zeros([1, 3, 3, 4]), tf.zeros([1, 3, 3, 1], tf.int32))
            kinds.append([operation.type for operation in graph.get_operations()])
    assert kinds[0] == kinds[1]
