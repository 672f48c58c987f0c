"""``glassformer report``: the self-contained page of a run or a study."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.console import out, print_json, say, watching
from glassformer.cli.options import Json, Plugin

if TYPE_CHECKING:
    from glassformer.run import Run
    from glassformer.study.multi_set_study import SetStudy
    from glassformer.study.study import Study


def command(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN|STUDY...", help="A run, a study, or several runs (their curves in one plot)."),
    ],
    out_: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="PAGE.html",
            help="File to write; default report.html in the folder. Several runs: also .svg, .png or .pdf, their curves.",
        ),
    ] = None,
    plugin: Plugin = None,
    json: Json = False,
) -> None:
    """Write one HTML page about a run or a study. Results with intervals, curves, cost, the command to repeat it."""
    file, in_short = _written(runs, out_, plugin or ())
    print_json({"report": str(file), **in_short}) if json else out().print(str(file), markup=False)


def _written(runs: Sequence[Path], page: Path | None, plugins: Sequence[Path]) -> tuple[Path, dict[str, Any]]:
    """The page's place, and what it holds in short."""
    from glassformer.study.directory import StudyDirectory
    from glassformer.study.multi_set_study import SetStudy

    if len(runs) > 1:
        from glassformer.run_report import write_curves

        return write_curves(runs, page or Path("report.html"), warn=say), _several(runs)
    run = runs[0]
    if SetStudy.exists(run):
        sets = SetStudy.load(run)
        return sets.report(page), {**_study(sets), "kind": "study on several sets", "sets": list(sets.studies)}
    if StudyDirectory(run).exists():
        from glassformer.study.study import Study

        study = Study.load(run)
        return study.report(page), _study(study)
    from glassformer.run import load
    from glassformer.run_report import write_report

    with watching() as watch:
        loaded = load(run, plugins=plugins, watch=watch)
        return write_report(loaded, page, watch=watch), _run(loaded)


def _study(study: Study | SetStudy) -> dict[str, Any]:
    """Every verdict in a word and its sentence; ``compare --json`` prints all numbers."""
    verdicts = [{"variant": one.variant, "verdict": one.verdict, "sentence": one.sentence} for one in study.verdicts]
    return {"kind": "study", "name": _name(study.folder), "metric": study.metric.name, "verdicts": verdicts}


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
