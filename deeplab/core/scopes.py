"""Which variables are meant: scopes named on a command line, and maps from a checkpoint's names to a network's.

A scope means every name that begins with it, as the last layers' scopes do: `aspp` stands for `aspp0`,
`aspp1_depthwise` and so on; `block1/` with the slash at its end leaves `block10` out. Names only: nothing here needs
TensorFlow.
"""

from __future__ import annotations

import collections
import pathlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from deeplab.errors import CheckpointError, OptionError
from deeplab.utils import documents

FILE_SUFFIXES = ('.json', '.yaml', '.yml')
RENAME_FLAG = 'checkpoint_rename_map'

# (beginning of names in the checkpoint, what stands in its place in this network)
RenameMap = tuple[tuple[str, str], ...]

_MOST_SCOPES = 20  # that a message lists


def shortened(names: Sequence[str], most: int = 8) -> str:
    """`names` as a comma-separated list that says how many more there are after `most` of them."""
    shown = ', '.join(names[:most])
    return shown if len(names) <= most else f'{shown} and {len(names) - most} more'


def scopes_near(names: Iterable[str], wanted: str) -> str:
    """The scopes among `names` that somebody who wrote `wanted` may have meant, for messages.

    Those one level below the longest part of `wanted` that exists; without one, the outermost scopes.
    """
    known = list(names)
    parent = wanted
    while parent:
        parent = parent.rpartition('/')[0]
        if any(name.startswith(f'{parent}/') for name in known):
            break
    start = f'{parent}/' if parent else ''
    below = {start + name.removeprefix(start).partition('/')[0] for name in known if name.startswith(start)}
    return shortened(sorted(below), _MOST_SCOPES)


def require_all_known(scopes: Iterable[str], names: Collection[str], flag: str) -> None:
    """Raises `OptionError` for a scope with which none of `names` begins; the message lists scopes that exist.

    Args:
      scopes: what the flag says.
      names: variables of the network.
      flag: the flag's name.
    """
    for scope in scopes:
        if not any(name.startswith(scope) for name in names):
            raise OptionError(
                f"--{flag}: no variable of this network begins with '{scope}'. Scopes that exist: "
                f'{scopes_near(names, scope)}'
            )


def read_rename_map(text: str) -> RenameMap:
    """Reads what --checkpoint_rename_map says.

    Args:
      text: `old_prefix=new_prefix,...`, or the path of a JSON or YAML file with one object of old and new prefixes.

    Raises:
      OptionError: It is neither, the file cannot be read, or an old prefix occurs twice.
    """
    pairs = _pairs_of_file(pathlib.Path(text)) if text.endswith(FILE_SUFFIXES) else _pairs_of_line(text)
    counts = collections.Counter(old for old, _ in pairs)
    twice = [old for old, count in counts.items() if count > 1]
    if twice:
        raise OptionError(f"--{RENAME_FLAG}={text}: '{twice[0]}' has two entries; leave one away")
    return tuple(pairs)


def _pairs_of_line(text: str) -> list[tuple[str, str]]:
    """The entries of a map that stands on the command line."""
    pairs = []
    for entry in text.split(','):
        old, equals, new = (part.strip() for part in entry.partition('='))
        if not equals or '=' in new or (not old and not new):
            raise OptionError(
                f"--{RENAME_FLAG}={text}: '{entry.strip()}' is no entry. Write old_prefix=new_prefix,... with the "
                "checkpoint's names first, or give a file that ends in .json, .yaml or .yml"
            )
        pairs.append((old, new))
    return pairs


def _pairs_of_file(path: pathlib.Path) -> list[tuple[str, str]]:
    """The entries of a map in a file."""
    try:
        pairs = documents.load(path, keeps_pairs=True)
    except FileNotFoundError:
        raise OptionError(f"--{RENAME_FLAG}: the file '{path}' does not exist") from None
    except documents.DocumentError as error:
        raise OptionError(f"--{RENAME_FLAG}: the file '{path}' {error}") from None
    pairs = list(pairs.items()) if isinstance(pairs, Mapping) else pairs  # of YAML
    good = isinstance(pairs, list) and pairs and all(_is_pair_of_texts(pair) for pair in pairs)
    if not good:
        raise OptionError(
            f"--{RENAME_FLAG}: '{path}' must hold one object of texts, such as "
            '{"old_prefix": "new_prefix"}, with the checkpoint\'s names first'
        )
    return [(old, new) for old, new in pairs]


def _is_pair_of_texts(pair: Any) -> bool:
    return isinstance(pair, tuple) and all(isinstance(name, str) for name in pair)


def new_name(name: str, rename_map: RenameMap) -> str:
    """What `name` becomes: the entry with the longest old prefix that it begins with counts."""
    fitting = [pair for pair in rename_map if name.startswith(pair[0])]
    if not fitting:
        return name
    old, new = max(fitting, key=lambda pair: len(pair[0]))
    return new + name.removeprefix(old)


def rename(names: Iterable[str], rename_map: RenameMap, checkpoint: str) -> dict[str, str]:
    """The names of a checkpoint's variables by the names that a map gives them.

    Args:
      names: the checkpoint's.
      rename_map: the map; names that no entry fits stay.
      checkpoint: its path, for messages.

    Returns:
      Old names by new names.

    Raises:
      CheckpointError: An entry fits no name, or two names become one.
    """
    known = list(names)
    for old, new in rename_map:
        if not any(name.startswith(old) for name in known):
            raise CheckpointError(
                f"--{RENAME_FLAG}: '{old}={new}' fits nothing in the checkpoint '{checkpoint}', where no variable "
                f"begins with '{old}'. Scopes that exist there: {scopes_near(known, old)}"
            )
    renamed: dict[str, str] = {}
    for name in known:
        new = new_name(name, rename_map)
        if new in renamed:
            raise CheckpointError(
                f"--{RENAME_FLAG}: '{renamed[new]}' and '{name}' of the checkpoint '{checkpoint}' would both become "
                f"'{new}'. Map one of them to a name that this network does not have"
            )
        renamed[new] = name
    return renamed
