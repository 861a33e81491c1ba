"""Settings: values of the parameters of registered functions, such as the `focal_gamma` of a loss, in options."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from deeplab.errors import OptionError
from deeplab.options.fields import Options
from deeplab.options.rules import require
from deeplab.registry.records import Parameter, Record, Registry
from deeplab.wording import option

# Given by name; kept as (name, value) of each parameter that differs from its default, sorted.
Settings = Mapping[str, Any] | tuple[tuple[str, Any], ...]


class OptionsWithSettings(Options):
    """Base class of options that name records of registries, and have the parameters of the records as `settings`.

        class LossOptions(OptionsWithSettings, registries=(LOSSES,)):
            settings: Settings = ()

        LossOptions(formula='focal', settings={'focal_gamma': 3.0}).focal_gamma

    Attributes:
      registries: the registries.
      settings: values of parameters.
    """

    registries: ClassVar[tuple[Registry[Any], ...]] = ()
    settings: Settings

    def __init_subclass__(cls, registries: tuple[Registry[Any], ...] = (), **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.registries = registries or cls.registries
        for registry in registries:
            registry.share_names({*cls.__annotations__, *dir(cls)}, registries)

    def __post_init__(self) -> None:
        """Checks the settings and drops the ones with default values.

        Raises:
          OptionError: there is no such parameter, or a value is not allowed.
        """
        super().__post_init__()
        given = dict(self.settings)
        object.__setattr__(self, 'settings', _checked(type(self), given) if given else ())

    def __getattr__(self, name: str) -> Any:
        """Returns the value of a parameter: `options.focal_gamma`; its default, unless it is set."""
        if name.startswith('_') or name == 'settings':  # while an object is copied, its fields are not set yet
            raise AttributeError(name)
        parameter = parameters_of(type(self)).get(name)
        if parameter is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return dict(self.settings).get(name, parameter.default)

    def changed(self, **values: Any) -> Self:
        """Returns a copy with other values of fields and of parameters."""
        fields = {field.name for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        changes = {name: value for name, value in values.items() if name in fields}
        settings = {name: value for name, value in values.items() if name not in fields}
        if settings:
            changes['settings'] = dict(self.settings) | dict(changes.get('settings', ())) | settings
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]

    def settings_of(self, record: Record) -> dict[str, Any]:
        """Returns the values of all parameters of a record, by name."""
        return {parameter.name: getattr(self, parameter.name) for parameter in record.parameters}


def registries_of(kind: type) -> tuple[Registry[Any], ...]:
    """Returns the registries whose parameters an options class takes; none for a plain class."""
    return kind.registries if issubclass(kind, OptionsWithSettings) else ()


def parameters_of(kind: type) -> dict[str, Parameter]:
    """Returns the parameters that the settings of an options class may have, by name; none for a plain class."""
    return {name: parameter for registry in registries_of(kind) for name, parameter in registry.parameters().items()}


def as_dict(options: Any) -> Any:
    """Returns options and the options in them as dictionaries, with the values of all parameters beside the fields."""
    if not dataclasses.is_dataclass(options) or isinstance(options, type):
        return options
    fields = {field.name: as_dict(getattr(options, field.name)) for field in dataclasses.fields(options) if field.repr}
    if isinstance(options, OptionsWithSettings):
        del fields['settings']
        fields |= {name: getattr(options, name) for name in parameters_of(type(options))}
    return fields


def require_applicable(options: OptionsWithSettings, registry: Registry[Any], chosen: str | tuple[str, ...]) -> None:
    """Checks the choice of records of a registry, and that each parameter that is set applies to one of them.

    Args:
      options: options with the parameters of `registry`.
      registry: one of its registries.
      chosen: name or names of records, the value of the field `registry.field`.

    Raises:
      OptionError: a name is unknown, or a parameter of another record differs from its default.
    """
    names = {chosen} if isinstance(chosen, str) else set(chosen)
    for name in sorted(names):
        registry.get(name)
    for name, value in dict(options.settings).items():
        readers = registry.readers(name)
        require(
            not readers or not names.isdisjoint(readers),
            f'{type(options).__name__}.{name}',
            value,
            f'it applies to {" and ".join(readers)} only. Omit it, or set '
            f'{option(registry.field, readers[0] if readers else "")}',
        )


def _checked(kind: type, given: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Returns the values that differ from their defaults; raises `OptionError`."""
    parameters = parameters_of(kind)
    unknown = [name for name in given if name not in parameters]
    if unknown:
        raise OptionError(
            f"{kind.__name__} has no setting '{unknown[0]}'. Settings: {', '.join(sorted(parameters)) or 'none'}."
        )
    values = {name: parameters[name].checked(value, f'{kind.__name__}.{name}') for name, value in given.items()}
    return tuple(sorted((name, value) for name, value in values.items() if value != parameters[name].default))
