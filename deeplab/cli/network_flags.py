"""Flags of the network: backbone, head, decoder."""

from __future__ import annotations

from deeplab import options
from deeplab.cli.words import (
    Flag,
    Group,
)

_PRESET = Flag(
    'preset',
    'string',
    None,
    'A published checkpoint, such as mobilenetv2_coco_voc_trainaug: sets the flags that it needs, data set and crop '
    'included. A flag that stands on the line wins. deeplab presets lists them. Not set: none.',
)
NETWORK = Group(
    'Network',
    (
        _PRESET,
        Flag(
            'model_variant',
            'string',
            'mobilenet_v2',
            'The backbone, such as mobilenet_v2, xception_41, xception_65 or xception_71.',
        ),
        Flag(
            'output_stride',
            'integer',
            16,
            'Input pixels to one step of the last feature map: 8 is finer and slower than 16. Double --atrous_rates '
            'when you halve it.',
        ),
        Flag('depth_multiplier', 'float', 1.0, 'Factor on the number of channels of a MobileNet.'),
        Flag(
            'divisible_by',
            'integer',
            None,
            "Round a MobileNet's channels to multiples of this; not set: the network's own rule.",
        ),
        Flag(
            'multi_grid',
            'repeated integer',
            None,
            "Factors on the atrous rates of the units in a ResNet's or an Xception's last block, three of them.",
        ),
        Flag('use_bounded_activation', 'boolean', False, 'Use relu6 instead of relu, which suits 8-bit inference.'),
        Flag(
            'batch_norm_decay',
            'float',
            0.9997,
            'How slowly the moving averages of every batch norm follow. When it is not given each part keeps its '
            'own (0.9997, MobileNets 0.997, ResNets 0.95); small data and short runs want less, such as 0.99.',
        ),
        Flag('image_pyramid', 'repeated float', None, 'Scales at which the network sees each input; not set: 1.0.'),
        Flag(
            'merge_method',
            'enum',
            'max',
            'How the logits of several --image_pyramid scales become one.',
            options.MERGE_METHODS,
        ),
        Flag(
            'quantize_delay_step',
            'integer',
            -1,
            'Step at which training starts to imitate 8-bit arithmetic; negative: never.',
        ),
        Flag('nas_stem_output_num_conv_filters', 'integer', 20, 'Channels of the stem of a nas_* network.'),
        Flag('nas_remove_os32_stride', 'boolean', False, 'Leave out the stride from 16 to 32 in a nas_* network.'),
        Flag('nas_use_classification_head', 'boolean', False, "Keep a nas_* network's head for classification."),
    ),
)
HEAD = Group(
    'Head and decoder',
    (
        Flag(
            'atrous_rates',
            'repeated integer',
            None,
            'Rates of the atrous branches (ASPP), the flag once for each: 6, 12, 18 at output stride 16, twice as '
            'much at 8. Not set: no such branch.',
        ),
        Flag('add_image_level_feature', 'boolean', True, 'Add the branch that averages over the whole image.'),
        Flag(
            'image_pooling_crop_size',
            'list',
            None,
            'Height and width over which that branch averages; not set: the whole crop.',
        ),
        Flag('image_pooling_stride', 'list', ['1', '1'], 'Vertical and horizontal stride of that average.'),
        Flag('aspp_convs_filters', 'integer', 256, 'Channels of every branch and of their projection.'),
        Flag('aspp_with_batch_norm', 'boolean', True, 'Have an ASPP; without it the logits read the backbone.'),
        Flag('aspp_with_separable_conv', 'boolean', True, 'Make the atrous branches depthwise separable.'),
        Flag('aspp_with_concat_projection', 'boolean', True, 'Project the joined branches by a 1x1 convolution.'),
        Flag(
            'aspp_with_squeeze_and_excitation',
            'boolean',
            False,
            'Let the image-level branch gate the others instead of joining them.',
        ),
        Flag('image_se_uses_qsigmoid', 'boolean', False, 'That gate is the piecewise linear sigmoid.'),
        Flag(
            'dense_prediction_cell_json',
            'string',
            '',
            'Use the searched head that this JSON file describes instead of ASPP.',
        ),
        Flag(
            'decoder_output_stride',
            'list',
            None,
            'Strides at which the decoder takes in finer features: 4, or several, descending. Not set: no decoder.',
        ),
        Flag('decoder_filters', 'integer', 256, "Channels of the decoder's convolutions."),
        Flag('decoder_use_separable_conv', 'boolean', True, 'Make those convolutions depthwise separable.'),
        Flag('decoder_use_sum_merge', 'boolean', False, 'Add the finer features instead of concatenating them.'),
        Flag(
            'decoder_output_is_logits',
            'boolean',
            False,
            "Take the decoder's output as the logits; --decoder_filters must then be the number of classes.",
        ),
        Flag('logits_kernel_size', 'integer', 1, 'Kernel of the last convolution; not 1 only without ASPP.'),
        Flag(
            'prediction_with_upsampled_logits',
            'boolean',
            True,
            'Enlarge the logits before a class is chosen; false: enlarge the classes, which is faster.',
        ),
    ),
)
