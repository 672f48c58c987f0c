"""docs/exercises.yaml and the records in docs/measurements -> docs/exercises: a page for each exercise, and the index.

    python docs/make_exercises.py

An item has a question, the commands that answer it, an answer with our figures (``FILE#path``, as in systems.yaml) and a result
of one line. Commands are run by tests/docs/test_systems_commands.py; those under ``refused`` must be refused. Trains nothing.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from make_systems import DOCS, filled

from glassformer.foundation.yaml_text import parse_yaml

ROWS, FOLDER = DOCS / "exercises.yaml", DOCS / "exercises"
NOTE = "<!-- written by docs/make_exercises.py from docs/exercises.yaml -->\n"


def exercises() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = parse_yaml(ROWS.read_text(encoding="utf-8"), str(ROWS))["exercises"]
    return found


def heading(item: dict[str, Any]) -> str:
    return f"{item['id']} {item['ask']}"


def anchor(item: dict[str, Any]) -> str:
    """The id that a Markdown renderer gives the heading."""
    return re.sub(r"[^\w -]", "", heading(item).lower()).replace(" ", "-")


def lines(item: dict[str, Any]) -> list[str]:
    """The item's commands; of one that is refused, the exit code stands behind it."""
    return [*item.get("run", ()), *(f"{line}   # refused: exit code 2" for line in item.get("refused", ()))]


def entry(item: dict[str, Any]) -> str:
    commands = "\n".join(lines(item))
    pictures = [f"![{Path(name).stem}](../pictures/{name})" for name in item.get("pictures", ())]
    missing = [f"*Not here: {item['missing']}.*"] if "missing" in item else []
    answer = filled(item, item["answer"])
    return "\n\n".join([f"## {heading(item)}", f"```\n{commands}\n```", answer, *missing, *pictures]) + "\n"


def page(exercise: dict[str, Any]) -> str:
    others = "[All items](index.md) · [what was published, what we found](../systems.md)"
    return "\n".join(
        [NOTE + f"# {exercise['title']}\n", exercise["about"] + "\n", others + "\n", *map(entry, exercise["items"])]
    )


def index() -> str:
    """Every item in one line: question, first command, result."""
    all_items = [item for exercise in exercises() for item in exercise["items"]]
    missing = [item for item in all_items if "missing" in item]
    parts = [
        NOTE + "# The exercises, question by question\n",
        f"{len(all_items)} questions of six exercises about the Transformer, each with a command and a result; the question "
        "links to the whole answer. Every command is run by a test in a short form. Figures of ours carry a 95 % interval and "
        "come from [measurements](../measurements); [the summary](../systems.md) compares them with what was published.\n",
        "Set `GLASSFORMER_DATA` to the folder with the data (`glassformer data list`). "
        f"{len(missing)} items need weights or a file that could not be had offline; each names the line that uses them.\n",
    ]
    for exercise in exercises():
        rows = ["| question | command | result |", "|---|---|---|"]
        for item in exercise["items"]:
            command = lines(item)[0].replace("|", "\\|")
            more = f" (+{len(lines(item)) - 1})" if len(lines(item)) > 1 else ""
            absent = " *(not here: see the answer)*" if "missing" in item else ""
            result = filled(item, item["result"]).replace("|", "\\|").replace("<", "&lt;")
            question = heading(item).replace("|", "\\|")
            rows.append(f"| [{question}]({exercise['page']}.md#{anchor(item)}) | `{command}`{more} | {result}{absent} |")
        parts += [f"## [{exercise['title']}]({exercise['page']}.md)\n", "\n".join(rows) + "\n"]
    return "\n".join(parts)


def pages() -> dict[Path, str]:
    return {FOLDER / "index.md": index()} | {FOLDER / f"{one['page']}.md": page(one) for one in exercises()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, text in pages().items():
        file.write_text(text, encoding="utf-8")
