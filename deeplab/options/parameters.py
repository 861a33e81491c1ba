"""Options whose fields include the parameters of a registry, such as the losses' `focal_gamma`."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, TypeVar

from deeplab.options.rules import require
from deeplab.registry.records import Parameter, Registry
from deeplab.wording import option

T = TypeVar('T')
Settings = tuple[tuple[str, Any], ...]  # (name, value) of each parameter that differs from its default, sorted

_REGISTRIES = '_registries'


def with_parameters(*registries: Registry[Any]) -> Callable[[type[T]], type[T]]:
    """Returns a decorator of an options dataclass, which must have a field `settings: Settings = ()`.

    Its objects take the parameters of all records in `registries` as keywords, and have them as attributes, as if they
    were fields: `LossOptions(formula='focal', focal_gamma=3.0).focal_gamma`. The values are checked. They are kept in
    `settings`.
    """

    def decorate(kind: type[T]) -> type[T]:
        create = kind.__init__
        fields = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]

        @functools.wraps(create)
        def init(self: Any, *args: Any, **values: Any) -> None:
            known = {name: value for name, value in values.items() if name in fields}
            if len(args) > len(fields) or not known.keys().isdisjoint(fields[: len(args)]):
                create(self, *args, **known)  # raises a TypeError that says so
            known |= dict(zip(fields, args, strict=False))
            given = dict(known.pop('settings', ())) | {n: v for n, v in values.items() if n not in fields}
            known['settings'] = _checked(kind, given) if given else ()
            create(self, **known)

        def getattr_(self: Any, name: str) -> Any:
            if name.startswith('_') or name in fields:  # while an object is copied, its fields are not set yet
                raise AttributeError(name)
            parameter = parameters_of(kind).get(name)
            if parameter is None:
                raise AttributeError(f"'{kind.__name__}' object has no attribute '{name}'")
            return dict(self.settings).get(name, parameter.default)

        for registry in registries:
            registry.share_names({*fields, *dir(kind)}, registries)
        setattr(kind, _REGISTRIES, registries)
        setattr(kind, '__init__', init)  # noqa: B010 (mypy refuses the assignment)
        setattr(kind, '__getattr__', getattr_)  # noqa: B010
        return kind

    return decorate


def registries_of(kind: type) -> tuple[Registry[Any], ...]:
    """Returns the registries whose parameters an options class takes; none for a plain class."""
    registries: tuple[Registry[Any], ...] = getattr(kind, _REGISTRIES, ())
    return registries


def parameters_of(kind: type) -> dict[str, Parameter]:
    """Returns the parameters that an options class takes beside its fields, by name; none for a plain class."""
    return {name: found for registry in registries_of(kind) for name, found in registry.parameters().items()}


def as_dict(options: Any) -> Any:
    """Returns options and the options in them as dictionaries, with the values of all parameters."""
    if not dataclasses.is_dataclass(options) or isinstance(options, type):
        return options
    fields = {field.name: as_dict(getattr(options, field.name)) for field in dataclasses.fields(options)}
    if hasattr(type(options), _REGISTRIES):
        fields.pop('settings')
    return fields | {name: getattr(options, name) for name in parameters_of(type(options))}


def require_applicable(options: Any, registry: Registry[Any], chosen: str | tuple[str, ...]) -> None:
    """Checks the choice of records of a registry, and that each parameter that is set applies to one of them.

    Args:
      options: options with the parameters of `registry`.
      registry: one of the registries of its `with_parameters`.
      chosen: name or names of records, the value of the field `registry.field`.

    Raises:
      OptionError: a name is unknown, or a parameter of another record differs from its default.
    """
    names = {chosen} if isinstance(chosen, str) else set(chosen)
    for name in sorted(names):
        registry.get(name)
    for name, value in options.settings:
        readers = registry.readers(name)
        require(
            not readers or not names.isdisjoint(readers),
            f'{type(options).__name__}.{name}',
            value,
            f'it applies to {" and ".join(readers)} only. Omit it, or set '
            f'{option(registry.field, readers[0] if readers else "")}',
        )


def _checked(kind: type, given: dict[str, Any]) -> Settings:
    """Returns the values that differ from their defaults.

    Raises:
      TypeError: there is no such parameter, as Python itself reports an unknown keyword.
      OptionError: a value is not allowed.
    """
    parameters = parameters_of(kind)
    unknown = [name for name in given if name not in parameters]
    if unknown:
        raise TypeError(f"{kind.__name__}() got an unexpected keyword argument '{unknown[0]}'")
    values = {name: parameters[name].checked(value, f'{kind.__name__}.{name}') for name, value in given.items()}
    return tuple(sorted((name, value) for name, value in values.items() if value != parameters[name].default))
