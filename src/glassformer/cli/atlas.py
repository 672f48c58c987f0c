"""``glassformer atlas``: which published changes of a Transformer hold here, how large they are, and how to add one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from glassformer.cli.console import out, print_json, print_result, print_table, remarks, say
from glassformer.cli.options import Json, Plugin, Set, changes_of
from glassformer.foundation.errors import RunError, UnknownName, UsageError

if TYPE_CHECKING:
    from glassformer.atlas.cells import Cell
    from glassformer.atlas.records import Records

app = typer.Typer(
    help="Published changes of a Transformer, with our verdicts.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
RecordsOption = Annotated[
    list[Path] | None,
    Option("--records", metavar="PATH", help="Portions or folders of them, besides those of the package. Repeatable."),
]
Margin = Annotated[float | None, Option("--margin", help="Judge with another margin than 0.01 nats per byte.")]
RowArgument = Annotated[str, Argument(metavar="ROW", help="The name of a row (`glassformer atlas list`).")]


def _records(more: list[Path] | None) -> Records:
    from glassformer.atlas.records import Records, records_folder

    return Records.load([records_folder(), *(more or [])])


def _cells(records: list[Path] | None, margin: float | None) -> list[Cell]:
    from glassformer.atlas.cells import cells
    from glassformer.atlas.protocol import Atlas

    return cells(Atlas.load(), _records(records), margin)


def _figure(cell: Cell) -> str:
    """``better -0.031``, or *open*."""
    value = cell.difference.value
    return cell.word if value is None else f"{cell.word} {value:+.4f}"


def _place(cell: Cell) -> tuple[str, ...]:
    """Size and text, and the baseline where it is the second one."""
    return (cell.size, cell.text) if cell.base == "modern" else (cell.size, cell.text, cell.base)


@app.command("list")
def list_command(records: RecordsOption = None, margin: Margin = None, json: Json = False) -> None:
    """List every row with its word at each size and on each text."""
    found = _cells(records, margin)
    if json:
        print_json([cell.to_dict() for cell in found])
        return
    columns = sorted({_place(cell) for cell in found}, key=lambda one: (len(one), one[0] != "XS", one))
    by_row: dict[str, dict[tuple[str, ...], Cell]] = {}
    for cell in found:
        by_row.setdefault(cell.row.name, {})[_place(cell)] = cell
    order = sorted(by_row.values(), key=lambda own: next(iter(own.values())).row.family)
    rows = []
    for own in order:
        row = next(iter(own.values())).row
        rows.append([row.name, str(row.year), row.family, *(_figure(own[at]) if at in own else "" for at in columns)])
    print_table("Differences in nats per byte; less is better", ["row", "year", "family", *map(" ".join, columns)], rows)
    say("One row: glassformer atlas show ROW. The page: glassformer atlas page.")


@app.command("show")
def show_command(row: RowArgument, records: RecordsOption = None, margin: Margin = None, json: Json = False) -> None:
    """Show a row: its claim, where ours differs, its cells. Each cell has its sentence and command."""
    from glassformer.atlas.protocol import Atlas

    about = Atlas.load().row(row)
    found = [cell for cell in _cells(records, margin) if cell.row.name == row]
    lines = [f"{about.title} ({about.source})", f"Claim ({about.kind}): {about.claim}"]
    lines += [f"Equation: {about.equation}"] if about.equation else []
    lines += [f"Differs from the paper: {about.deviations}"] if about.deviations else []
    lines += [f"Claim not testable here: {about.untestable}"] if about.untestable else []
    for cell in found:
        lines += ["", f"{', '.join(_place(cell))}: {_figure(cell)}"]
        lines += [cell.sentence] if cell.sentence else []
        lines += [f"Rate: {cell.rate_note}."] if cell.group is not None else []
        lines += [one.sentence for one in (cell.worth, cell.trend) if one is not None]
        lines += [f"Also: {other}." for other in cell.others]
        lines += [f"Command: {cell.command}"]
    print_result({"row": about.to_dict(), "cells": [cell.to_dict() for cell in found]}, "\n".join(lines), json=json)


@app.command("plan")
def plan_command(
    records: RecordsOption = None,
    seconds: Annotated[float | None, Option(help="Seconds a run takes; by default as in the records.")] = None,
    jobs: Annotated[int, Option(metavar="N", min=1, help="Runs side by side.")] = 12,
    json: Json = False,
) -> None:
    """What is left to run, and about how many minutes it would take."""
    from collections import Counter
    from io import StringIO
    from statistics import median

    from glassformer.atlas.protocol import Atlas
    from glassformer.atlas.running import Portion, local_executor

    atlas, known = Atlas.load(), _records(records)
    cells = _cells(records, None)
    portion, rows = Portion(atlas, known, StringIO(), lambda logs: local_executor(1, logs)), []
    for size in dict.fromkeys(cell.size for cell in cells):
        own = [one for one in known.trials.values() if one.job.size == size]
        machine = max(Counter(one.machine for one in own).items(), key=lambda one: one[1], default=("", 0))[0]
        refused = {
            (one.row.name, one.text, one.base) for one in cells if (one.size, one.word) == (size, "invalid") and not one.losses
        }
        left = [job for job in portion.open_jobs(machine) if job.size == size and (job.row, job.text, job.base) not in refused]
        took = [one.seconds / atlas.row(one.job.row).steps for one in own if one.seconds]
        each = seconds or (median(took) if took else None)
        minutes = None if each is None else sum(atlas.row(job.row).steps for job in left) * each / jobs / 60
        going_on = {(one.row.name, one.text, one.base) for one in cells if (one.size, one.word) == (size, "not decided")}
        figures = {"runs": len(left), "seconds_per_run": each, "minutes": minutes}
        looks = len(going_on & {(job.row, job.text, job.base) for job in left})
        open_cells = sum((cell.size, cell.word) == (size, "open") for cell in cells)
        if left or open_cells:
            rows.append({"size": size, "cells": open_cells, "looks": looks, **figures})
    if json:
        print_json({"open": rows, "jobs": jobs})
        return
    texts = [[str(one[key]) if not isinstance(one[key], float) else f"{one[key]:.1f}" for key in one] for one in rows]
    columns = ["size", "open cells", "further looks", "runs", "s a run", "minutes"]
    print_table(f"What is left, with {jobs} runs side by side", columns, texts)


@app.command("run")
def run_command(
    out_file: Annotated[Path, Option("--out", metavar="FILE", help="The portion to write (appended to where it exists).")],
    minutes: Annotated[float | None, Option(help="Of the clock; no run is begun that would end later.")] = None,
    row: Annotated[list[str] | None, Option(help="Only this row, with its baseline. Repeatable.")] = None,
    text: Annotated[
        list[str] | None, Option(help="With --row: on this text, by default on all but those apart (skills). Repeatable.")
    ] = None,
    size: Annotated[str, Option(help="With --row: at this size.")] = "XS",
    base: Annotated[str, Option(help="With --row: against this baseline (modern, gpt2).")] = "modern",
    rate: Annotated[float | None, Option(help="With --row: learning rate, times the size's.")] = None,
    base_rate: Annotated[float | None, Option(help="The baseline's rate, times the size's.")] = None,
    seeds: Annotated[int | None, Option(metavar="N", min=1, help="With --row: runs of the row.")] = None,
    jobs: Annotated[int | None, Option(metavar="N", min=1, help="Processes side by side.")] = None,
    speed: Annotated[bool, Option("--speed", help="With --row: time its steps beside the baseline's; no runs.")] = False,
    steps: Annotated[int | None, Option(metavar="N", min=2, help="In place of the protocol's; other cells.")] = None,
    set: Set = None,
    records: RecordsOption = None,
    plugin: Plugin = None,
) -> None:
    """Run what is open, most useful first, or single rows. Each finished run is written to FILE at once."""
    from glassformer.atlas.protocol import Atlas
    from glassformer.atlas.records import Records
    from glassformer.atlas.running import Portion, local_executor
    from glassformer.foundation.plugins import load_plugins

    load_plugins(plugin or [])
    atlas = Atlas.load(changes_of(set), steps)
    sizes, bases, sets = (list(one) for one in (atlas.protocol.sizes, atlas.protocol.bases, atlas.protocol.texts))
    for name, known in ((size, sizes), (base, bases), *((one, sets) for one in text or ())):
        if name not in known:
            raise UnknownName("the atlas", name, known)
    if not row and (text or rate or seeds or speed):
        raise UsageError("--text, --rate, --seeds and --speed belong to --row; name a row.", reason="no-row")
    texts = text or [name for name, about in atlas.protocol.texts.items() if not about.apart]
    cells = [(atlas.row(name).name, where, size, base) for name in row or () for where in texts]
    # single rows are run from nothing, so that a printed command is a test of its cell; their rates are those of the records
    places = [*(records or []), *([out_file] if out_file.exists() else [])]
    rates = _records(places)
    known_records = Records.load(places) if row else rates
    out_file.parent.mkdir(parents=True, exist_ok=True)
    with out_file.open("a", encoding="utf-8") as stream:
        portion = Portion(
            atlas,
            known_records,
            stream,
            lambda logs: local_executor(jobs, logs),
            minutes=minutes,
            plugins=[str(file.resolve()) for file in plugin or ()],
            watch=remarks(),
            base_rate=base_rate,
            rates=rates,
        )
        portion.measure_speeds(row or [], size, base) if speed else portion.run(cells, seeds, rate)
    what = "speeds" if speed else "runs"
    say(f"{portion.done} {what} in {portion.seconds:.0f} s; {out_file}. To store them: glassformer atlas add {out_file}")


@app.command("add")
def add_command(
    file: Annotated[Path, Argument(metavar="FILE", help="A portion that `atlas run` wrote.")],
    folder: Annotated[Path | None, Option("--to", metavar="FOLDER", help="Where to; by default the package's.")] = None,
    json: Json = False,
) -> None:
    """Add a portion to the records. Nothing is replaced; runs that disagree stay side by side and are named."""
    from glassformer.atlas.records import add, records_folder

    added = add(file, folder or records_folder())
    different = [f"{new.job.label} ({old.file})" for old, new in added.contradictions]
    document = {"file": added.file and str(added.file), "new": added.new, "known": added.known, "different": different}
    print_result(document, f"{added.new} runs are new, {added.known} were there already. {added.file or ''}", json=json)
    if different:
        raise RunError(
            f"{len(different)} runs gave other values than before; both stay: {'; '.join(different)}.",
            reason="different-values",
        )


@app.command("page")
def page_command(
    folder: Annotated[Path, Option("--out", metavar="FOLDER", help="Where to write the three files.")] = Path("atlas"),
    records: RecordsOption = None,
    margin: Margin = None,
) -> None:
    """Write the page, one offline HTML file. The same is written as JSON and CSV."""
    from glassformer.atlas.cells import cells
    from glassformer.atlas.page import document, write
    from glassformer.atlas.protocol import Atlas

    atlas, known = Atlas.load(), _records(records)
    found = cells(atlas, known, margin)
    for file in write(folder, document(atlas, known, found, margin), found):
        out().print(str(file))


@app.command("try")
def try_command(
    file: Annotated[Path, Argument(metavar="FILE", help="Your variant, my.py, with its row beside it, my.yaml.")],
    seeds: Annotated[int, Option(metavar="N", min=2, help="Runs of each; a word needs 6.")] = 6,
    steps: Annotated[int, Option(metavar="N", min=2, help="Steps of a run.")] = 150,
    jobs: Annotated[int | None, Option(metavar="N", min=1, help="Runs side by side.")] = None,
    minutes: Annotated[float | None, Option(help="Of the clock; no run is begun that would end later.")] = None,
    json: Json = False,
) -> None:
    """Try your own row: conformance, laws, a provisional cell. It takes minutes, on built-in text."""
    from glassformer.atlas.running import local_executor
    from glassformer.atlas.trying import row_file, try_row
    from glassformer.foundation.plugins import load_plugins

    row_file(file)
    load_plugins([file])
    tried = try_row(file, lambda logs: local_executor(jobs, logs), seeds=seeds, steps=steps, minutes=minutes, watch=remarks())
    document = {"row": tried.row.to_dict(), "cell": tried.cell.to_dict(), "provisional": True}
    document |= {"runs": tried.runs, "conformance": tried.held}
    lines = [f"Conformance: {tried.held} cases held."]
    lines += [f"{tried.row.title}: {_figure(tried.cell)} (provisional: a miniature on built-in text, {tried.runs} runs)"]
    lines += [tried.cell.verdict.sentence] if tried.cell.verdict is not None else []
    cost = {"parameters": tried.cell.parameters, "FLOPs": tried.cell.flops, "tokens per second": tried.cell.speed}
    lines += [", ".join(f"{name} {100 * (ratio - 1):+.1f} %" for name, ratio in cost.items() if ratio is not None)]
    print_result(document, "\n".join(lines), json=json)
    say(f"{tried.seconds:.0f} s. To propose the row, send {file.name} and {file.with_suffix('.yaml').name} (docs/atlas.md).")


@app.command("recheck")
def recheck_command(
    out_file: Annotated[Path, Option("--out", metavar="FILE", help="The portion to write.")] = Path("recheck.jsonl"),
    minutes: Annotated[float | None, Option(help="Of the clock; no run is begun that would end later.")] = None,
    jobs: Annotated[int | None, Option(metavar="N", min=1, help="Runs side by side.")] = None,
    row: Annotated[list[str] | None, Option(help="Only this row. Repeatable.")] = None,
    records: RecordsOption = None,
    json: Json = False,
) -> None:
    """Run one seed of every cell again with this version. Equal values carry the words over, others are listed."""
    from glassformer.atlas.protocol import Atlas
    from glassformer.atlas.running import local_executor, recheck

    atlas = Atlas.load()
    rows = [atlas.row(name).name for name in row or ()]
    with out_file.open("a", encoding="utf-8") as stream:
        found = recheck(
            atlas,
            _records(records),
            stream,
            lambda logs: local_executor(jobs, logs),
            rows=rows,
            minutes=minutes,
            watch=remarks(),
        )
    lines = [f"{one.cell}: {one.sentence}" for one in found if one.largest != 0.0]
    lines += [f"{len(found) - len(lines)} of {len(found)} cells have equal values: their words stand."]
    print_result([one.to_dict() for one in found], "\n".join(lines), json=json)
