"""Registry of tasks: what a network predicts, from the planes of a sample to the metrics of a result.

A task names the planes that it needs beside the image, makes targets of them after the crop, states the outputs of the
network and their losses, and turns the outputs of an image into a result. Training, evaluation, prediction and export
read the record; they know no task by name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from deeplab import common
from deeplab.errors import OptionError
from deeplab.registry.records import Record, Registry
from deeplab.wording import option

_FIELD = 'ModelOptions.task'
SEMANTIC = 'semantic'  # the task of every network that names none


class Branch(NamedTuple):
    """A head and a decoder of their own, for one or several outputs.

    The decoder projects the low-level features of each stride, concatenates them with the resized features, and applies
    one separable 5x5 convolution; or it is a function of its own.

    Attributes:
      scope: scope of all its variables. It is part of checkpoints, and must not change.
      filters: channels of the decoder's convolutions.
      skip_filters: strides of low-level features in descending order, and channels to which each is projected.
      build: builds head and decoder instead: takes the features of the backbone, [n, h, w, c], the low-level features
        of `skip_filters` by stride, [n, h', w', c'], and the ModelOptions; returns features of the last stride.

    Source: arXiv:1911.10194, section 3.1 and figure 2.
    """

    scope: str
    filters: int
    skip_filters: tuple[tuple[int, int], ...]
    build: Callable[..., Any] | None = None


class Output(NamedTuple):
    """A float map that the network predicts, with a last layer `logits/NAME` of its own.

    Attributes:
      name: its name, unique among the outputs of all tasks of a network.
      channels: number of its channels.
      activation: applied to the output of the last layer, [..., channels], at the size of the image; None for none. The
        losses take the output without it.
      branch: the head and decoder before the last layer; None for the network's own, which all such outputs share.
      filters: channels of a separable 5x5 convolution before the last layer; None for none.
      axes: for an output of lengths, 'y' or 'x' for each channel: lengths along this axis, in pixels of the map, which
        are multiplied when the map is resized, after the activation. For losses at the size of the image, such an
        output has no activation.
      mirrored: takes the map of a flipped image without activation, flipped back, [n, h, w, channels], and returns
        the map of the image; None if they are equal.
    """

    name: str
    channels: int
    activation: Callable[[Any], Any] | None = None
    branch: Branch | None = None
    filters: int | None = None
    axes: tuple[str, ...] = ()
    mirrored: Callable[[Any], Any] | None = None


class TaskContext(NamedTuple):
    """What the functions of a task know besides their input.

    Attributes:
      num_classes: number of classes.
      ignore_label: label of pixels that are excluded.
      class_names: names of the classes; numbers as text where there are none.
      things: ids of the classes whose instances are told apart; None if the data set does not say.
      settings: values of the parameters of the network's tasks, by name.
      calibration: what the tasks have chosen for a checkpoint on a split for validation, by their names; see
        `Task.metric`.
      palette: colors of the classes, [n, 3] uint8; None for no colors.
      depth_scale: unit of depth in 16-bit files; None if the data set does not say.
      eval_ids: id of each class in the data set's own evaluation; None for the class ids.
      overlay_alpha: opacity of the colors of overlays, 0 to 1.
      loss: the `LossOptions` of a training; None elsewhere.
      global_step: steps of a training, a scalar integer tensor; None elsewhere.
    """

    num_classes: int
    ignore_label: int = 255
    class_names: tuple[str, ...] = ()
    things: Sequence[int] | None = None
    settings: Mapping[str, Any] = {}
    calibration: Mapping[str, Any] = {}
    palette: Any = None
    depth_scale: float | None = None
    eval_ids: Sequence[int] | None = None
    overlay_alpha: float = 0.5
    loss: Any = None
    global_step: Any = None


class Term(NamedTuple):
    """A term of the loss: its value, a scalar float32 tensor, and its weight in the sum."""

    value: Any
    weight: float = 1.0


class ResultFile(NamedTuple):
    """A kind of file that a result is written to, a value of --save.

    Attributes:
      suffix: ending of the file, such as '.png'.
      content: takes the result and the image, [h, w, channels] of 0 to 255, and the `TaskContext`, and returns an array
        for an image file ([h, w] bool, uint8 or uint16, [h, w, 3] uint8) or for '.npy', or text for any other file.
      entry: returns what a JSON file about all images of a run, KIND.json, says about one; takes the result, the path
        of its file in the folder of the kind, and the context. None for no such file.
      document: makes the content of the JSON file of the entries of all images, in the order of their paths.
    """

    suffix: str
    content: Callable[[Mapping[str, Any], Any, TaskContext], Any]
    entry: Callable[[Mapping[str, Any], str, TaskContext], Mapping[str, Any]] | None = None
    document: Callable[[Sequence[Mapping[str, Any]], TaskContext], Any] = lambda entries, context: list(entries)


class Comparison(NamedTuple):
    """A picture of a result compared with its truth.

    Attributes:
      picture: [h, w, 3] uint8.
      legend: its colors by their meaning.
    """

    picture: Any
    legend: Mapping[str, Sequence[int]] = {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task(Record):
    """What a network is trained for and predicts, a name in --task.

    Attributes:
      outputs: returns the outputs of the network; takes the ModelOptions, which have the values of the parameters as
        attributes.
      scopes: scopes of the branches of its outputs, which belong to the last layers.
      needs_labels: whether a sample must have class ids for training and evaluation.
      planes: what else it must have (`deeplab.datasets.planes.Plane`).
      requires: fields of the `TaskContext` that the data set must state, such as 'things'.
      targets: makes the targets of a sample after all augmentations; takes the sample by the keys of `common` and of
        the planes, and the `TaskContext`, returns tensors [h, w, ...] by name. A target with the name of an output must
        have its height and width.
      losses: takes the outputs without activation by name, [n, h, w, channels] float32, the targets of the batch by
        name, and the context; returns the terms of the loss by name. None: the loss of --loss, on the labels.
      per_image: whether its outputs are a vector for each image, [n, 1, 1, channels], from the classifier of the
        backbone, at whose last stride the features are. Images are then changed by a `Preprocessing` to the size of the
        input, and such a task is the only one of a network. `decode` takes arrays [1, 1, channels].
      takes_loss_options: whether `losses` follow `TaskContext.loss`; otherwise these options have no effect.
      upsamples: whether the losses take the outputs at the size of the image; false: at their own size.
      decode: makes the result of an image; takes the outputs with activation by name, [h, w, channels] float32 at the
        size of the image, and the context; returns NumPy arrays or numbers by name. They may come from several scales,
        flips and windows.
      metric: returns a new accumulator of the metrics; takes the context. Its `update` takes the sample of an image
        without padding and its result, each by key. `registry.metrics.Accumulator` has its other methods. If it has
        `calibration()`, the JSON value that this returns is written beside a checkpoint that is evaluated on a split
        for validation, and is then part of the context. None: the metrics of labels.
      headline: name of the figure that tells which checkpoint is best; larger is better, unless it begins with '-'.
      files: kinds of files of a result by name, values of --save.
      keep: returns a result without the classes that a user leaves out of the files of predict; takes the result, which
        of 256 class ids are kept, [256] bool, and the context. None for results without class ids.
      overlay: draws the result; takes the result, the image and the context, returns [h, w, 3] uint8.
      comparison: draws the result compared with its truth, for report; takes the sample as `metric` does, the result,
        the image and the context.
      drawn_parts: names of the parts of the result that `overlay` and `comparison` take: report stores no others. None
        for all.
      unfit_optimizers: names of optimizers with which its losses diverge at usual learning rates; a warning names them.
      check: raises `OptionError` if the network cannot have the task; takes the ModelOptions.
    """

    outputs: Callable[[Any], Sequence[Output]]
    scopes: tuple[str, ...] = ()
    needs_labels: bool = True
    planes: tuple[Any, ...] = ()
    requires: tuple[str, ...] = ()
    targets: Callable[[Mapping[str, Any], TaskContext], Mapping[str, Any]] | None = None
    losses: Callable[[Mapping[str, Any], Mapping[str, Any], TaskContext], Mapping[str, Term]] | None = None
    per_image: bool = False
    takes_loss_options: bool = False
    upsamples: bool = True
    decode: Callable[[Mapping[str, Any], TaskContext], Mapping[str, Any]] | None = None
    metric: Callable[[TaskContext], Any] | None = None
    headline: str = ''
    files: Mapping[str, ResultFile] = dataclasses.field(default_factory=dict)
    keep: Callable[[Mapping[str, Any], Any, TaskContext], Mapping[str, Any]] | None = None
    overlay: Callable[[Mapping[str, Any], Any, TaskContext], Any] | None = None
    comparison: Callable[[Mapping[str, Any], Mapping[str, Any], Any, TaskContext], Comparison] | None = None
    drawn_parts: tuple[str, ...] | None = None
    unfit_optimizers: tuple[str, ...] = ()
    check: Callable[[Any], None] = lambda options: None

    def __post_init__(self) -> None:
        if (self.losses is None) != (self.decode is None):
            raise ValueError(f"The task '{self.name}' has either losses or decode; a task has both, or neither.")


class Tasks(Registry[Task]):
    """The registry of tasks; a network has one task or several, joined by '+'."""

    def chosen(self, options: Any) -> tuple[Task, ...]:
        """Returns the tasks of some ModelOptions, after checking that the network can have them.

        Raises:
          OptionError: there is no task of that name, a task appears twice, two tasks have an output of one name, or the
            network cannot have a task.
        """
        names = [name.strip() for name in options.task.split('+')]
        for name in names:
            if names.count(name) > 1:
                raise OptionError(f"{option(_FIELD, options.task)} is not allowed: '{name}' appears twice.")
        tasks = tuple(self.get(name) for name in names)
        for task in tasks:
            if task.per_image and len(tasks) > 1:
                raise OptionError(
                    f"{option(_FIELD, options.task)} is not allowed: '{task.name}' has a result for the whole image, "
                    'and no other task beside it.'
                )
            task.check(options)
        return tasks

    def is_per_image(self, options: Any) -> bool:
        """Returns whether the outputs of some ModelOptions are a vector for each image (`Task.per_image`)."""
        # Options may be created before a plugin registers their task; `chosen` reports a name that is not known.
        return any(task.name in options.task.split('+') for task in self.records() if task.per_image)

    def outputs(self, options: Any) -> tuple[Output, ...]:
        """Returns the outputs of all tasks of some ModelOptions: the classes first, then in the order of the tasks.

        Raises:
          OptionError: see `chosen`.
        """
        outputs = [output for task in self.chosen(options) for output in task.outputs(options)]
        names = [output.name for output in outputs]
        for name in names:
            if names.count(name) > 1:
                raise OptionError(
                    f"{option(_FIELD, options.task)} is not allowed: two of its tasks have an output '{name}'."
                )
        return tuple(sorted(outputs, key=lambda output: output.name != common.OUTPUT_TYPE))

    def files(self, options: Any) -> dict[str, tuple[str, ResultFile]]:
        """Returns the kinds of files of the tasks of some ModelOptions: name of the task, and how it is written."""
        return {kind: (task.name, file) for task in self.chosen(options) for kind, file in task.files.items()}

    def all_files(self) -> tuple[str, ...]:
        """Returns the kinds of files of all tasks, each once."""
        return tuple(dict.fromkeys(kind for task in self.records() for kind in task.files))

    def channels(self, options: Any) -> int:
        """Returns the number of channels of all outputs together."""
        return sum(output.channels for output in self.outputs(options))

    def branch_scopes(self) -> tuple[str, ...]:
        """Returns the scopes of all heads and decoders that outputs of tasks have of their own."""
        return tuple(scope for task in self.records() for scope in task.scopes)


TASKS = Tasks('task', _FIELD, 'deeplab.tasks')
