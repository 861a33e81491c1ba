"""Flags of the network: backbone, head, decoder."""

from __future__ import annotations

from deeplab import options
from deeplab.cli.links import linked, parameters
from deeplab.cli.words import Flag, Group
from deeplab.registry import BACKBONES, HEADS

_PRESET = Flag(
    'preset',
    'string',
    None,
    'Name of a published checkpoint, such as mobilenetv2_coco_voc_trainaug: sets the flags that this checkpoint needs, '
    'including data set and crop size. Flags given on the command line override it. deeplab presets lists the names. '
    'Not set: no preset.',
    fields=('PredictOptions.preset',),
)


def _model_variant() -> list[Flag]:
    """Returns --model_variant, which names all registered backbones."""
    meaning = f'The backbone: {", ".join(BACKBONES.names())}.'
    return [linked('model_variant', 'ModelOptions.model_variant', meaning, also=('NetworksOptions.variants',))]


NETWORK = Group(
    'Network',
    (
        _PRESET,
        _model_variant,
        linked(
            'output_stride',
            'ModelOptions.output_stride',
            'Ratio of input resolution to that of the last feature map: 8 is finer and slower than 16. When you halve '
            'it, double --atrous_rates.',
            also=('NetworksOptions.output_strides',),
        ),
        linked(
            'depth_multiplier', 'ModelOptions.depth_multiplier', 'Multiplier of the number of channels of a MobileNet.'
        ),
        linked(
            'divisible_by',
            'ModelOptions.divisible_by',
            "Round a MobileNet's numbers of channels to multiples of this. Not set: the network's own rule.",
        ),
        linked(
            'multi_grid',
            'ModelOptions.multi_grid',
            'Multipliers of the atrous rates of the three units in the last block of a ResNet or an Xception.',
            kind='repeated integer',
        ),
        linked(
            'use_bounded_activation',
            'ModelOptions.use_bounded_activation',
            'Use relu6 instead of relu, for 8-bit quantization.',
        ),
        Flag(
            'batch_norm_decay',
            'float',
            0.9997,  # of the original's flag; parts of the network have other decays, so None in the options
            'Decay of the moving averages of every batch norm. If not given, each part keeps its own (0.9997, '
            'MobileNets 0.997, ResNets 0.95). Small data sets and short runs need less, such as 0.99.',
            fields=('ModelOptions.batch_norm_decay',),
        ),
        linked(
            'image_pyramid',
            'ModelOptions.image_pyramid',
            'Scales of the input that the network processes. Not set: 1.0.',
            kind='repeated float',
        ),
        linked(
            'merge_method',
            'ModelOptions.merge_method',
            'How the logits of several --image_pyramid scales are merged: by their maximum or average.',
            choices=options.MERGE_METHODS,
        ),
        Flag(
            'quantize_delay_step',
            'integer',
            -1,  # "never" of the original's flag; None in the options
            'Step from which training imitates 8-bit arithmetic (see docs/quantization.md); the other programs build '
            'the 8-bit network for 0 or more. Negative: never.',
            fields=('ModelOptions.quantize_delay_step',),
        ),
        linked(
            'quantize_per_channel',
            'ModelOptions.quantize_per_channel',
            'With --quantize_delay_step: one range of 8-bit weights for each channel, instead of one for all channels.',
        ),
        linked(
            'nas_stem_output_num_conv_filters',
            'NasOptions.stem_output_filters',
            'Number of channels of the stem of a nas_* network.',
        ),
        linked(
            'nas_remove_os32_stride',
            'NasOptions.remove_os32_stride',
            'Remove the stride from 16 to 32 of a nas_* network.',
        ),
        linked(
            'nas_use_classification_head',
            'NasOptions.use_classification_head',
            'Classification head of a nas_* network; it is not implemented, so this must be false.',
        ),
        parameters('ModelOptions', BACKBONES),
    ),
)
HEAD = Group(
    'Head and decoder',
    (
        linked(
            'atrous_rates',
            'AsppOptions.rates',
            'Rates of the atrous convolutions of ASPP, one flag per rate: 6, 12, 18 at output stride 16, twice that at '
            '8. Not set: no atrous branches.',
            kind='repeated integer',
        ),
        linked('add_image_level_feature', 'AsppOptions.image_level_feature', 'Add the image pooling branch to ASPP.'),
        linked(
            'image_pooling_crop_size',
            'ModelOptions.image_pooling_crop_size',
            'Height and width, in input pixels, over which image pooling averages. Not set: the whole crop.',
            kind='list',
        ),
        linked(
            'image_pooling_stride',
            'ModelOptions.image_pooling_stride',
            'Vertical and horizontal stride of image pooling.',
            kind='list',
        ),
        linked(
            'aspp_convs_filters', 'AsppOptions.filters', 'Number of channels of each ASPP branch and of the projection.'
        ),
        linked(
            'aspp_with_batch_norm',
            'AsppOptions.with_batch_norm',
            'Build ASPP; false: the logits are computed from the features of the backbone.',
        ),
        linked(
            'aspp_with_separable_conv',
            'AsppOptions.with_separable_conv',
            'Use depthwise separable convolutions in the atrous branches.',
        ),
        linked(
            'aspp_with_concat_projection',
            'AsppOptions.with_concat_projection',
            'Project the concatenated branches by a 1x1 convolution.',
        ),
        linked(
            'aspp_with_squeeze_and_excitation',
            'AsppOptions.with_squeeze_and_excitation',
            'Multiply the other branches by the image-level feature (squeeze and excitation) instead of concatenating '
            'it.',
        ),
        linked(
            'image_se_uses_qsigmoid',
            'AsppOptions.image_se_uses_qsigmoid',
            'Use the piecewise linear sigmoid for squeeze and excitation.',
        ),
        Flag(
            'dense_prediction_cell_json',
            'string',
            '',  # "none" of the original's flag; None in the options
            'JSON file of a dense prediction cell, which replaces ASPP.',
            fields=('ModelOptions.dense_prediction_cell_json',),
            is_path=True,
        ),
        parameters('ModelOptions', HEADS),
        linked(
            'decoder_output_stride',
            'DecoderOptions.output_strides',
            'Output strides at which the decoder adds low-level features: 4, or several in descending order. Not set: '
            'no decoder.',
            kind='list',
        ),
        linked('decoder_filters', 'DecoderOptions.filters', 'Number of channels of the decoder convolutions.'),
        linked(
            'decoder_use_separable_conv',
            'DecoderOptions.use_separable_conv',
            'Use depthwise separable convolutions in the decoder.',
        ),
        linked(
            'decoder_use_sum_merge',
            'DecoderOptions.use_sum_merge',
            'Add the low-level features instead of concatenating them.',
        ),
        linked(
            'decoder_output_is_logits',
            'DecoderOptions.output_is_logits',
            'Use the output of the decoder as logits; --decoder_filters, if given, must be the number of classes.',
        ),
        linked(
            'logits_kernel_size',
            'ModelOptions.logits_kernel_size',
            'Kernel size of the last convolution; values other than 1 need --noaspp_with_batch_norm.',
        ),
        linked(
            'prediction_with_upsampled_logits',
            'ModelOptions.prediction_with_upsampled_logits',
            'Upsample the logits before argmax; false: upsample the predicted labels, which is faster.',
        ),
    ),
)
