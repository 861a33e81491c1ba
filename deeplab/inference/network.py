"""The network for inference: its graph is built once, and frozen with the weights of one checkpoint after another."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf
from absl import logging

from deeplab import common, model
from deeplab.checks import checkpoint_network
from deeplab.core import checkpoints, cost, freezing, graph_memory, moving_average
from deeplab.inference.engine_choice import EngineChoice
from deeplab.options import EngineOptions, ModelOptions, PredictionOptions, ResizeOptions
from deeplab.registry import BACKBONES, TASKS, FrozenGraph, Outputs
from deeplab.system import memory
from deeplab.utils import input_generator
from deeplab.wording import option

MAP_SUFFIX = '_map'  # of the name of an output
_SMALL_BATCH = 2**28  # bytes of its activations; two such batches may be predicted at the same time


class BuiltNetwork(NamedTuple):
    """The graph of a network.

    Attributes:
      graph: the network, with placeholders for weights.
      images: [n, h, w, channels] float32, 0 to 255.
      outputs: labels [n, h, w] int32, and probabilities [n, h, w, classes] float32 or maps if they were asked for.
      weights: placeholders with the names of all variables.
    """

    graph: tf.Graph
    images: tf.Tensor
    outputs: list[tf.Tensor]
    weights: list[tf.Tensor]


@dataclasses.dataclass(eq=False)
class InferenceNetwork:
    """The network for inference, built when it is first needed, and used with the weights of several checkpoints.

    The graph has placeholders for weights, which become constants: what depends on them alone is computed once and not
    for each image, and building variables would take most of the time.

    Attributes:
      options: the network; its crop size is the size of the images, None for images of any size.
      prediction: scales and flips that are averaged.
      batch_size: images at a time; None for any number.
      with_probabilities: whether the probabilities of all classes are an output beside the labels; of further tasks,
        the maps of all outputs are, one after the other in the order of `TASKS.outputs`.
      of_labels_only: whether these are the probabilities of the labels alone, [n, h, w, 1], which take less time.
      has_separate_maps: whether the maps of further tasks are outputs of their own, as in exports.
      resize: how images are resized before the network, for images that calibrate it.
      is_portable: whether TensorFlow, too, runs it in the operations that other engines convert, which round values of
        8-bit training in another order than the original.
      chosen_engines: what 'auto' has chosen, by the options that asked for it; kept for further checkpoints.
      mean_pixel: value of padding, [channels].

    Raises:
      OptionError: There is no such network.
    """

    options: ModelOptions
    prediction: PredictionOptions
    batch_size: int | None = None
    with_probabilities: bool = False
    of_labels_only: bool = False
    has_separate_maps: bool = False
    resize: ResizeOptions = ResizeOptions()
    is_portable: bool = False
    chosen_engines: dict[EngineOptions, EngineChoice] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.options.is_semantic:  # a result needs the maps of all outputs
            self.with_probabilities, self.of_labels_only = True, False
        self.has_separate_maps &= not self.options.is_semantic
        normalization = BACKBONES.get(self.options.model_variant).normalization
        self.mean_pixel = normalization.mean_pixel_of(self.options.input_channels)

    @property
    def crop_size(self) -> tuple[int, int] | None:
        """Height and width of the images; None for any."""
        return self.options.crop_size

    @functools.cached_property
    def built(self) -> BuiltNetwork:
        """The network in the form that TensorFlow runs fastest here, unless the portable form is asked for."""
        return self.portable if self.is_portable else self._build(native_dilation=None)

    @functools.cached_property
    def portable(self) -> BuiltNetwork:
        """The network in operations that other engines convert."""
        return self._build(native_dilation=False)

    def _build(self, native_dilation: bool | None) -> BuiltNetwork:
        """Builds the network in a graph of its own; see `layers.mode_scope` for `native_dilation`."""
        shape = [self.batch_size, *(self.crop_size or (None, None)), self.options.input_channels]
        with cost.abstract_graph() as outlined:
            images = tf.compat.v1.placeholder(tf.float32, shape, name='images')
            by_name = predicted(images, self.options, self.prediction, native_dilation)
            outputs = [tf.identity(by_name[common.OUTPUT_TYPE], name='labels')]  # [n, h, w]
            if self.has_separate_maps:
                outputs += named_maps(by_name, self.options).values()
            elif self.with_probabilities:
                if self.of_labels_only:
                    confidence = by_name[common.OUTPUT_TYPE + common.CONFIDENCE_SUFFIX]
                    probabilities = confidence[..., tf.newaxis]  # [n, h, w, 1]
                else:
                    probabilities = by_name[common.OUTPUT_TYPE + common.PROBABILITY_SUFFIX]  # [n, h, w, classes]
                outputs.append(tf.identity(probabilities, name='probabilities'))
        return BuiltNetwork(outlined.graph, images, outputs, list(outlined.placeholders.values()))

    @functools.cached_property
    def at_once(self) -> int:
        """How many batches to predict at the same time: two small ones on a CPU, which use its cores better."""
        if self.crop_size is None or self.batch_size is None or tf.config.list_physical_devices('GPU'):
            return 1
        return 2 if graph_memory.peak(self.built.outputs) <= _SMALL_BATCH else 1

    def check_memory(self, program: str) -> None:
        """Compares the memory of a batch with what is free, if the network computes in the memory of this machine.

        Nothing is checked if the size of a batch is not known.

        Args:
          program: one of `memory.PROGRAMS`.

        Raises:
          OutOfMemoryError: the batch cannot fit.
        """
        need = self.memory_need()
        if need is not None and self.batch_size is not None:
            size = memory_size(program, self.options, self.batch_size)
            assert size is not None
            memory.check(need, size)

    def memory_need(self) -> memory.Need | None:
        """Returns the memory that a batch needs; None if its size is unknown or a GPU is used."""
        if self.crop_size is None or self.batch_size is None or tf.config.list_physical_devices('GPU'):
            return None
        waiting = input_generator.PREFETCHED_BATCHES * graph_memory.bytes_of(self.built.images)
        # Weights are held three times: as constants of the frozen graph, of the session's graph, and by its kernels.
        held = 3 * sum(map(graph_memory.bytes_of, self.built.weights))
        return memory.Need(self.at_once * graph_memory.peak(self.built.outputs) + waiting, held)

    def require_weights(self, checkpoint_path: str, use_moving_average: bool = False) -> None:
        """Checks that a checkpoint has every variable, in its shape, without reading the values.

        Raises:
          CheckpointError: It does not match the network; the message names the variables.
        """
        with checkpoint_network.explained(checkpoint_path, self.options):
            names = moving_average.names_of_weights(checkpoint_path, self.built.weights, use_moving_average)
            checkpoints.require_all(checkpoint_path, self.built.weights, names)

    def frozen(self, checkpoint_path: str, use_moving_average: bool = False, is_portable: bool = False) -> FrozenGraph:
        """Returns the network with the weights of a checkpoint as constants.

        Args:
          checkpoint_path: must have every variable, in its shape.
          use_moving_average: whether to use the moving averages (EMA) of the weights instead.
          is_portable: whether the graph is for another engine than TensorFlow.

        Raises:
          CheckpointError: It does not match the network; the message names the variables.
        """
        graph, images, outputs, weights = self.portable if is_portable else self.built
        with checkpoint_network.explained(checkpoint_path, self.options):
            names = moving_average.names_of_weights(checkpoint_path, weights, use_moving_average)
            values = checkpoints.read_all(checkpoint_path, weights, names)
        graph_def = freezing.frozen(graph.as_graph_def(), [output.op.name for output in outputs], values)
        labels, *further = (output.name for output in outputs)
        maps = {name.partition(':')[0]: name for name in further} if self.has_separate_maps else {}
        return FrozenGraph(
            graph_def,
            images.name,
            labels,
            further[0] if further and not maps else None,
            tuple(images.shape.as_list()),
            self.options.num_classes,
            maps,
        )


def named_maps(predicted_by_name: Mapping[str, tf.Tensor], options: ModelOptions) -> dict[str, tf.Tensor]:
    """Adds the maps of `predicted` to the graph as operations with the names of their outputs, which exports have.

    Args:
      predicted_by_name: what `predicted` has returned, or maps made of these, by the same keys.
      options: the network, of other tasks than `semantic`.

    Returns:
      The maps by name, [n, h, w, channels] float32, in the order of `TASKS.outputs`.
    """
    names = [output.name for output in TASKS.outputs(options)]
    # The slash keeps a name that is a scope, too.
    return {name: tf.identity(predicted_by_name[name + MAP_SUFFIX], name=f'{name}/') for name in names}


def in_graph(frozen: FrozenGraph, images: tf.Tensor) -> Outputs:
    """Adds a frozen network to the current graph, such as an input pipeline; returns `Outputs` of tensors.

    Args:
      frozen: the network.
      images: [n, h, w, channels] float32, 0 to 255.
    """
    inputs = {frozen.image.partition(':')[0]: images}
    return Outputs(*tf.graph_util.import_graph_def(frozen.graph_def, inputs, frozen.outputs, name='network'))


def memory_size(program: str, options: ModelOptions, batch_size: int) -> memory.Size | None:
    """Returns what determines the memory of a program that predicts; None if the crop size is not set.

    Args:
      program: one of `memory.PROGRAMS`.
      options: the network.
      batch_size: images at a time.
    """
    if options.crop_size is None:
        return None
    return memory.Size(program, batch_size, options.crop_size, options.output_stride)


def predicted(
    images: tf.Tensor, options: ModelOptions, prediction: PredictionOptions, native_dilation: bool | None
) -> dict[str, tf.Tensor]:
    """Returns labels and probabilities, see `model.predict_labels`, with the scales and flips of the options.

    With other tasks than `semantic`, the maps of all outputs take the place of the probabilities, and are under
    `OUTPUT_map`, too; the labels are the largest channels of the first output.
    """
    if not options.is_semantic:
        maps = model.predict_maps(
            images, options, prediction.scales, prediction.add_flipped_images, native_dilation=native_dilation
        )
        first = next(iter(maps.values()))  # the classes, if there are any
        return {
            common.OUTPUT_TYPE: tf.argmax(first, axis=3, output_type=tf.int32),
            common.OUTPUT_TYPE + common.PROBABILITY_SUFFIX: tf.concat(list(maps.values()), axis=3),
            common.OUTPUT_TYPE + common.CONFIDENCE_SUFFIX: tf.reduce_max(first, axis=3),
            **{name + MAP_SUFFIX: values for name, values in maps.items()},
        }
    if prediction.is_single_scale:
        return model.predict_labels(images, options, options.image_pyramid, native_dilation=native_dilation)
    if tuple(options.image_pyramid or (1.0,)) != (1.0,):
        logging.warning(
            '%s is ignored: it applies only with %s.',
            option('ModelOptions.image_pyramid'),
            option('PredictionOptions.scales', (1.0,)),
        )
    return model.predict_labels_multi_scale(
        images, options, prediction.scales, prediction.add_flipped_images, native_dilation=native_dilation
    )
