"""Registry of export formats."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from deeplab.registry.records import Record, Registry


class FrozenNetwork(NamedTuple):
    """A network whose weights are constants: what a format is written from.

    Attributes:
      graph_def: `tf.compat.v1.GraphDef` without variables and control flow, whose operations are named in
        `deeplab.export.tensor_names`. Its input is [1, h, w, channels] uint8, or uint16 for images of 16 bits.
      crop_size: largest height and width of the input.
      channels: number of channels of the images; three are RGB.
      bits: bits per channel, 8 or 16.
      num_classes: number of classes.
    """

    graph_def: Any
    crop_size: tuple[int, int]
    channels: int
    bits: int
    num_classes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportFormat(Record):
    """A format of exported networks, a value of --export_format.

    Attributes:
      noun: what an export of it is called, with its article, such as 'a frozen graph'.
      write: writes an export; takes the `FrozenNetwork`, the path (which does not exist) and the parameters as
        keywords.
      run: loads an export from its path and runs it; takes path and image [h, w, channels] uint8 or uint16, returns
        labels [h, w] int32 and probabilities [h, w, classes] float32. Each export is compared with its network.
      is_own: returns whether the file at a path (of a folder: the first of `contents`) is an export of DeepLab in this
        format, which another one may replace. By default none is, and existing files are never overwritten.
      example_path: name of an export in messages, such as 'frozen_inference_graph.pb'; empty for the format's name.
      tensors: names of image, labels and probabilities, as programs that run the export refer to them.
      example: Python lines that run an export, for the report; empty for none. '{path!r}' is replaced by its path,
        '{image}' by an expression that reads an image [h, w, channels]; they set `labels`, [h, w].
      contents: names of the files in the folder that it writes, the first of which is always present; empty if it
        writes one file.
      requires: names of the modules that it imports beside TensorFlow.
      install: what `pip install` needs for them.
      least_agreement: share of the pixels whose label must be that of the network.
      most_difference: largest allowed difference of probabilities.
    """

    noun: str
    write: Callable[..., None]
    run: Callable[[str, Any], tuple[Any, Any]]
    is_own: Callable[[str], bool] = lambda path: False
    example_path: str = ''
    tensors: tuple[str, str, str] = ('image', 'labels', 'probabilities')
    example: str = ''
    contents: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    install: str = ''
    least_agreement: float = 0.999
    most_difference: float = 2e-3

    @property
    def is_folder(self) -> bool:
        """Whether an export is a folder rather than a file."""
        return bool(self.contents)

    @property
    def title(self) -> str:
        """`noun` at the start of a sentence, without its article."""
        name = self.noun.partition(' ')[2]
        return name[:1].upper() + name[1:]


EXPORT_FORMATS: Registry[ExportFormat] = Registry(
    'export format', 'ExportOptions.export_format', 'deeplab.export.formats'
)
