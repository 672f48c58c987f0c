"""``glassformer demo``: the main job on built-in data, in minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.console import out, print_json, say, watching
from glassformer.cli.options import Json
from glassformer.foundation.config import parse_assignment

STEPS = 700  # about two minutes on two cores


def command(
    out_: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where the run goes.")] = Path("demo"),
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one key.")] = None,
    json: Json = False,
) -> None:
    """Train on the built-in corpus, measure beside baselines, print a sample, write the report page."""
    from glassformer.experiment import train
    from glassformer.run_report import write_report

    changes = {"training.steps": STEPS, **dict(map(parse_assignment, set_ or []))}
    say("Training a small Transformer on the docstrings of Python's standard library. Ctrl-C stops; run again to go on.")
    with watching() as watch:
        run = train("docstrings-char", set=changes, out=out_, resume=True, watch=watch)
        evaluation = run.evaluation(watch=watch)
        sample = run.generate("The ", max_new_tokens=200, temperature=0.7, seed=0)[0]
        page = write_report(run, watch=watch)
    if json:
        print_json({"run": str(run.folder), "report": str(page), **evaluation.plain(), "sample": sample.plain()})
        return
    out().print(str(evaluation), markup=False)
    out().print(f"\nA sample: {sample.prompt}{sample.text}\n", markup=False)
    out().print(f"Report: {page.resolve()}", markup=False)
