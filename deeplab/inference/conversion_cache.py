"""Cache of converted networks: folders beside the checkpoints, verified before they are used.

A converted network lies in FOLDER/.engines/KEY. The key is a digest of everything that determines it: the checkpoint,
the network's options and code, the engine and its version, the precision. `note.json` in the folder has the digests of
its files.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from absl import logging

import deeplab
from deeplab.core import checkpoints
from deeplab.errors import DataError
from deeplab.files import writing
from deeplab.options import DEFAULT_ENGINE
from deeplab.wording import option

FOLDER = '.engines'
# Converted networks in one folder; those that were not used for longest are removed. 'auto' converts up to eight for a
# program: each engine in each of its types.
MOST_KEPT = 16
_NOTE = 'note.json'
_KEY_DIGITS = 24
_writing = threading.Lock()  # what this process has begun to write looks like what an earlier one has left
# Where the code is that makes a network.
_CODE = ('core', 'inference', 'options', 'registry', 'common.py', 'model.py')


def digest_of(parts: Mapping[str, Any]) -> str:
    """Returns a digest of values that have a JSON form, for the key of a converted network."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:_KEY_DIGITS]


def digest_of_checkpoint(path: str) -> str:
    """Returns a digest of the content of a checkpoint, without reading its data.

    The index of a checkpoint has a checksum of every tensor, so it determines the data.

    Args:
      path: path of the checkpoint, such as logs/model.ckpt-30000.
    """
    digest = hashlib.sha256()
    *data, index = checkpoints.files_of(path)
    for name in data:
        digest.update(f'{os.path.basename(name)} {os.path.getsize(name)}\n'.encode())
    with open(index, 'rb') as file:
        digest.update(file.read())
    return digest.hexdigest()


def digest_of_code(further: Iterable[str] = ()) -> str:
    """Returns a digest of the code of this package that makes networks, and of further files such as plugins."""
    root = pathlib.Path(deeplab.__file__).parent
    paths: list[pathlib.Path] = []
    for name in _CODE:
        paths += sorted((root / name).rglob('*.py')) if (root / name).is_dir() else [root / name]
    digest = hashlib.sha256()
    for path in (*paths, *sorted(map(pathlib.Path, set(further)))):
        with contextlib.suppress(OSError):
            digest.update(path.read_bytes())
    return digest.hexdigest()


@contextlib.contextmanager
def converted(key: str, folders: Sequence[str], convert: Callable[[str], None]) -> Iterator[str]:
    """Yields the folder of a converted network: of one that is there and undamaged, or else of a new one.

    Args:
      key: see `digest_of`.
      folders: where to look, and to write: the first one that can be written is used. If none can, the network is
        written to a temporary folder, which is removed when the `with` block ends.
      convert: writes the network to an empty folder.

    Raises:
      DataError: it cannot be written.
      Exception: what else `convert` raises; then nothing is kept.
    """
    for folder in folders:
        path = os.path.join(folder, FOLDER, key)
        if os.path.isdir(path) and _is_intact(path):
            with contextlib.suppress(OSError):
                os.utime(os.path.join(path, _NOTE))
            yield path
            return
    for home in (os.path.join(folder, FOLDER) for folder in folders):
        if _is_writable(home):
            path = os.path.join(home, key)
            _write(path, convert)
            _remove_old(home, path)
            yield path
            return
    logging.warning(
        'Cannot write to %s: the converted network is not kept, so that the next run converts it again.',
        ' or '.join(os.path.join(folder, FOLDER) for folder in folders) or 'any folder',
    )
    with tempfile.TemporaryDirectory(prefix='deeplab-engines-') as home:
        path = os.path.join(home, key)
        _write(path, convert)
        yield path


def _is_writable(folder: str) -> bool:
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _write(path: str, convert: Callable[[str], None]) -> None:
    """Writes a converted network and its note beside `path`, and renames them; a damaged one is removed first."""
    folder, name = os.path.split(path)
    with _writing:
        if os.path.isdir(path) and _is_intact(path, is_silent=True):  # another thread was faster
            return
        writing.remove_leftovers(folder, r'[0-9a-f]+')
        try:
            writing.remove(path)
            with writing.atomic_path(path) as temporary:
                os.makedirs(temporary)
                convert(temporary)
                with open(os.path.join(temporary, _NOTE), 'w', encoding='utf-8') as file:
                    json.dump({'files': digests(temporary), 'key': name}, file)
        except OSError as error:  # such as a full disk
            if os.path.isdir(path):  # another process was faster
                return
            raise DataError(
                f"Cannot write the converted network to '{path}': {error.strerror or error}. Free space there, or use "
                f'{option("EngineOptions.engine", DEFAULT_ENGINE)}.'
            ) from error


def digests(export: str) -> dict[str, str]:
    """Returns the digest of each file of a converted network or another export, by its path in the folder."""
    paths = [export] if os.path.isfile(export) else []
    for above, _, names in os.walk(export):
        paths += [os.path.join(above, name) for name in names]
    by_path = {}
    for path in paths:
        inside = os.path.relpath(path, export)
        if inside != _NOTE:
            with open(path, 'rb') as file:
                by_path[inside] = hashlib.file_digest(file, 'sha256').hexdigest()
    return by_path


def _is_intact(path: str, is_silent: bool = False) -> bool:
    """Returns whether the files of a converted network are unchanged; warns if they are not."""
    try:
        with open(os.path.join(path, _NOTE), encoding='utf-8') as file:
            noted = json.load(file)['files']
        good = bool(noted) and noted == digests(path)
    except (OSError, ValueError, KeyError, TypeError):
        good = False
    if not good and not is_silent:
        logging.warning('The converted network in %s is damaged: the checkpoint is converted again.', path)
    return good


def _remove_old(home: str, kept: str) -> None:
    """Removes the converted networks that were not used for longest, if there are more than `MOST_KEPT`."""

    def used(path: str) -> float:
        try:
            return os.path.getmtime(os.path.join(path, _NOTE))
        except OSError:
            return 0.0

    paths = [os.path.join(home, name) for name in os.listdir(home) if len(name) == _KEY_DIGITS]
    paths = sorted((path for path in paths if path != kept and os.path.isdir(path)), key=used, reverse=True)
    for path in paths[MOST_KEPT - 1 :]:
        with contextlib.suppress(OSError):
            writing.remove(path)
