"""Mask sources: the masks and instances of annotated images, drawn when their records are built."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection

import numpy as np

from deeplab.datasets import color_tables, images, mask_sources, orientation
from deeplab.datasets.annotations import labelme, rasterizer, reading
from deeplab.datasets.annotations.label_classes import LabelClasses
from deeplab.datasets.annotations.shapes import AnnotatedImage, PaintedMask
from deeplab.errors import DataError

_FORMAT = 2  # increase it when the same annotations become other masks


@dataclasses.dataclass
class AnnotationMask:
    """The masks of an annotated image.

    Attributes:
      annotated: the annotation.
      image: path of the image, or of the file that contains it.
      classes: ids of its labels.
      clipped: number of shapes that reach beyond the image, once the mask was made.
      empty: number of shapes that cover no pixel, once the mask was made.
    """

    annotated: AnnotatedImage
    image: str
    classes: LabelClasses
    clipped: int = 0
    empty: int = 0

    @property
    def path(self) -> str:
        """The file from which the mask is made."""
        return self.annotated.path if self.annotated.painted is None else self.annotated.painted.path

    @property
    def is_embedded(self) -> bool:
        """Whether the image is in the file of the annotation."""
        return self.image == self.annotated.embedded

    @property
    def key(self) -> str:
        """Identifies the conversion: with equal keys, the same files become the same masks."""
        painted = self.annotated.painted
        colors = None if painted is None else (sorted(painted.colors.items()), sorted(painted.indices.items()))
        values: tuple[object, ...] = (
            _FORMAT, self.annotated.place, self.classes.fill, sorted(self.classes.ids.items()), colors
        )  # fmt: skip
        if self.classes.things is not None:
            objects = painted and painted.objects and mask_sources.file_state(painted.objects)
            values += (self.classes.things, objects, painted and painted.instances)
        return f'annotation {mask_sources.digest(repr(values).encode("utf-8", "surrogateescape"))}'

    def masks(self, path: str) -> mask_sources.Masks:
        """Returns the masks of class ids and, if classes are things, of instances.

        Args:
          path: `self.path`.

        Raises:
          DataError: A part of the annotation is broken.
        """
        painted, things = self.annotated.painted, self.classes.things
        if painted is not None:
            classes = _painted(path, painted, self.classes)
            instances = None if things is None else _painted_instances(path, painted, classes, things)
        else:
            with reading.within(self.annotated.place) if self.annotated.place else contextlib.nullcontext():
                drawing = self._drawn()
            classes, instances = images.encode_png(drawing.ids), None if things is None else drawing.instances
        return mask_sources.Masks(classes, None if instances is None else images.encode_png(instances))

    def _drawn(self) -> rasterizer.Drawing:
        size = self.annotated.size
        if size is None:
            read = labelme.embedded_image if self.is_embedded else mask_sources.contents
            header = images.read_header(read(self.image))
            size = orientation.shown_size(header.size, header.orientation)
        classes = self.classes
        drawing = rasterizer.draw(self.annotated.shapes, classes.ids, size, classes.fill, classes.things or ())
        self.clipped, self.empty = drawing.clipped, drawing.empty
        return drawing


def _painted(path: str, painted: PaintedMask, classes: LabelClasses) -> bytes:
    """Returns a painted mask as a PNG of ids."""

    def id_of(label: str | None) -> int:
        class_id = classes.fill if label is None else classes.ids[label]
        return classes.fill if class_id is None else class_id

    content = mask_sources.contents(path)
    mask = images.read_mask(content)
    others = classes.fill if painted.allows_others else None
    if painted.allows_others and not painted.colors:  # nothing in the image is labeled
        return images.encode_png(np.full(mask.size, classes.fill, np.uint8))
    if painted.colors and (mask.mode in ('RGB', 'RGBA') or mask.is_palette):
        entries = [
            color_tables.Entry(id_of(label), (code >> 16, code >> 8 & 255, code & 255))
            for code, label in painted.colors.items()
        ]
        return color_tables.ColorTable(entries, others=others).as_ids(content)
    ids = {value: id_of(label) for value, label in painted.indices.items()}
    return mask_sources.IdTable(ids, others).as_ids(content)


def _painted_instances(path: str, painted: PaintedMask, mask: bytes, things: Collection[int]) -> np.ndarray:
    """Returns the instances of a painted mask, numbered from 1 on: [h, w] uint16; 0 for pixels of none.

    `path` is the file that the tool has painted, `mask` the PNG of class ids that it has become.

    Raises:
      DataError: The instances cannot be read, are too many, or have another size than the mask.
    """
    ids = mask_sources.ids_of(mask)  # [h, w]
    content = mask_sources.contents(painted.objects or path)
    with reading.within(f"'{painted.objects}'") if painted.objects else contextlib.nullcontext():
        colors = images.read_colors(content, 'objects').astype(np.int32)  # [h, w, 3]
        codes, places = np.unique(colors @ (1 << 16, 1 << 8, 1), return_inverse=True)
        if painted.instances is None:
            numbers = np.cumsum(codes != 0) * (codes != 0)
        else:
            numbers = np.array([painted.instances.get(code, 0) for code in codes.tolist()])
        rasterizer.require_numbers(int(numbers.max()))
        instances = numbers[places].reshape(colors.shape[:2])
        if instances.shape != ids.shape:
            raise DataError(f'it has the size {instances.shape}, but the mask of classes {ids.shape} (height x width)')
    return np.where(np.isin(ids, list(things)), instances, 0).astype(np.uint16)
