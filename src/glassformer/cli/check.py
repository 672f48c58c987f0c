"""``glassformer check``: the laws, on the actual model. Exit code 3 when one is broken."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.console import out, print_json, remarks
from glassformer.cli.options import Json, Plugin, Set, changes_of
from glassformer.foundation.errors import CheckFailed, UsageError
from glassformer.foundation.plugins import fault_in_plugin


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
    conformance: Annotated[
        bool, typer.Option("--conformance", help="TARGET is a plugin: put its variants through the suite ours pass.")
    ] = False,
    json: Json = False,
) -> None:
    """Test whether any score depends on a later token, on another row, on padding or on the cache, and where it enters."""
    if conformance:
        _conformance(target, plugin or [], json)
        return
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


def _conformance(file: str, plugins: list[Path], json: bool) -> None:
    """Every case of every variant that the file defines; exit code 3 when one fails."""
    from glassformer.checks.conformance import SLOTS, cases
    from glassformer.foundation.plugins import load_plugins, module_of
    from glassformer.foundation.registry import variants_of

    load_plugins([*plugins, Path(file)])
    found = [name.split("=", 1) for name in variants_of(module_of(Path(file)))]
    mine = [(slot, kind) for slot, kind in found if slot in SLOTS]
    if not mine:
        raise UsageError(f"{file} defines no variant of {', '.join(SLOTS)}, so there is nothing to put through the suite.")
    rows: list[dict[str, str]] = []
    for slot, kind in mine:
        for case in cases(slot, kind):
            try:
                case.run()
                rows.append({"case": str(case), "result": "held"})
            except Exception as error:
                place = fault_in_plugin(error)
                rows.append({"case": str(case), "result": "failed", "reason": place or f"{type(error).__name__}: {error}"})
            if not json:
                reason = f": {rows[-1]['reason']}" if "reason" in rows[-1] else ""
                out().print(f"{rows[-1]['result']}: {case}{reason}", markup=False)
    failed = [row["case"] for row in rows if row["result"] == "failed"]
    if json:
        print_json({"passed": not failed, "cases": rows})
    if failed:
        raise CheckFailed(f"{len(failed)} of {len(rows)} cases failed: {', '.join(failed[:5])}.")
