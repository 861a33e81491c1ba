"""The list of networks with their parameters and multiply-adds (`deeplab networks`).

Parameters and multiply-adds are counted in graphs that are built for one image; scopes and normalization are taken
from the records of the backbones.
"""

from __future__ import annotations

if __name__ == '__main__':  # `python -m deeplab.networks`; first, so that help does not wait for TensorFlow
    from deeplab import start

    start.run_program('networks')

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf
import tqdm

from deeplab import model, names
from deeplab.core import cost
from deeplab.errors import OptionError
from deeplab.options import ModelOptions, NetworksOptions, PredictionOptions
from deeplab.registry import BACKBONES, Normalization

MULTIPLY_ADDS_UNIT = 1e9


@dataclasses.dataclass(frozen=True)
class Entry:
    """One network.

    Attributes:
      variant: name of its backbone.
      costs: costs by output stride; None for a stride that the network does not support.
      problem: why the network cannot be built, or not at every stride; None if it can.
    """

    variant: str
    costs: dict[int, cost.Cost | None]
    problem: str | None = None


@dataclasses.dataclass(frozen=True)
class NetworksReport:
    """The networks, and a table of them for the user (or JSON)."""

    entries: tuple[Entry, ...]
    report: str


def run(options: NetworksOptions) -> NetworksReport:
    """Counts the parameters and multiply-adds of networks.

    Raises:
      OptionError: there is no such variant; or there is only one, and it cannot be built with these options.
    """
    variants = options.variants or BACKBONES.names()
    for variant in variants:
        BACKBONES.get(variant)
    jobs = [(variant, stride) for variant in variants for stride in options.output_strides]
    costs: dict[str, dict[int, cost.Cost | None]] = {variant: {} for variant in variants}
    problems: dict[str, dict[str, None]] = {variant: {} for variant in variants}  # each text once, in order
    for variant, stride in tqdm.tqdm(jobs, desc='networks', unit='graph', disable=None, leave=False):
        one = dataclasses.replace(options.model, model_variant=variant, output_stride=stride)
        try:
            costs[variant][stride] = cost_of(one, options.prediction)
        except OptionError as error:
            if len(jobs) == 1:
                raise
            costs[variant][stride] = None
            problems[variant][str(error)] = None
    entries = tuple(Entry(variant, costs[variant], ' '.join(problems[variant]) or None) for variant in variants)
    if len(entries) == 1 and not any(entries[0].costs.values()):
        raise OptionError(str(entries[0].problem))
    report = json.dumps(as_json(entries, options), indent=1) if options.json else '\n'.join(_table(entries, options))
    return NetworksReport(entries, report)


def cost_of(options: ModelOptions, prediction: PredictionOptions | None = None) -> cost.Cost:
    """Returns the cost of a network for one image of the crop's size, logits included.

    Args:
      options: the network; it must have a crop size.
      prediction: scales and flips of the image that are predicted; None for a single scale without flips.

    Raises:
      OptionError: there is no such network.
    """
    prediction = prediction or PredictionOptions()
    assert options.crop_size is not None
    with cost.abstract_graph() as outlined:
        images = tf.zeros([1, *options.crop_size, options.input_channels])
        if prediction.is_single_scale:
            model.multi_scale_logits(images, options, options.image_pyramid)
        else:
            model.predict_labels_multi_scale(images, options, prediction.scales, prediction.add_flipped_images)
        return outlined.cost()


def as_json(entries: Sequence[Entry], options: NetworksOptions) -> list[dict[str, Any]]:
    """Returns the networks as JSON values; multiply-adds are integers."""
    networks = []
    for entry in entries:
        backbone = BACKBONES.get(entry.variant)
        normalization = backbone.normalization
        network = {
            'variant': entry.variant,
            'scope': backbone.scope,
            'input': {
                'formula': input_formula(normalization),
                'scale': normalization.scale,
                'offset': normalization.offset,
                'mean_pixel': normalization.mean_pixel_of(3),
            },
            'output_strides': backbone.output_strides,
            'decoder_strides': sorted(backbone.decoder_end_points),
            'crop_size': options.model.crop_size,
            'num_classes': options.model.num_classes,
            'parameters': next((figures.parameters for figures in entry.costs.values() if figures), None),
            'costs': {str(stride): costs and costs._asdict() for stride, costs in entry.costs.items()},
            'problem': entry.problem,
        }
        networks.append(network)
    return networks


def input_formula(normalization: Normalization) -> str:
    """Returns the formula of the normalization of a pixel x of 0 to 255."""
    offset = normalization.offset
    shown = f'{offset[0]:g}' if len(set(offset)) == 1 else f'({", ".join(f"{value:g}" for value in offset)})'
    scale = '' if normalization.scale == 1.0 else f' * {normalization.scale * 255:g} / 255'
    return f'x{scale} - {shown}'


def _table(entries: Sequence[Entry], options: NetworksOptions) -> Iterator[str]:
    heads = [f'stride {stride}' for stride in options.output_strides]
    rows = [['variant', 'parameters', *heads, 'scope', 'input']]
    for entry in entries:
        figures = [entry.costs[stride] for stride in options.output_strides]
        # The number of parameters may depend on the output stride.
        parameters = ' / '.join(dict.fromkeys(f'{one.parameters:,}' for one in figures if one)) or '-'
        costs = ['-' if one is None else f'{one.multiply_adds / MULTIPLY_ADDS_UNIT:.2f}' for one in figures]
        backbone = BACKBONES.get(entry.variant)
        rows.append([entry.variant, parameters, *costs, backbone.scope, input_formula(backbone.normalization)])
    yield from names.aligned(rows, left=(0, len(rows[0]) - 2, len(rows[0]) - 1))
    height, columns = options.model.crop_size or (0, 0)
    yield ''
    yield (
        f'Multiply-adds in billions for one image of {height}x{columns} and {options.model.num_classes} classes, by '
        'output stride.'
    )
    for entry in entries:
        if entry.problem:
            yield f'{entry.variant}: {entry.problem}'
