"""``glassformer byhand``: attention on paper; a goal for given keys, or a question to explore."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from glassformer.cli.console import print_result, say
from glassformer.cli.options import Json, changes_of
from glassformer.foundation.errors import UsageError

if TYPE_CHECKING:
    from glassformer.byhand.result import Result

ENDINGS = (".svg", ".png", ".html")


def command(
    problem: Annotated[
        list[str] | None,
        Argument(metavar="PROBLEM", help="attend, a goal (select 1, average 1,2, identity), an exploration or a YAML file."),
    ] = None,
    keys: Annotated[
        str | None,
        Option(metavar="ROWS|FILE", help="The keys: '1,0;0,1', a .npy or .csv file, or `worked` for the worked example."),
    ] = None,
    values: Annotated[str | None, Option(metavar="ROWS|FILE", help="The values, one row per key.")] = None,
    bound: Annotated[str | None, Option(metavar="R", help="Largest norm of the query; default 10.")] = None,
    scale: Annotated[str | None, Option(metavar="S", help="Factor of the scores: a number, or 1/sqrt(d).")] = None,
    logits: Annotated[str | None, Option(metavar="ROW", help="Target scores for least squares.")] = None,
    replace: Annotated[str | None, Option(metavar="J", help="Keep the query and search for a new key J.")] = None,
    query: Annotated[str | None, Option(metavar="ROW", help="For attend, or with --replace: the query.")] = None,
    length: Annotated[str | None, Option(metavar="L", help="With --replace: norm of the new key.")] = None,
    mask: Annotated[str | None, Option(metavar="J,J|causal", help="With attend: keys that no query sees, or causal.")] = None,
    argmax: Annotated[bool, Option("--argmax", help="With attend: all weight on the best key.")] = False,
    set_: Annotated[list[str] | None, Option("--set", metavar="KEY=VALUE", help="Option of an exploration, e.g. n=8.")] = None,
    seed: Annotated[int | None, Option(help="Seed of an exploration.")] = None,
    out_: Annotated[Path | None, Option("--out", metavar="FILE", help="Write the picture: .svg, .png or .html.")] = None,
    exercise: Annotated[bool, Option("--exercise", help="Print the task; the solution goes to --out (solution.html).")] = False,
    json: Json = False,
) -> None:
    """Solve small attention problems by hand. Calculate, find the query that reaches a goal, or prove that none does."""
    if out_ is not None and out_.suffix.lower() not in ENDINGS:
        raise UsageError(f"--out {out_}: the file must end in {', '.join(ENDINGS)}.", reason="bad-picture-name")
    from glassformer.byhand.request import answer, catalogue, request_from_words

    if not problem:
        _print_catalogue(catalogue(), json)
        return
    request, folder = request_from_words(problem)
    flags: dict[str, Any] = {
        "values": values,
        "bound": bound,
        "scale": scale,
        "logits": logits,
        "replace": replace,
        "query": query,
    }
    flags |= {"keys": keys, "length": length, "mask": mask, "argmax": argmax or None}
    request |= {name: value for name, value in flags.items() if value is not None}
    settings = changes_of(set_) | ({} if seed is None else {"seed": seed})
    if settings:
        request["settings"] = {**(request.get("settings") or {}), **settings}
    result = answer(request, folder=folder)
    if exercise:
        from glassformer.byhand.request import task_of

        task, place = task_of(request), out_ or Path("solution.html")
        print_result({"task": task, "solution": str(place)}, task, json=json)
        _write(result, place)
        return
    print_result(result.to_dict(), result.text, json=json)
    if out_ is not None:
        _write(result, out_)


def _write(result: Result, path: Path) -> None:
    from glassformer.figures.save import save_figure
    from glassformer.foundation.files import write_atomically

    if path.suffix.lower() == ".html":
        write_atomically(path, result.page())
    else:
        save_figure(result.figure(), path)
    say(f"Picture: {path}")


def _print_catalogue(everything: dict[str, Any], json: bool) -> None:
    lines = ["Calculator:", f"  {everything['calculator']}", "Goals, with --keys:"]
    lines += [f"  {row['about']}" for row in everything["goals"]]
    lines.append("Explorations, with settings for --set:")
    for row in everything["explorations"]:
        settings = " ".join(f"{name}={value}" for name, value in row["settings"].items())
        lines.append(f"  {row['name']}: {row['question']}  ({settings})")
    print_result(everything, "\n".join(lines), json=json)
