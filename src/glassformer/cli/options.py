"""Options that several verbs share, and how their values are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from glassformer.foundation.config import parse_assignment
from glassformer.foundation.errors import DataError, UsageError

Json = Annotated[bool, Option("--json", help="Print one JSON document on standard output.")]
Set = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY=VALUE", help="Change one key of the recipe, e.g. model.width=64. Repeatable."),
]
Plugin = Annotated[
    list[Path] | None, Option("--plugin", metavar="FILE", help="Load your own variants from this Python file. Repeatable.")
]
Log = Annotated[
    list[str] | None, Option("--log", metavar="tensorboard|wandb|csv", help="Also write the metrics for this tool. Repeatable.")
]
AllowLeaks = Annotated[
    bool,
    Option("--allow-leaks", help="Continue even if a check fails or cannot be judged; every figure is then marked tainted."),
]
RecipeArgument = Annotated[
    str,
    Argument(
        metavar="RECIPE",
        help="A recipe file, the name of a built-in recipe, or your own text or table (.txt, .md, .csv, .tsv, .jsonl).",
    ),
]
RunArgument = Annotated[Path, Argument(metavar="RUN", help="The folder that `train` wrote, e.g. runs/mine.")]
CheckpointOption = Annotated[
    str, Option("--checkpoint", metavar="best|last|N", help="Checkpoint to use: best, last, or the one at step N.")
]


def numbers_in(text: str, option: str, example: str) -> list[int]:
    """``6,8,12`` -> [6, 8, 12]."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        sentence = f"{option} {text!r} must be whole numbers with commas between, such as {example}."
        raise UsageError(sentence, reason=f"bad-{option.removeprefix('--')}") from None


def lines_of(file: Path) -> list[str]:
    """The lines of a text file."""
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise DataError("does not exist; check the path.", file=file) from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read as text ({error}).", file=file) from error


def changes_of(assignments: list[str] | None) -> dict[str, Any]:
    """--set options -> dotted changes; the same key twice is refused."""
    changes: dict[str, Any] = {}
    for text in assignments or []:
        key, value = parse_assignment(text)
        if key in changes:
            raise UsageError(f"--set {key} is given twice; keep one of them.", reason="set-twice")
        changes[key] = value
    return changes
