"""Download of one file by HTTP, which continues after a broken connection."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from typing import Any

import tqdm
from absl import logging

import deeplab
from deeplab import names
from deeplab.errors import DownloadError, OutputError
from deeplab.files import documents, writing
from deeplab.options import FetchOptions
from deeplab.wording import option

LARGEST_FILE = 2 << 30  # bytes
PAUSES_SECS = (1, 2, 4, 8, 16)  # after failures in a row that brought nothing new
MIRROR_VARIABLE = 'DEEPLAB_MIRROR'
_TIMEOUT_SECS = 30  # without a byte
_CHUNK = 1 << 16
_LOG_SECS = 10  # between lines about the progress without a terminal
# What the first bytes of each kind of archive are, and where.
_BEGINNINGS = {
    '.tar.gz': (0, b'\x1f\x8b'),
    '.tgz': (0, b'\x1f\x8b'),
    '.tar': (257, b'ustar'),
    '.zip': (0, b'PK\x03\x04'),
}
_TEMPORARY = (408, 425, 429, 500, 502, 503, 504)  # statuses of a server that may answer later
_CONTENT_RANGE = re.compile(r'bytes (\d+)-(\d+)/(\d+)')


class UnreachableError(DownloadError):
    """The server cannot be reached, probably because this machine is offline."""


class _InterruptedError(Exception):
    """The transfer has stopped before its end, and may be continued."""


def download(address: str, path: str, pauses: Sequence[float] = PAUSES_SECS) -> None:
    """Downloads an archive: .tar.gz, .tar or .zip.

    Until it is complete it is called PATH.part; PATH.part.json says where it comes from, so that a later call with the
    same address continues it if the server's file is still the same.

    Args:
      address: http or https.
      path: the file to write.
      pauses: seconds to wait after each failure in a row that brought nothing new; after the last one it gives up.

    Raises:
      UnreachableError: the server cannot be reached.
      DownloadError: it does not send the file.
      OutputError: the disk is too small.
      OSError: the file cannot be written.
    """
    partial = _Partial(path, address)
    best, failures = partial.size, 0
    while True:
        try:
            _receive(partial)
            break
        except _InterruptedError as error:
            failures = 0 if partial.size > best else failures + 1
            best = max(best, partial.size)
            if failures > len(pauses):
                raise DownloadError(
                    f'{address} was not received after {failures} attempts: {error}. What has arrived is kept; run the '
                    'same command again to continue.'
                ) from None
            time.sleep(pauses[max(failures - 1, 0)] if pauses else 0)
    partial.complete()


def part_of(path: str) -> str:
    """Returns the name that a file has until its download is complete."""
    return f'{path}.part'


def mirror_of(options: FetchOptions) -> str | None:
    """Returns the address of the folder that the user names for archives, without a slash at its end; None for none.

    Raises:
      DownloadError: it is no address of http or https.
    """
    mirror, field = options.mirror, option('FetchOptions.mirror')
    if not mirror:
        mirror, field = os.environ.get(MIRROR_VARIABLE), MIRROR_VARIABLE
    if not mirror:
        return None
    try:
        parts = urllib.parse.urlsplit(mirror)
        is_good = parts.scheme in ('http', 'https') and bool(parts.hostname) and parts.username is None
    except ValueError:
        is_good = False
    if not is_good or not mirror.isascii() or not mirror.isprintable() or ' ' in mirror:
        raise DownloadError(
            f'{field}={names.shown(mirror)} is not allowed: it must be an address such as https://host/folder/, '
            'without a user name.'
        )
    return mirror.rstrip('/')


class _HttpRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to http and https, but not from https to http, nor to a file."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        scheme = urllib.parse.urlsplit(newurl).scheme
        if scheme != 'https' and (scheme != 'http' or req.type == 'https'):
            raise DownloadError(
                f'{req.full_url} redirects to {names.shown(newurl)}, which is refused: only https, and http from http, '
                'are followed.'
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _Partial:
    """A file that is being downloaded to `path`; what has arrived is in `file`."""

    def __init__(self, path: str, address: str) -> None:
        self.path, self.address, self.file = path, address, part_of(path)
        self._note = f'{self.file}.json'
        self.is_reached = False  # whether the server has answered

    @property
    def size(self) -> int:
        """Number of bytes that have arrived."""
        return os.path.getsize(self.file) if os.path.isfile(self.file) else 0

    def origin(self) -> tuple[str, int | None]:
        """Returns the validator (ETag or date) and the size of the file that the bytes are from; '' to start anew."""
        with contextlib.suppress(FileNotFoundError, documents.DocumentError, KeyError, TypeError):  # then anew
            note = documents.load(self._note)
            if note['address'] == self.address and self.size:
                return str(note['validator']), note['size']
        return '', None

    def begin(self, validator: str, size: int | None) -> None:
        """Drops the bytes that have arrived; notes what will."""
        self.drop()
        writing.write(self._note, json.dumps({'address': self.address, 'validator': validator, 'size': size}))

    def drop(self) -> None:
        """Removes what has arrived."""
        writing.remove(self.file)
        writing.remove(self._note)

    def complete(self) -> None:
        """Gives the file its name."""
        os.replace(self.file, self.path)
        writing.remove(self._note)


def _receive(partial: _Partial) -> None:
    """Receives the file, or the rest of it; raises `_InterruptedError` if it ends before."""
    validator, size = partial.origin()
    start = partial.size if validator else 0
    if size is not None and start == size:
        return
    headers = {'User-Agent': f'deeplab/{deeplab.__version__}', 'Accept-Encoding': 'identity'}
    if start:
        headers |= {'Range': f'bytes={start}-', 'If-Range': validator}
    with _response(partial, urllib.request.Request(partial.address, headers=headers)) as response:
        if response.status == 206:
            part = _CONTENT_RANGE.fullmatch(response.headers.get('Content-Range', ''))
            if not start or not part or int(part[1]) != start or size not in (None, int(part[3])):
                partial.drop()
                raise _InterruptedError('the server sent another part than the one that was asked for')
        else:
            length = response.headers.get('Content-Length') or ''
            start, size = 0, int(length) if length.isascii() and length.isdigit() else None
            if size is not None:
                _check_size(partial, size)
            etag = response.headers.get('ETag') or ''
            # What identifies this version of the file to the server; '' if nothing does.
            validator = etag if etag.startswith('"') else response.headers.get('Last-Modified') or ''
            partial.begin(validator, size)
        _write(partial, response, size)
    if size is not None and partial.size != size:
        raise _InterruptedError(f'the connection ended after {partial.size:,} of {size:,} bytes')


def _response(partial: _Partial, request: urllib.request.Request) -> Any:
    """Returns the answer of the server, whose status is 200 or 206."""
    try:
        response = urllib.request.build_opener(_HttpRedirects).open(request, timeout=_TIMEOUT_SECS)
        partial.is_reached = True
    except urllib.error.HTTPError as error:
        partial.is_reached = True
        with error:
            if error.code == 416:  # nothing follows the received part: it belongs to another file
                partial.drop()
            if error.code == 416 or error.code in _TEMPORARY:
                raise _InterruptedError(f'the server answered with status {error.code}') from None
            raise DownloadError(
                f'{partial.address} cannot be downloaded: the server answered with status {error.code} '
                f'({names.shown(str(error.reason))}).'
            ) from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, 'reason', None) or error
        text = names.shown(str(reason) or type(reason).__name__)
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise DownloadError(f'{partial.address}: the certificate of the server is not valid ({text}).') from None
        if isinstance(error, urllib.error.URLError) and not partial.is_reached:  # there is no connection
            raise UnreachableError(f'{partial.address} cannot be reached ({text}).') from None
        raise _InterruptedError(text) from None
    if response.status not in (200, 206):
        response.close()
        raise DownloadError(f'{partial.address}: the server answered with status {response.status} without a file.')
    return response


def _write(partial: _Partial, response: Any, size: int | None) -> None:
    """Appends the body of an answer to the file; shows the progress."""
    title, logged = os.path.basename(partial.path), time.monotonic()
    bar = tqdm.tqdm(desc=title, initial=partial.size, total=size, unit='B', unit_scale=True, disable=None)
    with open(partial.file, 'ab') as file, bar:
        while True:
            try:
                chunk = response.read(_CHUNK)
            except (OSError, http.client.HTTPException) as error:
                raise _InterruptedError(names.shown(str(error) or type(error).__name__)) from None
            if not chunk:
                return
            if not file.tell():
                _require_archive(partial, response, chunk)
            file.write(chunk)
            bar.update(len(chunk))
            if bar.disable and time.monotonic() - logged >= _LOG_SECS:
                logged = time.monotonic()
                logging.info('%s: %s of %s', title, names.byte_size(file.tell()), names.byte_size(size))
            if file.tell() > LARGEST_FILE:
                _check_size(partial, file.tell())


def _require_archive(partial: _Partial, response: Any, content: bytes) -> None:
    """Raises `DownloadError` if an answer begins as another file, such as a page with an error message."""
    extension = next((ending for ending in _BEGINNINGS if partial.path.endswith(ending)), '.tar.gz')
    offset, wanted = _BEGINNINGS[extension]
    if content[offset : offset + len(wanted)] == wanted:
        return
    partial.drop()
    kind = names.shown(response.headers.get('Content-Type') or 'something of unknown type')
    raise DownloadError(
        f'{partial.address}: the server sent {kind} instead of an archive of its kind (.tar.gz, .tar, .zip). Is it a '
        'page of a proxy or a login? Open the address in a browser.'
    )


def _check_size(partial: _Partial, size: int) -> None:
    """Raises unless a file of `size` bytes is allowed and fits on the disk."""
    if size > LARGEST_FILE:
        partial.drop()
        raise DownloadError(f'{partial.address} has {size:,} bytes or more; at most {LARGEST_FILE:,} are allowed.')
    folder = os.path.dirname(partial.path) or '.'
    free = shutil.disk_usage(folder).free
    if size > free:
        raise OutputError(f'{partial.address} has {size:,} bytes, but only {free:,} are free in {folder}.')
