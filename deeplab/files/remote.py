"""Storages that are not on a local disk: TensorFlow reads gs:// and the like, fsspec http://, https:// and s3://.

A request that fails for a moment is repeated, after waits that double; one that goes on failing is a `StorageError`.
"""

from __future__ import annotations

import errno
import functools
import http.client
import os
import posixpath
import random
import time
import urllib.parse
import zlib
from collections.abc import Callable
from typing import Any, TypeVar

from absl import logging

from deeplab.errors import DataError, StorageError
from deeplab.system import packages

PARALLEL_READS = 32  # requests that wait for a storage at the same time
TRIES = 8
LONGEST_SECS = 120.0  # after which a request that fails is not repeated
FIRST_WAIT_SECS, LONGEST_WAIT_SECS = 0.5, 16.0
TIMEOUT_SECS = 60.0  # of a connection that carries nothing

WEB_SCHEMES = ('http', 'https')
_PACKAGES = {'http': 'aiohttp', 'https': 'aiohttp', 's3': 's3fs'}  # that fsspec needs, by scheme
_IN_MEMORY = 'ram'  # the scheme of TensorFlow's files in memory, which is not suggested
_PASSING_STATUSES = (408, 425, 429)  # of HTTP; from 400 to 499, all others are final
_HAS_TRIED = errno.ETIMEDOUT  # of a storage that has itself repeated a request in vain
_STATUS_ERRORS = {401: errno.EACCES, 403: errno.EACCES, 404: errno.ENOENT, 410: errno.ENOENT}

_COPY = 'Use another server, such as nginx, or copy the folder to a local disk.'

_Answer = TypeVar('_Answer')


def scheme_of(path: str) -> str:
    """Returns the scheme of a path, such as gs."""
    return path.partition('://')[0].lower()


def tried(path: str, request: Callable[[_Storage], _Answer]) -> _Answer:
    """Asks the storage of a path, again if that fails for a moment.

    Args:
      path: path with a scheme.
      request: a function of the storage.

    Returns:
      What the function returns.

    Raises:
      OSError: There is no such file, or it must not be read.
      StorageError: The storage does not answer, or cannot do what is asked.
      DataError: The scheme is unknown.
      OptionError: A package that reads it is missing.
    """
    storage = of(path)
    started = time.monotonic()
    number = 0
    while True:
        number += 1
        try:
            return request(storage)
        except storage.errors as error:
            code = storage.final_error(error)
            reason = _reason(error)
        if code not in (None, _HAS_TRIED):
            raise OSError(code, reason if code == errno.EIO else os.strerror(code), path)
        seconds = time.monotonic() - started
        wait = min(FIRST_WAIT_SECS * 2 ** (number - 1), LONGEST_WAIT_SECS) * random.SystemRandom().uniform(0.5, 1)
        if code == _HAS_TRIED or number == TRIES or seconds + wait > LONGEST_SECS:
            tries = 'try' if number == 1 else 'tries'
            raise StorageError(
                f"Cannot read '{path}': {reason} ({number} {tries} in {seconds:.0f} s). Check the network and the "
                'storage, then run the same command again.'
            )
        logging.warning("Reading '%s' failed (%s). Try %d of %d in %.1f s.", path, reason, number + 1, TRIES, wait)
        time.sleep(wait)


def of(path: str) -> _Storage:
    """Returns the storage of a path.

    Raises:
      DataError: The scheme is unknown; the message names the known ones.
      OptionError: A package that reads it is missing.
    """
    scheme = scheme_of(path)
    if scheme in _PACKAGES:
        required = ('fsspec', _PACKAGES[scheme])
        packages.require(required, f"'{path}'", "'deeplab-toolkit[remote]'")
        return _Fsspec(scheme)
    import tensorflow as tf  # here, because local files do without it

    # Of an unknown scheme its functions say that there is no such folder, or do not name the known ones.
    schemes = set(filter(None, tf.io.gfile.get_registered_schemes()))
    if scheme not in schemes:
        shown = ', '.join(f'{name}://' for name in [*sorted(schemes - {_IN_MEMORY}), *_PACKAGES])
        raise DataError(
            f"'{path}' cannot be used: this TensorFlow knows {shown}, but not {scheme}://. Use another path."
        )
    return _TensorFlow()


def require_any_file(path: str) -> None:
    """Raises `DataError` if a storage gives only data sets, because fsspec reads it."""
    if scheme_of(path) in _PACKAGES:
        raise DataError(
            f"'{path}' cannot be used here: only records and their descriptions are read from {scheme_of(path)}://. "
            'Copy it to a local disk.'
        )
    of(path)


def _reason(error: Exception) -> str:
    """Returns the first line of an error's message."""
    status = getattr(error, 'status', None)
    if isinstance(status, int):
        return f'the server answered with status {status}'
    text = getattr(error, 'strerror', None) or getattr(error, 'message', None) or str(error)
    return str(text).split('\n')[0].rstrip('.') or type(error).__name__


class _TensorFlow:
    """What TensorFlow reads. It repeats failed requests to gs:// itself, and then raises `AbortedError`.

    Attributes:
      errors: what the methods raise if the storage cannot be reached or refuses; each method asks it once.
    """

    def __init__(self) -> None:
        import tensorflow as tf

        self._files, self._all = tf.io.gfile, tf.errors
        self.errors: tuple[type[Exception], ...] = (tf.errors.OpError,)

    def final_error(self, error: Exception) -> int | None:
        """Returns the number (`errno`) of an error that another try would meet, too; None if it may pass."""
        if isinstance(error, self._all.NotFoundError):
            return errno.ENOENT
        if isinstance(error, self._all.AbortedError):
            return _HAS_TRIED
        passing = ('Unavailable', 'DeadlineExceeded', 'Internal', 'Unknown', 'ResourceExhausted')
        return None if isinstance(error, tuple(getattr(self._all, f'{name}Error') for name in passing)) else errno.EIO

    def is_folder(self, path: str) -> bool:
        return bool(self._files.isdir(path))

    def is_file(self, path: str) -> bool:
        return bool(self._files.exists(path)) and not self._files.isdir(path)

    def file_names(self, folder: str) -> list[str]:
        return [name for name in self._files.listdir(folder) if not name.endswith('/')]

    def stat(self, path: str) -> tuple[int, int]:
        """Returns the size of a file in bytes, and a number that changes when it is written again."""
        facts = self._files.stat(path)
        return int(facts.length), int(facts.mtime_nsec)

    def read(self, path: str) -> bytes:
        with self._files.GFile(path, 'rb') as file:
            content: bytes = file.read()
            return content

    def read_part(self, path: str, size: int, offset: int, idle: list[Any]) -> bytes:
        """Returns a part of a file; `idle` keeps an open file that no thread uses."""
        try:
            file = idle.pop()
        except IndexError:  # other threads read; a file can be read by one at a time
            file = self._files.GFile(path, 'rb')
        file.seek(offset)
        content: bytes = file.read(size)
        if not idle:  # each open file has a buffer
            idle.append(file)
        return content

    def write(self, path: str, content: bytes) -> None:
        with self._files.GFile(path, 'wb') as file:
            file.write(content)


class _Fsspec:
    """What fsspec reads, with the methods of `_TensorFlow`: web servers, which need not list a folder, and S3."""

    def __init__(self, scheme: str) -> None:
        self._files, self.errors, self._passing = _opened_file_system(scheme)
        self._is_web = scheme in WEB_SCHEMES

    def final_error(self, error: Exception) -> int | None:
        status = getattr(error, 'status', None)
        if isinstance(status, int) and status:
            is_final = 400 <= status < 500 and status not in _PASSING_STATUSES
            return _STATUS_ERRORS.get(status, errno.EIO) if is_final else None
        for kind, code in ((FileNotFoundError, errno.ENOENT), (PermissionError, errno.EACCES)):
            if isinstance(error, kind):
                return code
        is_invalid = isinstance(error, ValueError) or getattr(error, 'errno', None) == errno.EINVAL  # the request
        return None if isinstance(error, self._passing) and not is_invalid else errno.EIO

    def is_folder(self, path: str) -> bool:
        return self._is_web or bool(self._files.isdir(path))

    def is_file(self, path: str) -> bool:
        try:
            return bool(self._facts(path)['type'] == 'file')
        except self.errors as error:
            if self.final_error(error) in (errno.ENOENT, errno.EACCES):  # some servers forbid what does not exist
                return False
            raise

    def file_names(self, folder: str) -> list[str]:
        folder = f'{folder.rstrip("/")}/'
        paths = [entry['name'] for entry in self._files.ls(folder, detail=True) if entry['type'] == 'file']
        if self._is_web:  # links in the page of the folder
            paths = [urllib.parse.unquote(path) for path in paths if posixpath.dirname(path) == folder[:-1]]
        return [name for name in map(posixpath.basename, paths) if name]

    def stat(self, path: str) -> tuple[int, int]:
        facts = self._facts(path)
        if facts['size'] is None:
            raise StorageError(f"Cannot read '{path}': the server does not say how large it is. {_COPY}")
        changed = next((facts[key] for key in ('LastModified', 'Last-Modified', 'ETag') if key in facts), None)
        return int(facts['size']), zlib.crc32(str(changed).encode())

    def read(self, path: str) -> bytes:
        content: bytes = self._files.cat_file(path)
        return content

    def read_part(self, path: str, size: int, offset: int, idle: list[Any]) -> bytes:
        content: bytes = self._files.cat_file(path, start=offset, end=offset + size)
        if len(content) > size:
            reason = 'the server sends whole files instead of parts (it disregards Range)'
            raise StorageError(f"Cannot read '{path}': {reason}. {_COPY}")
        if len(content) < size:
            raise OSError(errno.EAGAIN, f'only {len(content)} of {size} bytes arrived')
        return content

    def write(self, path: str, content: bytes) -> None:
        if self._is_web:
            raise StorageError(f"Cannot write '{path}': web servers are only read. Write it before copying the folder.")
        self._files.pipe_file(path, content)

    def _facts(self, path: str) -> dict[str, Any]:
        try:
            facts: dict[str, Any] = self._files.info(path)
        except FileNotFoundError as error:
            if self._is_web and isinstance(error.__cause__, self.errors):  # fsspec calls every failure so
                raise error.__cause__ from None
            raise
        return facts


_Storage = _TensorFlow | _Fsspec


@functools.cache
def _opened_file_system(scheme: str) -> tuple[Any, tuple[type[Exception], ...], tuple[type[Exception], ...]]:
    """Returns the file system of fsspec, the errors that it raises, and those of them that may pass.

    It takes the settings of fsspec's own files and environment variables, such as FSSPEC_S3_ENDPOINT_URL.
    """
    import aiohttp  # s3fs uses it, too, whose library passes some of its errors on
    import fsspec

    own = fsspec.config.conf.get(scheme, {})
    if scheme in WEB_SCHEMES:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=TIMEOUT_SECS, sock_read=TIMEOUT_SECS)
        headers = {'Accept-Encoding': 'identity', **own.get('client_kwargs', {}).get('headers', {})}
        client = {'timeout': timeout, 'trust_env': True, **own.get('client_kwargs', {}), 'headers': headers}  # proxies
        errors = (OSError, aiohttp.ClientError)
        return fsspec.filesystem(scheme, client_kwargs=client), errors, errors
    from botocore import exceptions, parsers

    settings = {
        'connect_timeout': TIMEOUT_SECS,
        'read_timeout': TIMEOUT_SECS,
        'max_pool_connections': PARALLEL_READS,
        'retries': {'total_max_attempts': 1},  # `tried` repeats a request
        **own.get('config_kwargs', {}),
    }
    files = fsspec.filesystem(scheme, config_kwargs=settings, use_listings_cache=False)
    files.retries = 1
    # The last three: of a response that is cut off, or is not what S3 sends.
    cut = (aiohttp.ClientError, http.client.HTTPException, parsers.ResponseParserError)
    passing = (OSError, exceptions.HTTPClientError, exceptions.ConnectionError, *cut)
    return files, (OSError, exceptions.BotoCoreError, exceptions.ClientError, *cut), passing
