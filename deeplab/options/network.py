"""Options of the network: backbone, ASPP, decoder, NAS networks."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from deeplab import common
from deeplab.options.fields import Options, PathText, declared
from deeplab.options.parameters import OptionsWithSettings, Settings
from deeplab.options.rules import require
from deeplab.registry.networks import BACKBONES, HEADS
from deeplab.registry.preprocessings import PREPROCESSINGS
from deeplab.registry.tasks import SEMANTIC, TASKS
from deeplab.wording import option

OUTPUT_STRIDES = (4, 8, 16, 32)


@dataclasses.dataclass(frozen=True)
class AsppOptions(Options):
    """Atrous spatial pyramid pooling (arXiv:1706.05587, section 3.3)."""

    rates: tuple[int, ...] = declared(
        (),
        'Rates of the atrous convolutions of ASPP, one flag per rate: 6, 12, 18 at output stride 16, twice these at '
        '8. Not set: no atrous branches.',
        flag='atrous_rates',
        range='(0, inf)',
    )
    filters: int = declared(
        256,
        'Number of channels of each ASPP branch and of the projection.',
        flag='aspp_convs_filters',
        range='(0, inf)',
    )
    image_level_feature: bool = declared(True, 'Add the image pooling branch to ASPP.', flag='add_image_level_feature')
    with_batch_norm: bool = declared(
        True,
        'Build ASPP; false: the logits are computed from the features of the backbone.',
        flag='aspp_with_batch_norm',
    )
    with_concat_projection: bool = declared(
        True,
        'Project the concatenated branches with a 1x1 convolution.',
        flag='aspp_with_concat_projection',
    )
    with_separable_conv: bool = declared(
        True,
        'Use depthwise separable convolutions in the atrous branches.',
        flag='aspp_with_separable_conv',
    )
    with_squeeze_and_excitation: bool = declared(
        False,
        'Multiply the other branches by the image-level feature (squeeze and excitation) instead of concatenating it.',
        flag='aspp_with_squeeze_and_excitation',
    )
    image_se_uses_qsigmoid: bool = declared(False, 'Use the piecewise linear sigmoid for squeeze and excitation.')


@dataclasses.dataclass(frozen=True)
class DecoderOptions(Options):
    """The decoder (arXiv:1802.02611, section 3.1)."""

    output_strides: tuple[int, ...] = declared(
        (),
        'Output strides at which the decoder adds low-level features: 4, or several in descending order, such as 8,2. '
        'Not set: no decoder.',
        flag='decoder_output_stride',
        kind='list',
        range='(0, inf)',
    )
    filters: int = declared(
        256,
        'Number of channels of the decoder convolutions.',
        flag='decoder_filters',
        range='(0, inf)',
    )
    use_separable_conv: bool = declared(
        True,
        'Use depthwise separable convolutions in the decoder.',
        flag='decoder_use_separable_conv',
    )
    use_sum_merge: bool = declared(
        False,
        'Add the low-level features instead of concatenating them.',
        flag='decoder_use_sum_merge',
    )
    output_is_logits: bool = declared(
        False,
        'Use the output of the decoder as logits; {filters}, if given, must be the number of classes.',
        flag='decoder_output_is_logits',
        needs=('output_strides',),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        descend = all(a > b for a, b in itertools.pairwise(self.output_strides))
        self._require(descend, 'output_strides', 'several strides must descend, such as 8,4')


@dataclasses.dataclass(frozen=True)
class NasOptions(Options):
    """Options of the networks found by neural architecture search (NAS)."""

    stem_output_filters: int = declared(
        20,
        'Number of channels in the stem of a nas_* network.',
        flag='nas_stem_output_num_conv_filters',
        range='(0, inf)',
    )
    remove_os32_stride: bool = declared(
        False,
        'Keep output stride 16 instead of reducing the resolution to 32 in a nas_* network.',
        flag='nas_remove_os32_stride',
    )
    use_classification_head: bool = declared(
        False,
        'Classification head of a nas_* network; it is not implemented, so this must be false.',
        flag='nas_use_classification_head',
    )
    drop_path_keep_prob: float = declared(
        1.0,
        'Probability that a nas_* network keeps a path during training with {TrainOptions.fine_tune_batch_norm}.',
        range='(0, 1]',
    )
    total_training_steps: int | None = declared(
        None,
        'Steps over which the drop probability rises linearly. Not set: it is constant.',
        range='(0, inf)',
        with_flag_of='TrainOptions.number_of_steps',
    )


@dataclasses.dataclass(frozen=True)
class ModelOptions(OptionsWithSettings, registries=(BACKBONES, HEADS, TASKS)):
    """One network: backbone, head, decoder and logits.

    `settings` has the parameters of all backbones, heads and tasks.

    Attributes:
      outputs_to_num_classes: number of classes of each output (`{'semantic': 21}`).
    """

    outputs_to_num_classes: Mapping[str, int]
    crop_size: tuple[int, int] | None = declared(
        None,
        'Height and width of the input, in pixels. Not set: known only at run time.',
        flag=None,
    )
    model_variant: str = declared('mobilenet_v2', lambda: f'The backbone: {", ".join(BACKBONES.names())}.')
    task: str = declared(
        'semantic',
        lambda: (
            f'What the network predicts: {TASKS.summaries().rstrip(".")}; or several tasks, joined by +, such as '
            'semantic+depth. --task=NAME is the same.'
        ),
        flag='network_task',
    )
    output_stride: int = declared(
        16,
        'Ratio of the input resolution to the resolution of the last feature map: 8 is finer and slower than 16. When '
        'you halve it, double {AsppOptions.rates}.',
    )
    depth_multiplier: float = declared(
        1.0,
        'Multiplier for the number of channels in the layers of a MobileNet, ResNet or Xception.',
        range='(0, inf)',
    )
    divisible_by: int | None = declared(
        None,
        "Round the numbers of channels in a MobileNet to multiples of this. Not set: the network's own rule.",
        range='(0, inf)',
    )
    multi_grid: tuple[int, ...] | None = declared(
        None,
        'Multipliers for the atrous rates of the three units in the last block of a ResNet or Xception.',
    )
    image_pooling_crop_size: tuple[int, int] | None = declared(
        None,
        'Height and width, in input pixels, over which image pooling averages. Not set: the whole crop.',
    )
    image_pooling_stride: tuple[int, int] = declared((1, 1), 'Vertical and horizontal stride of image pooling.')
    image_pyramid: tuple[float, ...] | None = declared(
        None,
        'Scales of the input that the network processes. Not set: 1.0.',
        range='(0, inf)',
    )
    merge_method: str = declared(
        'max',
        'How the logits of several {image_pyramid} scales are merged: by their maximum or average.',
        choices=('max', 'avg'),
    )
    prediction_with_upsampled_logits: bool = declared(
        True,
        'Upsample the logits before argmax; false: upsample the predicted labels, which is faster.',
    )
    logits_kernel_size: int = declared(
        1,
        'Kernel size of the last convolution; values other than 1 need {AsppOptions.with_batch_norm=false}.',
        range='(0, inf)',
    )
    use_bounded_activation: bool = declared(
        False, 'Use relu6 instead of relu in ASPP, the decoder and Xception, for 8-bit quantization.'
    )
    dense_prediction_cell_json: PathText | None = declared(
        None,
        'JSON file of a dense prediction cell, which replaces ASPP.',
        flag_default='',
    )
    batch_norm_decay: float | None = declared(
        None,
        'Decay of the moving averages of every batch norm. If not given, each part keeps its own (0.9997, MobileNets '
        '0.997, ResNets 0.95 or, as classifiers, 0.997). Small data sets and short runs need less, such as 0.99.',
        flag_default=0.9997,
        range='[0, 1)',
    )
    quantize_delay_step: int | None = declared(
        None,
        'Step from which training uses fake quantization to 8 bits (see docs/quantization.md); other programs build '
        'the 8-bit network if this is 0 or more. Negative: never.',
        flag_default=-1,
        unset='(-inf, 0)',
    )
    quantize_per_channel: bool = declared(
        False,
        'With {quantize_delay_step}: one range of 8-bit weights per channel, instead of one for all channels.',
    )
    input_channels: int = declared(
        3,
        'Number of channels of the images that the network was trained on.',
        flag=None,
        range='(0, inf)',
    )
    aspp: AsppOptions = AsppOptions()
    decoder: DecoderOptions = DecoderOptions()
    nas: NasOptions = NasOptions()
    settings: Settings = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.is_per_image:
            self._follow_backbone()
        for output, classes in self.outputs_to_num_classes.items():
            require(
                classes > 0,
                'ModelOptions.outputs_to_num_classes',
                classes,
                f"output '{output}' needs at least one class",
            )
        self._require(
            self.output_stride in OUTPUT_STRIDES,
            'output_stride',
            f'it must be one of {", ".join(str(stride) for stride in OUTPUT_STRIDES)}',
        )
        self._require(
            self.logits_kernel_size == 1 or not self.aspp.with_batch_norm,
            'logits_kernel_size',
            f'it must be 1 with {option("AsppOptions.with_batch_norm", True)}',
        )
        self._require(
            not self.quantize_per_channel or self.quantize_delay_step is not None,
            'quantize_per_channel',
            f'it is about 8-bit weights; also set {option("ModelOptions.quantize_delay_step", 0)}, or omit it',
        )

    def _follow_backbone(self) -> None:
        """Sets what follows from the backbone and the task in a network with a vector for each image."""
        backbone = BACKBONES.get(self.model_variant)
        side = self.train_image_size or backbone.classifier.image_size
        preprocessing = PREPROCESSINGS.get(self.preprocessing_name or backbone.classifier.preprocessing).name
        # Stored, so that a checkpoint and an export keep them.
        chosen = {**dict(self.settings), 'train_image_size': side, 'preprocessing_name': preprocessing}
        object.__setattr__(self, 'settings', tuple(sorted(chosen.items())))
        object.__setattr__(self, 'crop_size', (side, side))
        object.__setattr__(self, 'output_stride', max(backbone.output_strides))

    @property
    def is_semantic(self) -> bool:
        """Whether the network predicts classes of pixels and nothing else."""
        return self.task == SEMANTIC

    @property
    def is_per_image(self) -> bool:
        """Whether the network predicts a vector for each image; crop size and output stride then follow from others."""
        return not self.is_semantic and TASKS.is_per_image(self)

    @property
    def classifier_scopes(self) -> tuple[str, ...]:
        """Scope of the last layer of a network with a vector for each image; nothing for other networks."""
        if not self.is_per_image:
            return ()
        backbone = BACKBONES.get(self.model_variant)
        return (f'{backbone.scope}/{backbone.classifier.scope}',)

    @property
    def num_classes(self) -> int:
        """Number of classes of the semantic output."""
        return self.outputs_to_num_classes[common.OUTPUT_TYPE]


def rates_at(rates: Sequence[int], trained_stride: int, output_stride: int) -> tuple[int, ...]:
    """Returns the atrous rates that see the same pixels at another output stride (arXiv:1706.05587, section 3.3)."""
    return tuple(max(1, rate * trained_stride // output_stride) for rate in rates)


def rates_note(rates: Sequence[int], trained_stride: int, output_stride: int) -> str:
    """Returns a warning if a network keeps the atrous rates of another output stride; empty if it does not."""
    if not rates or output_stride == trained_stride:
        return ''
    shown, expected = ', '.join(map(str, rates)), rates_at(rates, trained_stride, output_stride)
    return (
        f'The network was trained at output stride {trained_stride} with the atrous rates {shown}, which see other '
        f'pixels at output stride {output_stride}. For the same field of view, use '
        f'{option("AsppOptions.rates", expected)}.'
    )
