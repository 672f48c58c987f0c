"""``glassformer runs``: the runs in a folder, what differs between them, how they ended. Imports no torch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from glassformer.cli.console import out, print_json, print_result, print_table, say
from glassformer.cli.options import Json
from glassformer.foundation.errors import UsageError
from glassformer.runs.overview import flat_rows, records_of
from glassformer.runs.records import csv_text


def command(
    folder: Annotated[Path, Argument(metavar="[FOLDER]", help="A folder of runs.")] = Path("runs"),
    store: Annotated[bool, Option("--store", help="List the cached trials that studies reuse instead.")] = False,
    empty_store: Annotated[bool, Option("--empty-store", help="Delete the cached trials; studies keep their copies.")] = False,
    csv: Annotated[bool, Option("--csv", help="Print the table as CSV.")] = False,
    metrics: Annotated[bool, Option("--metrics", help="With --csv: print every logged step of every run instead.")] = False,
    all_: Annotated[bool, Option("--all", help="Add a column for each setting in which runs differ, and notes.")] = False,
    note: Annotated[str | None, Option(metavar="TEXT", help="Add a remark to the run in FOLDER.")] = None,
    json: Json = False,
) -> None:
    """List runs: status, step, loss, and what differs. Also notes, and cached trials."""
    if store or empty_store:
        _trial_store(empty_store, json)
        return
    if note is not None:
        _note(folder, note)
    if metrics and not csv:
        raise UsageError("--metrics works only with --csv; add --csv.")
    from glassformer.runs.overview import overview

    table = overview(folder)
    if csv:
        sys.stdout.write(csv_text(records_of(folder, say) if metrics else flat_rows(table)))
        return
    if json:
        print_json(table)
        return
    if not table["runs"]:
        out().print(f"No runs in {folder}.")
        return
    several = len({row["metric"] for row in table["runs"]}) > 1
    noted = all_ and any(row["notes"] for row in table["runs"])
    differing = table["differing"] if all_ else []
    rows = [
        [
            row["name"],
            row["status"] + (", TAINTED" if row["tainted"] else ""),
            "" if row["step"] is None else str(row["step"]),
            _figure(row, several),
            row["data"] or "",
            spark(row["curve"]),
            *(["; ".join(row["notes"])] if noted else []),
            *("" if row["settings"].get(key) is None else str(row["settings"][key]) for key in differing),
        ]
        for row in table["runs"]
    ]
    heading = "validation" if several else f"validation {table['runs'][0]['metric']}"
    print_table(
        str(folder), ["run", "status", "step", heading, "data", "loss", *(["notes"] if noted else []), *differing], rows
    )
    if table["differing"] and not all_:
        say(f"They differ in {len(table['differing'])} settings; --all shows them.")


def _note(folder: Path, text: str) -> None:
    from glassformer.runs.directory import RunDirectory

    run = RunDirectory(folder)
    run.require()
    run.add_note(text)


def _trial_store(empty: bool, json: bool) -> None:
    """Lists or empties the store of finished trials."""
    from glassformer.study.running.trial_store import TrialStore

    store = TrialStore()
    if empty:
        count = store.empty()
        print_result({"store": str(store.root), "removed": count}, f"{count} stored trials removed.", json=json)
        return
    rows = store.entries()
    if json:
        print_json({"store": str(store.root), "trials": rows})
        return
    size = sum(row["bytes"] for row in rows) / 1e6
    out().print(f"{len(rows)} stored trials, {size:,.1f} MB, in {store.root}; --empty-store removes them.")
    if rows:
        command(store.root)


def _figure(row: dict[str, Any], several: bool) -> str:
    """The last validation value beside the best baseline; with its metric's name where the runs have different ones."""
    value, beside = row[f"validation_{row['metric']}"], row["baseline"]
    if value is None:
        return ""
    against = "" if beside is None else f" ({beside['name']} {beside['value']:.4f})"
    return f"{row['metric']} {value:.4f}{against}" if several else f"{value:.4f}{against}"


BARS = "▁▂▃▄▅▆▇█"


def spark(values: list[float]) -> str:
    """A line of the curve: one bar for each value, from the lowest to the highest."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    steps = len(BARS) - 1
    return "".join(BARS[round(steps * (value - low) / (high - low)) if high > low else 0] for value in values)
