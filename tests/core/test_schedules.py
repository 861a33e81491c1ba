"""Learning rates by hand."""

import pytest

from deeplab.core import schedules
from deeplab.errors import OptionError
from deeplab.options import LearningRateOptions


def test_poly():
    options = LearningRateOptions(base=0.1, end=0.02, power=2.0)
    assert schedules.learning_rate(0, options, 100) == pytest.approx(0.1)
    assert schedules.learning_rate(50, options, 100) == pytest.approx(0.08 / 4 + 0.02)
    assert schedules.learning_rate(100, options, 100) == pytest.approx(0.02)
    assert schedules.learning_rate(1000, options, 100) == pytest.approx(0.02)


def test_poly_over_fewer_steps():
    options = LearningRateOptions(base=0.1, power=1.0, decay_steps=10)
    assert schedules.learning_rate(5, options, 100) == pytest.approx(0.05)
    assert schedules.learning_rate(10, options, 100) == 0.0


def test_step():
    options = LearningRateOptions(policy='step', base=1.0, decay_factor=0.5, decay_step=10)
    rates = [schedules.learning_rate(step, options, 100) for step in (0, 9, 10, 19, 20)]
    assert rates == [1.0, 1.0, 0.5, 0.5, 0.25]


def test_slow_start_delays_the_policy():
    options = LearningRateOptions(policy='step', base=1.0, decay_step=10, slow_start_steps=3, slow_start_rate=0.2)
    rates = [schedules.learning_rate(step, options, 100) for step in (0, 2, 3, 12, 13)]
    assert rates == pytest.approx([0.2, 0.2, 1.0, 1.0, 0.1])


def test_slow_start_that_climbs():
    options = LearningRateOptions(base=1.0, slow_start_steps=4, slow_start_rate=0.2)
    rates = [schedules.learning_rate(step, options, 100, 'linear') for step in range(5)]
    assert rates == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])


def test_slow_start_longer_than_the_training():
    options = LearningRateOptions(base=1.0, slow_start_steps=50, slow_start_rate=0.2)
    assert schedules.learning_rate(49, options, 20) == 0.2
    assert schedules.learning_rate(51, options, 20) == 0.0


def test_unknown_burnin():
    with pytest.raises(
        OptionError, match='slow_start_burnin_type=cubic is not allowed: it must be one of none, linear'
    ):
        schedules.learning_rate(0, LearningRateOptions(), 10, 'cubic')
