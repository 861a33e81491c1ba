"""Annotations of any tool: images, their shapes, and the labels of a data set."""

from __future__ import annotations

import collections
import dataclasses
import enum
from collections.abc import Callable, Iterable, Mapping

import numpy as np

Color = tuple[int, int, int]

MOST_PIXELS = 2**28  # of an image or a mask, so that a wrong number in a file does not exhaust the memory


class Filling(enum.Enum):
    """How a polygon covers pixels.

    Attributes:
      CENTERS: whole numbers are corners of pixels, and a pixel is covered if its center is inside.
      BORDER: whole numbers are centers of pixels, and pixels that the border passes are covered, too, as Pillow and
        OpenCV fill polygons.
      COCO: whole numbers are corners of pixels, and the package pycocotools decides on the pixels at the border.
    """

    CENTERS = enum.auto()
    BORDER = enum.auto()
    COCO = enum.auto()


@dataclasses.dataclass(frozen=True, eq=False)
class Polygon:
    """An area inside polygons.

    Attributes:
      rings: polygons, each [n, 2] float64 of x and y; a pixel is covered if one of them covers it.
      holes: polygons whose pixels are not covered.
      filling: rule by which polygons cover pixels.
    """

    rings: tuple[np.ndarray, ...]
    holes: tuple[np.ndarray, ...] = ()
    filling: Filling = Filling.CENTERS


@dataclasses.dataclass(frozen=True)
class Ellipse:
    """An ellipse.

    Attributes:
      x: column of its center; whole numbers are corners of pixels, or their centers if `with_border`.
      y: row of its center.
      radius_x: half of its width before the rotation.
      radius_y: half of its height before the rotation.
      rotation: clockwise, in degrees.
      with_border: whether it is filled as `Filling.BORDER`; only without a rotation.
    """

    x: float
    y: float
    radius_x: float
    radius_y: float
    rotation: float = 0.0
    with_border: bool = False


@dataclasses.dataclass(frozen=True)
class Bitmap:
    """Single pixels, decoded when they are needed.

    Attributes:
      decode: function that returns the covered pixels, [h, w] bool; it raises `DataError` for another size than stated.
      left: column of the image at which the pixels begin.
      top: row of the image at which the pixels begin.
    """

    decode: Callable[[], np.ndarray]
    left: int = 0
    top: int = 0


Geometry = Polygon | Ellipse | Bitmap


@dataclasses.dataclass(frozen=True)
class Shape:
    """An area with a label.

    Attributes:
      label: the tool's name of its class.
      geometry: the area.
      order: drawing order; higher numbers cover lower ones, and among equals, later shapes cover earlier ones.
      group: shapes of one class with the same group are one instance; None for a shape that is one by itself.
      is_crowd: whether it covers several instances that were not separated.
    """

    label: str
    geometry: Geometry
    order: float = 0
    group: str | None = None
    is_crowd: bool = False


@dataclasses.dataclass(frozen=True)
class PaintedMask:
    """A mask that the tool has painted.

    Attributes:
      path: the PNG file.
      colors: label of each color (red << 16 | green << 8 | blue), for masks with colors or a palette; None for the
        color of pixels that are not labeled.
      indices: label of each value of a mask with one channel; None for pixels that are not labeled.
      allows_others: whether pixels of any other color are not labeled; otherwise they are an error.
      instances: number of the instance of each color, from 1 on; None if colors do not tell instances apart.
      objects: path of a PNG file with a color for each instance, and black for none; None for none.
    """

    path: str
    colors: Mapping[int, str | None] = dataclasses.field(default_factory=dict)
    indices: Mapping[int, str | None] = dataclasses.field(default_factory=dict)
    allows_others: bool = False
    instances: Mapping[int, int] | None = None
    objects: str | None = None

    @property
    def has_instances(self) -> bool:
        """Whether the tool has painted instances."""
        return self.instances is not None or self.objects is not None


@dataclasses.dataclass(frozen=True)
class AnnotatedImage:
    """The annotation of one image.

    Attributes:
      path: path of the annotation file.
      place: place in the file, for messages; empty for the whole file.
      names: paths or names of the image, as the annotation states them, the most exact one first.
      folders: folders in which these names are looked up before others.
      size: height and width of the image in pixels; None if the annotation does not state them.
      shapes: the areas; later ones cover earlier ones, unless their `order` differs.
      painted: a mask instead of shapes.
      split: the tool's name of the split; None for none.
      embedded: file that contains the image itself (labelme); None for none.
      uploaded: name that Label Studio gave the uploaded image, with some characters replaced; None for none.
    """

    path: str
    place: str
    names: tuple[str, ...]
    folders: tuple[str, ...] = ()
    size: tuple[int, int] | None = None
    shapes: tuple[Shape, ...] = ()
    painted: PaintedMask | None = None
    split: str | None = None
    embedded: str | None = None
    uploaded: str | None = None

    def labels(self) -> collections.Counter[str]:
        """Returns how many shapes have each label; a label of a painted mask counts once."""
        counts = collections.Counter(shape.label for shape in self.shapes)
        if self.painted is not None:
            labels = {*self.painted.colors.values(), *self.painted.indices.values()}
            counts.update(label for label in labels if label is not None)
        return counts


@dataclasses.dataclass(frozen=True)
class Label:
    """A class that the tool lists.

    Attributes:
      name: name of the class.
      color: color of the class; None for none.
    """

    name: str
    color: Color | None = None


@dataclasses.dataclass
class AnnotationSet:
    """The annotations of a data set.

    Attributes:
      format: name of the format.
      images: the images.
      labels: the classes in the tool's order, without classes that only shapes name.
      left_out: number of annotations that were left out, by reason.
      not_images: paths of masks that could be mistaken for images, in addition to `PaintedMask.path`.
    """

    format: str
    images: list[AnnotatedImage] = dataclasses.field(default_factory=list)
    labels: list[Label] = dataclasses.field(default_factory=list)
    left_out: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    not_images: list[str] = dataclasses.field(default_factory=list)

    def add_labels(self, labels: Iterable[Label]) -> None:
        """Adds the classes in a file that are not in other files."""
        names = {label.name for label in self.labels}
        self.labels += [label for label in labels if label.name not in names]
