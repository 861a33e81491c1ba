"""Random members of a set of augmentations, in random order, with one strength for all (RandAugment)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from deeplab.core import preprocess_utils
from deeplab.core.lazy import tf
from deeplab.errors import OptionError
from deeplab.registry import AFTER_CROP, AUGMENTATIONS, Augmentation, AugmentContext, Parameter, register
from deeplab.wording import did_you_mean, option

_SET, _NUMBER = 'random_augmentations', 'random_augmentations_number'


def change_randomly(
    image: tf.Tensor, label: tf.Tensor | None, seed: tf.Tensor, context: AugmentContext, **values: Any
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Changes the image by some augmentations of the set; for arguments and result see `registry.Augmentation`.

    Unlike in the paper, no augmentation is drawn twice for an image, so that the number can be the size of the set.

    Source: arXiv:1909.13719, section 3.
    """
    has_label = label is not None

    def change(number: int, parts: list[tf.Tensor]) -> list[tf.Tensor]:
        record, member_values = members(values)[number]
        here = parts[1] if has_label else None
        changed, moved = record.function(parts[0], here, _seed_of(seed, record), context, **member_values)
        return [changed, moved] if has_label else [changed]

    parts = _in_random_order(change, [image, label] if has_label else [image], seed, values)
    return (parts[0], parts[1]) if has_label else (parts[0], None)


def move_points(
    points: tf.Tensor, size: Sequence[preprocess_utils.Side], seed: tf.Tensor, context: AugmentContext, **values: Any
) -> tf.Tensor:
    """Moves points as `change_randomly` moves pixels; see `registry.Augmentation`."""

    def move(number: int, parts: list[tf.Tensor]) -> list[tf.Tensor]:
        record, member_values = members(values)[number]
        assert record.move_points is not None
        return [record.move_points(parts[0], size, _seed_of(seed, record), context, **member_values)]

    return _in_random_order(move, [points], seed, values)[0]


def _in_random_order(
    change: Callable[[int, list[tf.Tensor]], list[tf.Tensor]],
    parts: list[tf.Tensor],
    seed: tf.Tensor,
    values: Mapping[str, Any],
) -> list[tf.Tensor]:
    """Applies `change` of as many members as the set asks for to `parts`, which keep their shapes."""
    size = len(members(values))
    order = tf.argsort(tf.random.stateless_uniform([size], seed))
    for place in range(min(values[_NUMBER], size)):
        before = parts
        branches = [lambda number=number: change(number, before) for number in range(size)]  # noqa: B023
        parts = [tf.identity(part) for part in tf.nest.flatten(tf.switch_case(order[place], branches))]
        for part, like in zip(parts, before, strict=True):
            part.set_shape(like.shape)
    return parts


def _seed_of(seed: tf.Tensor, record: Augmentation) -> tf.Tensor:
    return tf.random.experimental.stateless_fold_in(seed, record.seed_purpose)


def members(values: Mapping[str, Any]) -> list[tuple[Augmentation, dict[str, Any]]]:
    """Returns the augmentations of the set, each with the values of its parameters.

    Args:
      values: the parameters of the set.

    Raises:
      OptionError: a name is not known, appears twice, or cannot be in a set.
    """
    allowed = [record.name for record in AUGMENTATIONS.records() if record.strongest]
    chosen = [name.strip() for name in values[_SET].split(',')]
    given = option(f'AugmentOptions.{_SET}', values[_SET])
    for name in chosen:
        if name not in allowed:
            fix = f'{did_you_mean(name, allowed)}Allowed: {", ".join(allowed)}'
            raise OptionError(f"{given} is not allowed: '{name}' is not an augmentation for a set. {fix}.")
        if chosen.count(name) > 1:
            raise OptionError(f"{given} is not allowed: '{name}' appears twice.")
    magnitude = values['random_augmentations_magnitude']
    return [(record, _values_of(record, magnitude)) for record in map(AUGMENTATIONS.get, chosen)]


def _values_of(record: Augmentation, magnitude: float) -> dict[str, Any]:
    """Returns the values of the parameters of a member; those in `strongest` are multiplied by the magnitude."""
    values = {parameter.name: parameter.default for parameter in record.parameters} | dict(record.preview)
    return values | {name: type(value)(round(magnitude * value, 4)) for name, value in record.strongest.items()}


def _check(values: Mapping[str, Any], crop_size: Sequence[int]) -> None:
    """Raises `OptionError` if a member cannot be in the set, or does not fit the crop."""
    for record, member_values in members(values):
        if record.check is not None:
            record.check(member_values, crop_size)


register(
    Augmentation(
        name='random_set',
        summary='A random selection from a set of augmentations, in random order (RandAugment).',
        function=change_randomly,
        stage=AFTER_CROP,
        order=0,
        check=_check,
        parameters=(
            Parameter(
                _SET,
                '',
                'Comma-separated names of augmentations, of which each image gets a random selection in random order '
                '(RandAugment), such as colors,gamma,gaussian_noise,affine.',
            ),
            Parameter(
                _NUMBER, 2, 'Number of augmentations that each image gets from {' + _SET + '}.', range='[1, inf)'
            ),
            Parameter(
                'random_augmentations_magnitude',
                0.5,
                'Strength of {' + _SET + '}, as a fraction of the strongest values.',
                range='(0, 1]',
            ),
        ),
        source='arXiv:1909.13719, section 3',
        title='Random set',
        details=lambda values: (
            f'{values[_NUMBER]} of {len(members(values))}, magnitude {values["random_augmentations_magnitude"]:g}'
        ),
        takes_planes=True,
        move_points=move_points,
    )
)
