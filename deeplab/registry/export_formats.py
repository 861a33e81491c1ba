"""Registry of export formats, and the inputs and outputs of a format."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from deeplab.registry.engines import Calibration, FrozenGraph, Outputs
from deeplab.registry.records import Record, Registry

FLOAT32, FLOAT16, DYNAMIC_INT8 = 'float32', 'float16', 'dynamic_int8'


class FrozenNetwork(NamedTuple):
    """A network with constants in place of weights, which most formats are written from.

    Attributes:
      graph_def: `tf.compat.v1.GraphDef` without variables and control flow, whose operations are named in
        `deeplab.export.tensor_names`. Its input is [1, h, w, channels] uint8, or uint16 for images of 16 bits; the
        first dimension is unknown if the export is to take any number of images of one size at a time.
      crop_size: largest height and width of the input.
      channels: number of channels of the images; three are RGB.
      bits: bits per channel, 8 or 16.
      num_classes: number of classes.
      metadata: facts for programs that run the export, see `deeplab.inference.export_metadata`; empty for nothing.
      has_signatures: whether a format with signatures has more than the signature for images.
      has_warmup: whether a format for a server has a request with which the server warms up.
      maps: names of the outputs of a network of other tasks than `semantic`, whose operations have the same names and
        give [n, h, w, channels] float32, in the place of the probabilities; empty for a network with probabilities.
    """

    graph_def: Any
    crop_size: tuple[int, int]
    channels: int
    bits: int
    num_classes: int
    metadata: Mapping[str, Any] = {}
    has_signatures: bool = False
    has_warmup: bool = False
    maps: tuple[str, ...] = ()


class PortableNetwork(NamedTuple):
    """A network for another runtime, which takes images of its own size: what a format is converted from.

    Attributes:
      graph: the network.
      variant: one of the format's variants.
      input_type: type of the images of the export, 'float32' or 'uint8'; values are 0 to 255.
      metadata: see `FrozenNetwork.metadata`.
      calibration: images one by one, see `Calibration`.
      conversions: what a format has converted from the same network before, by keys of its own, for further variants.
    """

    graph: FrozenGraph
    variant: str
    input_type: str
    metadata: Mapping[str, Any]
    calibration: Calibration
    conversions: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Exported:
    """A network that is open outside this package's graphs: an export, or what an engine has converted.

    Attributes:
      predict: runs it; takes images [n, h, w, channels], 0 to 255, as NumPy array of any type, and whether
        probabilities are wanted; returns `Outputs` of NumPy arrays.
      size: height and width of the images; None for any.
      takes_smaller: whether images may also be smaller than `size`.
      channels: channels of the images.
      num_classes: number of classes; None if it is unknown.
      has_probabilities: whether it gives probabilities, or the maps of all outputs of its tasks in their place.
      bits: bits of the images on which the network was trained, 8 or 16.
      metadata: metadata of the export; empty for an export without.
      resizes: whether it resizes images of any size, and its predictions back to their size. With a vector for each
        image, it resizes the images to `size`.
    """

    predict: Callable[[Any, bool], Outputs]
    size: tuple[int, int] | None
    takes_smaller: bool
    channels: int
    num_classes: int | None
    has_probabilities: bool
    bits: int = 8
    metadata: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    resizes: bool = False

    def __call__(self, images: Any) -> Outputs:
        """Returns all outputs for images, as a `Predict` function."""
        return self.predict(images, self.has_probabilities)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportFormat(Record):
    """A format of exported networks, a value of --export_format and --format.

    A format has `write` and `run`, or `convert` and `open`.

    Attributes:
      noun: what an export of it is called, with its article, such as 'a frozen graph'.
      write: writes an export; takes the `FrozenNetwork`, the path (which does not exist) and the parameters as
        keywords.
      run: loads an export from its path and runs it; takes path and image [h, w, channels] uint8 or uint16, returns
        labels [h, w] int32 and probabilities [h, w, classes] float32. Each export is compared with its network; an
        export of other tasks than `semantic` is run by `open` instead.
      convert: as `write`, of a format for another runtime, whose images have the size of the network: takes a
        `PortableNetwork` instead. What it raises is reported as the reason why the format cannot hold the network.
      open: opens an export; takes path and number of threads (None for all cores), returns a context manager that
        gives an `Exported`. A format that an engine runs opens exports with `Engine.load`.
      activations: runs an export on images [1, h, w, channels]; takes path and images, returns the activations by the
        name of their operation, in the order in which they are computed. None for a format that does not show them.
      recognizes: returns whether the file or folder at a path, which exists, has this format.
      variants: names of the numeric types in which it can hold a network, the usual one first.
      is_own: returns whether the file at a path (of a folder: the first of `contents`) is an export of DeepLab in this
        format, which another one may replace. By default none is, and existing files are never overwritten.
      example_path: name of an export in messages, such as 'frozen_inference_graph.pb'; empty for the format's name.
      suffixes: endings of its files, such as '.onnx': an export to a path with one of them has this format. In a format
        whose exports are folders, they are endings of the first of `contents`. To a path with such an ending, the
        files are written beside each other, with the name of the path, instead of to a folder.
      tensors: names of image, labels and probabilities, as programs that run the export refer to them. Maps of other
        tasks than `semantic` have the names of their outputs.
      example: Python lines that run an export, for the report; empty for none. '{path!r}' is replaced by its path,
        '{file!r}' by the path of its file, or of the first of `contents`, '{image}' by an expression that reads an
        image [h, w, channels]; they set `labels`, [h, w].
      contents: names of the files in the folder that it writes, first a file that is always present; empty if it writes
        one file.
      requires: names of the modules that it imports beside TensorFlow to write and run an export.
      runs_with: names of the variants that run an export.
      install: what `pip install` needs for them.
      variants_need: for variants that need more modules, their names, and what `pip install` needs for them.
      least_agreement: fraction of the pixels that must have the network's label.
      most_difference: largest allowed difference of probabilities.
    """

    noun: str
    write: Callable[..., None] | None = None
    run: Callable[[str, Any], tuple[Any, Any]] | None = None
    convert: Callable[..., None] | None = None
    open: Callable[[str, int | None], contextlib.AbstractContextManager[Exported]] | None = None
    activations: Callable[[str, Any], Mapping[str, Any]] | None = None
    recognizes: Callable[[str], bool] = lambda path: False
    variants: tuple[str, ...] = (FLOAT32,)
    is_own: Callable[[str], bool] = lambda path: False
    example_path: str = ''
    suffixes: tuple[str, ...] = ()
    tensors: tuple[str, str, str] = ('image', 'labels', 'probabilities')
    example: str = ''
    contents: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    runs_with: tuple[str, ...] = ()
    install: str = ''
    variants_need: Mapping[str, tuple[tuple[str, ...], str]] = dataclasses.field(default_factory=dict)
    least_agreement: float = 0.999
    most_difference: float = 2e-3

    @property
    def is_folder(self) -> bool:
        """Whether an export is a folder rather than a file."""
        return bool(self.contents)

    def example_of(self, path: str, image: str) -> str:
        """Returns Python lines that run the export at a path on the image that an expression reads."""
        is_folder = self.is_folder and not self.files_of(path)
        return self.example.format(
            path=path, file=os.path.join(path, self.contents[0]) if is_folder else path, image=image
        )

    def files_of(self, path: str) -> dict[str, str]:
        """Returns the files that replace the folder of an export, by their names in `contents`; empty for a folder."""
        if not self.is_folder or not path.lower().endswith(self.suffixes):
            return {}
        return {name: os.path.splitext(path)[0] + os.path.splitext(name)[1] for name in self.contents[1:]} | {
            self.contents[0]: path
        }

    @property
    def is_portable(self) -> bool:
        """Whether it is for another runtime, and takes images of the size of the network."""
        return self.convert is not None

    @property
    def title(self) -> str:
        """`noun` at the start of a sentence, without its article."""
        name = self.noun.partition(' ')[2]
        return name[:1].upper() + name[1:]


EXPORT_FORMATS: Registry[ExportFormat] = Registry(
    'export format', 'ExportOptions.export_format', 'deeplab.export.formats'
)
