"""Records, parameters and registries.

Covers registry/losses.py, registry/metrics.py, registry/export_formats.py, registry/datasets.py and
core/lazy.py.
"""

import numpy as np
import pytest

from deeplab.errors import OptionError
from deeplab.options import LossOptions
from deeplab.registry import LOSSES, REGISTRIES, Loss, Parameter, Record, Registry, register
from tests.helpers.registries import changes_undone

RATE = Parameter('rate', 0.5, 'Rate.', range='[0, 1)')


def _loss(name='mine', **fields):
    return Loss(name=name, function=print, **fields)


@pytest.mark.parametrize(
    ('parameter', 'value', 'expected'),
    [
        (RATE, 0, 0.0),
        (RATE, np.float32(0.25), 0.25),
        (Parameter('on', True, 'On.'), False, False),
        (Parameter('word', 'a', 'Word.', choices=('a', 'b')), 'b', 'b'),
        (Parameter('sizes', (1, 2), 'Sizes.', range='(0, inf)'), [3], (3,)),
    ],
)
def test_values_take_the_type_of_the_default(parameter, value, expected):
    found = parameter.checked(value, 'LossOptions.x')
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize(
    ('parameter', 'value', 'allowed'),
    [
        (RATE, 1.0, '0 or more and less than 1'),
        (RATE, float('nan'), 'a finite number'),
        (RATE, '0.5', 'a number'),
        (Parameter('count', 1, 'Count.'), 1.0, 'an integer'),
        (Parameter('count', 1, 'Count.'), True, 'an integer'),
        (Parameter('on', True, 'On.'), 1, 'true or false'),
        (Parameter('word', 'a', 'Word.', choices=('a', 'b')), 'c', 'one of a, b'),
        (Parameter('sizes', (1, 2), 'Sizes.', range='(0, inf)'), (1, 0), 'greater than 0'),
        (Parameter('sizes', (1, 2), 'Sizes.'), 1, 'a sequence of numbers'),
    ],
)
def test_other_values_are_refused(parameter, value, allowed):
    with pytest.raises(OptionError) as error:
        parameter.checked(value, 'LossOptions.x')
    assert f'x={value!r}' in str(error.value) and allowed in str(error.value)


@pytest.mark.parametrize(
    'fields',
    [{'name': 'a b'}, {'name': 'lambda'}, {'name': '_rate'}, {'default': None}, {'default': ()}, {'default': ('a',)}],
)
def test_parameters_that_cannot_be(fields):
    with pytest.raises(ValueError, match=f'{fields.get("name", "rate")}'):
        Parameter(**{'name': 'rate', 'default': 0.5, 'meaning': 'Rate.'} | fields)
    with pytest.raises(OptionError):
        Parameter('rate', 2.0, 'Rate.', range='[0, 1]')


def test_a_registered_record_is_found_by_its_name():
    with changes_undone(LOSSES):
        register(_loss(parameters=(RATE,)))
        register(_loss('yours', parameters=(RATE,)))  # a parameter may be shared
        assert LOSSES.get('mine').parameters == (RATE,)
        assert {'mine', 'yours', 'softmax'} <= set(LOSSES.names())
        assert LOSSES.parameters()['rate'] == RATE
        assert LOSSES.readers('rate') == ('mine', 'yours')
        assert LOSSES.meaning_of(RATE) == 'Rate. Used by mine, yours.'
    assert 'mine' not in LOSSES.names()


def test_names_and_parameters_are_unique():
    with changes_undone(LOSSES):
        register(_loss(parameters=(RATE,)))
        register(_loss(parameters=(RATE,)))  # the same again, as when a module is imported twice
        with pytest.raises(ValueError, match="loss 'mine'"):
            register(_loss())
        with pytest.raises(ValueError, match="parameter 'rate' of the loss 'yours' differs from the one of mine"):
            register(_loss('yours', parameters=(Parameter('rate', 0.25, 'Rate.'),)))
        with pytest.raises(ValueError, match="parameter 'rate' of the loss 'ours' differs from the one of ours"):
            register(_loss('ours', parameters=(RATE, Parameter('rate', 0.25, 'Rate.'))))
    with pytest.raises(ValueError, match=r"'a\+b' is not a valid name of a loss"):
        register(_loss('a+b'))
    with pytest.raises(ValueError, match='not a Record'):
        register(Record(name='nothing'))
    with pytest.raises(ValueError, match="'mine' is of 'words'"):
        _loss(of='words')


def test_parameters_do_not_have_the_names_of_options():
    """Whether the options are defined before or after the record is added."""
    registry = Registry('loss', 'LossOptions.formula', 'deeplab.core.optimizers')
    record = _loss(parameters=(Parameter('terms', 1, 'Terms.'),))
    with changes_undone(LOSSES):
        registry.add(record)
        with pytest.raises(ValueError, match="parameter 'terms' of the loss 'mine' .* attribute of the options"):
            registry.share_names(dir(LossOptions), ())
        with pytest.raises(ValueError, match="parameter 'terms' of the loss 'mine'"):
            register(record)


def test_a_name_of_the_package_is_refused_before_the_package_is_read(monkeypatch):
    registry = Registry('loss', 'LossOptions.formula', 'deeplab.core.losses')
    monkeypatch.setattr(registry, '_load', lambda: registry._records.setdefault('mine', _loss()))
    with pytest.raises(ValueError, match="loss 'mine'"):
        registry.add(_loss(parameters=(RATE,)))


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(OptionError, match=r"formula='nothing' is not known\. Known: dice, .*softmax"):
        LOSSES.get('nothing')


def test_the_records_of_the_package_are_complete():
    for registry in REGISTRIES.values():
        for record in registry.records():
            assert record.summary.endswith('.'), record.name
            for parameter in record.parameters:
                assert parameter.meaning.endswith('.'), parameter.name
