"""Recipes: sets of training flags, found by measuring, that `train --recipe=NAME` sets unless they are given."""

from __future__ import annotations

import dataclasses
import itertools
import textwrap
from collections.abc import Callable, Mapping, Sequence

from absl import flags  # noqa: TID251 (flags are allowed in this package)

from deeplab.cli.values import Values
from deeplab.cli.words import Flag, UsageError

LIST = 'list'  # --recipe=list explains the recipes
_WIDTH = 100


@dataclasses.dataclass(frozen=True)
class Setting:
    """One flag of a recipe.

    Attributes:
      flag: its name.
      value: its text, as on a command line.
      reason: why the recipe sets it, the end of a line in the list of the recipe.
      only_with: other settings of the recipe, by flag, without which this one is not sensible: if the command line
        gives one of them another value, this one is left out.
      of_steps: makes the text from --training_number_of_steps, in place of `value`.
    """

    flag: str
    value: str
    reason: str
    only_with: tuple[str, ...] = ()
    of_steps: Callable[[int], str] | None = None


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A set of training flags: its name, for which data it is meant (one sentence), and its settings."""

    name: str
    purpose: str
    settings: tuple[Setting, ...]


def _slow_start(steps: int) -> str:
    """Returns the number of slow start steps: a fifteenth of the training, at most 500."""
    return str(min(500, steps // 15))


def _batch_norm_decay(steps: int) -> str:
    """Returns a decay with which nothing of the initial moving variance, 1, is left at the end of the training.

    Activations of depthwise convolutions have variances of 0.01: a share of 0.007 of the initial 1, as 500 steps with a
    decay of 0.99 leave it, makes the network predict a single class. Here the share is exp(-15).
    """
    return str(round(min(max(1 - 15 / steps, 0.9), 0.9997), 4))


SMALL_DATA = Recipe(
    'small_data',
    'For up to a few thousand images, a short training, and classes of very different frequency.',
    (
        Setting('optimizer', 'adamw', 'converges in fewer steps than momentum'),
        Setting('base_learning_rate', '0.005', 'the learning rate of adamw', ('optimizer',)),
        Setting('weight_decay', '0.01', 'of adamw: part of the update, not of the loss', ('optimizer',)),
        Setting('learning_policy', 'cosine', 'falls to 0 at the end'),
        Setting('slow_start_step', '', 'a fifteenth of the steps, at most 500', of_steps=_slow_start),
        Setting('slow_start_burnin_type', 'linear', 'rises to the learning rate', ('slow_start_step',)),
        Setting('loss', 'softmax+2*lovasz', 'lovasz follows the IoU, so that small and rare classes count'),
        Setting('label_weights', 'auto', 'larger for rare classes, which lovasz alone finds too late'),
        Setting('label_weights_power', '0.4', 'milder than 1: frequent classes keep their IoU', ('label_weights',)),
        Setting('rare_class_sampling', '0.5', 'half of the crops show a drawn class, mostly a rare one'),
        Setting('min_scale_factor', '0.75', 'few steps do not suffice for scales of 0.5 to 2', ('max_scale_factor',)),
        Setting('max_scale_factor', '1.5', 'as above', ('min_scale_factor',)),
        Setting(
            'batch_norm_decay',
            '',
            '1 - 15 / steps: the end has forgotten the initial statistics',
            of_steps=_batch_norm_decay,
        ),
        Setting('moving_average_decay', '0.99', 'averages the weights of the last steps; see --use_moving_average'),
        Setting('jitter_brightness', '0.2', 'mild changes of color replace images that are missing'),
        Setting('jitter_contrast', '0.2', 'as above'),
        Setting('jitter_saturation', '0.2', 'as above'),
    ),
)
RECIPES: Mapping[str, Recipe] = {recipe.name: recipe for recipe in (SMALL_DATA,)}

RECIPE = Flag(
    'recipe',
    'string',
    None,
    f'Set of training flags, found by measuring, for a kind of data: {", ".join(RECIPES)}. Flags given on the command '
    f'line override it, and the log shows what it sets; {LIST} explains the recipes. Not set: no recipe.',
)


def apply(name: str, values: flags.FlagValues, parsed: Values) -> None:
    """Sets the flags of a recipe that are not given on the command line, and notes them for the log.

    Args:
      name: name of the recipe.
      values: the flags; changed.
      parsed: the view of them; gets a note.

    Raises:
      UsageError: if there is no such recipe.
    """
    if name not in RECIPES:
        raise UsageError(f"--recipe='{name}': there is no such recipe. Allowed: {', '.join(RECIPES)}, or {LIST}.")
    steps = max(values['training_number_of_steps'].value, 1)  # the options refuse less than 1
    settings = RECIPES[name].settings
    texts = {each.flag: each.of_steps(steps) if each.of_steps else each.value for each in settings}
    changed = {key for key, text in texts.items() if values[key].present and str(values[key].value) != text}
    found = [
        (values[each.flag], texts[each.flag])
        for each in settings
        if not values[each.flag].present and changed.isdisjoint(each.only_with)
    ]
    for flag, text in found:
        flag.parse(text)
    shown = ' '.join(f'--{flag.name}={text}' for flag, text in found)
    parsed.notes.append(f'Flags of --recipe={name}, as they are not given: {shown or "none"}')


def are_listed_by(words: Sequence[str]) -> bool:
    """Returns whether a command line asks for the list of recipes."""
    plain = [word.lstrip('-') for word in words]
    return f'recipe={LIST}' in plain or ('recipe', LIST) in itertools.pairwise(plain)


def explanation() -> str:
    """Returns the text of --recipe=list: each recipe, its flags and the reasons for them."""
    lines = ['Recipes: --recipe=NAME sets these flags of train; flags given on the command line override them.']
    for recipe in RECIPES.values():
        lines += ['', f'{recipe.name}: {recipe.purpose}']
        shown = [(f'--{setting.flag}={setting.value or "..."}', setting.reason) for setting in recipe.settings]
        width = max(len(text) for text, _ in shown)
        for text, reason in shown:
            lines += textwrap.wrap(
                f'{text:{width}}  {reason}',
                _WIDTH,
                initial_indent='  ',
                subsequent_indent=' ' * (width + 4),
                drop_whitespace=False,
            )
    return '\n'.join(lines)
