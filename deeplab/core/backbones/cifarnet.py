"""CifarNet, a small classifier for CIFAR-10, as TF-Slim builds it: two convolutions and three fully connected layers.

Source: Krizhevsky et al., "ImageNet classification with deep convolutional neural networks" (2012), section 3.3 (local
response normalization); layers: TF-Slim.
"""

from __future__ import annotations

import functools

from deeplab.core.lazy import dropout, initializers, layers, tf
from deeplab.options import ModelOptions
from deeplab.registry import Backbone, Classifier, register

SCOPE = 'CifarNet'
FILTERS = 64
KEEP_PROBABILITY = 0.5


def _normalized(features: tf.Tensor, name: str) -> tf.Tensor:
    """Divides each value by a power of the squares' sum over nine channels: [n, h, w, c]."""
    net = tf.nn.lrn(tf.cast(features, tf.float32), depth_radius=4, bias=1.0, alpha=0.001 / 9, beta=0.75, name=name)
    return layers.fake_quantized(tf.cast(net, features.dtype), name)


def build(images: tf.Tensor, options: ModelOptions) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Builds two convolutions with max pooling and local response normalization.

    The convolutions have no weight decay, the first two fully connected layers have it.

    Args:
      images: [n, h, w, input_channels] float, normalized; the network computes in their type.
      options: nothing of them is read.

    Returns:
      Features [n, h // 4, w // 4, 64], and end points `conv1`, `pool1`, `conv2` and `pool2`.
    """
    del options
    conv = functools.partial(
        layers.conv2d, normalize=False, initializer=initializers.truncated_normal(0.05), weight_decay=0.0
    )
    end_points = {}
    with tf.compat.v1.variable_scope(SCOPE):
        end_points['conv1'] = net = conv(images, FILTERS, 5, scope='conv1')
        end_points['pool1'] = net = tf.nn.max_pool2d(net, 2, 2, 'VALID', name='pool1')  # [n, h // 2, w // 2, 64]
        end_points['conv2'] = net = conv(_normalized(net, 'norm1'), FILTERS, 5, scope='conv2')
        net = tf.nn.max_pool2d(_normalized(net, 'norm2'), 2, 2, 'VALID', name='pool2')  # [n, h // 4, w // 4, 64]
        end_points['pool2'] = net
    return net, end_points


def _pool(features: tf.Tensor, end_points: dict[str, tf.Tensor], options: ModelOptions) -> tf.Tensor:
    """Builds two fully connected layers with dropout between them: [n, h, w, 64] to [n, 1, 1, 192]."""
    del end_points, options
    dense = functools.partial(layers.fully_connected, initializer=initializers.truncated_normal(0.04), bias=0.1)
    net = dense(features, 384, scope='fc3')  # [n, 1, 1, 384]
    net = dropout.dropout(net, KEEP_PROBABILITY, scope='fc3_dropout')
    return dense(net, 192, scope='fc4')


register(
    Backbone(
        name='cifarnet',
        summary='CifarNet, for images of 32x32 such as CIFAR-10.',
        build=build,
        scope=SCOPE,
        output_strides=(4,),
        has_batch_norm=False,
        classifier=Classifier(
            preprocessing='cifarnet',
            image_size=32,
            pool=_pool,
            initializer=lambda: initializers.truncated_normal(1 / 192),
            is_matrix=True,
            decays=False,
        ),
        source='Krizhevsky et al. (2012), section 3.3; TF-Slim',
    )
)
