"""Recipes: sets of training flags, found by measuring, that `train --recipe=NAME` sets unless they are given."""

from __future__ import annotations

import dataclasses
import itertools
import textwrap
from collections.abc import Callable, Mapping, Sequence

from deeplab.cli.values import Values
from deeplab.cli.words import TASK_FLAG, Flag, UsageError
from deeplab.registry import BACKBONES, TASKS, Task
from deeplab.wording import as_text, did_you_mean

LIST = 'list'  # --recipe=list explains the recipes
_WIDTH = 100


@dataclasses.dataclass(frozen=True)
class Setting:
    """One flag of a recipe.

    Attributes:
      flag: its name.
      value: its text, as on a command line, or a function that makes it from what the command line and its preset set;
        the function returns None to omit the flag.
      reason: why the recipe sets it, the end of a line in the list of the recipe.
      only_with: other flags, set by the recipe or by none, without which this one is not sensible: if the command line
        gives one of them another value, or the recipe omits it, this one is left out.
      is_for: whether a task can use it; it is omitted if no task of the network can.
    """

    flag: str
    value: str | Callable[[Values], str | None]
    reason: str
    only_with: tuple[str, ...] = ()
    is_for: Callable[[Task], bool] = lambda task: True


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A set of training flags.

    Attributes:
      name: its name.
      purpose: the data that it suits, one sentence.
      settings: its flags.
      needs: a flag of the command line without which it is refused; empty for none.
    """

    name: str
    purpose: str
    settings: tuple[Setting, ...]
    needs: str = ''


def _steps(values: Values) -> int:
    """Returns the number of training steps; 1 for less, which the options refuse."""
    steps: int = values['training_number_of_steps']
    return max(steps, 1)


def _slow_start(values: Values) -> str | None:
    """Returns the number of slow start steps: a fifteenth of the training, at most 500; None for no slow start."""
    steps = min(500, _steps(values) // 15)
    return str(steps) if steps else None


def _batch_norm_decay(values: Values) -> str:
    """Returns a decay with which nothing of the initial moving variance, 1, is left at the end of the training.

    Activations of depthwise convolutions have variances of 0.01: a share of 0.007 of the initial 1, as 500 steps with a
    decay of 0.99 leave it, makes the network predict a single class. Here the share is exp(-15).
    """
    return str(round(min(max(1 - 15 / _steps(values), 0.9), 0.9997), 4))


def _decoder_stride(values: Values) -> str | None:
    """Returns half the output stride; None for a network that is given, or has no low-level features there."""
    variant, stride = values['model_variant'], values['output_stride'] // 2
    is_given = values['tf_initial_checkpoint'] or values['preset']
    if is_given or variant not in BACKBONES.names():  # an unknown one is refused later
        return None
    return str(stride) if stride in BACKBONES.get(variant).decoder_end_points else None


def _has_loss_of_class_ids(task: Task) -> bool:
    """Returns whether a task is trained with the loss of --loss, on class ids."""
    return task.losses is None or (task.takes_loss_options and task.needs_labels)


def _has_maps(task: Task) -> bool:
    """Returns whether a task predicts something for each pixel, with ASPP and a decoder."""
    return not task.per_image


SMALL_DATA = Recipe(
    'small_data',
    'For up to a few thousand images, 1500 to 3000 steps, and classes of very different frequency.',
    (
        Setting('optimizer', 'adamw', 'converges in fewer steps than momentum'),
        Setting('base_learning_rate', '0.005', 'the learning rate of adamw', ('optimizer',)),
        Setting('weight_decay', '0.01', 'adamw applies it in the update, not in the loss', ('optimizer',)),
        Setting('learning_policy', 'cosine', 'falls to 0 at the end'),
        Setting('slow_start_step', _slow_start, 'a fifteenth of the steps, at most 500'),
        Setting('slow_start_burnin_type', 'linear', 'rises to the learning rate', ('slow_start_step',)),
        Setting(
            'loss',
            'softmax+2*lovasz',
            'lovasz follows the IoU, so that small and rare classes matter',
            is_for=_has_loss_of_class_ids,
        ),
        Setting(
            'loss_stride',
            '2',
            'a quarter of the pixels is enough, and takes less time',
            ('upsample_logits',),
            is_for=_has_loss_of_class_ids,
        ),
        Setting(
            'label_weights',
            'auto',
            'larger for rare classes, which lovasz alone learns too late',
            is_for=_has_loss_of_class_ids,
        ),
        Setting('label_weights_power', '0.4', 'milder than 1: frequent classes keep their IoU', ('label_weights',)),
        Setting(
            'rare_class_sampling',
            '0.5',
            'half of the crops contain a randomly drawn class, usually a rare one',
            is_for=lambda task: task.needs_labels,
        ),
        Setting(
            'min_scale_factor',
            '0.75',
            'a few steps are not enough for scales of 0.5 to 2',
            ('max_scale_factor',),
            is_for=_has_maps,
        ),
        Setting('max_scale_factor', '1.5', 'as above', ('min_scale_factor',), is_for=_has_maps),
        Setting(
            'decoder_output_stride',
            _decoder_stride,
            'half the output stride; not for a preset or an initial checkpoint',
            is_for=_has_maps,
        ),
        Setting(
            'decoder_filters',
            '48',
            'a narrow decoder, for thin and small objects',
            ('decoder_output_stride', 'decoder_output_is_logits'),
            is_for=_has_maps,
        ),
        Setting(
            'aspp_convs_filters',
            '96',
            'makes up for the time that the decoder takes',
            ('decoder_output_stride',),
            is_for=_has_maps,
        ),
        Setting(
            'batch_norm_decay',
            _batch_norm_decay,
            '1 - 15 / steps: the initial statistics are forgotten by the end',
            ('fine_tune_batch_norm',),
        ),
        Setting(
            'moving_average_decay',
            '0.99',
            'averages the weights of the last steps; other programs then use the average',
        ),
        Setting('jitter_brightness', '0.2', 'mild color changes make up for the small number of images'),
        Setting('jitter_contrast', '0.2', 'as above'),
        Setting('jitter_saturation', '0.2', 'as above'),
    ),
)


_OF_SHORT_TRAININGS = ('loss_stride', 'label_weights_power')
SMALL_DATA_LONG = Recipe(
    'small_data_long',
    'For data as for small_data, and 3000 steps or more.',
    (
        *(setting for setting in SMALL_DATA.settings if setting.flag not in _OF_SHORT_TRAININGS),
        Setting('label_weights_power', '0.3', 'milder than for short training', ('label_weights',)),
    ),
)


def _fine_tuned_rate(values: Values) -> str:
    """Returns the published rate, 0.007 for 16 images, in proportion to the batch."""
    return f'{_RATE * values["train_batch_size"] / _OF_BATCH:.2g}'


_RATE, _OF_BATCH = 0.007, 16
_OF_RARE_CLASSES = ('loss', 'label_weights', 'label_weights_power', 'rare_class_sampling', 'moving_average_decay')
FINE_TUNE = Recipe(
    'fine_tune',
    'For fine-tuning a checkpoint with other classes, such as a published one, in a few steps.',
    (
        Setting('initialize_last_layer', 'false', 'the classes are different'),
        Setting(
            'last_layers_contain_logits_only',
            'true',
            'all layers except the logits keep their weights, including ASPP and decoder',
            ('initialize_last_layer', 'decoder_output_is_logits'),
        ),
        Setting(
            'base_learning_rate',
            _fine_tuned_rate,
            '0.007 for 16 images (arXiv:1802.02611, section 4), in proportion to the batch',
            ('optimizer', 'learning_policy'),
        ),
        Setting(
            'last_layer_gradient_multiplier',
            '10',
            'the new logits learn faster than the rest (arXiv:1606.00915, section 4.1)',
            ('initialize_last_layer', 'optimizer'),
        ),
        *(setting for setting in SMALL_DATA.settings if setting.flag in _OF_RARE_CLASSES),
    ),
    needs='tf_initial_checkpoint',
)
RECIPES: Mapping[str, Recipe] = {recipe.name: recipe for recipe in (SMALL_DATA, SMALL_DATA_LONG, FINE_TUNE)}

RECIPE = Flag(
    'recipe',
    'string',
    None,
    f'Training flags for a kind of data: {", ".join(RECIPES)} ({LIST} explains them). Flags on the command line '
    'override them; the log shows them. Not set: no recipe.',
)


def apply(name: str, values: Values) -> None:
    """Sets the flags of a recipe that are not given on the command line, and notes them for the log.

    Args:
      name: name of the recipe.
      values: values of the flags; changed.

    Raises:
      UsageError: if there is no such recipe, or the flag that it needs is not given.
    """
    if name not in RECIPES:
        hint = did_you_mean(name, RECIPES)
        raise UsageError(f"--recipe='{name}': there is no such recipe. {hint}Allowed: {', '.join(RECIPES)}, or {LIST}.")
    settings, needed = RECIPES[name].settings, RECIPES[name].needs
    if needed and not values[needed]:
        raise UsageError(f'--recipe={name} needs --{needed}. Pass the checkpoint, or train with another recipe.')
    named = {part.strip() for part in values[TASK_FLAG].split('+')}
    tasks = [task for task in TASKS.records() if task.name in named]  # an unknown name is refused later
    unfit = [each.flag for each in settings if not any(map(each.is_for, tasks))]
    texts = {each.flag: each.value if isinstance(each.value, str) else each.value(values) for each in settings}
    texts |= dict.fromkeys(unfit)
    others = {flag for each in settings for flag in each.only_with}
    changed = {flag for flag in {*texts, *others} if _is_changed(flag, values, texts)}
    for setting in settings:
        text = texts[setting.flag]
        if text is not None and not values.given(setting.flag) and changed.isdisjoint(setting.only_with):
            values.parse(setting.flag, text)
            values.recipe_flags.append(f'--{setting.flag}={text}')
    shown = ' '.join(values.recipe_flags) or 'none'
    values.notes.append(f'Flags of --recipe={name}, as they are not given: {shown}')
    if omitted := ', '.join(f'--{flag}' for flag in unfit if not values.given(flag)):
        task = f'--{TASK_FLAG}={values[TASK_FLAG]}'
        values.notes.append(f'Flags of --recipe={name} that are omitted, as {task} does not use them: {omitted}')


def _is_changed(flag: str, values: Values, texts: Mapping[str, str | None]) -> bool:
    """Returns whether the command line gives a flag another value than the recipe does, or the recipe omits it.

    `texts` has what the recipe sets, None for what it omits; all other flags have their defaults with a recipe.
    """
    if not values.given(flag):
        return flag in texts and texts[flag] is None
    return as_text(values[flag]) != texts.get(flag, as_text(values.default(flag)))


def are_listed_by(words: Sequence[str]) -> bool:
    """Returns whether a command line asks for the list of recipes."""
    plain = [word.lstrip('-') for word in words]
    return f'recipe={LIST}' in plain or ('recipe', LIST) in itertools.pairwise(plain)


def explanation() -> str:
    """Returns the text of --recipe=list: each recipe, its flags and the reasons for them."""
    lines = ['Recipes: --recipe=NAME sets these flags of train; flags given on the command line override them.']
    for recipe in RECIPES.values():
        lines += ['', f'{recipe.name}: {recipe.purpose}']
        texts = [f'--{each.flag}={each.value if isinstance(each.value, str) else "..."}' for each in recipe.settings]
        width = max(map(len, texts))
        for text, setting in zip(texts, recipe.settings, strict=True):
            lines += textwrap.wrap(
                f'{text:{width}}  {setting.reason}',
                _WIDTH,
                initial_indent='  ',
                subsequent_indent=' ' * (width + 4),
                drop_whitespace=False,
            )
    return '\n'.join(lines)
