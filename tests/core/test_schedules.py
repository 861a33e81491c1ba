"""Learning rate schedules against values by hand.

Covers registry/learning_policies.py and core/learning_policies/decay.py. The policies poly and step, and a slow start
that climbs, have goldens (parity/test_learning_rates.py).
"""

import pytest

from deeplab.core import schedules
from deeplab.errors import OptionError
from deeplab.options import LearningRateOptions


def rate_at(step, options, number_of_steps):
    """The learning rate of a step."""
    return float(schedules.learning_rate(step, options, number_of_steps))


def test_slow_start_delays_the_policy():
    options = LearningRateOptions(
        policy='step', base=1.0, settings={'decay_step': 10}, slow_start_steps=3, slow_start_rate=0.2
    )
    rates = [rate_at(step, options, 100) for step in (0, 2, 3, 12, 13)]
    assert rates == pytest.approx([0.2, 0.2, 1.0, 1.0, 0.1])


def test_slow_start_that_limits_the_policy():
    options = LearningRateOptions(
        policy='step',
        base=1.0,
        settings={'decay_step': 3, 'decay_factor': 0.5},
        slow_start_steps=4,
        slow_start_burnin_type='minimum',
    )
    assert [rate_at(step, options, 100) for step in range(7)] == pytest.approx([0, 0.25, 0.5, 0.5, 0.5, 0.5, 0.25])


def test_fixed():
    options = LearningRateOptions(policy='fixed', base=0.3)
    assert [rate_at(step, options, 10) for step in (0, 5, 20)] == pytest.approx([0.3] * 3)


def test_slow_start_longer_than_the_training():
    options = LearningRateOptions(base=1.0, slow_start_steps=50, slow_start_rate=0.2)
    assert rate_at(49, options, 20) == pytest.approx(0.2)
    assert rate_at(51, options, 20) == 0.0


def test_unknown_burnin():
    with pytest.raises(
        OptionError, match="^slow_start_burnin_type='cubic' is not allowed: it must be one of none, linear, minimum."
    ):
        LearningRateOptions(slow_start_burnin_type='cubic')


def test_cosine():
    options = LearningRateOptions(
        policy='cosine', base=0.1, settings={'end': 0.02}, slow_start_steps=20, slow_start_rate=0.03
    )
    rates = [rate_at(step, options, 120) for step in (19, 20, 45, 70, 120, 1000)]
    assert rates == pytest.approx([0.03, 0.1, 0.06 + 0.04 * 0.5**0.5, 0.06, 0.02, 0.02])


def test_cosine_over_fewer_steps():
    options = LearningRateOptions(policy='cosine', base=0.1, settings={'decay_steps': 10})
    assert rate_at(5, options, 100) == pytest.approx(0.05)
    assert rate_at(10, options, 100) == 0.0


def test_exponential_falls_at_every_step():
    options = LearningRateOptions(policy='exponential', base=1.0, settings={'decay_factor': 0.25, 'decay_step': 10})
    rates = [rate_at(step, options, 100) for step in (0, 5, 10, 20, 100)]
    assert rates == pytest.approx([1.0, 0.5, 0.25, 0.0625, 0.25**10])


def test_polynomial_is_poly():
    poly, polynomial = (
        LearningRateOptions(policy=policy, base=0.1, settings={'end': 0.01}) for policy in ('poly', 'polynomial')
    )
    for step in (0, 7, 99, 100):
        assert rate_at(step, poly, 100) == rate_at(step, polynomial, 100)


def test_exponential_needs_a_positive_factor():
    with pytest.raises(OptionError, match='^decay_factor=0.0 is not allowed: it must be greater'):
        LearningRateOptions(policy='exponential', settings={'decay_factor': 0.0})
    LearningRateOptions(policy='step', settings={'decay_factor': 0.0})
