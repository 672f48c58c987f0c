"""``glassformer check``: the laws, on the actual model. Exit code 3 when one is broken, 1 when one cannot be judged."""

from __future__ import annotations

import json as json_text
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from glassformer.cli.console import out, print_json, print_result, watching
from glassformer.cli.options import Json, Plugin, Set, changes_of
from glassformer.foundation.errors import CannotTell, CheckFailed, UsageError
from glassformer.foundation.plugins import fault_in_plugin

if TYPE_CHECKING:
    from glassformer.checks.check_report import CheckReport


def command(
    target: Annotated[
        str | None,
        Argument(metavar="RECIPE|RUN|FILE.py:CALLABLE", help="What to check; or the folder or hub name of a model."),
    ] = None,
    set_: Set = None,
    plugin: Plugin = None,
    encoder: Annotated[bool, Option("--encoder", help="The model is an encoder: it may see later tokens.")] = False,
    vocabulary: Annotated[int | None, Option(min=2, help="Vocabulary size of a FILE.py:CALLABLE.")] = None,
    context: Annotated[int | None, Option(min=2, help="Longest input of a FILE.py:CALLABLE.")] = None,
    class_: Annotated[
        str | None,
        Option("--class", help="Load the folder or hub name as this transformers class; alone, check a tiny model."),
    ] = None,
    thorough: Annotated[bool, Option("--thorough", help="Test every position of the full context, not a sample.")] = False,
    conformance: Annotated[
        bool,
        Option("--conformance", help="Run the tests of built-in variants on a plugin: check --conformance FILE.py."),
    ] = False,
    zoo: Annotated[
        bool,
        Option("--zoo", help="Check all causal classes of transformers, or those of --class A,B, as tiny models."),
    ] = False,
    workers: Annotated[int, Option(min=1, help="With --zoo: number of classes checked in parallel.")] = 1,
    limit: Annotated[float, Option(min=1, help="With --zoo: time limit per class, in seconds.")] = 120.0,
    json: Json = False,
) -> None:
    """Check that a model sees nothing it must not see. Tests whether any logit depends on a later token,
    another row, padding, the KV cache or earlier calls, and reports where."""
    if conformance:
        if target is None:
            raise UsageError("--conformance needs a plugin file, for example: check --conformance my_attention.py.")
        _conformance(target, plugin or [], json)
        return
    if zoo:
        if target is not None:
            raise UsageError(
                "--zoo checks transformers classes and takes no target; drop the target.", reason="zoo-with-target"
            )
        _zoo([] if class_ is None else class_.split(","), workers, limit, json)
        return
    from glassformer.checking.target import check

    with watching() as watch:
        report = check(
            target,
            set=changes_of(set_),
            plugins=plugin or (),
            causal=False if encoder else None,
            vocabulary=vocabulary,
            context=context,
            class_name=class_,
            quick=not thorough,
            watch=watch,
        )
    _tell(report, json)


def _tell(report: CheckReport, json: bool) -> None:
    """Prints the report; a broken law, or one that cannot be judged, ends the command with its exit code."""
    print_result(report.to_dict(), report, json=json)
    if report.broken:
        raise CheckFailed(f"{report.subject} breaks {' and '.join(sorted(report.broken))}; see above.")
    if report.cannot_tell:
        raise CannotTell(f"{report.subject}: {report.doubts}")


def _zoo(names: list[str], workers: int, limit: float, json: bool) -> None:
    """Checks a tiny random model of each class, each in a process of its own. Broken laws are the result, not a failure."""
    from concurrent.futures import ThreadPoolExecutor

    from glassformer.checks.tiny_model import causal_classes, model_class

    for name in names:
        model_class(name)  # refuses a name that transformers does not have
    entries = []
    with ThreadPoolExecutor(workers) as pool:
        for entry in pool.map(lambda name: _check_class(name, limit), names or causal_classes()):
            entries.append(entry)
            if not json:
                out().print(f"{entry['class']}: {_verdict(entry)}")
    if json:
        print_json({"classes": entries})


def _check_class(name: str, limit: float) -> dict[str, Any]:
    """The JSON of ``check --class NAME``, or why there is none: a class may crash, hang or refuse to be built."""
    command = [sys.executable, "-m", "glassformer", "check", "--class", name, "--json", "--quiet"]
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {"class": name, "error": f"not done within {limit:g} seconds"}
    if child.stdout.startswith("{"):
        return {"class": name, **json_text.loads(child.stdout)}
    last_line = child.stderr.strip().rpartition("\n")[2]
    return {"class": name, "error": last_line or f"the process ended with code {child.returncode}"}


def _verdict(entry: dict[str, Any]) -> str:
    if "error" in entry:
        return f"cannot tell: {entry['error']}"
    for outcome, words in (("broken", "breaks"), ("cannot tell", "cannot tell")):
        if laws := [law for law, result in entry["judged"].items() if result == outcome]:
            return f"{words} {' and '.join(laws)}"
    return "passed"


def _conformance(file: str, plugins: list[Path], json: bool) -> None:
    """Every case of every variant that the file defines; exit code 3 when one fails."""
    from glassformer.checks.conformance import SLOTS, cases
    from glassformer.foundation.plugins import load_plugins, module_of
    from glassformer.foundation.registry import variants_of

    load_plugins([*plugins, Path(file)])
    found = [name.split("=", 1) for name in variants_of(module_of(Path(file)))]
    mine = [(slot, kind) for slot, kind in found if slot in SLOTS]
    if not mine:
        raise UsageError(f"{file} defines no variant of {', '.join(SLOTS)}, so there is nothing to test.")
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
                out().print(f"{rows[-1]['result']}: {case}{reason}")
    failed = [row["case"] for row in rows if row["result"] == "failed"]
    if json:
        print_json({"passed": not failed, "cases": rows})
    if failed:
        raise CheckFailed(f"{len(failed)} of {len(rows)} cases failed: {', '.join(failed[:5])}.")
