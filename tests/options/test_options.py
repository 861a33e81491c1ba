"""What the options refuse, and what they make of a loss's formula."""

import pytest

from deeplab.errors import OptionError
from deeplab.options import (
    DatasetOptions,
    DemoOptions,
    LearningRateOptions,
    LossOptions,
    LossTerm,
    ModelOptions,
    OptimizerOptions,
    TrainOptions,
    parse_loss,
)


@pytest.mark.parametrize(
    ('formula', 'terms'),
    [
        ('softmax', [('softmax', 1.0)]),
        ('softmax+0.5*dice', [('softmax', 1.0), ('dice', 0.5)]),
        ('0.7*focal+lovasz', [('focal', 0.7), ('lovasz', 1.0)]),
        (' 2 * jaccard + 1e-1*tversky', [('jaccard', 2.0), ('tversky', 0.1)]),
    ],
)
def test_formula(formula, terms):
    assert parse_loss(formula) == tuple(LossTerm(*term) for term in terms)
    assert LossOptions(formula=formula).terms == parse_loss(formula)


KNOWN = (
    'Those that exist are softmax, focal, dice, jaccard, lovasz, tversky, alone or in a sum such as softmax+0.5*dice.'
)
WEIGHT = 'a weight is a number greater than 0, such as 0.5*dice.'


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        ({'formula': 'crossentropy'}, f"--loss=crossentropy is not allowed: there is no loss 'crossentropy'. {KNOWN}"),
        ({'formula': 'softmax,dice'}, f"--loss=softmax,dice is not allowed: there is no loss 'softmax,dice'. {KNOWN}"),
        ({'formula': 'softmax+'}, f"--loss=softmax+ is not allowed: there is no loss ''. {KNOWN}"),
        (
            {'formula': 'softmax+dice*0.5'},
            "--loss=softmax+dice*0.5 is not allowed: 'dice*0.5' has its weight at the end; write it first, such as "
            '0.5*dice.',
        ),
        ({'formula': 'a*dice'}, f"--loss=a*dice is not allowed: 'a' is no weight for dice; {WEIGHT}"),
        ({'formula': '*dice'}, f"--loss=*dice is not allowed: '' is no weight for dice; {WEIGHT}"),
        ({'formula': '0*dice'}, f"--loss=0*dice is not allowed: '0' is no weight for dice; {WEIGHT}"),
        ({'formula': '-1*dice'}, f"--loss=-1*dice is not allowed: '-1' is no weight for dice; {WEIGHT}"),
        ({'formula': 'inf*dice'}, f"--loss=inf*dice is not allowed: 'inf' is no weight for dice; {WEIGHT}"),
        ({'formula': 'dice+2*dice'}, '--loss=dice+2*dice is not allowed: dice stands there twice; add up its weights.'),
        ({'label_smoothing': 1.0}, '--label_smoothing=1.0 is not allowed: it must be 0 or more and less than 1.'),
        ({'focal_gamma': -1.0, 'formula': 'focal'}, '--focal_gamma=-1.0 is not allowed: it must be 0 or more.'),
        ({'tversky_beta': 0.0, 'formula': 'tversky'}, '--tversky_beta=0.0 is not allowed: it must be greater than 0.'),
        ({'tversky_alpha': -0.1, 'formula': 'tversky'}, '--tversky_alpha=-0.1 is not allowed: it must be 0 or more.'),
        (
            {'formula': 'dice', 'label_smoothing': 0.1},
            '--label_smoothing=0.1 is not allowed: it acts on softmax and focal alone, and --loss=dice has none of '
            'that. Leave it away, or put softmax or focal into --loss.',
        ),
        (
            {'formula': 'dice+lovasz', 'top_k_percent_pixels': 0.5},
            '--top_k_percent_pixels=0.5 is not allowed: it acts on softmax and focal alone, and --loss=dice+lovasz has '
            'none of that. Leave it away, or put softmax or focal into --loss.',
        ),
        (
            {'focal_gamma': 1.0},
            '--focal_gamma=1.0 is not allowed: it acts on focal alone, and --loss=softmax has none of that. Leave it '
            'away, or put focal into --loss.',
        ),
        (
            {'auto_label_weights': True, 'label_weights': (1.0, 2.0)},
            '--label_weights=1.0,2.0 is not allowed: give either auto or numbers.',
        ),
        *(
            (
                {'label_weights': weights},
                f'--label_weights={shown} is not allowed: weights must be 0 or more, and one of them at least greater '
                'than 0.',
            )
            for weights, shown in (((0.0,), '0.0'), ((0.0, 0.0), '0.0,0.0'), ((1.0, -1.0), '1.0,-1.0'))
        ),
    ],
)
def test_losses_that_cannot_be(changes, message):
    with pytest.raises(OptionError) as error:
        LossOptions(**changes)
    assert str(error.value) == message


def test_settings_of_a_term_that_is_in_the_sum():
    made = LossOptions(formula='dice+focal', label_smoothing=0.1, top_k_percent_pixels=0.5, focal_gamma=1.0)
    assert [term.name for term in made.terms] == ['dice', 'focal']


def test_a_class_that_does_not_count():
    assert LossOptions(label_weights=(0.0, 1.0)).label_weights == (0.0, 1.0)


def train_options(**changes):
    return TrainOptions(ModelOptions({'semantic': 3}), DatasetOptions('train', 'here'), 'log', **changes)


@pytest.mark.parametrize(
    ('make', 'flag'),
    [
        (lambda value: LearningRateOptions(base=value), 'base_learning_rate'),
        (lambda value: LearningRateOptions(power=value), 'learning_power'),
        (lambda value: LearningRateOptions(slow_start_rate=value), 'slow_start_learning_rate'),
        (lambda value: LearningRateOptions('step', decay_factor=value), 'learning_rate_decay_factor'),
        (lambda value: OptimizerOptions(adam_learning_rate=value), 'adam_learning_rate'),
        (lambda value: OptimizerOptions(last_layer_gradient_multiplier=value), 'last_layer_gradient_multiplier'),
        (lambda value: train_options(save_interval_secs=value), 'save_interval_secs'),
        (lambda value: train_options(save_summaries_secs=value), 'save_summaries_secs'),
    ],
)
def test_numbers_that_are_not_negative(make, flag):
    make(0)
    with pytest.raises(OptionError) as error:
        make(-0.5)
    assert str(error.value) == f'--{flag}=-0.5 is not allowed: it must be 0 or more.'


def test_seeds_are_integers_of_64_bits():
    for seed in (-(2**63), 2**63 - 1):
        assert train_options(seed=seed).seed == seed
    allowed = 'it must be an integer from -9223372036854775808 to 9223372036854775807.'
    with pytest.raises(OptionError) as error:
        train_options(seed=99999999999999999999)
    assert str(error.value) == f'--seed=99999999999999999999 is not allowed: {allowed}'


def test_the_seeds_of_scenes_are_not_negative():
    with pytest.raises(OptionError, match='--seed=-1 is not allowed: it must be an integer from 0 to 9223372036854775'):
        DemoOptions(seed=-1)
