"""Settings: values of the parameters of a registry, as attributes of options."""

import copy
import dataclasses
import pickle

import pytest

from deeplab.errors import OptionError
from deeplab.options import DatasetOptions, EvalOptions, LossOptions, ModelOptions, parameters
from deeplab.registry import LOSSES, METRICS, Loss, Metric, Parameter, register
from tests.helpers.registries import changes_undone


def test_settings_are_attributes():
    found = LossOptions(formula='focal', settings={'focal_gamma': 3})
    assert (found.formula, found.focal_gamma, found.label_smoothing) == ('focal', 3.0, 0.0)
    assert LossOptions(settings={'focal_gamma': 2.0}) == LossOptions()  # the default
    assert (
        hash(found)
        == hash(LossOptions(formula='focal', settings={'focal_gamma': 3.0}))
        != hash(LossOptions(formula='focal'))
    )


def test_replace_copy_and_pickle_keep_them():
    found = LossOptions(formula='focal', settings={'focal_gamma': 3.0})
    assert dataclasses.replace(found, upsample_logits=False).focal_gamma == 3.0
    assert found.changed(focal_gamma=1.0, stride=2).stride == 2
    assert found.changed(focal_gamma=1.0) == LossOptions(formula='focal', settings={'focal_gamma': 1.0})
    assert copy.deepcopy(found) == pickle.loads(pickle.dumps(found)) == found


def test_what_is_no_parameter_is_refused():
    with pytest.raises(OptionError, match="LossOptions has no setting 'gamma'. Settings: focal_gamma, "):
        LossOptions(settings={'gamma': 1.0})
    with pytest.raises(AttributeError, match="'LossOptions' object has no attribute 'gamma'"):
        LossOptions().gamma  # noqa: B018
    with pytest.raises(OptionError, match=r'focal_gamma=-1 is not allowed: it must be 0 or more'):
        LossOptions(formula='focal', settings={'focal_gamma': -1})


def test_a_record_from_outside_adds_its_parameters():
    with changes_undone(LOSSES):
        register(Loss(name='mine', function=print, parameters=(Parameter('mine_rate', 0.5, 'Rate.'),)))
        assert LossOptions(formula='mine', settings={'mine_rate': 0.25}).mine_rate == 0.25
        assert LossOptions().mine_rate == 0.5


def test_a_parameter_of_a_metric_that_is_not_chosen_is_refused():
    given = ModelOptions({'semantic': 3}), DatasetOptions('val', 'here'), 'checkpoints', 'figures'
    with changes_undone(METRICS):
        register(Metric(name='mine', create=print, parameters=(Parameter('mine_rate', 0.5, 'Rate.'),)))
        made = EvalOptions(*given, metrics=('mine',), settings={'mine_rate': 0.25})
        assert made.metric_parameters == {'mine': {'mine_rate': 0.25}}
        with pytest.raises(OptionError, match='mine_rate=0.25 .* applies to mine only.* metrics'):
            EvalOptions(*given, settings={'mine_rate': 0.25})


def test_as_dict_has_the_values_of_all_parameters():
    found = parameters.as_dict(LossOptions(formula='focal', settings={'focal_gamma': 3.0}))
    assert (found['focal_gamma'], found['tversky_beta'], found['formula']) == (3.0, 0.7, 'focal')
    assert 'settings' not in found
