"""Logits of image classification: what follows the features of a backbone, as its `Classifier` says."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from deeplab.core import compute_types, dropout, initializers, layers, shapes
from deeplab.options import ModelOptions
from deeplab.registry import BACKBONES


def logits(
    features: tf.Tensor, end_points: Mapping[str, tf.Tensor], options: ModelOptions, num_classes: int
) -> tf.Tensor:
    """Builds the classifier of a network after its backbone.

    The caller's `layers.mode_scope` sets the mode of the layers.

    Args:
      features: [n, h, w, c] of the compute type, from the backbone.
      end_points: the backbone's end points by name.
      options: the network.
      num_classes: number of classes.

    Returns:
      [n, 1, 1, num_classes] float32.
    """
    backbone = BACKBONES.get(options.model_variant)
    classifier = backbone.classifier
    layer: Callable[..., Any] = layers.fully_connected
    if not classifier.is_matrix:
        layer = functools.partial(layers.conv2d, kernel_size=1, normalize=False, bias=classifier.bias)
    with tf.compat.v1.variable_scope(backbone.scope):
        pool = classifier.pool or (lambda features, *others: shapes.spatial_mean(features))
        net = pool(features, end_points, options)  # [n, 1, 1, c]
        net = dropout.dropout(net, classifier.keep_probability, scope=f'{classifier.scope}_dropout')
        net = compute_types.as_type(net, tf.float32)  # shorter types would round nearly equal logits to a tie
        return layer(
            net,
            num_classes,
            scope=classifier.scope,
            activation=None,
            initializer=classifier.initializer() if classifier.initializer else initializers.xavier_uniform,
            **({} if classifier.decays else {'weight_decay': 0.0}),
        )
