"""The DeepLab network: backbone, head, decoder, logits at one or several scales, and predictions.

Everything here builds a graph. Variables are shared by name: a second call in one graph (for another clone or another
scale) reuses them.

Source: arXiv:1802.02611 (DeepLabv3+), figure 2; arXiv:1706.05587 (DeepLabv3).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from absl import logging

from deeplab import common
from deeplab.core import (
    classifier,
    compute_types,
    decoder,
    feature_extractor,
    initializers,
    layers,
    quantization,
    shapes,
    summation,
)
from deeplab.core.densify import warn_of_wide_rates
from deeplab.errors import OptionError
from deeplab.options import ModelOptions, NasOptions
from deeplab.registry import BACKBONES, HEADS, SHARED_OPTIONS, TASKS, Backbone, Branch, Head, Output
from deeplab.wording import option

# Logits by scale ('logits_0.50', ..., 'merged_logits').
ScaleLogits = dict[str, tf.Tensor]


def check_options(options: ModelOptions) -> None:
    """Checks the options against the registered backbones and heads.

    Raises:
      OptionError: unknown variant, a stride that it does not support, or a feature that is not implemented.
    """
    backbone = BACKBONES.chosen(options)
    head = HEADS.chosen(options)
    _check_quantization(options)
    _check_logits_of_decoder(options)
    _check_tasks(options, backbone)
    _warn_of_no_effect(options, backbone, head)
    warn_of_wide_rates(options.aspp.rates, options, 'AsppOptions.rates')


# Options of searched networks that a user may set; total_training_steps follows from the training.
_NAS_FIELDS = ('stem_output_filters', 'remove_os32_stride', 'use_classification_head', 'drop_path_keep_prob')


def _check_quantization(options: ModelOptions) -> None:
    """Raises OptionError if a network with fake quantization has several scales, which would share their ranges."""
    if options.quantize_delay_step is not None and len(options.image_pyramid or (1.0,)) > 1:
        raise OptionError(
            f'{option("ModelOptions.quantize_delay_step", options.quantize_delay_step)} needs one scale, not '
            f'{option("ModelOptions.image_pyramid", options.image_pyramid)}: an 8-bit network has one range for each '
            f'tensor. Omit {option("ModelOptions.image_pyramid")}.'
        )


def _check_logits_of_decoder(options: ModelOptions) -> None:
    """Raises OptionError if the decoder's output is used as logits but its channels are not the classes."""
    filters = options.decoder.filters
    for output, classes in options.outputs_to_num_classes.items():
        if options.decoder.output_is_logits and classes != filters:
            raise OptionError(
                f"{option('DecoderOptions.output_is_logits', True)} needs one decoder filter per class, but '{output}' "
                f'has {classes} classes and {option("DecoderOptions.filters", filters)}. '
                f'Set {option("DecoderOptions.filters", classes)}.'
            )


def _check_tasks(options: ModelOptions, backbone: Backbone) -> None:
    """Raises `OptionError` if the network cannot have the outputs of its tasks."""
    branches = [output.branch for output in TASKS.outputs(options) if output.branch is not None]
    if options.is_semantic:
        return
    task = option('ModelOptions.task', options.task)
    for stride, _ in (stage for branch in branches for stage in branch.skip_filters):
        if stride not in backbone.decoder_end_points:
            raise OptionError(
                f'{task} needs low-level features at stride {stride}, which {backbone.name} does not have. Choose '
                f'another {option("ModelOptions.model_variant")}.'
            )
    for name, is_set, reason in (
        ('ModelOptions.image_pyramid', tuple(options.image_pyramid or (1.0,)) != (1.0,), 'its outputs have one scale'),
        ('DecoderOptions.output_is_logits', options.decoder.output_is_logits, 'each output has a layer of its own'),
        (
            'ModelOptions.quantize_delay_step',
            options.quantize_delay_step is not None and not options.is_per_image,
            'it trains in floats',
        ),
    ):
        if is_set:
            raise OptionError(f'{task} cannot be combined with {option(name)}: {reason}. Omit {option(name)}.')


def _warn_of_no_effect(options: ModelOptions, backbone: Backbone, head: Head) -> None:
    """Warns of options that neither backbone nor head reads."""
    unused = []
    for name in SHARED_OPTIONS:
        if name not in backbone.reads and name != 'nas' and getattr(options, name) != getattr(ModelOptions, name):
            unused.append(option(f'ModelOptions.{name}', getattr(options, name)))
    for name in _NAS_FIELDS:
        if 'nas' not in backbone.reads and getattr(options.nas, name) != getattr(NasOptions, name):
            unused.append(option(f'NasOptions.{name}', getattr(options.nas, name)))
    read = {parameter.name for record in (backbone, head, *TASKS.chosen(options)) for parameter in record.parameters}
    settings = dict(options.settings).items()
    unread = [option(f'ModelOptions.{name}', value) for name, value in settings if name not in read]
    if unused or unread:
        network = f'{backbone.name} with the head {head.name}' if unread else backbone.name
        network += '' if options.is_semantic else f' and the task {options.task}'
        logging.log_first_n(logging.WARNING, '%s has no effect on %s.', 1, ', '.join(unused + unread), network)


def extract_features(images: tf.Tensor, options: ModelOptions) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Builds backbone and head.

    The caller's `layers.mode_scope` sets the mode of the layers.

    Args:
      images: [n, h, w, input_channels] float32, 0 to 255.
      options: the network.

    Returns:
      [n, h / output_stride, w / output_stride, channels] of the compute type, and the backbone's end points.
    """
    features, end_points = feature_extractor.extract_features(images, options)
    return HEADS.chosen(options).build(features, options), end_points


def _last_layer(features: tf.Tensor, described: Output, options: ModelOptions) -> tf.Tensor:
    """Builds the last layer of one output: [n, h, w, channels]."""
    output = described.name
    if described.filters is not None:
        with layers.head_scope(options), tf.compat.v1.variable_scope(common.LOGITS_SCOPE):
            features = layers.separable_conv2d(features, described.filters, 5, scope=f'{output}_features')
    features = compute_types.as_type(features, tf.float32)  # shorter types would round nearly equal logits to a tie
    with tf.compat.v1.variable_scope(common.LOGITS_SCOPE):
        branches = []
        for i, rate in enumerate(HEADS.chosen(options).logits_rates(options)):
            branches.append(
                layers.conv2d(
                    features,
                    described.channels,
                    options.logits_kernel_size,
                    rate=rate,
                    normalize=False,
                    activation=None,
                    initializer=initializers.truncated_normal(0.01),
                    scope=f'{output}_{i}' if i else output,
                )
            )
        logits = summation.in_order(branches)
        return layers.fake_quantized(logits, f'{output}_{quantization.ADDITION}') if len(branches) > 1 else logits


def _single_scale_logits(images: tf.Tensor, options: ModelOptions) -> dict[str, tf.Tensor]:
    """Builds the logits by output for one scale, at the network's own resolution, float32."""
    outputs = TASKS.outputs(options)
    backbone_features, end_points = feature_extractor.extract_features(images, options)
    if options.is_per_image:
        (output,) = outputs
        return {output.name: classifier.logits(backbone_features, end_points, options, output.channels)}
    decoded: dict[Branch | None, tf.Tensor] = {
        branch: _decoded(backbone_features, end_points, options, branch, shapes.spatial_size(images))
        for branch in dict.fromkeys(output.branch for output in outputs)
    }
    if options.decoder.output_is_logits:
        features = compute_types.as_type(decoded[None], tf.float32)
        return {output.name: features for output in outputs}
    return {output.name: _last_layer(decoded[output.branch], output, options) for output in outputs}


def _decoded(
    features: tf.Tensor,
    end_points: Mapping[str, tf.Tensor],
    options: ModelOptions,
    branch: Branch | None,
    image_size: decoder.Size,
) -> tf.Tensor:
    """Builds the network's head and decoder on the backbone's features, or the head and decoder of a branch."""
    head = HEADS.chosen(options)
    if branch is None:
        return decoder.build(head.build(features, options), end_points, options, image_size=image_size)
    with tf.compat.v1.variable_scope(branch.scope):
        features = features if branch.build is not None else head.build(features, options)
        return decoder.build_branch(features, end_points, options, branch, image_size)


def _with_static_size(images: tf.Tensor, options: ModelOptions) -> tf.Tensor:
    """Returns the images [n, h, w, input_channels] with the crop's static size, if a crop size is set."""
    if options.crop_size is not None:
        height, width = options.crop_size
        if not images.shape[-1:].is_compatible_with([options.input_channels]):
            raise OptionError(
                f'Images of shape {images.shape} do not have the {options.input_channels} channels that the network '
                'expects. Set image_channels in the description of the data set '
                f'({option("DatasetOptions.name")}) to their number.'
            )
        if not images.shape.is_compatible_with([None, height, width, options.input_channels]):
            raise OptionError(
                f'Images of shape {images.shape} do not have the size {height},{width} of '
                f'{option("ModelOptions.crop_size")}. Pad them to it, or set it to their size.'
            )
        images.set_shape([None, height, width, options.input_channels])
    return images


def _scaled(images: tf.Tensor, options: ModelOptions, scale: float) -> tuple[tf.Tensor, ModelOptions]:
    """Returns the images resized by `scale`, and options with the crops scaled likewise."""
    if scale == 1.0:
        return images, options
    size = [shapes.scaled_size(side, scale) for side in shapes.spatial_size(images)]
    crops = {'crop_size': options.crop_size, 'image_pooling_crop_size': options.image_pooling_crop_size}
    scaled: dict[str, Any] = {
        name: tuple(int(shapes.scaled_size(side, scale)) for side in crop)
        for name, crop in crops.items()
        if crop is not None
    }
    return shapes.resize_bilinear(images, size), dataclasses.replace(options, **scaled)


def _merge(logits: Sequence[tf.Tensor], method: str) -> tf.Tensor:
    if method == 'max':
        return functools.reduce(tf.maximum, logits)
    return summation.in_order(logits) / float(len(logits))


class Mode(NamedTuple):
    """What a network is built for: arguments of `layers.mode_scope`."""

    is_training: bool = False
    fine_tune_batch_norm: bool = False
    weight_decay: float = 0.0
    native_dilation: bool | None = None  # False for a graph that will be exported
    compute_type: tf.DType = tf.float32


INFERENCE = Mode()


def multi_scale_logits(
    images: tf.Tensor,
    options: ModelOptions,
    image_pyramid: Sequence[float] | None = None,
    mode: Mode = INFERENCE,
) -> dict[str, ScaleLogits]:
    """Builds the logits of one or several scales of the images.

    Args:
      images: [n, h, w, input_channels] float32, 0 to 255, of the crop's size.
      options: the network.
      image_pyramid: factors on the images' size; None or (1.0,) for one scale.
      mode: training or inference, and how.

    Returns:
      For each output, logits [n, h', w', classes] float32 by scale: only `merged_logits` for one scale; for several
      also `logits_0.50` and so on, all of the size `int((crop - 1) * max(1, largest scale) / stride + 1)`.

    Raises:
      OptionError: see `check_options`.

    Source: arXiv:1511.03339 (several scales with shared weights).
    """
    check_options(options)
    images = _with_static_size(images, options)
    pyramid = tuple(image_pyramid or (1.0,))
    sizes = {
        output.name: [1, 1]
        if options.is_per_image
        else [
            shapes.scaled_size(side, max(1.0, *pyramid) / _stride_of(output, options))
            for side in shapes.spatial_size(images)
        ]
        for output in TASKS.outputs(options)
    }
    by_scale: dict[str, dict[float, tf.Tensor]] = {output: {} for output in sizes}
    scope = layers.mode_scope(
        batch_norm_decay=options.batch_norm_decay, fake_quantization=fake_quantization(options, mode), **mode._asdict()
    )
    with scope, tf.compat.v1.variable_scope(tf.compat.v1.get_variable_scope(), reuse=tf.compat.v1.AUTO_REUSE):
        for scale in pyramid:
            scaled_images, scaled_options = _scaled(images, options, scale)
            for output, logits in _single_scale_logits(scaled_images, scaled_options).items():
                by_scale[output][scale] = shapes.resize_bilinear(logits, sizes[output])  # [n, h', w', classes]
    keyed = {}
    for output, scales in by_scale.items():
        single = {f'logits_{scale:.2f}': logits for scale, logits in scales.items()} if len(scales) > 1 else {}
        keyed[output] = single | {common.MERGED_LOGITS: _merge(list(scales.values()), options.merge_method)}
    return keyed


def _stride_of(output: Output, options: ModelOptions) -> int:
    """Returns the ratio of the resolutions of the network's input and of an output."""
    strides = options.decoder.output_strides
    if output.branch is not None:
        strides = tuple(stride for stride, _ in output.branch.skip_filters)
    return min(strides, default=options.output_stride)


def scaled_lengths(values: tf.Tensor, output: Output, old_size: decoder.Size) -> tf.Tensor:
    """Multiplies the lengths in a map that was resized (`Output.axes`).

    Args:
      values: the resized map, [n, h, w, channels] float32.
      output: what the channels are.
      old_size: height and width before, ints or scalar int32 tensors.
    """
    if not output.axes:
        return values
    # Corners are aligned: h - 1 steps become height - 1.
    row, column = (
        tf.cast(new - 1, tf.float32) / tf.cast(tf.maximum(old - 1, 1), tf.float32)
        for new, old in zip(shapes.spatial_size(values), old_size, strict=True)
    )
    return values * tf.stack([row if axis == 'y' else column for axis in output.axes])


def predict_maps(
    images: tf.Tensor,
    options: ModelOptions,
    scales: Sequence[float] = (1.0,),
    add_flipped_images: bool = False,
    *,
    native_dilation: bool | None = None,
) -> dict[str, tf.Tensor]:
    """Predicts the outputs of all tasks at the size of the images, averaged over scales and flips.

    Args:
      images: [n, h, w, input_channels] float32, 0 to 255, of the crop's size.
      options: the network.
      scales: factors on the images' size.
      add_flipped_images: whether images flipped left to right are predicted, too.
      native_dilation: see `layers.mode_scope`; False for a graph that will be exported.

    Returns:
      The maps by name of the output, [n, h, w, channels] float32, with the activation of the output, in the order of
      `TASKS.outputs`.
    """
    outputs = TASKS.outputs(options)
    size = shapes.spatial_size(_with_static_size(images, options))
    maps: dict[str, list[tf.Tensor]] = {output.name: [] for output in outputs}
    for scale in scales:
        for flipped in (False, True) if add_flipped_images else (False,):
            seen = tf.reverse(images, axis=[2]) if flipped else images
            logits = multi_scale_logits(seen, options, (scale,), Mode(native_dilation=native_dilation))
            for output in outputs:
                values = logits[output.name][common.MERGED_LOGITS]
                if flipped:
                    values = tf.reverse(values, axis=[2])
                    values = values if output.mirrored is None else output.mirrored(values)
                # Of the map itself: the logits of smaller scales were resized before.
                height, width = (shapes.scaled_size(side, scale) for side in size)
                factor = 1.0 / _stride_of(output, options)
                old_size = shapes.scaled_size(height, factor), shapes.scaled_size(width, factor)
                if not options.is_per_image:
                    values = shapes.resize_bilinear(values, size)  # [n, h, w, channels]
                values = values if output.activation is None else output.activation(values)
                maps[output.name].append(scaled_lengths(values, output, old_size))
    return {name: summation.in_order(values) / float(len(values)) for name, values in maps.items()}


def fake_quantization(options: ModelOptions, mode: Mode) -> quantization.FakeQuantization | None:
    """Returns the settings of the network's fake quantization; None for none."""
    if options.quantize_delay_step is None:
        return None
    is_exact = not mode.is_training and mode.native_dilation is not False  # converters know the plain operation only
    return quantization.FakeQuantization(
        mode.is_training, options.quantize_delay_step, options.quantize_per_channel, is_exact
    )


def _largest_probability(logits: tf.Tensor) -> tf.Tensor:
    """Returns the largest softmax probability of each pixel: [n, h, w] of [n, h, w, classes]."""
    differences = logits - tf.reduce_max(logits, axis=3, keepdims=True)
    return 1.0 / tf.reduce_sum(tf.exp(differences), axis=3)


def predict_labels(
    images: tf.Tensor,
    options: ModelOptions,
    image_pyramid: Sequence[float] | None = None,
    *,
    native_dilation: bool | None = None,
) -> dict[str, tf.Tensor]:
    """Predicts labels and probabilities at the size of the images.

    Args:
      images: [n, h, w, input_channels] float32, 0 to 255, of the crop's size.
      options: the network.
      image_pyramid: factors on the images' size; None for one scale.
      native_dilation: see `layers.mode_scope`; False for a graph that will be exported.

    Returns:
      For each output its labels, [n, h, w] int32, under `OUTPUT_prob` its probabilities, [n, h, w, classes] float32,
      and under `OUTPUT_confidence` the labels' probabilities, [n, h, w] float32, which take less time.
    """
    size = shapes.spatial_size(_with_static_size(images, options))
    scales = multi_scale_logits(images, options, image_pyramid, Mode(native_dilation=native_dilation))
    predictions = {}
    for output, by_scale in scales.items():
        logits = by_scale[common.MERGED_LOGITS]
        probability, confidence = output + common.PROBABILITY_SUFFIX, output + common.CONFIDENCE_SUFFIX
        if options.prediction_with_upsampled_logits:
            logits = shapes.resize_bilinear(logits, size)  # [n, h, w, classes]
            predictions[output] = tf.argmax(logits, axis=3, output_type=tf.int32)
            predictions[probability] = tf.nn.softmax(logits)
            if native_dilation is False:  # for export: tf2onnx converts the difference to the largest logit wrongly
                predictions[confidence] = tf.reduce_max(predictions[probability], axis=3)
            else:
                predictions[confidence] = _largest_probability(logits)
        else:
            labels = tf.argmax(logits, axis=3, output_type=tf.int32)  # [n, h', w']
            labels = shapes.resize_nearest(labels[..., tf.newaxis], size)  # [n, h, w, 1]
            predictions[output] = tf.squeeze(labels, axis=3)  # [n, h, w]
            predictions[probability] = shapes.resize_bilinear(tf.nn.softmax(logits), size)
            # At a pixel, another class may have a larger one.
            predictions[confidence] = tf.gather(predictions[probability], labels, axis=3, batch_dims=3)[..., 0]
    return predictions


def predict_labels_multi_scale(
    images: tf.Tensor,
    options: ModelOptions,
    eval_scales: Sequence[float],
    add_flipped_images: bool = False,
    *,
    native_dilation: bool | None = None,
) -> dict[str, tf.Tensor]:
    """Predicts labels from the average of the probabilities of several scales and of mirrored images.

    Args:
      images: [n, h, w, input_channels] float32, 0 to 255, of the crop's size.
      options: the network.
      eval_scales: factors on the images' size.
      add_flipped_images: whether each scale is also applied to the mirrored images.
      native_dilation: see `layers.mode_scope`; False for a graph that will be exported.

    Returns:
      As `predict_labels`.
    """
    maps = predict_maps(images, options, eval_scales, add_flipped_images, native_dilation=native_dilation)
    predictions = {}
    for output, average in maps.items():  # [n, h, w, classes]
        predictions[output] = tf.argmax(average, axis=3, output_type=tf.int32)  # [n, h, w]
        predictions[output + common.PROBABILITY_SUFFIX] = average
        predictions[output + common.CONFIDENCE_SUFFIX] = tf.reduce_max(average, axis=3)  # [n, h, w]
    return predictions
