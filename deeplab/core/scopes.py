"""Selection of variables by scope, and maps from a checkpoint's variable names to a network's.

A scope is a prefix of names: `aspp` includes `aspp0`, `aspp1_depthwise` and so on; `block1/`, with the trailing slash,
excludes `block10`. Only names are handled, without TensorFlow.
"""

from __future__ import annotations

import collections
import pathlib
from collections.abc import Collection, Iterable, Mapping

from deeplab.errors import CheckpointError, OptionError
from deeplab.files import documents
from deeplab.names import listed
from deeplab.wording import option

FILE_SUFFIXES = ('.json', '.yaml', '.yml')

# (prefix of names in the checkpoint, prefix in this network)
RenameMap = tuple[tuple[str, str], ...]

_MOST_SCOPES = 20  # largest number of scopes in a message


def scopes_near(names: Iterable[str], wanted: str) -> str:
    """Returns the existing scopes nearest to `wanted`, for messages.

    These are the scopes one level below the longest parent of `wanted` that exists, or else the outermost scopes.
    """
    names = list(names)
    parent = wanted
    while parent:
        parent = parent.rpartition('/')[0]
        if any(name.startswith(f'{parent}/') for name in names):
            break
    start = f'{parent}/' if parent else ''
    below = {start + name.removeprefix(start).partition('/')[0] for name in names if name.startswith(start)}
    return listed(sorted(below), _MOST_SCOPES)


def require_all_known(scopes: Iterable[str], names: Collection[str], field: str) -> None:
    """Raises `OptionError` for a scope that is not a prefix of any of `names`; the message lists existing scopes.

    Args:
      scopes: value of the option.
      names: names of the variables of the network.
      field: the option, such as 'RestoreOptions.exclude_scopes'.
    """
    for scope in scopes:
        if not any(name.startswith(scope) for name in names):
            raise OptionError(
                f"{option(field)}: no variable of this network begins with '{scope}'. Existing scopes: "
                f'{scopes_near(names, scope)}'
            )


def read_rename_map(text: str) -> RenameMap:
    """Reads a rename map.

    Args:
      text: `old_prefix=new_prefix,...`, or the path of a JSON or YAML file with one object of old and new prefixes.

    Raises:
      OptionError: It is neither, the file cannot be read, or an old prefix appears twice.
    """
    pairs = _pairs_of_file(pathlib.Path(text)) if text.endswith(FILE_SUFFIXES) else _pairs_of_line(text)
    counts = collections.Counter(old for old, _ in pairs)
    twice = [old for old, count in counts.items() if count > 1]
    if twice:
        given = option('RestoreOptions.rename_map', text)
        raise OptionError(f"{given}: '{twice[0]}' appears twice. Remove one of its entries")
    return tuple(pairs)


def _pairs_of_line(text: str) -> list[tuple[str, str]]:
    pairs = []
    for entry in text.split(','):
        old, equals, new = (part.strip() for part in entry.partition('='))
        if not equals or '=' in new or (not old and not new):
            raise OptionError(
                f"{option('RestoreOptions.rename_map', text)}: '{entry.strip()}' is not an entry. Write "
                "old_prefix=new_prefix,... with the checkpoint's names first, or pass a file that ends in .json, .yaml "
                'or .yml'
            )
        pairs.append((old, new))
    return pairs


def _pairs_of_file(path: pathlib.Path) -> list[tuple[str, str]]:
    given = option('RestoreOptions.rename_map')
    try:
        pairs = documents.load(path, keeps_pairs=True)
    except FileNotFoundError:
        raise OptionError(f"{given}: the file '{path}' does not exist") from None
    except documents.DocumentError as error:
        raise OptionError(f"{given}: the file '{path}' {error}") from None
    pairs = list(pairs.items()) if isinstance(pairs, Mapping) else pairs  # of YAML
    are_texts = isinstance(pairs, list) and all(
        isinstance(pair, tuple) and all(isinstance(name, str) for name in pair) for pair in pairs
    )
    if not pairs or not are_texts:
        raise OptionError(
            f"{given}: '{path}' must contain one object with string values, such as "
            '{"old_prefix": "new_prefix"}, with the checkpoint\'s names first'
        )
    return [(old, new) for old, new in pairs]


def rename(names: Iterable[str], rename_map: RenameMap, checkpoint: str) -> dict[str, str]:
    """Applies a rename map to the names of a checkpoint's variables.

    Args:
      names: names in the checkpoint.
      rename_map: the map; names that no entry matches are kept.
      checkpoint: path of the checkpoint, for messages.

    Returns:
      Old names by new names.

    Raises:
      CheckpointError: An entry matches no name, or two names become equal.
    """
    names = list(names)
    for old, new in rename_map:
        if not any(name.startswith(old) for name in names):
            raise CheckpointError(
                f"{option('RestoreOptions.rename_map')}: '{old}={new}' matches nothing: no variable of the checkpoint "
                f"'{checkpoint}' begins with '{old}'. Existing scopes: {scopes_near(names, old)}"
            )
    renamed: dict[str, str] = {}
    for name in names:
        # The entry with the longest matching old prefix renames it.
        fitting = [pair for pair in rename_map if name.startswith(pair[0])]
        old, new_start = max(fitting, key=lambda pair: len(pair[0]), default=('', ''))
        new = new_start + name.removeprefix(old)
        if new in renamed:
            raise CheckpointError(
                f"{option('RestoreOptions.rename_map')}: '{renamed[new]}' and '{name}' of the checkpoint "
                f"'{checkpoint}' would both become '{new}'. Map one of them to a name that this network does not have"
            )
        renamed[new] = name
    return renamed
