"""Writes docs/recipes.md: every key of a recipe with its type, its default and its meaning, as the configs declare them."""

from __future__ import annotations

import ast
import inspect
import textwrap
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from glassformer.foundation.registry import Slot
from glassformer.recipe import Recipe, list_variants

PAGE = Path(__file__).with_name("recipes.md")

TOP = """# Every key of a recipe

A recipe is one YAML file with these keys. Change any of them on the command line
(`--set model.layers=2`) or in Python (`gf.train(recipe, set={"model.layers": 2})`). Only the data (`data.set` or `data.path`)
and the length (`training.steps` or `training.epochs`) are required. A **slot** is a key whose value is a named variant, alone
(`positions: alibi`) or with settings (`mixer: {kind: argmax, straight_through: true}`): [all variants](variants.md). You need
no recipe to begin: `glassformer train mine.txt` chooses a small one and writes it to `RUN/recipe.yaml`. This page is generated
by `python docs/make_recipes.py`.

```yaml
data: {path: mine.txt}
tokenizer: char
model: {width: 64, layers: 2, heads: 4, context: 64, positions: learned}
training: {steps: 800, batch_size: 16, lr: 2.0e-3}
```
"""


def meanings(config: type[BaseModel]) -> dict[str, str]:
    """Field -> the text below it in the class, those of parents included."""
    found: dict[str, str] = {}
    for owner in reversed(config.__mro__):
        if not (isinstance(owner, type) and issubclass(owner, BaseModel)) or owner is BaseModel:
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
        assert isinstance(body, ast.ClassDef)
        for here, after in zip(body.body, body.body[1:]):
            is_field = isinstance(here, ast.AnnAssign) and isinstance(here.target, ast.Name)
            if is_field and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                found[here.target.id] = " ".join(str(after.value.value).split())  # type: ignore[union-attr]
    return found


def rows(config: type[BaseModel], prefix: str = "") -> list[tuple[str, str, str, str]]:
    """Key, type, default, meaning; sections in depth."""
    table, told = [], meanings(config)
    for name, field in config.model_fields.items():
        key, slot = prefix + name, Slot.every.get(prefix + name)
        inner = field.annotation
        if slot is not None and isinstance(field.default, str) and name != "model":
            table.append((key, "slot", _default(field.default), told.get(name) or slot.about))
            continue
        if slot is not None and name == "model":
            table.extend(rows(slot.get(str(field.default)), key + "."))
        elif isinstance(inner, type) and issubclass(inner, BaseModel):
            table.extend(rows(inner, key + "."))
        else:
            table.append((key, _type(inner), _default(field.get_default(call_default_factory=True)), told.get(name, "")))
    return table


def _type(annotation: Any) -> str:
    """A type as people say it."""
    if annotation is type(None):
        return "null"
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in inner)
    if origin is dict:
        return "mapping"
    if origin is list:
        return f"list of {_type(inner[0])}"
    if inner:
        if origin is Annotated:
            return _type(inner[0])
        return " or ".join(dict.fromkeys(_type(one) for one in inner if one is not type(None)))
    names = {str: "text", int: "whole number", float: "number", bool: "`true` or `false`"}
    return names.get(annotation, "mapping")


def _default(value: Any) -> str:
    if value is PydanticUndefined:
        return "must be given"
    if value is None:
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`" if value not in ("", {}, []) else ""


def page() -> str:
    """The whole page."""
    list_variants()  # finds every slot
    parts, sections = [TOP], dict[str, list[tuple[str, str, str, str]]]()
    for row in rows(Recipe):
        sections.setdefault(row[0].partition(".")[0] if "." in row[0] else "", []).append(row)
    for section, table in sections.items():
        lines = [
            f"| `{key}` | {kind} | {default} | {about.replace('|', chr(92) + '|')} |" for key, kind, default, about in table
        ]
        heading = f"## `{section}`\n" if section else "## The recipe itself\n"
        parts.append("\n".join([heading, "| key | type | default | meaning |", "|---|---|---|---|", *lines]) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
