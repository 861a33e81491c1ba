"""Dense prediction cell (DPC): a head found by architecture search and described by a JSON file.

The file holds a list of branches, each an object:

    {"op": "conv", "input": -1, "kernel": 3, "rate": [1, 6]}
    {"op": "pyramid_pooling", "input": 0, "grid_size": [2, 2]}

`input` is -1 for the backbone's features, or the number of an earlier branch. A convolution with a kernel larger than
1 is depthwise separable and has one atrous rate for rows and one for columns, given for output stride 16. All branches
are concatenated, including inputs of other branches.

Source: arXiv:1809.04184, section 3.2 (the operations) and figure 3 (the published cell).
"""

from __future__ import annotations

import json
import pathlib
from typing import Any, NamedTuple

from deeplab import common
from deeplab.core.densify import warn_of_wide_rates
from deeplab.core.heads.aspp import pooling_window
from deeplab.core.lazy import dropout, layers, shapes, tf
from deeplab.errors import OptionError
from deeplab.files import documents
from deeplab.options import ModelOptions
from deeplab.registry import Head, register
from deeplab.wording import option

FILTERS = 256  # filters of each branch and of the projection
KEEP_PROBABILITY = 0.9
RATES_OUTPUT_STRIDE = 16  # output stride for which the file gives the rates

CONVOLUTION = 'conv'
PYRAMID_POOLING = 'pyramid_pooling'
# Published files give target_size beside grid_size; it is derived from the crop here, and the file's value is ignored.
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
    """Returns the file at `path`, relative to the working folder or else to the package.

    Raises:
      OptionError: there is no such file; the message says where it was searched for.
    """
    places = [pathlib.Path(path), _PACKAGE.parent / path, _PACKAGE / path]
    for place in places:
        if place.is_file():
            return place
    searched = '' if places[0].is_absolute() else ' in the working folder or in the package'
    raise OptionError(
        f'{option("ModelOptions.dense_prediction_cell_json", path)}: there is no such file{searched}. '
        f'The published cell is {PUBLISHED_CELL}.'
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _require(condition: bool, place: str, value: Any, allowed: str) -> None:
    """Raises `ValueError` for `value` at `place` of the JSON unless `condition` holds."""
    if not condition:
        shown = json.dumps(value) if value is not None else 'missing'
        raise ValueError(f'{place} is {shown}; {allowed}')


def _pair(value: Any, place: str) -> tuple[int, int]:
    """Returns `value` as two counts, for rows and columns."""
    good = isinstance(value, list) and len(value) == 2 and all(_is_count(side) for side in value)
    _require(good, place, value, 'it must be two integers of 1 or more, for rows and columns, such as [1, 6]')
    return value[0], value[1]


def _branch_of(entry: Any, number: int) -> Branch:
    """Returns the branch that `entry`, element `number` of the list, describes."""
    place = f'[{number}]'
    _require(isinstance(entry, dict), place, entry, 'it must be an object with the keys op and input')
    for key in entry:
        allowed = f'the key is unknown; known keys: {", ".join(_KEYS)}'
        _require(key in _KEYS, f'{place}.{key}', entry[key], allowed)
    op, source = entry.get('op'), entry.get('input')
    ops = (CONVOLUTION, PYRAMID_POOLING)
    _require(op in ops, f'{place}.op', op, f'it must be one of {", ".join(ops)}')
    earlier = 'or an earlier branch, 0' + (f' to {number - 1}' if number > 1 else '') if number else 'here'
    integer = isinstance(source, int) and not isinstance(source, bool)
    _require(integer and -1 <= source < number, f'{place}.input', source, f'it must be -1 for the features {earlier}')
    if op == PYRAMID_POOLING:
        return Branch(op, source, grid=_pair(entry.get('grid_size'), f'{place}.grid_size'))
    kernel = entry.get('kernel')  # one number, or two equal ones
    side = kernel[0] if isinstance(kernel, list) and len(kernel) == 2 and kernel[0] == kernel[1] else kernel
    allowed = 'it must be an integer of 1 or more, such as 3 (kernels are square)'
    _require(_is_count(side), f'{place}.kernel', kernel, allowed)
    # A 1x1 kernel needs no rate.
    rate = (1, 1) if side == 1 else _pair(entry.get('rate'), f'{place}.rate')
    return Branch(op, source, kernel=side, rate=rate)


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
    given = option('ModelOptions.dense_prediction_cell_json', path)
    try:
        entries = documents.load(find(path))
    except (OSError, documents.DocumentError) as error:
        reason = error if isinstance(error, documents.DocumentError) else f'cannot be read: {error.strerror}'
        raise OptionError(f'{given} {reason}.') from error
    try:
        good = isinstance(entries, list) and bool(entries)
        _require(good, 'the document', entries, 'it must be a list of at least one branch')
        return tuple(_branch_of(entry, number) for number, entry in enumerate(entries))
    except ValueError as error:
        raise OptionError(f'{given}: {error}.') from None


def rate_multiplier(options: ModelOptions) -> int:
    """Returns the factor on the file's rates that keeps their field of view: 16 // output_stride.

    Raises:
      OptionError: the output stride is larger than 16.
    """
    multiplier = RATES_OUTPUT_STRIDE // options.output_stride
    if multiplier < 1:
        raise OptionError(
            f'{option("ModelOptions.output_stride", options.output_stride)} is not supported with '
            f'{option("ModelOptions.dense_prediction_cell_json")}: the rates of its branches are for output stride '
            f'{RATES_OUTPUT_STRIDE} and can only be increased. Set {option("ModelOptions.output_stride", 16)} or 8.'
        )
    return multiplier


def _check(options: ModelOptions) -> None:
    multiplier = rate_multiplier(options)
    branches = load(str(options.dense_prediction_cell_json))
    rates = [max(branch.rate) * multiplier for branch in branches]
    warn_of_wide_rates(rates, options, 'ModelOptions.dense_prediction_cell_json')
    if not options.aspp.with_batch_norm:
        raise OptionError(
            f'{option("AsppOptions.with_batch_norm", False)} (no head) contradicts '
            f'{option("ModelOptions.dense_prediction_cell_json")} (a head). Omit one of them.'
        )


def _pool(inputs: tf.Tensor, grid: tuple[int, int], options: ModelOptions) -> tf.Tensor:
    """Average-pools with a window of one grid cell, at every position where the window fits."""
    if options.crop_size is None or None in inputs.shape[1:3].as_list():
        if grid != (1, 1):
            raise OptionError(
                f'Pooling over a grid of {grid[0]}x{grid[1]} ({option("ModelOptions.dense_prediction_cell_json")}) '
                f'needs a fixed image size. Set {option("ModelOptions.crop_size")}.'
            )
        return shapes.spatial_mean(inputs)  # [n, 1, 1, c]
    window = pooling_window(inputs, options, grid)
    return tf.nn.avg_pool2d(inputs, window, 1, 'VALID')  # [n, h - window + 1, w - window + 1, c]


def _branch(inputs: tf.Tensor, branch: Branch, options: ModelOptions, scope: str) -> tf.Tensor:
    """Builds one branch: [n, h, w, c] to [n, h, w, FILTERS]."""
    if branch.op == PYRAMID_POOLING:
        pooled = layers.conv2d(_pool(inputs, branch.grid, options), FILTERS, 1, scope=scope)
        return shapes.resize_bilinear(pooled, shapes.spatial_size(inputs))  # [n, h, w, FILTERS]
    if branch.kernel == 1:
        return layers.conv2d(inputs, FILTERS, 1, scope=scope)
    multiplier = rate_multiplier(options)
    rate = (branch.rate[0] * multiplier, branch.rate[1] * multiplier)
    return layers.separable_conv2d(inputs, FILTERS, branch.kernel, rate=rate, scope=scope)


def build(features: tf.Tensor, options: ModelOptions) -> tf.Tensor:
    """Builds the branches of a cell and the projection of their concatenation.

    The `aspp` options and `use_bounded_activation` are ignored: the number of filters and ReLU are part of the cell.

    Args:
      features: [n, h, w, c] float.
      options: dense_prediction_cell_json, output_stride, crop_size and image_pooling_crop_size are read.

    Returns:
      [n, h, w, 256] of their type.

    Raises:
      OptionError: as `load` and `rate_multiplier`.

    Source: arXiv:1809.04184, section 3.2; dropout precedes the projection.
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


register(
    Head(
        name='dense_prediction_cell',
        summary='Dense prediction cell.',
        order=100,
        applies=lambda options: options.dense_prediction_cell_json is not None,
        build=build,
        check=_check,
        source='arXiv:1809.04184, section 3.2',
    )
)
