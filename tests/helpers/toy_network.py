"""A backbone of three convolutions with skips at every stride, for tests of heads, decoder and whole networks."""

from deeplab.core import layers
from deeplab.registry import Backbone


def _build(images, options):
    is_dense = options.output_stride == 8
    stride_4 = layers.conv2d(images, 8, 3, stride=4, scope='toy/conv1')  # [n, h / 4, w / 4, 8]
    stride_8 = layers.conv2d(stride_4, 8, 3, stride=2, scope='toy/conv2')  # [n, h / 8, w / 8, 8]
    stride, rate = (1, 2) if is_dense else (2, 1)
    net = layers.conv2d(stride_8, 8, 3, stride=stride, rate=rate, scope='toy/conv3')  # [n, h / stride, w / stride, 8]
    return net, {'toy/stride_4': stride_4, 'toy/stride_8': stride_8, 'toy/stride_16': net}


TOY = Backbone(
    name='toy',
    build=_build,
    scope='toy',
    decoder_end_points={stride: f'toy/stride_{stride}' for stride in (4, 8, 16)},
    output_strides=(8, 16),
)
