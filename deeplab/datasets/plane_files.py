"""Files of depth and of masks of overlapping classes beside an image, and numbers, made planes of its record."""

from __future__ import annotations

import dataclasses
import io

import numpy as np

from deeplab.datasets import images, mask_sources, orientation, planes
from deeplab.errors import DataError
from deeplab.names import escaped
from deeplab.wording import option


@dataclasses.dataclass(frozen=True)
class PlaneFiles:
    """The files of a plane of one image.

    Attributes:
      plane: the plane.
      paths: paths of the files: one, or one for each class, of which None is a mask without a pixel.
    """

    plane: planes.Plane
    paths: tuple[str | None, ...]

    @property
    def key(self) -> str:
        """Identifies the state of the files."""
        states = [path and mask_sources.file_state(path) for path in self.paths]
        return f'{self.plane.feature} {self.plane.scale} {states}'

    def content(self, header: images.Header, turns_image: bool) -> bytes:
        """Returns the plane for a record, turned as the image is.

        Args:
          header: the image's header.
          turns_image: whether the image is turned upright.

        Raises:
          DataError: A file cannot be used, or does not fit the image; the message names it.
        """
        size = orientation.shown_size(header.size, header.orientation) if turns_image else header.size
        arrays = [
            np.zeros(size, np.uint16) if path is None else _upright(self.plane, path, header, turns_image)
            for path in self.paths
        ]
        if self.plane.kind == planes.MASKS:
            return images.encode_png(np.concatenate(arrays) > 0)
        if arrays[0].dtype == np.uint16:
            return images.encode_png(arrays[0])
        stream = io.BytesIO()
        np.save(stream, arrays[0])
        return stream.getvalue()


@dataclasses.dataclass(frozen=True, eq=False)
class PlaneNumbers:
    """The numbers of a plane of one image, which a builder has read itself.

    Attributes:
      plane: the plane, a list of floats.
      numbers: the numbers, of any shape.
    """

    plane: planes.Plane
    numbers: np.ndarray

    @property
    def key(self) -> str:
        """Identifies the numbers."""
        return f'{self.plane.feature} {self.numbers.tolist()}'

    def content(self, header: images.Header, turns_image: bool) -> np.ndarray:
        """Returns the numbers for a record; they belong to the image as it is displayed."""
        return self.numbers.ravel()


def _upright(plane: planes.Plane, path: str, header: images.Header, turns_image: bool) -> np.ndarray:
    """Returns the values of a file, turned as the image is: [h, w] uint16, or float32 for an array of depth."""
    content = mask_sources.contents(path)
    try:
        if plane.kind == planes.DEPTHS and content.startswith(images.ARRAY_MAGIC):
            values, turn = planes.read_depth_array(content), orientation.UPRIGHT
        else:
            values, turn = images.read_ids(content).astype(np.uint16), orientation.read(content)
            if plane.kind == planes.DEPTHS and plane.scale is None:
                raise DataError(f'it is a PNG, whose unit is unknown; set {option("BuildFolderOptions.depth_scale")}')
        sizes = header.size, header.orientation, values.shape[:2], turn
        decision = orientation.decide(*sizes)
        has_turn = header.orientation != orientation.UPRIGHT
        if decision is None or (has_turn and decision.turn_image != turns_image):
            height, width = values.shape
            text = f'it is {height} x {width} pixels (height x width), its image {header.height} x {header.width}'
            raise DataError(text + orientation.explanation(*sizes))
    except DataError as error:
        raise DataError(f"Cannot use '{escaped(path)}': {error}.") from None
    return orientation.turned_pixels(values, turn) if decision.turn_mask else values
