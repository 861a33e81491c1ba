"""Checks of the options classes, and parsing of loss formulas.

Covers options/builders.py, options/data.py, options/inference.py, options/loss.py, options/machines.py,
options/network.py, options/optimization.py, options/rules.py, options/tools.py and options/training.py.
"""

import dataclasses

import pytest

from deeplab import options
from deeplab.errors import OptionError
from deeplab.options import (
    AsppOptions,
    CloneOptions,
    DatasetOptions,
    DecoderOptions,
    DemoOptions,
    LearningRateOptions,
    LossOptions,
    LossTerm,
    ModelOptions,
    OptimizerOptions,
    ResizeOptions,
    TrainOptions,
    ValidationOptions,
    parse_loss,
)
from deeplab.options.fields import declarations


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


@pytest.mark.parametrize(
    ('changes', 'parts'),
    [
        (
            {'formula': 'crossentropy'},
            ("formula='crossentropy'", "no loss 'crossentropy'", 'dice, focal, jaccard, lovasz, softmax, tversky'),
        ),
        ({'formula': 'softmax,dice'}, ("formula='softmax,dice'", "no loss 'softmax,dice'")),
        ({'formula': 'softmax+'}, ("formula='softmax+'", "no loss ''")),
        ({'formula': 'softmax+dice*0.5'}, ("'dice*0.5' has its weight after the loss", 'such as 0.5*dice.')),
        ({'formula': 'a*dice'}, ("formula='a*dice'", "weight 'a' of dice", 'greater than 0, such as 0.5*dice.')),
        ({'formula': '*dice'}, ("weight '' of dice",)),
        ({'formula': '0*dice'}, ("weight '0' of dice",)),
        ({'formula': '-1*dice'}, ("weight '-1' of dice",)),
        ({'formula': 'inf*dice'}, ("weight 'inf' of dice",)),
        ({'formula': 'dice+2*dice'}, ("formula='dice+2*dice'", 'dice appears twice')),
        ({'settings': {'label_smoothing': 1.0}}, ('label_smoothing=1.0', 'it must be 0 or more and less than 1.')),
        ({'settings': {'focal_gamma': -1.0}, 'formula': 'focal'}, ('focal_gamma=-1.0', 'it must be 0 or more.')),
        ({'settings': {'tversky_beta': 0.0}, 'formula': 'tversky'}, ('tversky_beta=0.0', 'it must be greater than 0.')),
        ({'settings': {'tversky_alpha': -0.1}, 'formula': 'tversky'}, ('tversky_alpha=-0.1', 'it must be 0 or more.')),
        (
            {'formula': 'dice', 'settings': {'label_smoothing': 0.1}},
            ('label_smoothing=0.1', 'to focal and softmax only', "formula='dice' does not contain"),
        ),
        (
            {'formula': 'dice+lovasz', 'top_k_percent_pixels': 0.5},
            ('top_k_percent_pixels=0.5', "formula='dice+lovasz' does not contain", 'add focal or softmax to formula'),
        ),
        (
            {'settings': {'focal_gamma': 1.0}},
            ('focal_gamma=1.0', 'to focal only', "formula='softmax' does not contain"),
        ),
        (
            {'auto_label_weights': True, 'label_weights': (1.0, 2.0)},
            ('label_weights=(1.0, 2.0)', 'either', 'auto_label_weights=True'),
        ),
        ({'stride': 0}, ('stride=0', 'greater than 0')),
        ({'stride': 2, 'upsample_logits': False}, ('stride=2', 'upsample_logits=False already leaves pixels out')),
        ({'label_weights_power': 0.5}, ('label_weights_power=0.5', 'applies to auto_label_weights=True only')),
        (
            {'auto_label_weights': True, 'label_weights_power': 0.0},
            ('label_weights_power=0.0', 'greater than 0 and at most 1'),
        ),
        *(
            ({'label_weights': weights}, (f'label_weights={weights}', '0 or more'))
            for weights in ((0.0,), (0.0, 0.0), (1.0, -1.0))
        ),
    ],
)
def test_losses_that_cannot_be(changes, parts):
    with pytest.raises(OptionError) as error:
        LossOptions(**changes)
    assert ' is not allowed: ' in str(error.value)
    assert not [part for part in parts if part not in str(error.value)], str(error.value)


def test_settings_of_a_term_that_is_in_the_sum():
    made = LossOptions(
        formula='dice+focal', settings={'label_smoothing': 0.1, 'focal_gamma': 1.0}, top_k_percent_pixels=0.5
    )
    assert [term.name for term in made.terms] == ['dice', 'focal']


def test_a_class_of_weight_zero():
    assert LossOptions(label_weights=(0.0, 1.0)).label_weights == (0.0, 1.0)


def train_options(**changes):
    return TrainOptions(ModelOptions({'semantic': 3}), DatasetOptions('train', 'here'), 'log', **changes)


@pytest.mark.parametrize(
    ('make', 'field'),
    [
        (lambda value: LearningRateOptions(base=value), 'base'),
        (lambda value: LearningRateOptions(settings={'power': value}), 'power'),
        (lambda value: LearningRateOptions(slow_start_rate=value), 'slow_start_rate'),
        (lambda value: LearningRateOptions('step', settings={'decay_factor': value}), 'decay_factor'),
        (lambda value: OptimizerOptions(settings={'adam_learning_rate': value}), 'adam_learning_rate'),
        (lambda value: OptimizerOptions(last_layer_gradient_multiplier=value), 'last_layer_gradient_multiplier'),
        (lambda value: train_options(save_interval_secs=value), 'save_interval_secs'),
        (lambda value: train_options(save_summaries_secs=value), 'save_summaries_secs'),
    ],
)
def test_numbers_that_are_not_negative(make, field):
    make(0)
    with pytest.raises(OptionError) as error:
        make(-0.5)
    assert str(error.value) == f'{field}=-0.5 is not allowed: it must be 0 or more.'


@pytest.mark.parametrize('field', ['batch_size', 'number_of_steps', 'log_steps', 'accumulation_steps'])
def test_numbers_that_are_positive(field):
    with pytest.raises(OptionError, match=f'^{field}=0 .* greater than 0'):
        train_options(**{field: 0})


def test_the_head_has_channels_and_rates_above_zero():
    with pytest.raises(OptionError, match='^filters=0 .* greater than 0'):
        AsppOptions(filters=0)
    with pytest.raises(OptionError, match=r'^rates=\(6, 0\) .* greater than 0; omit rates'):
        AsppOptions(rates=(6, 0))


def test_bounds_that_may_be_equal_and_strides_that_may_not():
    assert ResizeOptions(min_value=9, max_value=9).max_value == 9
    with pytest.raises(OptionError, match=r'min_value=10 .* max_value=9'):
        ResizeOptions(min_value=10, max_value=9)
    with pytest.raises(OptionError, match=r'output_strides=\(4, 4\) .* descend'):
        DecoderOptions(output_strides=(4, 4))


def test_the_first_machine_is_the_chief():
    machines = [CloneOptions(task=i, num_replicas=2, num_ps_tasks=1, master='grpc://here:1') for i in range(2)]
    assert [machine.is_chief for machine in machines] == [True, False]


def test_seeds_are_integers_of_64_bits():
    for seed in (-(2**63), 2**63 - 1):
        assert train_options(seed=seed).seed == seed
    allowed = 'it must be an integer from -9223372036854775808 to 9223372036854775807.'
    with pytest.raises(OptionError) as error:
        train_options(seed=99999999999999999999)
    assert str(error.value) == f'seed=99999999999999999999 is not allowed: {allowed}'


def test_the_seeds_of_scenes_are_not_negative():
    with pytest.raises(OptionError, match='^seed=-1 is not allowed: it must be an integer from 0 to 9223372036854775'):
        DemoOptions(seed=-1)


def test_an_option_that_needs_others_names_them():
    with pytest.raises(OptionError, match='^output_is_logits=True is not allowed: also set output_strides, or omit it'):
        DecoderOptions(output_is_logits=True)
    with pytest.raises(OptionError, match='early_stop=3 is not allowed: also set split and every, or omit it'):
        ValidationOptions(early_stop=3)
    for kind in filter(dataclasses.is_dataclass, vars(options).values()):
        for declaration in declarations(kind).values():
            assert set(declaration.needs) <= declarations(kind).keys()


@pytest.mark.parametrize(
    ('make', 'name'),
    [
        (lambda path: dataclasses.replace(train_options(), train_logdir=path), 'train_logdir'),
        (
            lambda path: options.EvalOptions(train_options().model, DatasetOptions('val', 'gs://a/b'), path, 'logs'),
            'checkpoint_dir',
        ),
        (
            lambda path: options.EvalOptions(train_options().model, DatasetOptions('val', 'gs://a/b'), 'logs', path),
            'eval_logdir',
        ),
        (lambda path: options.MergeOptions(path), 'folder'),
    ],
)
def test_folders_that_are_written_or_watched_are_local(make, name):
    for local in ('logs', '/mnt/bucket/logs', 'C:/logs'):
        make(local)
    with pytest.raises(OptionError, match=rf'{name}=.*gs://a/b.* is not allowed: it must be on a local disk.*mounted'):
        make('gs://a/b')
