"""Records of the things that users choose by name, their parameters, and the registries that hold them.

A registry finds its records in the modules of a package of `deeplab`, and in the modules that users load with
`plugins`. Options, their checks, the flags and their help, and the tables of the docs are made from the records; to
read them never imports TensorFlow.
"""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import keyword
import math
import pkgutil
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from deeplab import names
from deeplab.errors import OptionError
from deeplab.registry import interval
from deeplab.wording import did_you_mean, one_of, option

_TYPES = {bool: 'true or false', int: 'an integer', float: 'a number', str: 'a string'}


def check_allowed(
    value: Any, field: str, whole: Any, numbers: str = '', choices: Sequence[str] = (), rest: str = ''
) -> None:
    """Raises `OptionError` unless a value is in an interval and one of the choices.

    Args:
      value: a number or a string.
      field: 'Class.field' of the options, for the message.
      whole: the value of the field, for the message: `value`, or the sequence that contains it.
      numbers: the allowed numbers, such as '[0, 1)'; empty for all.
      choices: the allowed strings; empty for all.
      rest: what else to do about a number, for the message.
    """
    if numbers and not (bounds := interval.parse(numbers)).has(value):
        raise OptionError(f'{option(field, whole)} is not allowed: it must be {bounds.allowed()}{rest}.')
    if choices and value not in choices:
        raise OptionError(f'{option(field, whole)} is not allowed: {one_of(str(value), choices)}.')


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A value that a registered function takes, and that users set.

    Attributes:
      name: keyword of the function, field of the options and, without `flag`, name of the flag.
      default: the value if it is not set; its type is the type of the parameter: bool, int, float, str, or a tuple of
        int or float.
      meaning: text for the help, one or two sentences.
      range: the allowed numbers, such as '[0, 1)' or '(0, inf)'; empty for all.
      choices: the allowed strings; empty for all.
      flag: name of the flag if it differs from `name`.
    """

    name: str
    default: Any
    meaning: str
    range: str = ''
    choices: tuple[str, ...] = ()
    flag: str = ''

    def __post_init__(self) -> None:
        if not self.name.isidentifier() or keyword.iskeyword(self.name) or self.name.startswith('_'):
            raise ValueError(
                f"'{self.name}' is not a valid name of a parameter: it must be a Python identifier that does not begin "
                'with an underscore.'
            )
        if self.type not in _TYPES or (self.is_list and self.type not in (int, float)):
            raise ValueError(
                f'The default of {self.name} is {self.default!r}; it must be a bool, int, float, str, or a tuple of '
                'int or float.'
            )
        self.checked(self.default, self.name)

    @property
    def is_list(self) -> bool:
        """Whether the value is a tuple of numbers."""
        return isinstance(self.default, tuple)

    @property
    def type(self) -> type:
        """Type of the value, or of the numbers in it."""
        value = self.default[0] if self.is_list and self.default else self.default
        return type(value)

    @property
    def flag_name(self) -> str:
        """Name of the flag that sets it."""
        return self.flag or self.name

    def checked(self, value: Any, field: str) -> Any:
        """Returns `value` in the type of the parameter.

        Args:
          value: what a user has set.
          field: 'Class.field' of the options, for messages.

        Raises:
          OptionError: it has another type, or is out of range.
        """
        if not self.is_list:
            return self._checked_number(value, field, value)
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise OptionError(f'{option(field, value)} is not allowed: it must be a sequence of numbers.')
        return tuple(self._checked_number(number, field, value) for number in value)

    def _checked_number(self, value: Any, field: str, whole: Any) -> Any:
        """Returns one value in its type; raises `OptionError`, which shows the whole value."""
        kind = self.type
        if kind is float and type(value) is int:
            value = float(value)
        if kind in (int, float) and hasattr(value, 'item'):  # of NumPy
            value = value.item()
        allowed = _TYPES[kind] if type(value) is not kind else ''
        if not allowed and kind is float and not math.isfinite(value):
            allowed = 'a finite number'
        if allowed:
            raise OptionError(f'{option(field, whole)} is not allowed: it must be {allowed}.')
        check_allowed(value, field, whole, self.range, self.choices)
        return value


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """One thing that users choose by name.

    Attributes:
      name: its name.
      summary: what it is, for help and docs; a phrase that begins with a capital letter and ends with a full stop.
      parameters: what its function takes beside its input.
      source: where it was published, with the section.
    """

    name: str
    summary: str = ''
    parameters: tuple[Parameter, ...] = ()
    source: str = ''


R = TypeVar('R', bound=Record)
_NAME = re.compile(r'[\w.-]+')  # without the signs of lists and formulas


class Registry(Generic[R]):
    """The records of one kind.

    Attributes:
      kind: what they are, for messages, such as 'loss'.
      field: 'Class.field' of the option that names one of them.
    """

    def __init__(self, kind: str, field: str, package: str) -> None:
        """Creates a registry; see the attributes.

        The modules of `package` register records when they are imported, which is when the first one is asked for;
        modules whose name begins with an underscore are not imported.
        """
        self.kind = kind
        self.field = field
        self._package = package
        self._records: dict[str, R] = {}
        self._origins: dict[str, Mapping[str, Any]] = {}  # by name of a record: globals of the code that added it
        self._is_loaded = False
        self._fields: frozenset[str] = frozenset()
        self._beside: tuple[Registry[Any], ...] = ()

    def share_names(self, fields: Iterable[str], registries: Sequence[Registry[Any]]) -> None:
        """States what else is an attribute of the options that take the parameters.

        Args:
          fields: the names of the other attributes.
          registries: all registries whose parameters the options take.

        Raises:
          ValueError: a record that was added before has a parameter with one of the names.
        """
        self._fields = frozenset(fields)
        self._beside = tuple(registry for registry in registries if registry is not self)
        for record in self._records.values():
            self._check_parameters(record)

    def add(self, record: R, origin: Mapping[str, Any] | None = None) -> None:
        """Adds a record; it replaces one that an earlier run of the same file has added.

        Args:
          record: the record.
          origin: the globals of the code that adds it.

        Raises:
          ValueError: its name is not allowed, or another record has it; or one of its parameters has the name of a
            parameter of another record from which it differs.
        """
        for registry in (self, *self._beside):
            registry._load()  # so that it is this record that is refused, not one of the package
        if not _NAME.fullmatch(record.name):
            raise ValueError(
                f"'{record.name}' is not a valid name of a {self.kind}: use letters, digits, underscores, hyphens and "
                'dots.'
            )
        origin = origin or {}
        before, file = self._origins.get(record.name, {}), origin.get('__file__')
        is_earlier_run = before is not origin and file is not None and before.get('__file__') == file
        if self._records.get(record.name, record) != record and not is_earlier_run:
            raise ValueError(f"A {self.kind} '{record.name}' is already registered; names must be unique.")
        self._check_parameters(record)
        self._records[record.name] = record
        self._origins[record.name] = origin

    def _check_parameters(self, record: R) -> None:
        """Raises `ValueError` if a parameter of a record, which `add` adds, has a name that is taken."""
        others = itertools.chain(*(registry._records.values() for registry in (self, *self._beside)))
        beside = [record, *(other for other in others if (type(other), other.name) != (type(record), record.name))]
        for parameter in record.parameters:
            if parameter.name in self._fields:
                raise ValueError(
                    f"The parameter '{parameter.name}' of the {self.kind} '{record.name}' has the name of an option, "
                    'or of another attribute of the options. Use another name.'
                )
            for other in beside:
                if _parameters([other]).get(parameter.name, parameter) != parameter:
                    raise ValueError(
                        f"The parameter '{parameter.name}' of the {self.kind} '{record.name}' differs from the one of "
                        f'{other.name}. Use the same Parameter, or another name.'
                    )

    def _load(self) -> None:
        """Imports the modules of the package, once."""
        if self._is_loaded:
            return
        self._is_loaded = True
        package = importlib.import_module(self._package)
        for module in pkgutil.iter_modules(package.__path__):
            if not module.name.startswith('_'):
                importlib.import_module(f'{self._package}.{module.name}')

    def records(self) -> tuple[R, ...]:
        """Returns all records, sorted by name."""
        self._load()
        return tuple(self._records[name] for name in sorted(self._records))

    def names(self) -> tuple[str, ...]:
        """Returns the names of all records, sorted."""
        return tuple(record.name for record in self.records())

    def summaries(self) -> str:
        """Returns all records with their summaries, as a sentence of the help."""
        texts = [
            f'{record.name}: {names.lower_first(record.summary).rstrip(".")}' if record.summary else record.name
            for record in self.records()
        ]
        return f'{"; ".join(texts)}.'

    def get(self, name: str) -> R:
        """Returns the record of the given name.

        Raises:
          OptionError: there is none; the message lists the allowed names.
        """
        self._load()
        if name not in self._records:
            allowed = f'{did_you_mean(name, self.names())}Known: {", ".join(self.names())}'
            raise OptionError(f'{option(self.field, name)} is not known. {allowed}.')
        return self._records[name]

    def file_of(self, name: str) -> str:
        """Returns the path of the file that registered a record; empty if it is not known."""
        self._load()
        return str(self._origins.get(name, {}).get('__file__') or '')

    def parameters(self) -> dict[str, Parameter]:
        """Returns the parameters of all records by name, each once, in the order of the records."""
        return _parameters(self.records())

    def readers(self, parameter: str) -> tuple[str, ...]:
        """Returns the names of the records that take a parameter."""
        return tuple(r.name for r in self.records() if parameter in (p.name for p in r.parameters))

    def meaning_of(self, parameter: Parameter) -> str:
        """Returns the meaning of a parameter, followed by the records that take it if they are several."""
        readers = self.readers(parameter.name)
        return f'{parameter.meaning} Used by {", ".join(readers)}.' if len(readers) > 1 else parameter.meaning


def _parameters(records: Any) -> dict[str, Parameter]:
    return {parameter.name: parameter for record in records for parameter in record.parameters}
