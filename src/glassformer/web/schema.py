"""The recipe's types -> a JSON schema for forms: sections, slots with all their variants, plain settings.

pydantic generates the schema of every config; each slot becomes a choice between the schemas of its variants, plugins included.
"""

from __future__ import annotations

from typing import Any

from pydantic import BeforeValidator
from pydantic.fields import FieldInfo

from glassformer.foundation.config import Config
from glassformer.foundation.registry import Slot

HIDDEN = ("about", "result")


def recipe_schema() -> dict[str, Any]:
    """``{"title", "properties": {KEY: schema}, "required"}``; a slot has ``slot`` and ``variants`` by name."""
    from glassformer.recipe import Recipe

    schema = config_schema(Recipe)
    schema["properties"] = {key: value for key, value in schema["properties"].items() if key not in HIDDEN}
    return schema


def config_schema(config: type[Config], depth: int = 0) -> dict[str, Any]:
    """The schema of one config, its sections and slots inside."""
    plain = _without_references(config)
    properties: dict[str, Any] = {}
    for name, field in config.model_fields.items():
        slot, inner = _slot_of(field), field.annotation
        if slot is not None and depth < 6:
            properties[name] = _of_slot(slot, field, depth)
        elif isinstance(inner, type) and issubclass(inner, Config):
            properties[name] = {**config_schema(inner, depth + 1), "type": "object"}
        else:
            properties[name] = plain.get(name, {})
        if not field.is_required() and "default" not in properties[name]:
            default = field.get_default(call_default_factory=True)
            properties[name]["default"] = default.to_dict() if isinstance(default, Config) else _jsonable(default)
    required = [name for name, field in config.model_fields.items() if field.is_required()]
    about = (config.__doc__ or "").strip().splitlines()
    return {
        "type": "object",
        "about": about[0].replace("``", "`") if about else "",
        "properties": properties,
        "required": required,
    }


def _of_slot(slot: Slot[Any], field: FieldInfo, depth: int) -> dict[str, Any]:
    variants = {name: config_schema(slot.get(name), depth + 1) for name in slot.names()}
    default = field.get_default(call_default_factory=True)
    return {"slot": slot.path, "about": slot.about, "variants": variants, "default": _jsonable(default)}


def _slot_of(field: FieldInfo) -> Slot[Any] | None:
    """The slot of a field, found by its parser."""
    for rule in field.metadata:
        owner = getattr(rule.func, "__self__", None) if isinstance(rule, BeforeValidator) else None
        if isinstance(owner, Slot):
            return owner
    return None


def _without_references(config: type[Config]) -> dict[str, Any]:
    """pydantic's schema of the plain fields; only the name where it cannot generate one."""
    try:
        document = config.model_json_schema(mode="validation")
    except Exception:  # a type without a JSON schema: the form shows a text field
        return {}
    return {name: dict(value) for name, value in document.get("properties", {}).items() if "$ref" not in str(value)}


def _jsonable(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Config):
        return value.to_dict()
    if isinstance(value, list | tuple | set | frozenset):
        return [_jsonable(one) for one in value]
    if isinstance(value, dict):
        return {str(key): _jsonable(one) for key, one in value.items()}
    return str(value)
