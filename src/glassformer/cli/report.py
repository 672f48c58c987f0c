"""``glassformer report``: the self-contained page of a run or a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.console import out, print_json, watching
from glassformer.cli.options import Json, Plugin


def command(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN|STUDY...", help="A run, a study, or several runs (their loss curves in one plot)."),
    ],
    out_: Annotated[
        Path | None, typer.Option("--out", metavar="PAGE.html", help="File to write; default report.html in the folder.")
    ] = None,
    plugin: Plugin = None,
    json: Json = False,
) -> None:
    """Write one HTML page about a run or a study. Results with intervals, curves, cost, the command to repeat it."""
    from glassformer.study.directory import StudyDirectory

    if len(runs) > 1:
        from glassformer.run_report import write_curves

        file = write_curves(runs, out_ or Path("report.html"))
        print_json({"report": str(file)}) if json else out().print(str(file), markup=False)
        return
    run = runs[0]
    from glassformer.study.set_study import SetStudy

    if SetStudy.exists(run):
        file = SetStudy.load(run).report(out_)
        print_json({"report": str(file)}) if json else out().print(str(file), markup=False)
        return
    if StudyDirectory(run).exists():
        from glassformer.study.study import Study

        file = Study.load(run).report(out_)
        print_json({"report": str(file)}) if json else out().print(str(file), markup=False)
        return
    from glassformer.run import load
    from glassformer.run_report import write_report

    with watching() as watch:
        file = write_report(load(run, plugins=plugin or (), watch=watch), out_, watch=watch)
    print_json({"report": str(file)}) if json else out().print(str(file), markup=False)
