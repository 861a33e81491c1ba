"""A dense prediction cell: a head that was searched for, and that a JSON file describes.

The file holds a list of branches, each an object:

    {"op": "conv", "input": -1, "kernel": 3, "rate": [1, 6]}
    {"op": "pyramid_pooling", "input": 0, "grid_size": [2, 2]}

`input` is -1 for the backbone's features or the number of an earlier branch. A convolution has kernel 1, or a larger
one that is depthwise separable and has an atrous rate for rows and one for columns, given for output stride 16. All
branches are concatenated, whether another one reads them or not.

Source: arXiv:1809.04184, section 3.2 (the operations) and figure 3 (the published cell).
"""

from __future__ import annotations

import json
import pathlib
from typing import Any, NamedTuple

import tensorflow as tf
from absl import logging

from deeplab import common
from deeplab.core import dropout, layers, shapes
from deeplab.core.heads import registry
from deeplab.errors import OptionError
from deeplab.options import ModelOptions
from deeplab.utils import documents

FILTERS = 256  # of each branch and of the projection
KEEP_PROBABILITY = 0.9
RATES_OUTPUT_STRIDE = 16  # at which the file's rates hold

CONVOLUTION = 'conv'
PYRAMID_POOLING = 'pyramid_pooling'
# target_size is what others note down beside a grid; it follows from the crop, so the file's own is not read.
_KEYS = ('op', 'input', 'kernel', 'rate', 'grid_size', 'target_size')

_PACKAGE = pathlib.Path(__file__).resolve().parents[2]
PUBLISHED_CELL = 'deeplab/core/dense_prediction_cell_branch5_top1_cityscapes.json'


class Branch(NamedTuple):
    """One branch of a cell.

    Attributes:
      op: CONVOLUTION or PYRAMID_POOLING.
      input: number of the branch that it reads; -1 for the backbone's features.
      kernel: side of the convolution's kernel.
      rate: the convolution's atrous rates for rows and columns at output stride 16.
      grid: number of rows and columns into which pooling divides the image.
    """

    op: str
    input: int
    kernel: int = 1
    rate: tuple[int, int] = (1, 1)
    grid: tuple[int, int] = (1, 1)


def find(path: str) -> pathlib.Path:
    """The file that `path` means: in the working folder, or else in the package.

    Raises:
      OptionError: there is none; the message names the places.
    """
    places = [pathlib.Path(path), _PACKAGE.parent / path, _PACKAGE / path]
    for place in places:
        if place.is_file():
            return place
    looked = 'the working folder and the package' if not places[0].is_absolute() else 'that place'
    raise OptionError(
        f'--dense_prediction_cell_json={path}: there is no such file in {looked}. '
        f'The published cell is {PUBLISHED_CELL}.'
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


class _Reader:
    """Reads one cell's JSON and says where it is wrong."""

    def __init__(self, path: str) -> None:
        self._path = path

    def require(self, condition: bool, place: str, value: Any, allowed: str) -> None:
        """Raises `OptionError` for what stands at `place` of the JSON unless `condition` holds."""
        if not condition:
            shown = json.dumps(value) if value is not None else 'missing'
            raise OptionError(f'--dense_prediction_cell_json={self._path}: {place} is {shown}; {allowed}.')

    def pair(self, value: Any, place: str) -> tuple[int, int]:
        """Two counts, for rows and columns."""
        good = isinstance(value, list) and len(value) == 2 and all(_is_count(side) for side in value)
        self.require(good, place, value, 'it must be two integers of 1 or more, for rows and columns, such as [1, 6]')
        return value[0], value[1]

    def kernel(self, value: Any, place: str) -> int:
        """The side of a square kernel, written as one number or as two that are alike."""
        good = _is_count(value) or (
            isinstance(value, list) and len(value) == 2 and value[0] == value[1] and _is_count(value[0])
        )
        self.require(good, place, value, 'it must be an integer of 1 or more, such as 3 (kernels are square)')
        return value[0] if isinstance(value, list) else value

    def branch(self, entry: Any, number: int) -> Branch:
        """The branch that `entry`, element `number` of the list, describes."""
        place = f'[{number}]'
        self.require(isinstance(entry, dict), place, entry, 'it must be an object with the keys op and input')
        for key in entry:
            self.require(key in _KEYS, f'{place}.{key}', entry[key], f'no such key is known; known: {", ".join(_KEYS)}')
        op, source = entry.get('op'), entry.get('input')
        ops = (CONVOLUTION, PYRAMID_POOLING)
        self.require(op in ops, f'{place}.op', op, f'it must be one of {", ".join(ops)}')
        earlier = 'or an earlier branch, 0' + (f' to {number - 1}' if number > 1 else '') if number else 'here'
        integer = isinstance(source, int) and not isinstance(source, bool)
        self.require(
            integer and -1 <= source < number, f'{place}.input', source, f'it must be -1 for the features {earlier}'
        )
        if op == PYRAMID_POOLING:
            return Branch(op, source, grid=self.pair(entry.get('grid_size'), f'{place}.grid_size'))
        kernel = self.kernel(entry.get('kernel'), f'{place}.kernel')
        # A single point has nothing to spread, so it needs no rate.
        rate = (1, 1) if kernel == 1 else self.pair(entry.get('rate'), f'{place}.rate')
        return Branch(op, source, kernel=kernel, rate=rate)


def load(path: str) -> tuple[Branch, ...]:
    """Reads the cell at `path` (see `find`).

    Args:
      path: path of a JSON file, relative or absolute.

    Returns:
      The branches in order.

    Raises:
      OptionError: there is no such file, or it is malformed; the message gives the place in the JSON, such as
        `[2].kernel`, and what is allowed there.
    """
    reader = _Reader(path)
    try:
        entries = documents.load(find(path))
    except (OSError, documents.DocumentError) as error:
        reason = error if isinstance(error, documents.DocumentError) else f'cannot be read: {error.strerror}'
        raise OptionError(f'--dense_prediction_cell_json={path} {reason}.') from error
    good = isinstance(entries, list) and bool(entries)
    reader.require(good, 'the whole', entries, 'it must be a list of at least one branch')
    return tuple(reader.branch(entry, number) for number, entry in enumerate(entries))


def rate_multiplier(options: ModelOptions) -> int:
    """The factor on the file's rates that keeps their reach in the image: 16 // output_stride.

    Raises:
      OptionError: the output stride is larger than 16, and no rate can shrink that far.
    """
    multiplier = RATES_OUTPUT_STRIDE // options.output_stride
    if multiplier < 1:
        raise OptionError(
            f'--output_stride={options.output_stride} is not possible with --dense_prediction_cell_json: the rates of '
            f'its branches are for output stride {RATES_OUTPUT_STRIDE} and can only grow; set --output_stride=16 or 8.'
        )
    return multiplier


def _warn_of_wide_rates(rate: int, options: ModelOptions) -> None:
    """Says so where `rate` positions lead out of the features from anywhere."""
    if options.crop_size is None:
        return
    side = max(shapes.scaled_size(side, 1.0 / options.output_stride) for side in options.crop_size)
    if rate >= side:
        logging.log_first_n(
            logging.WARNING,
            'A rate of --dense_prediction_cell_json, %d at output stride %d, reaches beyond the feature map (%d '
            'positions): only the centre of that kernel sees the image. A larger crop would use it.',
            1,
            rate,
            options.output_stride,
            side,
        )


def _check(options: ModelOptions) -> None:
    """Raises OptionError where the cell cannot be built."""
    multiplier = rate_multiplier(options)
    branches = load(str(options.dense_prediction_cell_json))
    _warn_of_wide_rates(max(max(branch.rate) for branch in branches) * multiplier, options)
    if not options.aspp.with_batch_norm:
        raise OptionError(
            '--aspp_with_batch_norm=false asks for logits without a head, and --dense_prediction_cell_json for a '
            'head; leave one of them away.'
        )


def _pool(inputs: tf.Tensor, grid: tuple[int, int], options: ModelOptions) -> tf.Tensor:
    """Averages over windows as large as one cell of the grid, at every place where such a window fits."""
    size = inputs.shape[1:3].as_list()
    if options.crop_size is None or None in size:
        if grid != (1, 1):
            raise OptionError(
                f'Pooling over a grid of {grid[0]}x{grid[1]} (--dense_prediction_cell_json) needs to know the size of '
                f'its images while the graph is built; give the crop size.'
            )
        return shapes.spatial_mean(inputs)  # [n, 1, 1, c]
    crop = options.image_pooling_crop_size or options.crop_size
    window = [
        shapes.scaled_size(side, 1.0 / (options.output_stride * cells)) for side, cells in zip(crop, grid, strict=True)
    ]
    if window[0] > size[0] or window[1] > size[1]:
        raise OptionError(
            f'--image_pooling_crop_size={crop[0]},{crop[1]} is larger than what the network sees '
            f'({options.crop_size[0]},{options.crop_size[1]} at this scale); make it at most that, or leave it away.'
        )
    return tf.nn.avg_pool2d(inputs, window, 1, 'VALID')  # [n, h - window + 1, w - window + 1, c]


def _branch(inputs: tf.Tensor, branch: Branch, options: ModelOptions, scope: str) -> tf.Tensor:
    """One branch: [n, h, w, c] to [n, h, w, FILTERS]."""
    if branch.op == PYRAMID_POOLING:
        pooled = layers.conv2d(_pool(inputs, branch.grid, options), FILTERS, 1, scope=scope)
        return shapes.resize_bilinear(pooled, shapes.spatial_size(inputs))  # [n, h, w, FILTERS]
    if branch.kernel == 1:
        return layers.conv2d(inputs, FILTERS, 1, scope=scope)
    multiplier = rate_multiplier(options)
    rate = (branch.rate[0] * multiplier, branch.rate[1] * multiplier)
    return layers.separable_conv2d(inputs, FILTERS, branch.kernel, rate=rate, scope=scope)


def build(features: tf.Tensor, options: ModelOptions) -> tf.Tensor:
    """Looks at `features` through the branches of a cell.

    `aspp` options and `use_bounded_activation` are not for it: its width and its ReLU are part of the cell.

    Args:
      features: [n, h, w, c] float32.
      options: dense_prediction_cell_json, output_stride, crop_size and image_pooling_crop_size matter.

    Returns:
      [n, h, w, 256] float32.

    Raises:
      OptionError: as `load` and `rate_multiplier`.

    Source: arXiv:1809.04184, section 3.2; the dropout stands before the projection.
    """
    family = layers.family_scope(
        batch_norm_decay=layers.HEAD_BATCH_NORM_DECAY,
        batch_norm_epsilon=layers.HEAD_BATCH_NORM_EPSILON,
        activation=tf.nn.relu,
    )
    outputs: list[tf.Tensor] = []
    with family, tf.compat.v1.variable_scope(common.META_ARCHITECTURE_SCOPE):
        for number, branch in enumerate(load(str(options.dense_prediction_cell_json))):
            inputs = features if branch.input < 0 else outputs[branch.input]
            outputs.append(_branch(inputs, branch, options, f'branch{number}'))
        merged = tf.concat(outputs, axis=3)  # [n, h, w, FILTERS * branches]
        merged = dropout.dropout(merged, KEEP_PROBABILITY, scope=f'{common.CONCAT_PROJECTION_SCOPE}_dropout')
        return layers.conv2d(merged, FILTERS, 1, scope=common.CONCAT_PROJECTION_SCOPE)  # [n, h, w, FILTERS]


registry.register(
    registry.Head(
        name='dense_prediction_cell',
        applies=lambda options: options.dense_prediction_cell_json is not None,
        build=build,
        check=_check,
    )
)
