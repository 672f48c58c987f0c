"""Plain mappings -> frozen, typed configs; dotted overrides; differences; fingerprints.

A config holds choices and never sizes that the data decide. Wrong keys and values are refused with the dotted field,
the value, the rule and the nearest valid name. Imports no torch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, SerializationInfo, ValidationError, model_serializer
from pydantic.fields import FieldInfo

from glassformer.foundation.errors import ConfigError
from glassformer.foundation.suggestions import suggestion
from glassformer.foundation.yaml_text import parse_yaml

LONGEST_VALUE = 200  # characters of a value that a message repeats


class Config(BaseModel):
    """Base of all configs: frozen, strict about types, refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, validate_default=True, allow_inf_nan=False)

    @model_serializer(mode="wrap")
    def _serialize(self, inner: Callable[[Any], dict[str, Any]], info: SerializationInfo) -> dict[str, Any]:
        values = inner(self)
        if not info.exclude_defaults:
            return values
        fields = type(self).model_fields
        default = {name for name in values if _is_default(getattr(self, name), fields[name])}
        return {key: value for key, value in values.items() if key not in default}

    @classmethod
    def parse(cls, values: Any, *, at: str = "") -> Self:
        """A config from a plain mapping; ``at`` is the dotted place the mapping has in the whole recipe."""
        if not isinstance(values, Mapping):
            raise ConfigError(
                f"{at or cls.__name__} must be a mapping of keys to values, not {_short(values)}.", reason="not-a-mapping"
            )
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            reason = {"extra_forbidden": "unknown-key", "missing": "missing-key"}.get(error.errors()[0]["type"], "bad-value")
            raise ConfigError(_sentence(cls, error, at), reason=reason) from None

    def to_dict(self) -> dict[str, Any]:
        """Strings, numbers, lists and mappings only: what is written to disk."""
        return self.model_dump(mode="json")

    def non_defaults(self) -> dict[str, Any]:
        """The same without what is at its default. Fingerprints are made of it, so that a key that is added with a default
        changes no fingerprint."""
        return self.model_dump(mode="json", exclude_defaults=True)


def _is_default(value: Any, field: FieldInfo) -> bool:
    """A variant's default is its name; such a value is the default when all its settings are."""
    default = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(default, str) and isinstance(value, Config):
        return getattr(type(value), "kind", None) == default and not value.non_defaults().keys() - {"kind"}
    return bool(value == default)


def _sentence(config: type[BaseModel], error: ValidationError, at: str) -> str:
    """The first few problems, each as field, value, rule and remedy."""
    by_field: dict[str, list[Any]] = {}
    for problem in error.errors():
        field = ".".join(filter(None, [at, *_place(config, problem)]))
        by_field.setdefault(field, []).append(problem)
    return " ".join(_about_field(config, field, problems) for field, problems in list(by_field.items())[:3])


def _about_field(config: type[BaseModel], field: str, problems: Sequence[Any]) -> str:
    problem = problems[0]
    if problem["type"] == "extra_forbidden":
        *path, name = _place(config, problem)
        for part in path:
            config = _section(config, part) or config
        known = sorted(config.model_fields)
        return f"There is no key {field!r}.{suggestion(name, known)} Known here: {', '.join(known) or 'none'}."
    if problem["type"] == "missing":
        return f"{field} is missing; give it a value."
    if problem["type"] == "value_error":
        return f"{field + ': ' if field else ''}{problem.get('ctx', {}).get('error') or problem['msg']}"
    rules = [each["msg"].removeprefix("Input should be ") for each in problems]  # a field of several types breaks several rules
    if len(rules) > 1:
        return f"{field}={_short(problem['input'])} is not accepted: input should be {', or '.join(rules)}."
    rule = problem["msg"][0].lower() + problem["msg"][1:]
    return f"{field}={_short(problem['input'])} is not accepted: {rule}."


def _place(config: type[BaseModel], problem: Any) -> list[str]:
    """The keys that lead to a problem, without the names pydantic gives to the branches of a union."""
    place: list[str] = []
    inside: type[BaseModel] | None = config
    for part in problem["loc"]:
        if inside is not None or isinstance(part, int):
            place.append(str(part))
        inside = None if inside is None else _section(inside, str(part))
    return place


def _section(config: type[BaseModel], key: str) -> type[BaseModel] | None:
    """The config that sits under ``key``, if one does."""
    field = config.model_fields.get(key)
    inner = field.annotation if field else None
    return inner if isinstance(inner, type) and issubclass(inner, BaseModel) else None


def _short(value: Any) -> str:
    """The value as Python writes it, cut where it would fill the screen."""
    text = repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."


def parse_assignment(text: str) -> tuple[str, Any]:
    """``"model.width=64"`` -> ``("model.width", 64)``; the value is read as YAML."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(
            f"--set {text!r} is not of the form key=value, for example model.width=64.", reason="not-an-assignment"
        )
    if value.strip() in ("-", "|", ",", "#"):  # standard input, separators; YAML would read nothing, or fail
        return key.strip(), value.strip()
    return key.strip(), parse_yaml(value, f"the value of {key.strip()}")


def override(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """``values`` with each dotted key of ``changes`` replaced; nothing is changed in place.

    A key inside a variant given by name alone works: with ``mixer: dot``, ``model.mixer.bias=false`` keeps ``dot``. Entries
    of a list have numbers: ``model.mixer.0.window=32``; what is no list is its own entry 0.
    """
    result = dict(values)
    for dotted, value in changes.items():
        result = _replace(result, dotted.split("."), value, dotted)
    return result


def _replace(values: Mapping[str, Any], path: list[str], value: Any, dotted: str) -> dict[str, Any]:
    result, (key, *rest) = dict(values), path
    if not key:
        raise ConfigError(f"{dotted!r} is not a dotted key such as model.width.", reason="not-a-dotted-key")
    if not rest:
        result[key] = value
        return result
    inner = result.get(key)
    if isinstance(inner, list | tuple):
        result[key] = _replace_entry(inner, rest, value, dotted)
        return result
    if rest[0] == "0":
        if rest == ["0"]:
            result[key] = value
            return result
        rest = rest[1:]
    if isinstance(inner, str):
        inner = {"kind": inner}
    if inner is not None and not isinstance(inner, Mapping):
        raise ConfigError(f"{dotted!r} cannot be set: {key} is {inner!r}, which has no parts.", reason="key-without-parts")
    result[key] = _replace(inner or {}, rest, value, dotted)
    return result


def _replace_entry(entries: Sequence[Any], path: list[str], value: Any, dotted: str) -> list[Any]:
    number, *rest = path
    if not number.isdecimal() or int(number) >= len(entries):
        raise ConfigError(
            f"{dotted!r} cannot be set: there is a list of {len(entries)} entries, and {number!r} is none of the numbers "
            f"0 to {len(entries) - 1}.",
            reason="no-such-entry",
        )
    result, at = list(entries), int(number)
    result[at] = _replace({number: result[at]}, path, value, dotted)[number] if rest else value
    return result


def value_at(values: Mapping[str, Any], dotted: str, default: Any = None) -> Any:
    """What a dotted key holds, a whole section too; ``default`` where there is no such key."""
    found: Any = values
    for part in dotted.split("."):
        if isinstance(found, list | tuple) and part.isdecimal() and int(part) < len(found):
            found = found[int(part)]
        elif isinstance(found, Mapping) and part in found:
            found = found[part]
        else:
            return default
    return found


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings -> dotted keys; an empty mapping stays as it is."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat


def diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The dotted keys whose values differ, as ``{key: (old, new)}``; absent counts as None."""
    before, after = flatten(old), flatten(new)
    keys = [*before, *(key for key in after if key not in before)]
    return {key: (before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)}


_AS_JSON = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def fingerprint(values: Any) -> str:
    """A sha256 of plain values as JSON, which does not depend on the order of keys."""
    digest = hashlib.sha256()
    for piece in _AS_JSON.iterencode(values):  # a million texts would be one string otherwise
        digest.update(piece.encode())
    return digest.hexdigest()
