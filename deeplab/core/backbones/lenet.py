"""LeNet, a small classifier of digits, as TF-Slim builds it: two convolutions and two fully connected layers.

Source: LeCun et al., "Gradient-based learning applied to document recognition" (1998), section II.B; sizes: TF-Slim.
"""

from __future__ import annotations

from deeplab.core.lazy import initializers, layers, tf
from deeplab.options import ModelOptions
from deeplab.registry import Backbone, Classifier, Normalization, register

SCOPE = 'LeNet'
FILTERS = (32, 64)


def _initializer() -> initializers.Initializer:
    return initializers.truncated_normal(0.1)


def build(images: tf.Tensor, options: ModelOptions) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Builds two convolutions with max pooling.

    Args:
      images: [n, h, w, input_channels] float, normalized; the network computes in their type.
      options: nothing of them is read.

    Returns:
      Features [n, h // 4, w // 4, 64], and end points `conv1`, `pool1`, `conv2` and `pool2`.
    """
    del options
    net, end_points = images, {}
    with tf.compat.v1.variable_scope(SCOPE):
        for i, filters in enumerate(FILTERS, start=1):
            net = layers.conv2d(net, filters, 5, normalize=False, initializer=_initializer(), scope=f'conv{i}')
            end_points[f'conv{i}'] = net
            net = tf.nn.max_pool2d(net, 2, 2, 'VALID', name=f'pool{i}')  # [n, h // 2, w // 2, filters]
            end_points[f'pool{i}'] = net
    return net, end_points


def _pool(features: tf.Tensor, end_points: dict[str, tf.Tensor], options: ModelOptions) -> tf.Tensor:
    """Builds the first fully connected layer: [n, h, w, 64] to [n, 1, 1, 1024]."""
    del end_points, options
    return layers.fully_connected(features, 1024, initializer=_initializer(), scope='fc3')


register(
    Backbone(
        name='lenet',
        summary='LeNet, for images of 28x28 such as MNIST.',
        build=build,
        scope=SCOPE,
        normalization=Normalization(scale=1 / 128, offset=(1.0, 1.0, 1.0)),
        output_strides=(4,),
        has_batch_norm=False,
        classifier=Classifier(
            pool=_pool,
            keep_probability=0.5,
            scope='fc4',
            initializer=_initializer,
            is_matrix=True,
            preprocessing='lenet',
            image_size=28,
        ),
        source='LeCun et al. (1998), section II.B; TF-Slim',
    )
)
