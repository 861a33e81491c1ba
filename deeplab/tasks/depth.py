"""The task `depth`: a positive number for each pixel, in the unit of the data set.

True depths that are 0, negative or not finite are excluded from losses and metric. Augmentations that scale the image
leave the depths as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from deeplab import common
from deeplab.core import depth
from deeplab.core.lazy import tf
from deeplab.datasets import planes
from deeplab.options import ModelOptions
from deeplab.pictures import plane_pictures
from deeplab.registry import Output, Parameter, ResultFile, Task, TaskContext, Term, register

_LARGEST = np.iinfo(np.uint16).max
_DEFAULT_SCALE = 1 / 256


def outputs(options: ModelOptions) -> list[Output]:
    """Returns the output: the last layer gives the logarithm of the depth."""
    return [Output(common.DEPTH, 1, lambda values: depth.positive(values))]


def targets(sample: Mapping[str, tf.Tensor], context: TaskContext) -> dict[str, tf.Tensor]:
    """Returns the true depth."""
    return {common.DEPTH: sample[common.DEPTH]}


def losses(maps: Mapping[str, tf.Tensor], made: Mapping[str, tf.Tensor], context: TaskContext) -> dict[str, Term]:
    """Returns the loss of the depth, as `depth_loss` says."""
    settings = context.settings
    predicted, truth = depth.positive(maps[common.DEPTH]), made[common.DEPTH]
    if settings['depth_loss'] == 'l1':
        value = depth.l1(predicted, truth)
    else:
        value = depth.silog(predicted, truth, settings['silog_lambda'])
    return {settings['depth_loss']: Term(value, settings['depth_loss_weight'])}


def decode(maps: Mapping[str, np.ndarray], context: TaskContext) -> dict[str, Any]:
    """Returns 'depth' [h, w] float32."""
    return {common.DEPTH: maps[common.DEPTH][..., 0]}


class DepthMetric(depth.DepthErrors):
    """Errors of depths over images; see `registry.metrics.Accumulator`."""

    def __init__(self, context: TaskContext) -> None:
        """Begins without an image."""
        super().__init__()

    def update(self, sample: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Adds an image: its depth [h, w, 1], and the result of `decode`."""
        self.add(sample[common.DEPTH][..., 0], result[common.DEPTH])


def as_16_bits(result: Mapping[str, Any], image: np.ndarray, context: TaskContext) -> np.ndarray:
    """Returns depths in the unit of 16-bit files: [h, w] uint16, 1 or more, as 0 is invalid.

    The unit is `depth_scale` in the description of the data set, or else 1 / 256 as in KITTI.
    """
    units: np.ndarray = np.rint(result[common.DEPTH] / (context.depth_scale or _DEFAULT_SCALE))
    return units.clip(1, _LARGEST).astype(np.uint16)


def overlay(result: Mapping[str, Any], image: np.ndarray, context: TaskContext) -> np.ndarray:
    """Returns the depth in colors, from near (bright) to far (dark): [h, w, 3] uint8."""
    return plane_pictures.depth(result[common.DEPTH])


register(
    Task(
        name='depth',
        summary='The depth of each pixel.',
        outputs=outputs,
        needs_labels=False,
        planes=(planes.DEPTH,),
        targets=targets,
        losses=losses,
        decode=decode,
        metric=DepthMetric,
        headline='-abs_rel',
        files={
            'depth': ResultFile('.png', as_16_bits),
            'depth_array': ResultFile('.npy', lambda result, image, context: result[common.DEPTH]),
        },
        overlay=overlay,
        parameters=(
            Parameter(
                'depth_loss',
                'silog',
                'Loss of depth; silog: of its logarithm, apart from the scale; l1: absolute.',
                choices=('silog', 'l1'),
            ),
            Parameter(
                'silog_lambda', 0.85, 'How much of an error of the scale silog forgives; 1: all.', range='[0, 1]'
            ),
            Parameter('depth_loss_weight', 1.0, 'Weight of the loss of depth.', range='[0, inf)'),
        ),
        source='arXiv:1406.2283',
    )
)
