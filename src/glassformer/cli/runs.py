"""``glassformer runs``: the runs in a folder, what differs between them, how they ended. Imports no torch."""

from __future__ import annotations

import sys
from csv import DictWriter
from pathlib import Path
from typing import Annotated, Any

import typer

from glassformer.cli.console import out, print_json, print_table, say
from glassformer.cli.options import Json
from glassformer.foundation.errors import UsageError
from glassformer.runs.overview import flat_rows, records_of


def command(
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="A folder of runs.")] = Path("runs"),
    kept: Annotated[bool, typer.Option("--kept", help="List the cached trials that studies reuse instead.")] = False,
    empty_kept: Annotated[
        bool, typer.Option("--empty-kept", help="Delete the cached trials; studies keep their own copies.")
    ] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print the table as CSV.")] = False,
    metrics: Annotated[
        bool, typer.Option("--metrics", help="With --csv: print every logged step of every run instead.")
    ] = False,
    note: Annotated[str | None, typer.Option("--note", metavar="TEXT", help="Add a remark to the run in FOLDER.")] = None,
    json: Json = False,
) -> None:
    """List runs: status, step, loss, and what differs. Also notes, and cached trials."""
    if kept or empty_kept:
        _trial_store(empty_kept, json)
        return
    if note is not None:
        _note(folder, note)
    if metrics and not csv:
        raise UsageError("--metrics works only with --csv; add --csv.")
    from glassformer.runs.overview import overview

    table = overview(folder)
    if csv:
        _csv(records_of(folder, say) if metrics else flat_rows(table))
        return
    if json:
        print_json(table)
        return
    if not table["runs"]:
        out().print(f"No runs in {folder}.", markup=False)
        return
    differing, several = table["differing"], len({row["metric"] for row in table["runs"]}) > 1
    noted = any(row["notes"] for row in table["runs"])
    rows = [
        [
            row["name"],
            row["status"] + (", TAINTED" if row["tainted"] else ""),
            "" if row["step"] is None else str(row["step"]),
            _figure(row, several),
            *(["; ".join(row["notes"])] if noted else []),
            *("" if row["settings"].get(key) is None else str(row["settings"][key]) for key in differing),
        ]
        for row in table["runs"]
    ]
    heading = "validation" if several else f"validation {table['runs'][0]['metric']}"
    print_table(str(folder), ["run", "status", "step", heading, *(["notes"] if noted else []), *differing], rows)


def _note(folder: Path, text: str) -> None:
    from glassformer.runs.directory import RunDirectory

    run = RunDirectory(folder)
    run.require()
    run.add_note(text)


def _csv(rows: list[dict[str, Any]]) -> None:
    """One header, one line per row; what a row does not have is empty."""
    header = list(dict.fromkeys(key for row in rows for key in row))
    writer = DictWriter(sys.stdout, header, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def _trial_store(empty: bool, json: bool) -> None:
    """Lists or empties the store of finished trials."""
    from glassformer.study.running.trial_store import TrialStore

    store = TrialStore()
    if empty:
        count = store.empty()
        print_json({"store": str(store.root), "removed": count}) if json else out().print(f"{count} stored trials removed.")
        return
    rows = store.entries()
    if json:
        print_json({"store": str(store.root), "trials": rows})
        return
    size = sum(row["bytes"] for row in rows) / 1e6
    out().print(f"{len(rows)} stored trials, {size:,.1f} MB, in {store.root}; --empty-kept removes them.", markup=False)
    if rows:
        command(store.root)


def _figure(row: dict[str, Any], several: bool) -> str:
    """The last validation value; with its metric's name where the runs of the table have different ones."""
    value = row[f"validation_{row['metric']}"]
    return "" if value is None else f"{row['metric']} {value:.4f}" if several else f"{value:.4f}"
