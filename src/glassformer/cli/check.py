"""``glassformer check``: the laws, on the actual model. Exit code 3 when one is broken."""

from __future__ import annotations

from typing import Annotated

import typer

from glassformer.cli.console import out, print_json, remarks
from glassformer.cli.options import Json, Plugin, Set, changes_of
from glassformer.foundation.errors import CheckFailed


def command(
    target: Annotated[
        str,
        typer.Argument(metavar="RECIPE|RUN|FILE.py:CALLABLE", help="Also the folder of a Hugging Face model."),
    ],
    set_: Set = None,
    plugin: Plugin = None,
    encoder: Annotated[bool, typer.Option("--encoder", help="The model may see later tokens.")] = False,
    vocabulary: Annotated[int | None, typer.Option("--vocabulary", min=2, help="Ids of a FILE.py:CALLABLE.")] = None,
    context: Annotated[int | None, typer.Option("--context", min=2, help="Longest input of a FILE.py:CALLABLE.")] = None,
    thorough: Annotated[bool, typer.Option("--thorough", help="Every cut of the full context, not some.")] = False,
    json: Json = False,
) -> None:
    """Test whether any score depends on a later token, on another row, on padding or on the cache, and where it enters."""
    from glassformer.checking import check

    report = check(
        target,
        set=changes_of(set_),
        plugins=plugin or (),
        causal=False if encoder else None,
        vocabulary=vocabulary,
        context=context,
        quick=not thorough,
        watch=remarks(),
    )
    if json:
        print_json(report.plain())
    else:
        out().print(str(report), markup=False)
    if not report.passed:
        broken = " and ".join(sorted(finding.law for finding in report.findings))
        raise CheckFailed(f"{report.subject} breaks {broken}; see above.")
