"""Flags that set fields of options: type and default from the field, values copied into it."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from deeplab import options
from deeplab.cli.values import Values
from deeplab.cli.words import Flag, lower_first
from deeplab.options.parameters import parameters_of, registries_of
from deeplab.registry import Parameter, Registry

T = TypeVar('T')

_KINDS = {bool: 'boolean', int: 'integer', float: 'float', str: 'string'}
_OPTIONS = {
    name: kind for name, kind in vars(options).items() if isinstance(kind, type) and dataclasses.is_dataclass(kind)
}


def linked(
    name: str, field: str, meaning: str, *, kind: str | None = None, also: tuple[str, ...] = (), **more: Any
) -> Flag:
    """Returns a flag whose default is that of an options field.

    A flag with another default than its field is a plain `Flag`, and a comment says why.

    Args:
      name: name of the flag.
      field: 'Class.field' of deeplab.options.
      meaning: text for the help.
      kind: type of the flag; None to derive it from the field's.
      also: further fields that the flag sets, in other options classes.
      **more: further attributes of `Flag`.
    """
    if kind is None:
        kind = 'enum' if 'choices' in more else _KINDS[_plain_type(field)]
    return Flag(name, kind, default_of(field, kind), meaning, fields=(field, *also), **more)


def parameters(kind: str, registry: Registry[Any] | None = None) -> Callable[[], list[Flag]]:
    """Returns a function that returns the flags of parameters of an options class (`options.parameters`).

    Args:
      kind: name of the class.
      registry: the one of its registries whose parameters are meant; None for all.
    """

    def flags() -> list[Flag]:
        registries = registries_of(_OPTIONS[kind]) if registry is None else (registry,)
        return [
            _flag_of(parameter, kind, each.meaning_of(parameter))
            for each in registries
            for parameter in each.parameters().values()
        ]

    return flags


def _flag_of(parameter: Parameter, kind: str, meaning: str) -> Flag:
    """Returns the flag of a parameter of the options class called `kind`."""
    type_ = _KINDS[parameter.type]
    default = parameter.default
    if parameter.is_list:
        type_, default = f'repeated {type_}', list(default)
    elif parameter.choices:
        type_ = 'enum'
    fields = (f'{kind}.{parameter.name}',)
    return Flag(parameter.flag_name, type_, default, meaning, choices=parameter.choices, fields=fields)


def each_with_summary(registry: Registry[Any]) -> str:
    """Returns all records of a registry with their summaries, as a sentence of the help."""
    texts = [
        f'{record.name}: {lower_first(record.summary).rstrip(".")}' if record.summary else record.name
        for record in registry.records()
    ]
    return f'{"; ".join(texts)}.'


def flag_names(flags: Iterable[Flag]) -> dict[str, str]:
    """Returns the names of flags by the fields that they set."""
    return {synonym: flag.name for flag in flags for field in flag.fields for synonym in _synonyms(field)}


@functools.cache
def _synonyms(field: str) -> tuple[str, ...]:
    """Returns a field by all classes that inherit it: 'BuilderOptions.seed', 'BuildVocOptions.seed', ..."""
    kind, name = _split(field)
    if name in parameters_of(kind):
        return (field,)
    return tuple(
        f'{other}.{name}'
        for other, candidate in _OPTIONS.items()
        if (issubclass(candidate, kind) or issubclass(kind, candidate)) and name in _fields(candidate)
    )


def filled(kind: type[T], values: Values, **given: Any) -> T:
    """Returns an options object of a class, with its fields copied from the flags that are linked to them.

    Args:
      kind: the options class.
      values: the values of a command line.
      **given: fields that are not plain copies of a flag. A field with neither keeps its default.
    """
    types = _types(kind)
    for name, parameter in parameters_of(kind).items():
        flag = values.flag_names.get(f'{kind.__name__}.{name}')
        if name not in given and flag is not None:
            given[name] = (values.numbers(flag) or ()) if parameter.is_list else values[flag]
    for name in _fields(kind):
        flag = values.flag_names.get(f'{kind.__name__}.{name}')
        if name not in given and flag is not None:
            given[name] = _converted(values, flag, types[name])
    return kind(**given)


def _converted(values: Values, flag: str, kind: Any) -> Any:
    """Returns the value of `flag`, converted to the type of its field."""
    is_optional = type(None) in typing.get_args(kind)
    plain = _without_none(kind)
    if typing.get_origin(plain) is tuple:
        if plain == tuple[int, int]:
            return values.size(flag)
        if plain == tuple[str, ...]:
            return values.texts(flag) if values.known[flag].kind == 'repeated string' else values.names(flag)
        return values.numbers(flag) if is_optional else values.numbers(flag) or ()
    if values.known[flag].is_path:
        return values.path(flag) if is_optional else values.path(flag) or values[flag]
    return values[flag]


def _split(field: str) -> tuple[type, str]:
    """Returns the class and the name in 'Class.field'."""
    kind, _, name = field.partition('.')
    if kind not in _OPTIONS or name not in {*_fields(_OPTIONS[kind]), *parameters_of(_OPTIONS[kind])}:
        raise AttributeError(f'deeplab.options has no {field}')
    return _OPTIONS[kind], name


@functools.cache
def _types(kind: type) -> dict[str, Any]:
    """Returns the types of the fields of an options class by name."""
    return typing.get_type_hints(kind)


@functools.cache
def _fields(kind: type) -> dict[str, dataclasses.Field[Any]]:
    """Returns the fields of an options class by name."""
    return {field.name: field for field in dataclasses.fields(kind)}


def _plain_type(field: str) -> Any:
    """Returns the type of a field, without None."""
    kind, name = _split(field)
    return _without_none(_types(kind)[name])


def _without_none(kind: Any) -> Any:
    """Returns X of `X | None`; any other type as it is."""
    parts = [part for part in typing.get_args(kind) if part is not type(None)]
    return parts[0] if len(parts) < len(typing.get_args(kind)) else kind


def default_of(field: str, kind: str) -> Any:
    """Returns the default of a field as a flag of some type states it; None if it has none."""
    owner, name = _split(field)
    if name in parameters_of(owner):
        default = parameters_of(owner)[name].default
    else:
        default = _fields(owner)[name].default
    if default is dataclasses.MISSING or default == ():
        return None
    if kind == 'list' and default is not None:
        return [str(number) for number in default]  # as absl's own lists
    if kind == 'string' and isinstance(default, tuple):
        return ','.join(default)
    return list(default) if isinstance(default, tuple) else default
