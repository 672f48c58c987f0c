"""``glassformer report``: the self-contained page of a run or a study."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from glassformer.cli.console import print_result, say, watching
from glassformer.cli.options import Json, Plugin
from glassformer.foundation.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from glassformer.run import Run
    from glassformer.study.several_studies import SetStudy, SizeStudy
    from glassformer.study.study import Study


def command(
    runs: Annotated[list[Path], Argument(metavar="RUN|STUDY...", help="A run, a study, or several runs (curves in one plot).")],
    out_: Annotated[Path | None, Option("--out", metavar="PAGE.html", help="Default: report.html in the folder.")] = None,
    table: Annotated[
        Literal["latex", "csv", "markdown"] | None,
        Option(help="Print the study's table for a paper or a spreadsheet instead of writing the page."),
    ] = None,
    figure: Annotated[
        list[Path] | None,
        Option(metavar="FILE", help="Write one figure: curves, differences, values or cost, e.g. curves.pdf (.svg, .png)."),
    ] = None,
    reproducibility: Annotated[Path | None, Option(metavar="FILE.json", help="Write commands, seeds, data, versions.")] = None,
    plugin: Plugin = None,
    json: Json = False,
) -> None:
    """Write one HTML page about a run or a study. Results with intervals, curves, cost, the command to repeat it.

    For a paper: --table, --figure (the file's name says which: curves-of-all.pdf) and --reproducibility.
    """
    if table or figure or reproducibility:
        _for_paper(runs, table, figure or [], reproducibility)
        return
    file, in_short = _written(runs, out_, plugin or ())
    print_result({"report": str(file), **in_short}, file, json=json)


def _for_paper(
    folders: Sequence[Path], table: Literal["latex", "csv", "markdown"] | None, figures: Sequence[Path], file: Path | None
) -> None:
    """Prints the table; writes figures and the reproducibility file, and prints their names on standard error."""
    from glassformer.figures.save import save_figure
    from glassformer.foundation.files import write_json
    from glassformer.runs.directory import RunDirectory
    from glassformer.study.reporting.paper import reproducibility, table_text
    from glassformer.study.several_studies import SizeStudy, study_in

    study = study_in(folders[0]) if len(folders) == 1 else None
    if isinstance(study, SizeStudy):
        raise UsageError(f"{study.folder} has a study at each size; name the folder of one.", reason="figure-of-sizes")
    runs = [RunDirectory(folder) for folder in folders] if study is None else []
    for run in runs:
        run.require()
    if table is not None:
        if study is None:
            raise UsageError("--table is of a study; for runs use `glassformer runs --csv`.", reason="table-of-runs")
        sys.stdout.write(table_text(study, table))
    for path in figures:
        save_figure(_figure(study, folders, re.split(r"[-_.]", path.stem)[0]), path)
        say(f"Wrote {path}.")
    if file is not None:
        write_json(file, reproducibility(runs if study is None else study))
        say(f"Wrote {file}.")


def _figure(study: Study | SetStudy | None, folders: Sequence[Path], what: str) -> Figure:
    from glassformer.study.several_studies import SetStudy

    if isinstance(study, SetStudy):
        raise UsageError("--figure is of one set's study; name its folder.", reason="figure-of-sets")
    if study is not None:
        return study.figure(what)
    if what != "curves":
        raise UsageError(f"--figure {what} is of a study; of runs there are curves, e.g. curves.pdf.", reason="no-figure")
    from glassformer.run_report import curves_figure

    return curves_figure(folders, warn=say)


def _written(runs: Sequence[Path], page: Path | None, plugins: Sequence[Path]) -> tuple[Path, dict[str, Any]]:
    """The page's place, and what it holds in short."""
    from glassformer.study.several_studies import study_in

    if len(runs) > 1:
        from glassformer.run_report import write_curves

        return write_curves(runs, page or Path("report.html"), warn=say), _several(runs)
    if (study := study_in(runs[0])) is not None:
        return study.report(page), _study(study)
    from glassformer.run import load
    from glassformer.run_report import write_report

    with watching() as watch:
        loaded = load(runs[0], plugins=plugins, watch=watch)
        return write_report(loaded, page, watch=watch), _run(loaded)


def _study(study: Study | SetStudy | SizeStudy) -> dict[str, Any]:
    """Every verdict, or trend, in a word and its sentence; ``compare --json`` prints all numbers."""
    from glassformer.study.several_studies import SetStudy, SizeStudy

    if isinstance(study, SizeStudy):
        trends = [{"variant": one.variant, "trend": one.word, "sentence": one.sentence} for one in study.trends]
        return {"kind": "study at several sizes", "sizes": list(study.studies), "trends": trends}
    verdicts = [{"variant": one.variant, "verdict": one.verdict, "sentence": one.sentence} for one in study.verdicts]
    about = {"kind": "study on several sets", "sets": list(study.studies)} if isinstance(study, SetStudy) else {"kind": "study"}
    return {**about, "name": _name(study.folder), "metric": study.metric.name, "verdicts": verdicts}


def _run(run: Run) -> dict[str, Any]:
    """How far it is, and the figures of its validation text, which the page has just measured."""
    found = run.evaluation() if "validation" in run.data.names else None
    metrics = {} if found is None else {name: one.to_dict() for name, one in found.metrics.items()}
    summary = run.summary()
    state = {"status": summary["status"], "step": summary["step"], "tainted": run.tainted}
    found_wrong = [one.to_dict() for one in run.diagnosis()]
    return {"kind": "run", "name": _name(run.folder), **state, "metrics": metrics, "diagnosis": found_wrong}


def _several(folders: Sequence[Path]) -> dict[str, Any]:
    from glassformer.runs.directory import RunDirectory
    from glassformer.runs.overview import last_validation, metric_of, progress_of

    rows = []
    for run in map(RunDirectory, folders):
        progress, metric = progress_of(run), metric_of(run)
        figure = {"metric": metric.name, "last_validation": last_validation(run, metric.recorded)}
        rows.append({"name": _name(run.root), "status": progress["status"], "step": progress.get("step"), **figure})
    return {"kind": "runs", "runs": rows}


def _name(folder: Path) -> str:
    return folder.resolve().name
