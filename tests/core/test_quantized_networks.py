"""Every backbone family, head and decoder with fake quantization.

MobileNetV2 is in tests/parity/test_quantization.py.
"""

import numpy as np
import pytest
import tensorflow as tf

from deeplab import common, model
from deeplab.core.heads import dense_prediction_cell
from deeplab.model import Mode
from deeplab.options import AsppOptions, DecoderOptions, ModelOptions, NasOptions
from tests.helpers import given_weights

pytestmark = pytest.mark.usefixtures('tiny_network')

SMALL_ASPP = {'filters': 8}
SLOW = pytest.mark.slow
LONG = pytest.mark.long


def _case(name, *marks, **options):
    return pytest.param(options, id=name, marks=marks)


@pytest.mark.parametrize(
    'changes',
    [
        _case('heads', aspp=AsppOptions((2, 3), with_separable_conv=False, **SMALL_ASPP)),
        _case('plain', aspp=AsppOptions((2, 3), with_batch_norm=False), logits_kernel_size=3),
        _case('gated', aspp=AsppOptions(with_squeeze_and_excitation=True, **SMALL_ASPP)),
        _case('cell', dense_prediction_cell_json=dense_prediction_cell.PUBLISHED_CELL),
        _case(
            'mobilenet_v3 with decoder',
            SLOW,
            model_variant='mobilenet_v3_small_seg',
            decoder=DecoderOptions((8, 4), 8),
            aspp=AsppOptions((2,), **SMALL_ASPP),
        ),
        _case(
            'mobilenet_v3 with summing decoder',
            LONG,
            model_variant='mobilenet_v3_large_seg',
            decoder=DecoderOptions((8, 4), 3, use_sum_merge=True, output_is_logits=True),
        ),
        _case('mobilenet_edgetpu', LONG, model_variant='mobilenet_edgetpu'),
        _case('resnet', SLOW, model_variant='resnet_v1_18_beta'),
        _case('xception', SLOW, model_variant='xception_41'),
        _case('bounded xception', LONG, model_variant='xception_41', use_bounded_activation=True),
        _case('nas_pnasnet', SLOW, model_variant='nas_pnasnet', nas=NasOptions(4)),
        _case('nas_hnasnet', LONG, model_variant='nas_hnasnet', nas=NasOptions(4), output_stride=8),
    ],
)
def test_every_convolution_has_rounded_weights(changes):
    """Batch norms are part of them; and the network computes about what it computes in float32."""
    known = {'model_variant': 'tiny', 'crop_size': (65, 65), 'aspp': AsppOptions(**SMALL_ASPP), **changes}
    options = ModelOptions({common.OUTPUT_TYPE: 3}, quantize_delay_step=0, **known)
    with given_weights.network() as network:
        images = tf.compat.v1.placeholder(tf.float32, [1, 65, 65, 3])
        outputs = model.multi_scale_logits(images, options, mode=Mode(native_dilation=False))
    operations = network.graph.get_operations()
    convolutions = [op for op in operations if op.type in ('Conv2D', 'DepthwiseConv2dNative')]
    assert convolutions
    assert {op.inputs[1].op.type for op in convolutions} == {'FakeQuantWithMinMaxVars'}
    assert not [op.name for op in operations if op.type.startswith('FusedBatchNorm')]
    ranges = [op.inputs[1].op.name for op in operations if op.type == 'FakeQuantWithMinMaxVars']
    assert len(set(ranges)) == len(ranges)  # each place has its own
    assert outputs[common.OUTPUT_TYPE][common.MERGED_LOGITS].shape[-1] == 3


@pytest.mark.parametrize('gated', [False, True], ids=['plain', 'gated'])
def test_wide_ranges_change_little(gated):
    """With ranges that hold all values, logits in 8 bits are close to those in float32.

    Gates have an activation that no integer convolution includes.
    """
    logits = {}
    for step in (None, 0):
        options = ModelOptions(
            {common.OUTPUT_TYPE: 3},
            crop_size=(33, 33),
            model_variant='tiny',
            aspp=AsppOptions(filters=8, with_squeeze_and_excitation=gated),
            quantize_delay_step=step,
        )
        with given_weights.network() as network:
            images = tf.compat.v1.placeholder(tf.float32, [1, 33, 33, 3])
            outputs = model.multi_scale_logits(images, options)[common.OUTPUT_TYPE][common.MERGED_LOGITS]

        def value(name, shape):
            if name.endswith('/min'):
                return np.float32(-3)
            return np.float32(3) if name.endswith('/max') else given_weights.some_value(name, shape, 0.5)

        image = np.random.RandomState(0).uniform(-1, 1, [1, 33, 33, 3])
        logits[step] = network.run(outputs, {images: image}, value)
    difference = np.abs(logits[0] - logits[None]).mean()
    assert 0 < difference < 0.2 * logits[None].std()
