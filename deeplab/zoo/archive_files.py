"""Archives in the cache folder: those that a user has put there, and downloaded ones, which do not stay there."""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Iterator

from absl import logging

from deeplab.errors import DownloadError
from deeplab.files import writing
from deeplab.zoo import transfer
from deeplab.zoo.archives import DamagedArchiveError


@contextlib.contextmanager
def available(path: str, address: str, size: str, advice: str) -> Iterator[str]:
    """Downloads an archive, unless it is there, and yields the address it came from; '' if a user has put it there.

    Of a `DamagedArchiveError` in the block, the message is completed with what to do.

    A downloaded archive is removed when the block ends, or rejects it with a `DownloadError`. If the block is
    interrupted or fails otherwise, for example on a full disk, the archive stays, and the next call takes it.

    Args:
      path: of the archive. PATH.source holds the address of a downloaded one.
      address: http or https.
      size: of the download, for the log, such as ' (12 MB)'; '' if it is unknown.
      advice: what users can do if the download fails, as sentences.

    Raises:
      DownloadError: It cannot be downloaded.
      OSError: It cannot be written.
    """
    source = f'{path}.source'
    if os.path.isfile(path) and not _is_downloaded(path, source):
        logging.info('Taking %s, which was put there by hand.', path)
        try:
            yield ''
        except DamagedArchiveError as error:
            fix = 'It was put there by hand, so it stays: replace it, or remove it to have it downloaded'
            raise DamagedArchiveError(f'{error} {fix}, and run the same command again.') from None
        return
    if not os.path.isfile(path):
        _download(path, source, address, size, advice)
    try:
        yield pathlib.Path(source).read_text('utf-8')
    except DownloadError as error:
        _remove(path, source)
        if isinstance(error, DamagedArchiveError):
            raise DamagedArchiveError(f'{error} It was removed: run the same command again.') from None
        raise
    _remove(path, source)


def _is_downloaded(path: str, source: str) -> bool:
    """Returns whether an archive was downloaded; an unfinished download beside it shows that it was not."""
    return os.path.isfile(source) and not os.path.exists(transfer.part_of(path))


def _download(path: str, source: str, address: str, size: str, advice: str) -> None:
    """Downloads an archive, and notes its address before it gets its name."""
    logging.info('Downloading %s%s to %s.', address, size, os.path.dirname(path))
    with writing.atomic_write(source) as stream:
        stream.write(address)
    try:
        transfer.download(address, path)
    except BaseException as error:
        writing.remove(source)
        if isinstance(error, DownloadError):
            raise type(error)(f'{error} {advice}') from None
        raise


def _remove(path: str, source: str) -> None:
    """Removes a downloaded archive; the note last, so that the archive is never taken for a user's."""
    writing.remove(path)
    writing.remove(source)
