"""Flags that set fields of options, made from the declarations of the fields; values copied into them."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from deeplab import options
from deeplab.cli.values import Values
from deeplab.cli.words import Flag
from deeplab.options.fields import Declaration, Options, declarations, qualified, without_none
from deeplab.options.parameters import parameters_of, registries_of

T = TypeVar('T')

_KINDS = {bool: 'boolean', int: 'integer', float: 'float', str: 'string'}
_OPTIONS = {
    name: kind for name, kind in vars(options).items() if isinstance(kind, type) and dataclasses.is_dataclass(kind)
}


def of(kind: type, *names: str, without: Iterable[str] = ()) -> Callable[[], list[Flag]]:
    """Returns a function that returns the flags of an options class, in the order of its fields.

    Args:
      kind: the class.
      *names: fields to return the flags of; none for all fields and all parameters that users choose with
        them (`options.parameters`).
      without: fields that are left out.
    """
    left_out = frozenset(without)

    def flags() -> list[Flag]:
        declared = [each for each in declarations(kind).values() if each.flag is not None]
        chosen = [each for each in declared if (each.name in names if names else each.name not in left_out)]
        return [flag_of(kind, each.name) for each in chosen] + ([] if names else _parameters(kind))

    return flags


def flag_of(kind: type, field: str, /, **changes: Any) -> Flag:
    """Returns the flag of a field of an options class, with changes for one program, such as another name."""
    declaration = declarations(kind)[field]
    facts: dict[str, Any] = {
        'name': declaration.flag or declaration.name,
        'kind': declaration.kind,
        'default': declaration.flag_default,
        'word': declaration.word,
        'fields': (f'{kind.__name__}.{field}',),
        'is_path': declaration.is_path,
        'is_optional': declaration.default is None and 'default' not in changes,
        **changes,
    }
    if 'meaning' not in facts:  # a function that gives it may import the modules of a registry
        facts['meaning'] = qualified(declaration.text, kind.__name__)
    return Flag(**facts, choices=declaration.allowed)


def _parameters(kind: type) -> list[Flag]:
    """Returns the flags of the parameters that users choose with an options class."""
    flags = []
    for registry in registries_of(kind):
        for parameter in registry.parameters().values():
            type_, default = _KINDS[parameter.type], parameter.default
            if parameter.is_list:
                type_, default = f'repeated {type_}', list(default)
            elif parameter.choices:
                type_ = 'enum'
            meaning = qualified(registry.meaning_of(parameter), kind.__name__)
            fields = (f'{kind.__name__}.{parameter.name}',)
            flags.append(Flag(parameter.flag_name, type_, default, meaning, parameter.choices, fields=fields))
    return flags


def flag_names(flags: Iterable[Flag]) -> dict[str, str]:
    """Returns the names of flags by the fields that they set."""
    return {synonym: flag.name for flag in flags for field in flag.fields for synonym in _synonyms(field)}


@functools.cache
def _synonyms(field: str) -> tuple[str, ...]:
    """Returns a field by all classes that inherit it ('BuilderOptions.seed', 'BuildVocOptions.seed', ...), and others.

    The others are fields that the same flag sets (`Declaration.with_flag_of`).
    """
    kind, name = _OPTIONS[field.partition('.')[0]], field.partition('.')[2]
    if name in parameters_of(kind):
        return (field,)
    if name not in _types(kind):
        raise AttributeError(f'deeplab.options has no {field}')
    inherited = tuple(
        f'{other}.{name}'
        for other, candidate in _OPTIONS.items()
        if (issubclass(candidate, kind) or issubclass(kind, candidate)) and name in _types(candidate)
    )
    return (*inherited, *_with_flag_of().get(field, ()))


@functools.cache
def _with_flag_of() -> dict[str, list[str]]:
    """Returns the fields that are set by the flag of another one, by the other one."""
    fields: dict[str, list[str]] = {}
    for kind, candidate in _OPTIONS.items():
        for declaration in declarations(candidate).values():
            if declaration.with_flag_of:
                fields.setdefault(declaration.with_flag_of, []).append(f'{kind}.{declaration.name}')
    return fields


def filled(kind: type[T], values: Values, **given: Any) -> T:
    """Returns an options object of a class, with its fields copied from the flags that are linked to them.

    Options in it are filled as well; they stay None, if that is allowed, unless a flag changes them.

    Args:
      kind: the options class.
      values: the values of a command line.
      **given: fields that are not plain copies of a flag. A field with neither keeps its default.
    """
    plain: type = kind
    settings = {}
    for name, parameter in parameters_of(kind).items():
        flag = values.flag_names.get(f'{kind.__name__}.{name}')
        if flag is not None:
            settings[name] = (values.numbers(flag) or ()) if parameter.is_list else values[flag]
    if settings:
        given['settings'] = settings
    for name, type_ in _types(plain).items():
        flag = values.flag_names.get(f'{kind.__name__}.{name}')
        if name in given:
            continue
        if flag is not None:
            given[name] = _converted(values, flag, type_, declarations(plain).get(name))
        elif isinstance(nested := without_none(type_), type) and issubclass(nested, Options):
            inner = filled(nested, values)
            given[name] = None if nested is not type_ and inner == nested() else inner
    return kind(**given)


def _converted(values: Values, flag: str, kind: Any, declaration: Declaration | None) -> Any:
    """Returns the value of `flag`, converted to the type of its field."""
    if declaration is not None and declaration.is_unset(values[flag], values.given(flag)):
        return None
    is_optional = type(None) in typing.get_args(kind)
    plain = without_none(kind)
    if typing.get_origin(plain) is tuple:
        if plain == tuple[int, int]:
            return values.size(flag)
        if plain == tuple[str, ...]:
            return values.texts(flag) if values.known[flag].kind == 'repeated string' else values.names(flag)
        return values.numbers(flag) if is_optional else values.numbers(flag) or ()
    if values.known[flag].is_path:
        return values.path(flag) if is_optional else values.path(flag) or values[flag]
    return None if is_optional and values[flag] == '' else values[flag]


@functools.cache
def _types(kind: type) -> dict[str, Any]:
    types = typing.get_type_hints(kind)
    return {field.name: types[field.name] for field in dataclasses.fields(kind)}
