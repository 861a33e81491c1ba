"""List of annotation formats, and recognition of a format by the content of files."""

from __future__ import annotations

import os
from collections.abc import Iterator

import tqdm
from absl import logging

from deeplab.datasets import folders
from deeplab.datasets.annotations import (
    coco,
    cvat_xml,
    geojson,
    hasty,
    label_studio,
    labelme,
    mask_tables,
    reading,
    superannotate,
    supervisely,
)
from deeplab.datasets.annotations.reading import Format
from deeplab.datasets.annotations.shapes import AnnotationSet
from deeplab.datasets.annotations.writing import Writer
from deeplab.errors import DataError
from deeplab.names import agreeing, counted, shown
from deeplab.wording import option

# The first that recognizes a file is taken. A new format needs its module, and a line here.
FORMATS: tuple[Format, ...] = (
    labelme.FORMAT,
    cvat_xml.FORMAT,
    mask_tables.CVAT,
    label_studio.FORMAT,
    coco.FORMAT,
    supervisely.FORMAT,
    superannotate.FORMAT,
    hasty.MASKS,
    hasty.JSON,
    mask_tables.ROBOFLOW,
)
# By the names that `PredictOptions.save` has for them.
WRITERS: dict[str, Writer] = {
    writer.name: writer
    for writer in (
        labelme.WRITER,
        cvat_xml.WRITER,
        coco.WRITER,
        label_studio.WRITER,
        supervisely.WRITER,
        geojson.WRITER,
    )
}
_SUFFIXES = ('.json', '.xml')
_ARCHIVES = ('.zip', '.tar', '.gz', '.tgz', '.7z', '.rar')
_SHOWN = 3  # number of files that a message names


def read(path: str) -> AnnotationSet:
    """Reads the annotations in a file, or in a folder and the folders in it.

    Args:
      path: path of the file or folder.

    Raises:
      DataError: There are none, they are of several formats, a file is broken, or a folder cannot be read.
    """
    by_format: dict[str, AnnotationSet] = {}
    broken, unknown = [], []
    files = list(_files(path))
    for file in tqdm.tqdm(files, 'read', unit='file', leave=False, disable=None):
        try:
            document = reading.load(file)
            if (fitting := next((each for each in FORMATS if each.recognizes(document)), None)) is None:
                unknown.append(file)
                continue
            with reading.within(f"'{shown(file)}' ({fitting.name})"):
                fitting.parse(document, by_format.setdefault(fitting.name, AnnotationSet(fitting.name)))
        except DataError as error:
            broken.append(str(error))
    if broken:
        more = f' And {len(broken) - _SHOWN} more.' if len(broken) > _SHOWN else ''
        count = f'{len(broken)} annotation files cannot be used. ' if len(broken) > 1 else ''
        fix = 'Export the annotations again, or remove the broken files.'
        raise DataError(f'{count}{". ".join(broken[:_SHOWN])}.{more} {fix}')
    by_format = {name: annotations for name, annotations in by_format.items() if annotations.images}
    if not by_format:
        seen = f'{len(unknown)} files were read, such as {shown(unknown[0])}. ' if unknown and unknown != [path] else ''
        tried = '; '.join(f'{candidate.name}: {candidate.looks_for}' for candidate in FORMATS)
        raise DataError(f"'{shown(path)}' contains no annotations of a known format. {seen}Known are {tried}.")
    if unknown:
        number = len(unknown)
        said = f'{counted(number, "file")} {agreeing(number, "are")} of no known format and left out'
        logging.info("%s, such as '%s'.", said, shown(unknown[0]))
    if len(by_format) > 1:
        parts = ', '.join(f'{name} ({len(annotations.images)} images)' for name, annotations in by_format.items())
        raise DataError(
            f"'{shown(path)}' contains annotations of several formats: {parts}. Pass a file or folder of one."
        )
    return next(iter(by_format.values()))


def _files(path: str) -> Iterator[str]:
    """Yields the files that may hold annotations, sorted by path."""
    if os.path.isfile(path):
        if path.lower().endswith(_ARCHIVES):
            raise DataError(f"'{shown(path)}' is an archive. Unpack it first, and pass the folder.")
        yield path
        return
    if not os.path.isdir(path):
        fix = option('BuildFolderOptions.annotations')
        raise DataError(f"The annotations '{shown(path)}' do not exist. Set {fix} to a file or folder.")
    for here, names in folders.walk(path):
        for name in names:
            if name.lower().endswith(_SUFFIXES) or name in mask_tables.TABLES:
                yield os.path.join(here, name)
