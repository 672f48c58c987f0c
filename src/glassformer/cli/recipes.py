"""``glassformer recipes``: the built-in recipes, and every variant of every slot."""

from __future__ import annotations

import re
from textwrap import shorten
from typing import Annotated, Any

from typer import Argument, Option

from glassformer.cli.console import out, print_json, print_result, print_table
from glassformer.cli.options import Json


def command(
    name: Annotated[str | None, Argument(metavar="[NAME]", help="Print this recipe as YAML.")] = None,
    variants: Annotated[
        bool | None,
        Option("--variants/--no-variants", help="Describe each variant, or leave them out. Default: their names."),
    ] = None,
    details: Annotated[bool, Option("--details", help="Print full descriptions and results.")] = False,
    json: Json = False,
) -> None:
    """List the built-in recipes, studies and variants. With NAME, print that recipe."""
    from glassformer.recipe import list_recipes, list_variants, recipe_file
    from glassformer.study.planning.plan import list_studies

    if name is not None:
        text = recipe_file(name).read_text(encoding="utf-8")
        print_result({"name": name, "recipe": text}, text.removesuffix("\n"), json=json)
        return
    recipes = list_recipes()
    studies, table = list_studies(), [] if variants is False else list_variants()
    if json:
        print_json({"recipes": recipes, "studies": studies, "variants": table})
        return
    rows = [[recipe["name"], _first(recipe["about"])] for recipe in recipes]
    print_table("Recipes, for `glassformer train NAME`", ["recipe", "what it is"], rows, numbers=False)
    out().print()
    rows = [[study["name"], str(study["base"]), _first(study["about"])] for study in studies]
    print_table("Studies, for `glassformer compare NAME`", ["study", "of", "what it asks"], rows, numbers=False)
    if table:
        out().print()
    if table and (variants or details):
        rows = [[row["slot"], row["name"], row["about"]] for row in table]
        print_table("Variants, for `--set SLOT=NAME`", ["slot", "name", "what it is"], rows, numbers=False)
    elif table:
        rows = [[slot, ", ".join(names)] for slot, names in _by_slot(table).items()]
        print_table("Variants, for `--set SLOT=NAME`", ["slot", "names"], rows, numbers=False)
    if details:
        _in_full(recipes, studies)
    else:
        out().print(
            "\nStart with docstrings-char: its data are built in. S1.3 and the like: the published exercise that is repeated "
            "(docs/systems.md). One recipe: glassformer recipes NAME. "
            "What each variant is: --variants. All in full, with results: --details",
            markup=False,
        )


def _first(text: str) -> str:
    """The first sentence; a table has room for no more."""
    return shorten(re.split(r"(?<=[.?])\s", " ".join(text.split()), maxsplit=1)[0], 100, placeholder=" ...")


def _by_slot(table: list[dict[str, Any]]) -> dict[str, list[str]]:
    slots: dict[str, list[str]] = {}
    for row in table:
        slots.setdefault(row["slot"], []).append(row["name"])
    return slots


def _in_full(recipes: list[dict[str, Any]], studies: list[dict[str, Any]]) -> None:
    for recipe in recipes:
        out().print(f"\n{recipe['name']}", style="bold")
        for line in (recipe["about"], recipe["result"] and f"Result: {recipe['result']}"):
            if line:
                out().print(f"  {line}")
    for study in studies:
        out().print(f"\n{study['name']} (of {study['base']})", style="bold")
        out().print(f"  {study['about']}")
