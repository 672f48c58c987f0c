"""Options that several verbs share, and how their values are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from glassformer.foundation.config import parse_assignment
from glassformer.foundation.errors import UsageError

Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one key, e.g. model.width=64.")]
Plugin = Annotated[list[Path] | None, typer.Option("--plugin", metavar="FILE", help="A Python file with variants of yours.")]
AllowLeaks = Annotated[
    bool, typer.Option("--allow-leaks", help="Go on with a model that breaks a law; every figure is marked tainted.")
]
RecipeArgument = Annotated[
    str, typer.Argument(metavar="RECIPE", help="A recipe file, a built-in recipe, or a text file of yours.")
]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]
CheckpointOption = Annotated[str, typer.Option("--checkpoint", metavar="best|last|N", help="Which weights.")]


def changes_of(assignments: list[str] | None) -> dict[str, Any]:
    """--set options -> dotted changes; the same key twice is refused."""
    changes: dict[str, Any] = {}
    for text in assignments or []:
        key, value = parse_assignment(text)
        if key in changes:
            raise UsageError(f"--set {key} is given twice; give it once.")
        changes[key] = value
    return changes
