"""Archives for the evaluation servers of PASCAL VOC and Cityscapes, checked before they are put in place."""

from __future__ import annotations

import collections
import io
import os
import re
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from absl import logging
from PIL import Image

from deeplab import names
from deeplab.datasets.descriptor import DatasetDescriptor, bit_shift_palette
from deeplab.errors import DataError, OptionError
from deeplab.evaluation.further_pictures import Shown
from deeplab.files import output_files, writing
from deeplab.names import listed
from deeplab.utils import save_annotation
from deeplab.wording import option

_FIELD = 'VisOptions.submission'
_MOST_CASES = 3  # that a message names

Size = tuple[int, int]  # height and width


class Server(NamedTuple):
    """What an evaluation server asks for.

    Attributes:
      archive: name of the file.
      folder: folder of the pictures in the archive.
      ids: the ids that it evaluates.
      names: matches names of images; the group `image` is what the server identifies an image by.
      example: example of a name.
      has_palette: whether pictures are indices of the palette of VOC; otherwise they are gray.
      dataset: data set with these ids.
    """

    archive: str
    folder: str
    ids: tuple[int, ...]
    names: re.Pattern[str]
    example: str
    has_palette: bool
    dataset: str


SERVERS = {
    # Source: development kit of VOC 2012, section 5.3: one indexed PNG file a test image, named as the image, in the
    # folder of the competition; comp6 allows any training data. The server takes .tar, .tgz and .tar.gz.
    'voc': Server(
        'voc_submission.tar.gz',
        'results/VOC2012/Segmentation/comp6_test_cls/',
        tuple(range(21)),
        re.compile(r'(?P<image>\d{4}_\d{6})'),
        '2008_000001',
        True,
        'pascal_voc_seg',
    ),
    # Source: cityscapesScripts, evalPixelLevelSemanticLabeling: ids of labels.py (not train ids), names
    # CITY_SEQUENCE_FRAME*.png in any folder, exactly one for each image; uploaded as one ZIP file.
    'cityscapes': Server(
        'cityscapes_submission.zip',
        '',
        (7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33),
        re.compile(r'(?P<image>[A-Za-z-]+_\d{6}_\d{6}).*'),
        'berlin_000000_000019',
        False,
        'cityscapes',
    ),
}


class Submission:
    """Writes the pictures of a split as a server asks for them, and then their archive.

    Attributes:
      path: path of the archive.
    """

    def __init__(self, server: str, folder: str, descriptor: DatasetDescriptor, sizes: np.ndarray) -> None:
        """Creates the object; writes nothing yet.

        Args:
          server: one of `SERVERS`.
          folder: folder for the archive, and for a folder with its content.
          descriptor: descriptor of the data set.
          sizes: [n, 2], height and width of each image of the split.
        """
        self._server = SERVERS[server]
        self.path = os.path.join(folder, self._server.archive)
        self._root = os.path.join(folder, f'{server}_submission')
        self._pictures = os.path.join(self._root, self._server.folder)
        self._ids = np.array(_submitted_ids(descriptor), np.uint8)
        self._palette = bit_shift_palette(256) if self._server.has_palette else None
        self._sizes = sizes
        self._written: dict[str, Size] = {}  # by name in the archive

    def write(self, shown: Shown) -> list[str]:
        """Writes the picture of an image; returns its path.

        Raises:
          DataError: The file cannot be written.
        """
        output_files.make_folder(self._pictures)
        path = save_annotation.save_image(self._ids[shown.ids], self._pictures, shown.name, self._palette)
        height, width = self._sizes[shown.number].tolist()
        self._written[f'{self._server.folder}{shown.name}.png'] = height, width
        return [path]

    def finish(self) -> list[str]:
        """Writes the archive, checks it and puts it in place; returns its path.

        Raises:
          DataError: The server would refuse it, or it cannot be written.
        """
        writing.remove_leftovers(os.path.dirname(self.path), re.escape(self._server.archive))
        with writing.explained(self.path), writing.atomic_path(self.path) as temporary:
            _write_archive(temporary, self._root, sorted(self._written), self._server)
            wrong = problems(temporary, self._server, self._written)
            if wrong:
                raise DataError(
                    f"'{self.path}' is not written, because the server would refuse it: {'; '.join(wrong)}. Fix "
                    f'the records or the data set; the pictures are in {self._root}.'
                )
        return [self.path]

    def report(self) -> str:
        """Returns one line about the archive, for the user."""
        return f'For the evaluation server, checked: {self.path}'


def _wrong_names(images: Sequence[str], server: Server) -> list[str]:
    """Returns what a server would find wrong in the names of all images; nothing if they are good."""
    matches = {name: server.names.fullmatch(name) for name in images}
    unknown = [names.shown(name) for name, match in matches.items() if match is None]
    keys = collections.Counter(match['image'] if (match := matches[name]) else name for name in images)
    twice = [names.shown(key) for key, count in keys.items() if count > 1]
    wrong = [f'names that are not like {server.example}: {listed(unknown, _MOST_CASES)}'] if unknown else []
    return wrong + ([f'several images of one name: {listed(twice, _MOST_CASES)}'] if twice else [])


def check(
    server: str, descriptor: DatasetDescriptor, split: str, image_names: Sequence[str], unreadable: Sequence[str]
) -> None:
    """Checks what can be known before anything is predicted: ids, names and number of the images.

    Args:
      server: one of `SERVERS`.
      descriptor: descriptor of the data set.
      split: its name.
      image_names: names of the images in its valid records.
      unreadable: records that are skipped, one line each.

    Raises:
      OptionError: The server does not evaluate the ids of the data set.
      DataError: A record cannot be read, or the server does not know the names of the images.
    """
    allowed = SERVERS[server].ids
    foreign = [str(number) for number in sorted(set(_submitted_ids(descriptor)) - set(allowed))]
    if foreign:
        raise OptionError(
            f"{option(_FIELD, server)}: the data set '{descriptor.name}' gives the ids {listed(foreign, _MOST_CASES)}, "
            f'which the server does not evaluate. Use {option("DatasetOptions.name", SERVERS[server].dataset)}, or set '
            f'eval_ids in the description of the data set to ids among {", ".join(map(str, allowed))}.'
        )
    if unreadable:
        raise DataError(
            f'{option(_FIELD, server)} needs every image of the split, but '
            f'{names.counted(len(unreadable), "record")} cannot be read: {listed(unreadable, _MOST_CASES)}. '
            'Build the records again.'
        )
    wrong = _wrong_names([names.file_name(name)[0] for name in image_names], SERVERS[server])
    if wrong:
        raise DataError(
            f'{option(_FIELD, server)}: the server would refuse the archive: {"; ".join(wrong)}. Build the records '
            'from images with their original names.'
        )
    number = descriptor.splits.get(split)
    if number is not None and number != len(image_names):
        logging.warning(
            "The records of split '%s' have %d images, the split itself has %d: the server refuses an archive in which "
            'images are missing.',
            split,
            len(image_names),
            number,
        )


def problems(path: str, server: Server, expected: Mapping[str, Size]) -> list[str]:
    """Returns what a server would find wrong in an archive; nothing if it is good.

    Args:
      path: path of the archive.
      server: what is asked for.
      expected: height and width of each picture, by its name in the archive.
    """
    missing = dict.fromkeys(expected)
    wrong: dict[str, list[str]] = {}
    for name, content in _members(path, server):
        shown = names.shown(name.removeprefix(server.folder))
        if name not in expected:
            wrong.setdefault('pictures of no image', []).append(shown)
        elif name not in missing:
            wrong.setdefault('pictures that are there twice', []).append(shown)
        elif (kind := _wrong_picture(content, expected[name], server)) is not None:
            wrong.setdefault(kind[0], []).append(f'{shown}{kind[1]}')
        missing.pop(name, None)
    if missing:
        wrong['missing pictures'] = [names.shown(name.removeprefix(server.folder)) for name in missing]
    return [f'{kind}: {listed(cases, _MOST_CASES)}' for kind, cases in wrong.items()]


def _wrong_picture(content: bytes, size: Size, server: Server) -> tuple[str, str] | None:
    """Returns what is wrong with a picture: the kind, and details; None if nothing is."""
    try:
        with Image.open(io.BytesIO(content), formats=('PNG',)) as picture:
            if picture.size != size[::-1]:
                sizes = f'{picture.height}x{picture.width} for {size[0]}x{size[1]}'
                return 'sizes that differ from the images', f' ({sizes})'
            if picture.mode != ('P' if server.has_palette else 'L'):
                return 'pictures that do not hold ids in 8 bits', ''
            ids = np.asarray(picture)
    except (OSError, SyntaxError, ValueError) as error:
        return 'pictures that cannot be read', f' ({error})'
    foreign = np.setdiff1d(ids, server.ids).astype(str).tolist()
    return ('ids that the server does not evaluate', f' ({listed(foreign, _MOST_CASES)})') if foreign else None


def _submitted_ids(descriptor: DatasetDescriptor) -> Sequence[int]:
    """Returns the id of each class in the data set's own evaluation."""
    return range(descriptor.num_classes) if descriptor.eval_ids is None else descriptor.eval_ids


def _write_archive(path: str, root: str, pictures: Iterable[str], server: Server) -> None:
    """Writes an archive of the given pictures below `root`, without missing ones."""
    existing = [name for name in pictures if os.path.isfile(os.path.join(root, name))]
    if server.archive.endswith('.zip'):
        with zipfile.ZipFile(path, 'w', zipfile.ZIP_STORED) as archive:  # PNG files are compressed already
            for name in existing:
                archive.write(os.path.join(root, name), name)
        return
    with tarfile.open(path, 'w:gz', compresslevel=1) as tar:
        for name in existing:
            member = tarfile.TarInfo(name)  # without the user's name
            member.size = os.path.getsize(os.path.join(root, name))
            with open(os.path.join(root, name), 'rb') as stream:
                tar.addfile(member, stream)


def _members(path: str, server: Server) -> Iterator[tuple[str, bytes]]:
    if server.archive.endswith('.zip'):
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                yield info.filename, archive.read(info)
        return
    with tarfile.open(path, 'r:gz') as tar:
        for member in tar:
            stream = tar.extractfile(member)
            yield member.name, stream.read() if stream is not None else b''
