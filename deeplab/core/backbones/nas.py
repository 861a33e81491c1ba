"""Networks found by neural architecture search (NAS): PNASNet and Auto-DeepLab.

Both are a stem of stride 4 followed by cells. A cell of *level* l has stride 4 * 2^l and 2^l times the filters of
level 0. To go one level down, the cell has stride 2; to go one level up, its input is resized bilinearly. PNASNet's
levels only go down.

Source: arXiv:1712.00559 (the cell of PNASNet-5); arXiv:1901.02985, figures 1 and 3 and section 4.2.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from deeplab.core.backbones import _nas_cell
from deeplab.core.backbones._nas_cell import HNASNET_CELL, PNASNET_CELL, CellStyle, Genotype, fan_in_uniform
from deeplab.core.lazy import layers, shapes, tf
from deeplab.errors import OptionError
from deeplab.options import ModelOptions, NasOptions
from deeplab.registry import Backbone, Classifier, register
from deeplab.wording import option

BATCH_NORM_DECAY = 0.9997
BATCH_NORM_EPSILON = 1e-3

# Filters and stride of the stem's 3x3 convolutions (arXiv:1901.02985, section 4.2).
STEM = ((64, 2), (64, 1), (128, 2))
STEM_STRIDE = 4
CLASSIFIER = Classifier(initializer=lambda: fan_in_uniform, bias=False)
LEVEL_OF_STRIDE_32 = 3


class Architecture(NamedTuple):
    """One network found by architecture search.

    Attributes:
      name: value of `ModelOptions.model_variant`.
      scope: variable scope.
      genotype: the blocks of every cell.
      levels: the level of each cell.
    """

    name: str
    scope: str
    genotype: Genotype
    levels: tuple[int, ...]


PNASNET = Architecture(
    name='nas_pnasnet',
    scope='pnasnet',
    genotype=PNASNET_CELL,
    levels=(1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3),
)

HNASNET = Architecture(
    name='nas_hnasnet',
    scope='hnasnet',
    genotype=HNASNET_CELL,
    levels=(0, 0, 0, 1, 2, 1, 2, 2, 3, 3, 2, 1),
)


def cell_levels(architecture: Architecture, output_stride: int) -> tuple[int, ...]:
    """Returns the level of each cell for an output stride.

    If levels never decrease, they are limited to the output stride's level: deeper cells take its size and filters.
    Otherwise they are fixed, and so is the output stride.

    Raises:
      OptionError: the last cell cannot have that stride.
    """
    levels = architecture.levels
    if list(levels) == sorted(levels):
        deepest = (output_stride // STEM_STRIDE).bit_length() - 1
        levels = tuple(min(level, deepest) for level in levels)
    if STEM_STRIDE * 2 ** levels[-1] != output_stride:
        raise OptionError(
            f'{option("ModelOptions.output_stride", output_stride)} is not supported by {architecture.name}: '
            f'its last cell has stride {STEM_STRIDE * 2 ** levels[-1]}.'
        )
    return levels


def _check(architecture: Architecture, levels: tuple[int, ...], options: NasOptions) -> None:
    if options.use_classification_head:
        raise OptionError(
            f'{option("NasOptions.use_classification_head", True)} is not supported: there is no classification head. '
            'Omit it.'
        )
    if options.remove_os32_stride and levels[-1] == LEVEL_OF_STRIDE_32:
        raise OptionError(
            f'{option("NasOptions.remove_os32_stride", True)} is not supported by {architecture.name} at '
            f'{option("ModelOptions.output_stride", 32)}: its features would have stride 16. Set '
            f'{option("ModelOptions.output_stride", 16)}, or omit {option("NasOptions.remove_os32_stride")}.'
        )


def _keep_probability(options: NasOptions, number: int, cells: int) -> tf.Tensor | None:
    """Returns the drop-path keep probability of cell `number`, which falls with its depth and with the step.

    Source: arXiv:1707.07012 (ScheduledDropPath).
    """
    if options.drop_path_keep_prob == 1.0:
        return None
    dropped = (1.0 - options.drop_path_keep_prob) * (number + 1) / cells
    progress = tf.constant(1.0)
    if options.total_training_steps is not None:
        step = tf.compat.v1.train.get_global_step()
        step = tf.constant(0.0) if step is None else tf.cast(step, tf.float32)
        progress = tf.minimum(1.0, step / options.total_training_steps)
    return 1.0 - progress * dropped


class Features(NamedTuple):
    """Features [n, h, w, c] and their stride."""

    tensor: tf.Tensor
    stride: int


def _stem(images: tf.Tensor) -> tuple[Features, Features]:
    """Builds three convolutions up to stride 4; returns the outputs of the last two, before any activation."""
    net, current, outputs = images, 1, []
    for i, (filters, stride) in enumerate(STEM):
        inputs = tf.nn.relu(net) if i else net
        # [n, h/2 or h/4, w/2 or w/4, filters]
        net = _nas_cell.linear_conv2d(inputs, filters, 3, stride=stride, scope=f'conv{i}', norm=f'conv{i}_bn')
        current *= stride
        outputs.append(Features(net, current))
    return outputs[-2], outputs[-1]


def _cells(
    previous: Features, net: Features, architecture: Architecture, levels: tuple[int, ...], options: ModelOptions
) -> list[tf.Tensor]:
    """Builds the cells after the stem; returns the output of each."""
    deepest = LEVEL_OF_STRIDE_32 - 1 if options.nas.remove_os32_stride else LEVEL_OF_STRIDE_32
    outputs = []
    for i, level in enumerate(levels):
        wanted = STEM_STRIDE * 2 ** min(level, deepest)
        inputs = net
        if wanted < net.stride:
            size = [shapes.scaled_size(side, net.stride // wanted) for side in shapes.spatial_size(net.tensor)]
            inputs = Features(shapes.resize_bilinear(net.tensor, size), wanted)  # [n, 2h - 1, 2w - 1, c]
        keep_probability = _keep_probability(options.nas, i, len(levels))
        output = _nas_cell.cell(
            inputs.tensor,
            previous.tensor,
            CellStyle(architecture.genotype, keep_probability),
            filters=options.nas.stem_output_filters * 2**level,
            stride=wanted // inputs.stride,
            scope=f'cell_{i}',
        )  # [n, h / wanted, w / wanted, blocks * filters]
        previous, net = net, Features(output, wanted)
        outputs.append(output)
    return outputs


def build(
    images: tf.Tensor, options: ModelOptions, *, architecture: Architecture
) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Builds the network.

    `use_bounded_activation` is ignored here and affects the head only.

    Args:
      images: [n, h, w, input_channels] float, normalized; the network computes in their type.
      options: output_stride and nas are read.
      architecture: the network.

    Returns:
      Features [n, h / output_stride, w / output_stride, 5 * filters of the last level], and end points: `Stem` (at
      stride 4) and `Cell_0` to `Cell_11`, before their activation.

    Raises:
      OptionError: the network does not support the output stride or the options in `nas`.
    """
    levels = cell_levels(architecture, options.output_stride)
    _check(architecture, levels, options.nas)
    family = layers.family_scope(
        batch_norm_decay=BATCH_NORM_DECAY,
        batch_norm_epsilon=BATCH_NORM_EPSILON,
        activation=None,
        initializer=fan_in_uniform,
        depthwise_initializer=fan_in_uniform,
        decays_depthwise=True,
    )
    with family, tf.compat.v1.variable_scope(architecture.scope):
        previous, net = _stem(images)
        end_points = {'Stem': net.tensor}
        outputs = _cells(previous, net, architecture, levels, options)
        end_points.update({f'Cell_{i}': output for i, output in enumerate(outputs)})
        return tf.nn.relu(outputs[-1]), end_points


register(
    Backbone(
        name=PNASNET.name,
        summary='PNASNet-5.',
        build=functools.partial(build, architecture=PNASNET),
        scope=PNASNET.scope,
        decoder_end_points={4: 'Stem', 8: 'Cell_3', 16: 'Cell_7'},
        reads=('nas',),
        classifier=CLASSIFIER,
        source='arXiv:1712.00559, section 3.1',
    )
)

register(
    Backbone(
        name=HNASNET.name,
        summary='Auto-DeepLab.',
        build=functools.partial(build, architecture=HNASNET),
        scope=HNASNET.scope,
        decoder_end_points={4: 'Cell_2', 8: 'Cell_5', 16: 'Cell_7'},
        output_strides=(8,),
        reads=('nas',),
        classifier=CLASSIFIER,
        source='arXiv:1901.02985, figures 1 and 3, section 4.2',
    )
)
