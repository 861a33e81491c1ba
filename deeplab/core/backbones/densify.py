"""How a network of strides becomes one with a given output stride: the rule that all families share."""

from __future__ import annotations

from collections.abc import Iterable

from deeplab.errors import OptionError


def densify(strides: Iterable[int], output_stride: int) -> list[tuple[int, int]]:
    """Turns strides beyond `output_stride` into atrous rates.

    While the product of strides is below the output stride, a unit keeps its stride. From there on units have
    stride 1, and each stride that is taken away multiplies the rate of all units *behind* it: a unit that loses its
    own stride still sees its input's spacing.

    Args:
      strides: the units' strides as designed for classification, in order.
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
        raise OptionError(f'--output_stride={output_stride} cannot be reached: the strides multiply to {current}.')
    return units
