"""``glassformer course``: the lessons, files with blanks, and their grader. Imports no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from glassformer.cli.console import out, print_json, print_result, print_table
from glassformer.cli.options import Json
from glassformer.foundation.errors import UsageError
from glassformer.foundation.files import write_atomically

FAILED = 3
ACTIONS = ("write", "check")


def command(
    words: Annotated[
        list[str] | None,
        Argument(metavar="[write|check] [N]", help="write N: a file with blanks; check N: grade it. Default: list."),
    ] = None,
    file: Annotated[Path | None, Option(metavar="FILE", help="The completed file; default lesson_N_NAME.py here.")] = None,
    json: Json = False,
) -> None:
    """List the lessons; write an exercise's file; grade it. Basic cases are shown when they fail, hidden ones are counted."""
    from glassformer.course.grading import file_name, grade, lesson_named, template

    if not words:
        _list(json)
        return
    if words[0] not in ACTIONS or len(words) != 2:
        raise UsageError(
            f"course {' '.join(words)}: give nothing (the list), `write N` or `check N` with the number of a lesson.",
            reason="unknown-course-action",
        )
    lesson = lesson_named(words[1])
    place = file or Path(file_name(lesson))
    if words[0] == "write":
        if place.exists():
            raise UsageError(f"{place} exists, and your work may be in it; give another --file.", reason="exercise-exists")
        write_atomically(place, template(lesson))
        print_result({"lesson": lesson, "file": str(place)}, place, json=json)
        return
    result = grade(lesson, place)
    print_json(result) if json else _print(result)
    if not result["passed"]:
        raise typer.Exit(FAILED)


def _list(json: bool) -> None:
    from glassformer.course.grading import TASKS, file_name

    rows = [{"lesson": name, "tasks": [task.name for task in tasks], "file": file_name(name)} for name, tasks in TASKS.items()]
    if json:
        print_json({"lessons": rows})
        return
    table = [[name, ", ".join(task.name for task in tasks), file_name(name)] for name, tasks in TASKS.items()]
    print_table("Lessons (docs/course)", ["lesson", "to complete", "file"], table)
    out().print("glassformer course write N writes the file with blanks, glassformer course check N grades it.")


def _print(result: dict[str, Any]) -> None:
    rows = [
        [one["name"], f"{one['basic'][0]} of {one['basic'][1]}", f"{one['hidden'][0]} of {one['hidden'][1]}"]
        for one in result["tasks"]
    ]
    print_table(f"Lesson {result['lesson']}", ["function", "basic", "hidden"], rows)
    for said in dict.fromkeys(one["said"] for one in result["tasks"] if one["said"]):
        out().print(said)
    out().print("Passed." if result["passed"] else "Not yet.")
