"""Registry of inference engines, and the inputs and outputs of an engine."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from deeplab.registry.records import Record, Registry

PRECISIONS = ('float32', 'bfloat16', 'float16')
INT8 = 'int8'  # of networks that predict, with images for calibration
AUTO_PRECISION = 'auto'  # in place of one of them: it is chosen when the network or the training begins

# Yields images [n, h, w, channels] float32, 0 to 255, from which the ranges of activations are measured.
Calibration = Callable[[], Iterator[Any]]


class FrozenGraph(NamedTuple):
    """A network with constants in place of weights, which an engine converts or runs.

    Attributes:
      graph_def: `tf.compat.v1.GraphDef` without variables and control flow; batch norms are folded into convolutions.
      image: name of the input tensor, [n, h, w, channels] float32, 0 to 255.
      labels: name of the output tensor with the class ids, [n, h, w] int32.
      probabilities: name of the output tensor with the probabilities, [n, h, w, classes] float32; None if they were not
        asked for.
      shape: shape of the input, (n, h, w, channels); None for a side that is known only when the network runs.
      num_classes: number of classes.
      maps: names of the tensors with the map of each output, [n, h, w, channels] float32, by the names of the outputs
        in the order of `TASKS.outputs`: in the place of `probabilities`, for a network of other tasks than `semantic`
        whose maps are outputs of their own.
    """

    graph_def: Any
    image: str
    labels: str
    probabilities: str | None
    shape: tuple[int | None, int | None, int | None, int]
    num_classes: int
    maps: Mapping[str, str] = {}

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the output tensors: labels, and probabilities if they were asked for, or maps."""
        further = () if self.probabilities is None else (self.probabilities,)
        return (self.labels, *further, *self.maps.values())


class Outputs(NamedTuple):
    """What a network predicts for a batch of images.

    Attributes:
      labels: class ids, [n, h, w] int32.
      probabilities: [n, h, w, classes] float32, or the maps of all outputs of a network of other tasks than `semantic`,
        one after the other; None if they were not asked for.
    """

    labels: Any
    probabilities: Any = None


class Execution(NamedTuple):
    """How an engine runs a network.

    Attributes:
      precision: type in which it computes, one of `PRECISIONS`, or `INT8`.
      threads: number of threads.
      calibration: for a conversion to `INT8`: images of the network's input shape.
    """

    precision: str = 'float32'
    threads: int = 1
    calibration: Calibration | None = None


# Runs a network: images [n, h, w, channels] float32, 0 to 255, as NumPy array, to `Outputs` of NumPy arrays.
Predict = Callable[[Any], Outputs]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Engine(Record):
    """An inference engine, a value of --engine.

    Attributes:
      convert: writes a network in the engine's own format; takes the `FrozenGraph`, an empty folder and the
        `Execution`. What it raises is reported as the reason why the engine cannot run the network.
      load: loads what `convert` has written; takes the folder and the `Execution`, returns a context manager that gives
        a `Predict` function and, at its end, releases what that holds. The engines of this package
        load exports of their format, too: they also take the path of an export, and give an `Exported`.
      open: as `load`, for an engine that runs a `FrozenGraph` without conversion; None for an engine that converts.
      precisions: returns the types, of `PRECISIONS` and `INT8`, in which the installed engine computes on this
        processor.
      precisions_need: for types that need more modules, their names, and what `pip install` needs for them.
      version: returns the version of the installed engine; other versions convert anew.
      requires: names of the modules that it imports beside TensorFlow.
      install: what `pip install` needs for them.
      least_agreement: fraction of the pixels for which a converted network must give TensorFlow's label in float32.
    """

    convert: Callable[[FrozenGraph, str, Execution], None] | None = None
    load: Callable[[str, Execution], contextlib.AbstractContextManager[Predict]] | None = None
    open: Callable[[FrozenGraph, Execution], contextlib.AbstractContextManager[Predict]] | None = None
    precisions: Callable[[], tuple[str, ...]] = lambda: PRECISIONS[:1]
    precisions_need: Mapping[str, tuple[tuple[str, ...], str]] = dataclasses.field(default_factory=dict)
    version: Callable[[], str] = lambda: ''
    requires: tuple[str, ...] = ()
    install: str = ''
    least_agreement: float = 0.999


ENGINES: Registry[Engine] = Registry('engine', 'EngineOptions.engine', 'deeplab.inference.runtimes')
