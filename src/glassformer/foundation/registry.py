"""Slots and their variants: a name in a recipe -> the config class that answers to it.

A variant is one decorated config class in one file of the slot's package; the slot finds the files by itself. Names are
listed, misspelt ones get the nearest, and a name taken twice is refused. Saved runs hold the short name, so files can move.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import Field, SerializationInfo, model_serializer

from glassformer.foundation.config import Config
from glassformer.foundation.errors import ConfigError, UnknownName
from glassformer.foundation.plugins import is_ours, is_recorded


class VariantConfig(Config):
    """One named choice for a slot, with its settings. Subclasses are final and sit above the class they build."""

    kind: ClassVar[str]
    kind_is_written: ClassVar[bool] = True
    """False for a slot's default that recipes leave unsaid (``model`` is a Transformer)."""

    @model_serializer(mode="wrap")
    def _serialize(self, inner: Callable[[Any], dict[str, Any]], info: SerializationInfo) -> dict[str, Any]:
        values = super()._serialize(inner, info)
        return {"kind": type(self).kind, **values} if self.kind_is_written else values

    @classmethod
    def one_line(cls) -> str:
        """The first line of the docstring: what lists and tables show."""
        return (cls.__doc__ or "").strip().splitlines()[0]


V = TypeVar("V", bound=VariantConfig)
D = TypeVar("D", bound=type[VariantConfig])


class Slot(Generic[V]):
    """The variants of one part. ``path`` is the recipe key; ``places`` are packages of one file per variant, or modules."""

    every: ClassVar[dict[str, Slot[Any]]] = {}

    def __init__(self, path: str, about: str, *places: str) -> None:
        self.path, self.about, self.places = path, about, places
        self._variants: dict[str, type[V]] = {}
        self._discovered = False
        self._default: str | None = None
        Slot.every[path] = self

    def variant(self, name: str) -> Callable[[D], D]:
        """Decorator: the class answers to ``name`` in this slot."""
        if not isinstance(name, str) or not name:
            raise ConfigError(
                f'{self.path}: variant({getattr(name, "__name__", name)!r}) gives no name; write .variant("my-name") above '
                "the class.",
                reason="variant-without-name",
            )

        def register(config: D) -> D:
            if not (isinstance(config, type) and issubclass(config, VariantConfig)):
                raise ConfigError(
                    f"{self.path} variant {name!r}: {getattr(config, '__name__', config)} is no config; derive a class from "
                    "the slot's config (docs/plugins.md has one for each), whose build gives the module.",
                    reason="variant-without-config",
                )
            owner: type[VariantConfig] = config
            if "kind" in owner.model_fields:  # a recipe holds the variant's name there, and would be read back as another
                raise ConfigError(
                    f"{self.path} variant {name!r} has a field kind, which is the variant's name; call the field otherwise.",
                    reason="field-called-kind",
                )
            taken = self._variants.get(name)
            same_place = taken is not None and (taken.__module__, taken.__qualname__) == (
                config.__module__,
                config.__qualname__,
            )
            if taken is not None and (not same_place or is_ours(taken)):
                raise ConfigError(
                    f"{self.path} already has a variant {name!r} (class {taken.__name__} of {taken.__module__}); "
                    "choose another name.",
                    reason="variant-name-taken",
                )
            if not (config.__doc__ or "").strip():
                raise ConfigError(
                    f"{self.path} variant {name!r} needs a docstring: lists show its first line.",
                    reason="variant-without-docstring",
                )
            config.kind = name
            self._variants[name] = config  # type: ignore[assignment]
            if "kind_is_written" not in vars(config):
                config.kind_is_written = True  # a subclass of the kind that is not written is another kind
            elif not config.kind_is_written:
                self._default = name
            return config

        return register

    def names(self) -> list[str]:
        self._discover()
        return sorted(self._variants)

    def get(self, name: str) -> type[V]:
        self._discover()
        if name not in self._variants:
            raise UnknownName(self.path, name, self._variants, else_try="Your own is loaded with --plugin FILE.py.")
        return self._variants[name]

    def parse(self, value: Any, at: str | None = None) -> Any:
        """A name, or a mapping with ``kind`` and settings -> the variant's config. A config passes through."""
        at = at or self.path
        if isinstance(value, VariantConfig):
            return value
        if isinstance(value, str):
            value = {"kind": value}
        if isinstance(value, Mapping) and "kind" not in value and self._default is not None:
            value = {"kind": self._default, **value}  # settings alone, e.g. model.feedforward.expansion=2
        if value is None:  # YAML reads `positions: none` as text, but `positions:` and `null` as nothing
            value = {"kind": "none"}
        if not isinstance(value, Mapping) or not isinstance(value.get("kind"), str):
            raise ConfigError(
                f"{at}={value!r} must be a name or a mapping with 'kind'; known: {', '.join(self.names())}.",
                reason="not-a-variant",
            )
        settings = {key: setting for key, setting in value.items() if key != "kind"}
        return self.get(value["kind"]).parse(settings, at=at)

    def parse_layers(self, value: Any) -> Any:
        """The same for a slot that may be a list over the layers -> a config, or a tuple of two or more that repeats.

        Equal models have equal values: a list is cut to its shortest period, and a list of one is its entry.
        """
        if not isinstance(value, list | tuple):
            return self.parse(value)
        if not value:
            raise ConfigError(f"{self.path}=[] names no variant; give one entry or more.", reason="empty-list")
        entries = tuple(self.parse(one, at=f"{self.path}.{number}") for number, one in enumerate(value))
        period = next(
            length
            for length in range(1, len(entries) + 1)
            if len(entries) % length == 0 and entries == entries[:length] * (len(entries) // length)
        )
        return entries[0] if period == 1 else entries[:period]

    def default(self, name: str) -> Any:
        """A field's default by name; it is looked up when a config is made, not when the class is."""
        self._default = name
        return Field(default=name)

    def _discover(self) -> None:
        if self._discovered:
            return
        self._discovered = True
        import_all(self.places)


def import_all(places: Iterable[str]) -> None:
    """Imports modules by name, and of a package every module in it; their decorators register what they hold."""
    for place in places:
        for module in pkgutil.iter_modules(getattr(importlib.import_module(place), "__path__", ())):
            importlib.import_module(f"{place}.{module.name}")


def variants_of(module: str) -> list[str]:
    """``slot=name`` of every variant that was defined in a module; ``__main__`` is a notebook, or the program itself."""
    return [
        f"{slot.path}={name}"
        for slot in Slot.every.values()
        for name, config in slot._variants.items()
        if config.__module__ == module
    ]


def unrecorded_parts(value: Any, at: str = "") -> list[str]:
    """``place=name`` of every part whose class is neither ours nor a plugin's, so that its code has no checksum."""
    if isinstance(value, Mapping):
        inside = [(f"{at}.{key}", one) for key, one in value.items()]
    elif isinstance(value, list | tuple):
        inside = [(at, one) for one in value]
    elif isinstance(value, Config):
        inside = [(f"{at}.{key}", getattr(value, key)) for key in type(value).model_fields]
    else:
        return []
    own = isinstance(value, VariantConfig) and not (is_ours(type(value)) or is_recorded(type(value).__module__))
    found = [f"{at.lstrip('.')}={type(value).kind}"] if own else []
    return [*found, *(name for place, one in inside for name in unrecorded_parts(one, place))]
