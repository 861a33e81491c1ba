"""The task `edges`: whether a pixel is near a boundary between classes, beside the classes or alone.

The target follows from the class ids: --task=semantic+edges needs no other records than semantic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from deeplab import common
from deeplab.core import edges
from deeplab.core.lazy import tf
from deeplab.options import ModelOptions
from deeplab.pictures import drawing
from deeplab.registry import Output, Parameter, ResultFile, Task, TaskContext, Term, register

_NAME = 'edges'
_DEFAULT_THRESHOLD = 0.5
_COLOR = (255, 40, 200)  # rare in photographs


def outputs(options: ModelOptions) -> list[Output]:
    """Returns the output: the probability of an edge."""
    return [Output(_NAME, 1, lambda logits: tf.sigmoid(logits))]


def targets(sample: Mapping[str, tf.Tensor], context: TaskContext) -> dict[str, tf.Tensor]:
    """Returns which pixels are on an edge, and which count; both [h, w] bool."""
    labels, width = sample[common.LABEL][..., 0], context.settings['edge_width']
    on_edge, valid = edges.build_targets(labels, context.ignore_label, width)
    return {'edges': on_edge, 'valid': valid}


def losses(maps: Mapping[str, tf.Tensor], made: Mapping[str, tf.Tensor], context: TaskContext) -> dict[str, Term]:
    """Returns the class-balanced cross entropy."""
    value = edges.loss(maps[_NAME], made['edges'], made['valid'])
    return {'entropy': Term(value, context.settings['edge_loss_weight'])}


def decode(maps: Mapping[str, np.ndarray], context: TaskContext) -> dict[str, Any]:
    """Returns the probability of an edge, 'probabilities' [h, w] float32, and 'edges' [h, w] bool.

    The threshold is the best one of an evaluation on a split whose name begins with "val", else 0.5.
    """
    probabilities = maps[_NAME][..., 0]
    threshold = context.calibration.get(_NAME, {}).get('threshold', _DEFAULT_THRESHOLD)
    return {'probabilities': probabilities, _NAME: probabilities >= np.float32(threshold)}


class EdgesMetric(edges.EdgeF):
    """Boundary F-score of edges over images; see `registry.metrics.Accumulator`."""

    def __init__(self, context: TaskContext) -> None:
        """Begins without an image."""
        super().__init__(context.settings['edge_tolerance'])
        self._ignore_label, self._width = context.ignore_label, context.settings['edge_width']

    def update(self, sample: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Adds an image: its class ids [h, w, 1], and the result of `decode`."""
        truth, valid = edges.compute_targets(sample[common.LABEL][..., 0], self._ignore_label, self._width)
        self.add(truth, result['probabilities'], valid)

    def calibration(self) -> dict[str, float]:
        """Returns the best threshold."""
        threshold = self.result()['threshold']
        return {'threshold': _DEFAULT_THRESHOLD if threshold is None else threshold}


def as_8_bits(result: Mapping[str, Any], image: np.ndarray, context: TaskContext) -> np.ndarray:
    """Returns the probability of an edge from 0 to 255: [h, w] uint8."""
    return drawing.shades(result['probabilities'])


def overlay(result: Mapping[str, Any], image: np.ndarray, context: TaskContext) -> np.ndarray:
    """Returns the image with its edges: [h, w, 3] uint8."""
    shown = drawing.in_rgb(image)
    shown[result[_NAME]] = _COLOR
    return shown


register(
    Task(
        name=_NAME,
        summary='Boundaries between classes.',
        outputs=outputs,
        targets=targets,
        losses=losses,
        decode=decode,
        metric=EdgesMetric,
        headline='f',
        files={'edges': ResultFile('.png', as_8_bits)},
        overlay=overlay,
        parameters=(
            Parameter('edge_width', 4, 'Width of the edges between classes, in pixels.', range='[2, inf)'),
            Parameter(
                'edge_tolerance',
                2.0,
                'Distance within which the F-score takes edges for equal, in pixels.',
                range='[0, inf)',
            ),
            Parameter('edge_loss_weight', 1.0, 'Weight of the loss of edges.', range='[0, inf)'),
        ),
        source='arXiv:1504.06375, section 2.2',
    )
)
