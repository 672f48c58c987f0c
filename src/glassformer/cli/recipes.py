"""``glassformer recipes``: the built-in recipes, and every variant of every slot."""

from __future__ import annotations

from typing import Annotated

import typer

from glassformer.cli.console import out, print_json, print_table
from glassformer.cli.options import Json


def command(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Print this recipe.")] = None,
    variants: Annotated[bool, typer.Option("--variants/--no-variants", help="Also list the variants of each slot.")] = True,
    json: Json = False,
) -> None:
    """List the built-in recipes with what they gave, and the named parts a recipe can choose from."""
    from glassformer.recipe import list_recipes, list_variants, recipe_file
    from glassformer.study.library import list_studies

    if name is not None:
        text = recipe_file(name).read_text(encoding="utf-8")
        print_json({"name": name, "recipe": text}) if json else out().print(text, markup=False, end="")
        return
    recipes = list_recipes()
    table = list_variants() if variants else []
    if json:
        print_json({"recipes": recipes, "studies": list_studies(), "variants": table})
        return
    for recipe in recipes:
        out().print(recipe["name"], style="bold", markup=False)
        for line in (recipe["about"], recipe["result"] and f"Result: {recipe['result']}"):
            if line:
                out().print(f"  {line}", markup=False)
    out().print("\nStudies, for `glassformer compare NAME`", style="bold", markup=False)
    for study in list_studies():
        out().print(f"  {study['name']} (of {study['base']}): {study['about']}", markup=False)
    if table:
        out().print()
        rows = [[row["slot"], row["name"], row["about"]] for row in table]
        print_table("Variants", ["slot", "name", "what it is"], rows, numbers=False)
