"""``glassformer study``: trials that travel between machines, without weights. Imports no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument

from glassformer.cli.console import print_result, say
from glassformer.cli.options import Json
from glassformer.foundation.errors import RunError

app = typer.Typer(help="Move trials of a study between machines.", no_args_is_help=True, rich_markup_mode=None)


@app.command("pack")
def pack_command(
    study: Annotated[Path, Argument(metavar="STUDY", help="The folder of a study, or of its sizes or sets.")],
    file: Annotated[Path, Argument(metavar="FILE", help="The file to write, e.g. trials.json or trials.json.gz.")],
    json: Json = False,
) -> None:
    """Write the finished trials of a study into one file. It has values, environment and recipe, no weights."""
    from glassformer.study.packed_trials import pack
    from glassformer.study.several_studies import several_in

    count = pack(study, file)
    size = file.stat().st_size
    document = {"file": str(file), "trials": count, "bytes": size}
    print_result(document, f"{count} trials in {file} ({size / 1000:.0f} KB).", json=json)
    how = "glassformer compare STUDY" if several_in(study) is None else "the same compare command with --out STUDY"
    say(f"On another machine: glassformer study add STUDY {file.name}, then {how} continues it.")


@app.command("add")
def add_command(
    study: Annotated[Path, Argument(metavar="STUDY", help="The folder of the same study; a new folder becomes it.")],
    file: Annotated[Path, Argument(metavar="FILE", help="A file that `study pack` wrote.")],
    json: Json = False,
) -> None:
    """Add the trials of a packed study. Doing it twice changes nothing; what is there is never replaced."""
    from glassformer.study.packed_trials import add

    added = add(study, file)
    print_result(vars(added), f"{len(added.new)} trials are new, {len(added.known)} were there already.", json=json)
    if added.different:
        raise RunError(
            f"{len(added.different)} trials gave other values there than here, and ours stay: {', '.join(added.different)}.",
            reason="different-values",
        )
