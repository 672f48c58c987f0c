"""Options that several verbs share, and how their values are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from glassformer.foundation.config import parse_assignment
from glassformer.foundation.errors import UsageError

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change one key of the recipe, e.g. model.width=64. Repeatable."),
]
Plugin = Annotated[
    list[Path] | None,
    typer.Option("--plugin", metavar="FILE", help="Load your own variants from this Python file. Repeatable."),
]
Log = Annotated[
    list[str] | None,
    typer.Option("--log", metavar="tensorboard|wandb|csv", help="Also write the metrics for this tool. Repeatable."),
]
AllowLeaks = Annotated[
    bool,
    typer.Option(
        "--allow-leaks", help="Continue even if a check fails or cannot be judged; every figure is then marked tainted."
    ),
]
RecipeArgument = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE",
        help="A recipe file, the name of a built-in recipe, or your own text or table (.txt, .md, .csv, .tsv, .jsonl).",
    ),
]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="The folder that `train` wrote, e.g. runs/mine.")]
CheckpointOption = Annotated[
    str, typer.Option("--checkpoint", metavar="best|last|N", help="Checkpoint to use: best, last, or the one at step N.")
]


def changes_of(assignments: list[str] | None) -> dict[str, Any]:
    """--set options -> dotted changes; the same key twice is refused."""
    changes: dict[str, Any] = {}
    for text in assignments or []:
        key, value = parse_assignment(text)
        if key in changes:
            raise UsageError(f"--set {key} is given twice; keep one of them.", reason="set-twice")
        changes[key] = value
    return changes
