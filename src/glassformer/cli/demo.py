"""``glassformer demo``: the main job on built-in data: a small study with four verdicts and a report page, in minutes."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

from typer import Option

from glassformer.cli.console import print_result, say
from glassformer.cli.live_table import watching_a_study
from glassformer.cli.options import Json, Set, changes_of

PLAN = "demo"


def command(
    out_: Annotated[Path, Option("--out", metavar="FOLDER", help="Folder for the study.")] = Path("demo"),
    set_: Set = None,
    jobs: Annotated[int | None, Option(metavar="N", min=1, help="Parallel runs; default one per core.")] = None,
    json: Json = False,
) -> None:
    """Run a small study on built-in data, with verdicts. Four changes and a report; about five minutes on two cores."""
    say(
        "Four changes of a small Transformer, each trained with 8 seeds on the docstrings of Python's standard library: one "
        "matters, one does not, one is too small to tell, one cheats. About five minutes on two cores. Ctrl-C stops; the same "
        "command continues."
    )
    with watching_a_study() as watch:
        from glassformer.study.compare import compare

        study = compare(PLAN, set=changes_of(set_), out=out_, jobs=jobs, watch=watch)
        page = study.report()
    shown = f"{study}\n\nReport: {page.resolve()}\nIn the browser, with everything behind it: {open_in_page(out_)}"
    print_result({**study.to_dict(), "report": str(page)}, shown, json=json)
    say("Next: glassformer compare docstrings-char --vary model.positions=sinusoidal,alibi --seeds 8   glassformer recipes")


def open_in_page(study: Path) -> str:
    """The command that shows a study's folder in the page, as it can be typed where the demo was called."""
    own = Path(sys.argv[0])
    program = "glassformer" if own.name != "glassformer" or shutil.which("glassformer") else os.path.relpath(own)
    return shlex.join([program, "serve", str(study)])
