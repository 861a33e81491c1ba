"""Planes of records from files in folders of instances, depth or overlapping classes, or from numbers."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Sequence

import numpy as np

from deeplab.datasets import file_pairs, folders, images, mask_sources, orientation, planes
from deeplab.errors import DataError
from deeplab.names import escaped
from deeplab.options import BuildFolderOptions
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

    def content(self, header: images.Header, turns_image: bool, size: tuple[int, int]) -> bytes:
        """Returns the plane for a record, turned and resized as the image is.

        Args:
          header: the image's header.
          turns_image: whether the image is turned upright.
          size: height and width of the image in the record.

        Raises:
          DataError: A file cannot be used, or does not fit the image; the message names it.
        """
        arrays = [
            np.zeros(size, np.uint16)
            if path is None
            else images.nearest(_upright(self.plane, path, header, turns_image), size)
            for path in self.paths
        ]
        if self.plane.kind == planes.MASKS:
            images.require_decodable(len(arrays) * arrays[0].size, f'the masks of {len(arrays)} classes')
            return images.encode_png(np.concatenate(arrays) > 0)
        if arrays[0].dtype == np.uint16:
            return images.encode_png(arrays[0])
        return images.encode_array(arrays[0])


@dataclasses.dataclass(frozen=True, eq=False)
class PlaneNumbers:
    """The numbers of a plane of one image, which a builder has read itself.

    Attributes:
      plane: the plane, a list of numbers.
      numbers: the floats, of any shape; or one integer, or several [n].
    """

    plane: planes.Plane
    numbers: np.ndarray | int

    @property
    def key(self) -> str:
        """Identifies the numbers."""
        return f'{self.plane.feature} {np.asarray(self.numbers).tolist()}'

    def content(self, header: images.Header, turns_image: bool, size: tuple[int, int]) -> np.ndarray | int:
        """Returns the numbers for a record; they belong to the image as it is displayed."""
        return self.numbers if isinstance(self.numbers, int) else self.numbers.ravel()


def turned_as_image(values: np.ndarray, turn: int, header: images.Header, turns_image: bool) -> np.ndarray:
    """Returns the values of a plane, turned as its image is.

    Args:
      values: [h, w], the plane as it is stored.
      turn: EXIF orientation of the plane.
      header: the image's header.
      turns_image: whether the image is turned upright.

    Raises:
      DataError: The plane fits the image in no orientation, or in another one than the image gets.
    """
    sizes = header.size, header.orientation, values.shape[:2], turn
    decision = orientation.decide(*sizes)
    if decision is None:
        height, width = values.shape
        text = f'it is {height} x {width} pixels (height x width), its image {header.height} x {header.width}'
        raise DataError(text + orientation.explanation(*sizes))
    if header.orientation != orientation.UPRIGHT and decision.turn_image != turns_image:
        raise DataError('it fits the image in another EXIF orientation than its class mask')
    return orientation.turned_pixels(values, turn) if decision.turn_mask else values


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
        return turned_as_image(values, turn, header, turns_image)
    except DataError as error:
        raise DataError(f"Cannot use '{escaped(path)}': {error}.") from None


def instances(options: BuildFolderOptions, stems: Collection[str]) -> dict[str, str] | None:
    """Returns the file of the instance mask of each image; None if there is no folder of them.

    Args:
      options: the folder.
      stems: relative paths of the images without extension.

    Raises:
      DataError: The folder or a file is missing.
    """
    return _of_every(stems, options, 'instance_folder', ('png',), 'instance mask (zeros for no instance)')


def _of_every(
    stems: Collection[str], options: BuildFolderOptions, field: str, formats: Sequence[str], what: str
) -> dict[str, str] | None:
    """Returns the files in the folder of an option by stem; None if it is not set."""
    folder = getattr(options, field)
    if folder is None:
        return None
    folders.require_folder(folder, f'BuildFolderOptions.{field}')
    files = file_pairs.by_stem(folder, formats)
    if lost := [stem for stem in stems if stem not in files]:
        raise DataError(
            f"{len(lost)} of {len(stems)} images have no {what} in '{folder}': {file_pairs.named(lost)}. It has the "
            f'path of its image, relative to its folder, apart from the extension ({", ".join(formats)}).'
        )
    return files


def class_folders(options: BuildFolderOptions) -> list[str]:
    """Returns the names of the folders of masks of overlapping classes, in the order of the classes.

    Args:
      options: the folder of these folders, and the names of the classes; without names, all folders, sorted.

    Raises:
      DataError: A folder is missing.
    """
    root = options.multilabel_folder
    if root is None:
        return []
    folders.require_folder(root, 'BuildFolderOptions.multilabel_folder')
    there = sorted(entry.name for entry in os.scandir(root) if entry.is_dir() and not entry.name.startswith('.'))
    names = list(options.class_names) or there
    lost = [name for name in names if name not in there]
    if lost or not names:
        raise DataError(
            f"'{root}' has no folder for the classes {', '.join(lost) or '(there is none)'}. {folders.summary(root)} "
            'It needs a folder with the masks of each class.'
        )
    return names


def find(options: BuildFolderOptions, stems: Collection[str]) -> dict[str, tuple[PlaneFiles, ...]]:
    """Returns the files of the planes of each image.

    Args:
      options: the folders.
      stems: relative paths of the images without extension.

    Raises:
      DataError: A folder is missing, or a file is.
    """
    files: dict[str, tuple[PlaneFiles, ...]] = dict.fromkeys(stems, ())
    if depths := _of_every(stems, options, 'depth_folder', ('npy', 'png'), 'depth'):
        plane = planes.DEPTH._replace(scale=options.depth_scale)
        for stem in stems:
            files[stem] += (PlaneFiles(plane, (depths[stem],)),)
    if names := class_folders(options):
        root = str(options.multilabel_folder)
        masks = [file_pairs.by_stem(os.path.join(root, name), ('png',)) for name in names]
        for name, of_class in zip(names, masks, strict=True):
            if of_class and not of_class.keys() & files.keys():
                raise DataError(
                    f"No mask in '{os.path.join(root, name)}' has the path of an image, relative to its folder, apart "
                    f'from the extension: {file_pairs.named(sorted(of_class))}.'
                )
        plane = planes.MULTILABEL._replace(channels=len(names))
        for stem in stems:
            files[stem] += (PlaneFiles(plane, tuple(of_class.get(stem) for of_class in masks)),)
    return files
