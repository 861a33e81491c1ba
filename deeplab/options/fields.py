"""Declarations of options: a field of an options class states its default, meaning, allowed values and flag once.

    stride: int = declared(1, 'Compute the loss at every n-th row of pixels.', flag='loss_stride', range='(0, inf)')

The check when an object is created, the flag with its help, the reference in docs/ and the run manifest follow from
the declaration. Parameters of registered functions (`registry.Parameter`) are declared in the same way. A meaning
names other options in braces: `{stride}` of the same class, `{OptimizerOptions.name=adam}` with a value. A field whose
value is a path has the type `PathText`, or `LocalPath` if it cannot be in remote storage.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import typing
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from deeplab.files import storage
from deeplab.options.rules import require
from deeplab.registry import interval
from deeplab.registry.records import check_allowed
from deeplab.wording import option

PathText = Annotated[str, 'a path']  # in which ~ is the home folder
LocalPath = Annotated[str, 'a path on a local disk']  # of what is written, locked or watched for changes
_KINDS = {
    bool: 'boolean',
    int: 'integer',
    float: 'float',
    str: 'string',
    tuple[int, int]: 'list',
    tuple[int, ...]: 'repeated integer',
    tuple[float, ...]: 'repeated float',
    tuple[str, ...]: 'string',
    PathText: 'string',
    LocalPath: 'string',
    tuple[PathText, ...]: 'string',
    tuple[LocalPath, ...]: 'string',
}
_LOCAL = (
    'it must be on a local disk or in a bucket mounted as a folder (such as with gcsfuse); only records, their '
    'descriptions and single checkpoints to start from are read from remote storage. Use a local folder, and copy it '
    'before or after the run'
)
_UNCHANGED: Any = object()
_REFERENCE = re.compile(r'\{(?:(\w+)\.)?(\w+)(=[^}]*)?\}')


@dataclasses.dataclass(frozen=True)
class Declaration:
    """What an options class states about one of its fields.

    Attributes:
      name: name of the field.
      default: its default; `dataclasses.MISSING` for a required field.
      meaning: text for help and docs, one or two sentences, or a function that returns it.
      type: type of its values, without None, "not set".
      flag: name of the flag; None for a field that no flag sets directly.
      kind: kind of the flag (see `cli.words.Flag`).
      flag_default: default of the flag, which differs from the field's where the original's flag has a number or text
        for "not set".
      range: the allowed numbers, such as '[0, 1)'; empty for all.
      choices: the allowed strings, or a function that returns them; empty for all.
      word: a word that the flag accepts instead of numbers; None for none.
      with_flag_of: 'Class.field' of the option whose flag sets this field, too; empty for none.
      needs: other fields of the class, which must be set where this one is.
      unset: numbers of the flag that mean "not set", such as '(-inf, 0)'; empty for none.
    """

    name: str
    default: Any
    meaning: str | Callable[[], str]
    type: Any
    flag: str | None
    kind: str
    flag_default: Any
    range: str = ''
    choices: tuple[str, ...] | Callable[[], tuple[str, ...]] = ()
    word: str | None = None
    with_flag_of: str = ''
    needs: tuple[str, ...] = ()
    unset: str = ''

    @property
    def is_path(self) -> bool:
        """Whether the value is a path, or several."""
        return self.is_local_path or self.type in (PathText, tuple[PathText, ...])

    @property
    def is_local_path(self) -> bool:
        """Whether the value is a path, or several, which must be on a local disk."""
        return self.type in (LocalPath, tuple[LocalPath, ...])

    @property
    def allowed(self) -> tuple[str, ...]:
        """The allowed strings; empty for all."""
        return self.choices() if callable(self.choices) else self.choices

    @property
    def text(self) -> str:
        """The meaning."""
        return self.meaning() if callable(self.meaning) else self.meaning

    def is_unset(self, value: Any, is_given: bool) -> bool:
        """Returns whether a value of the flag means None, as the default of the flag does if the field's is None.

        Args:
          value: the value.
          is_given: whether the flag is given.
        """
        is_default = self.default is None and not is_given and value == self.flag_default
        return is_default or bool(self.unset and value is not None and interval.parse(self.unset).has(value))

    def check(self, value: Any, field: str) -> None:
        """Raises `OptionError` unless `value` is allowed.

        Args:
          value: value of the field.
          field: 'Class.field', for the message.
        """
        if self.is_local_path:
            paths = value if isinstance(value, (tuple, list)) else [value]
            require(not any(storage.is_remote(str(path)) for path in paths), field, value, _LOCAL)
        rest = f"; omit {option(field)} for 'not set'" if self.default in (None, ()) else ''
        if self.type == tuple[int, int]:
            is_size = isinstance(value, Sequence) and len(value) == 2
            is_size = is_size and all(isinstance(side, int) and side > 0 for side in value)
            allowed = 'a size is two positive integers, height and width, such as 513,513'
            require(is_size, field, value, allowed)
        elif isinstance(value, (tuple, list)):
            for part in value:
                check_allowed(part, field, value, self.range, self.allowed, rest)
        else:
            check_allowed(value, field, value, self.range, self.allowed, rest)


def declared(
    default: Any = dataclasses.MISSING,
    meaning: str | Callable[[], str] = '',
    *,
    flag: str | None = '',
    kind: str = '',
    flag_default: Any = _UNCHANGED,
    **more: Any,
) -> Any:
    """Returns a field of an options class, with its declaration.

    Args:
      default: its default; without one, the field is required.
      meaning: see `Declaration`.
      flag: name of the flag; empty for the field's name, None for no flag.
      kind: kind of the flag, if it does not follow from the type of the field.
      flag_default: default of the flag, if it is not the field's.
      **more: further attributes of `Declaration`: range, choices, word, with_flag_of, needs, unset.
    """
    facts = {'meaning': meaning, 'flag': flag, 'kind': kind, 'flag_default': flag_default, **more}
    return dataclasses.field(default=default, metadata={'declaration': facts})


@functools.cache
def declarations(kind: type) -> dict[str, Declaration]:
    """Returns the declarations of an options class by field, in order; fields without one are left out."""
    types = typing.get_type_hints(kind, include_extras=True)
    return {
        field.name: _declaration(field, types[field.name])
        for field in dataclasses.fields(kind)
        if 'declaration' in field.metadata
    }


def _declaration(field: dataclasses.Field[Any], annotation: Any) -> Declaration:
    facts = field.metadata['declaration']
    plain = without_none(annotation)
    kind = facts['kind'] or ('enum' if facts.get('choices') else _KINDS.get(plain, ''))
    changes = {
        'name': field.name,
        'default': field.default,
        'type': plain,
        'flag': None if facts.get('with_flag_of') else facts['flag'] if facts['flag'] != '' else field.name,
        'kind': kind,
    }
    if facts['flag_default'] is _UNCHANGED:
        changes['flag_default'] = _default_of_flag(field.default, kind)
    return Declaration(**facts | changes)


def _default_of_flag(default: Any, kind: str) -> Any:
    """Returns the default of a field as a flag of some kind states it; None if it has none."""
    if default is dataclasses.MISSING or default == ():
        return None
    if kind == 'list' and default is not None:
        return [str(number) for number in default]  # as absl's own lists
    if kind == 'string' and isinstance(default, tuple):
        return ','.join(default)
    return list(default) if isinstance(default, tuple) else default


def without_none(kind: Any) -> Any:
    """Returns X of `X | None`; any other type as it is."""
    parts = [part for part in typing.get_args(kind) if part is not type(None)]
    return parts[0] if len(parts) < len(typing.get_args(kind)) else kind


def qualified(meaning: str, kind: str) -> str:
    """Returns a meaning whose references to other options all name a class: {stride} becomes {LossOptions.stride}."""
    return _REFERENCE.sub(lambda match: f'{{{match[1] or kind}.{match[2]}{match[3] or ""}}}', meaning)


def with_names(meaning: str, name_of: Callable[[str], str]) -> str:
    """Returns a qualified meaning with the names of the options that it refers to.

    Args:
      meaning: a text of `qualified`.
      name_of: returns the name of an option of 'Class.field', such as its flag.
    """
    return _REFERENCE.sub(lambda match: name_of(f'{match[1]}.{match[2]}') + (match[3] or ''), meaning)


class Options:
    """Base class of options: frozen dataclasses that check the fields that they declare when they are created."""

    def __post_init__(self) -> None:
        """Raises `OptionError` for a value that its declaration does not allow, or that needs another option."""
        kind: type = type(self)
        for name, declaration in declarations(kind).items():
            value = getattr(self, name)
            if value is None or value == declaration.default:  # allowed; names of defaults need no registry
                continue
            declaration.check(value, f'{kind.__name__}.{name}')
            if any(getattr(self, needed) == declarations(kind)[needed].default for needed in declaration.needs):
                needed = ' and '.join(option(f'{kind.__name__}.{needed}') for needed in declaration.needs)
                self._require(False, name, f'also set {needed}, or omit it')

    def _require(self, condition: bool, name: str, allowed: str) -> None:
        """Raises `OptionError` for the field `name` unless `condition` holds; `allowed` as for `rules.require`."""
        require(condition, f'{type(self).__name__}.{name}', getattr(self, name), allowed)
