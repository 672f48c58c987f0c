"""``glassformer runs``: the runs in a folder, what differs between them, how they ended. Imports no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.console import out, print_json, print_table
from glassformer.cli.options import Json


def command(
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="Where to look.")] = Path("runs"),
    json: Json = False,
) -> None:
    """List runs: status, step, loss, and the settings in which they differ."""
    from glassformer.runs.overview import overview

    table = overview(folder)
    if json:
        print_json(table)
        return
    if not table["runs"]:
        out().print(f"No runs in {folder}.", markup=False)
        return
    differing = table["differing"]
    rows = [
        [
            row["name"],
            row["status"] + (", TAINTED" if row["tainted"] else ""),
            "" if row["step"] is None else str(row["step"]),
            "" if row["validation_loss"] is None else f"{row['validation_loss']:.4f}",
            *("" if row["settings"].get(key) is None else str(row["settings"][key]) for key in differing),
        ]
        for row in table["runs"]
    ]
    print_table(str(folder), ["run", "status", "step", "validation loss", *differing], rows)
