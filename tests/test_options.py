"""What the options refuse, and what they make of a loss's formula."""

import pytest

from deeplab.errors import OptionError
from deeplab.options import LossOptions, LossTerm, parse_loss


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
        ({'formula': 'dice*0.5'}, f"--loss=dice*0.5 is not allowed: there is no loss '0.5'. {KNOWN}"),
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
    ],
)
def test_losses_that_cannot_be(changes, message):
    with pytest.raises(OptionError) as error:
        LossOptions(**changes)
    assert str(error.value) == message


def test_settings_of_a_term_that_is_in_the_sum():
    made = LossOptions(formula='dice+focal', label_smoothing=0.1, top_k_percent_pixels=0.5, focal_gamma=1.0)
    assert [term.name for term in made.terms] == ['dice', 'focal']
