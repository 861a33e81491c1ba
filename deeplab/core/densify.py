"""Atrous rates for a given output stride, shared by backbones and heads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from absl import logging

from deeplab.core.lazy import shapes
from deeplab.errors import OptionError
from deeplab.options import ModelOptions
from deeplab.wording import option


def densify(strides: Iterable[int], output_stride: int) -> list[tuple[int, int]]:
    """Turns strides beyond `output_stride` into atrous rates.

    While the product of strides is below the output stride, a unit keeps its stride. From there on units have
    stride 1, and each removed stride multiplies the rate of all units *after* it: the unit whose stride is removed
    still has the spacing of its input.

    Args:
      strides: strides of the units in the classification network, in order.
      output_stride: input pixels for each step of the last unit's output.

    Returns:
      For each unit its stride and its atrous rate.

    Raises:
      OptionError: the product of strides never equals `output_stride`.

    Source: arXiv:1706.05587, section 3.2.
    """
    current, rate = 1, 1
    units = []
    for stride in strides:
        if current == output_stride:
            units.append((1, rate))
            rate *= stride
        else:
            units.append((stride, 1))
            current *= stride
    if current != output_stride:
        raise OptionError(
            f'{option("ModelOptions.output_stride", output_stride)} cannot be reached: the product of the strides is '
            f'{current}.'
        )
    return units


def multi_grid_factors(options: ModelOptions, number: int, parts: str) -> tuple[int, ...]:
    """Returns the factors on the atrous rates of the `number` units or convolutions (`parts`) of the last block.

    Raises:
      OptionError: `multi_grid` has another number of factors, or a factor below 1.

    Source: arXiv:1706.05587, section 3.2.1.
    """
    factors = (1,) * number if options.multi_grid is None else tuple(options.multi_grid)
    if len(factors) != number or min(factors) < 1:
        raise OptionError(
            f'{option("ModelOptions.multi_grid", factors)} is not supported by {options.model_variant}: its last block '
            f'has {number} {parts}. Pass {number} factors, each 1 or more, such as '
            f'{option("ModelOptions.multi_grid", (1,) * number)}.'
        )
    return factors


def warn_of_wide_rates(rates: Sequence[int], options: ModelOptions, field: str) -> None:
    """Warns if the outer taps of a 3x3 kernel with one of the atrous rates of an option are outside the feature map."""
    if options.crop_size is None or not rates:
        return
    side = max(shapes.scaled_size(side, 1.0 / options.output_stride) for side in options.crop_size)
    if max(rates) >= side:
        logging.log_first_n(
            logging.WARNING,
            'The atrous rate %d exceeds the feature map of %d positions at output stride %d: only the center of that '
            'kernel sees the image. Use a larger crop, or smaller rates in %s.',
            1,
            max(rates),
            side,
            options.output_stride,
            option(field),
        )
