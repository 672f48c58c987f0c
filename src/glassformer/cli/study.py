"""``glassformer study``: trials that travel between machines, without weights. Imports no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.console import out, print_json, say
from glassformer.cli.options import Json
from glassformer.foundation.errors import RunError

app = typer.Typer(help="Move trials of a study between machines.", no_args_is_help=True, rich_markup_mode=None)


@app.command("pack")
def pack_command(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="The folder of a study.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write, e.g. trials.json or trials.json.gz.")],
    json: Json = False,
) -> None:
    """Write the finished trials of a study into one file. It has values, environment and recipe, no weights."""
    from glassformer.study.directory import StudyDirectory
    from glassformer.study.packed_trials import pack

    count = pack(StudyDirectory(study), file)
    if json:
        print_json({"file": str(file), "trials": count, "bytes": file.stat().st_size})
        return
    out().print(f"{count} trials in {file} ({file.stat().st_size / 1000:.0f} KB).", markup=False)
    say(f"On another machine: glassformer study add STUDY {file.name}, then glassformer compare STUDY continues it.")


@app.command("add")
def add_command(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="The folder of the same study; a new folder becomes it.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `study pack` wrote.")],
    json: Json = False,
) -> None:
    """Add the trials of a packed study. Doing it twice changes nothing; what is there is never replaced."""
    from glassformer.study.directory import StudyDirectory
    from glassformer.study.packed_trials import add

    added = add(StudyDirectory(study), file)
    if json:
        print_json({"new": added.new, "known": added.known, "different": added.different})
    else:
        out().print(f"{len(added.new)} trials are new, {len(added.known)} were there already.", markup=False)
    if added.different:
        raise RunError(
            f"{len(added.different)} trials gave other values there than here, and ours stay: {', '.join(added.different)}.",
            reason="different-values",
        )
