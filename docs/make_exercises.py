"""docs/exercises.yaml and the records in docs/measurements -> docs/exercises: a page for each exercise, and the index.

    python docs/make_exercises.py

An item has a question, the commands that answer it, an answer with our figures (``FILE#path``, as in systems.yaml) and a result
of one line. Commands are run by tests/docs/test_systems_commands.py; those under ``refused`` must be refused. ``prints``: what
the answer quotes from the output of its own commands. ``missing``: a file that is not to be had, and the line that uses it.
``short``: what was run only in a short form. ``cells``: a grid as a table. Which items need the weights of an encoder is seen
from their commands. ``records`` says by what, when and where each record was made. Trains nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from make_systems import DOCS, filled, record, shown

from glassformer.foundation.estimate import Estimate
from glassformer.foundation.yaml_text import parse_yaml

ROWS, FOLDER = DOCS / "exercises.yaml", DOCS / "exercises"
ENCODER = re.compile(r"\b(?:sst2|boolq)-")
"""Recipes and studies of pretrained encoders, by how their names begin."""
NOTE = "<!-- written by docs/make_exercises.py from docs/exercises.yaml -->\n"


def document() -> dict[str, Any]:
    found: dict[str, Any] = parse_yaml(ROWS.read_text(encoding="utf-8"), str(ROWS))
    return found


def exercises() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = document()["exercises"]
    return found


def heading(item: dict[str, Any]) -> str:
    return f"{item['id']} {item['ask']}"


def anchor(item: dict[str, Any]) -> str:
    """The id that a Markdown renderer gives the heading."""
    return re.sub(r"[^\w -]", "", heading(item).lower()).replace(" ", "-")


def lines(item: dict[str, Any]) -> list[str]:
    """The item's commands; of one that is refused, the exit code stands behind it."""
    return [*item.get("run", ()), *(f"{line}   # refused: exit code 2" for line in item.get("refused", ()))]


def records(item: dict[str, Any]) -> list[str]:
    """The files in docs/measurements that an item's figures come from."""
    return list(dict.fromkeys(str(reference).partition("#")[0] for reference in item.get("figures", {}).values()))


def cells(tried: list[dict[str, Any]]) -> str:
    """Every setting of a grid with its metric over the tuning seeds; the chosen one is bold."""
    keys = [*tried[0]["set"]]
    metric = next(name for name in tried[0] if name not in ("variant", "set", "chosen"))
    rows = ["| " + " | ".join([*(key.split(".")[-1] for key in keys), metric]) + " |", "|---" * (len(keys) + 1) + "|"]
    for one in tried:
        shows = [
            *(f"{one['set'][key]:g}" for key in keys),
            shown(Estimate.from_dict(one[metric]), percent=metric == "accuracy"),
        ]
        rows.append("| " + " | ".join(f"**{text}**" if one["chosen"] else text for text in shows) + " |")
    return "\n".join(rows)


def state(item: dict[str, Any]) -> str:
    """What stands behind an answer: a short run, a record, the command's own output, or an argument."""
    if "short" in item:
        return "short form"
    return "measured" if records(item) else "printed" if "prints" in item else "explained"


def needing_weights(exercise: dict[str, Any]) -> set[str]:
    """The items all of whose commands load a pretrained encoder, or read a run or study of one."""
    made, found = set[str](), set[str]()
    for item in exercise["items"]:
        needs = []
        for line in item.get("run", ()):
            needs.append(bool(ENCODER.search(line)) or any(re.search(rf"{name}(?![\w-])", line) for name in made))
            made |= set(re.findall(r"--out (\S+)", line)) if needs[-1] else set()
        if needs and all(needs):
            found.add(item["id"])
    return found


def entry(item: dict[str, Any], weights: bool) -> str:
    commands = "\n".join(lines(item))
    pictures = [f"![{Path(name).stem}](../pictures/{name})" for name in item.get("pictures", ())]
    notes = [f"*Not here: {item['missing']}.*"] if "missing" in item else []
    notes += (
        ["*Needs the weights of an encoder in FOLDER: add `--set model.folder=FOLDER` where a run or study begins.*"]
        if weights
        else []
    )
    notes += [f"*Short form: {item['short']}.*"] if "short" in item else []
    links = ", ".join(f"[{Path(name).stem}](../measurements/{name})" for name in records(item))
    notes += [f"Figures: {links} ([how](index.md#where-the-figures-come-from))."] if links else []
    answer = filled(item, item["answer"]) + ("\n\n" + cells(record(item["cells"])) if "cells" in item else "")
    return "\n\n".join([f"## {heading(item)}", f"```\n{commands}\n```", answer, *notes, *pictures]) + "\n"


def page(exercise: dict[str, Any]) -> str:
    others = "[All items](index.md) · [what was published, what we found](../systems.md)"
    weights = needing_weights(exercise)
    contents = "\n".join(f"- [{heading(item)}](#{anchor(item)})" for item in exercise["items"])
    top = [f"# {exercise['title']}", exercise["about"], others, contents]
    return NOTE + "\n\n".join(top) + "\n\n" + "\n".join(entry(item, item["id"] in weights) for item in exercise["items"])


STATES = """| state | means |
|---|---|
| measured | the figures are in a record; [the last table](#where-the-figures-come-from) says how each was made |
| printed | the command prints what the answer quotes, and a test compares the two |
| explained | a written answer; the command shows the thing itself |
| short form | run, but not at the exercise's length; the answer says what was left out |

"Needs a file": a text or weights could not be had offline; the answer names the line that uses them. "Needs weights": its
commands load a pretrained encoder, which you name with `--set model.folder=FOLDER`; [S0](S0.md) and [S1 1.1](S1.md) say what
runs without one.
"""


def index() -> str:
    """Every item in one line: question, first command, result, state; then how each record was made."""
    all_items = [item for exercise in exercises() for item in exercise["items"]]
    counts = Counter(map(state, all_items))
    listed = ", ".join(f"{number} {name}" for name, number in counts.most_common())
    absent, weights = sum("missing" in item for item in all_items), set().union(*map(needing_weights, exercises()))
    parts = [
        NOTE + "# The exercises, question by question\n",
        f"{len(all_items)} questions of six exercises about the Transformer, each with a command and a result: {listed}. "
        f"{absent} need a file, {len(weights)} the weights of an encoder. The question links to the whole answer. A test "
        "runs every command in a short form. Figures of "
        "ours carry a 95 % interval; [the summary](../systems.md) compares them with what was published.\n",
        "Set `GLASSFORMER_DATA` to the folder with the data (`glassformer data list`). Commands of a page use the runs of "
        "commands above them.\n",
        STATES,
    ]
    for exercise in exercises():
        rows = ["| question | command | result | state |", "|---|---|---|---|"]
        for item in exercise["items"]:
            command = lines(item)[0].replace("|", "\\|")
            more = f" (+{len(lines(item)) - 1})" if len(lines(item)) > 1 else ""
            result = filled(item, item["result"]).replace("|", "\\|").replace("<", "&lt;")
            question = heading(item).replace("|", "\\|")
            link = f"[{question}]({exercise['page']}.md#{anchor(item)})"
            needs = (", needs a file" if "missing" in item else "") + (", needs weights" if item["id"] in weights else "")
            rows.append(f"| {link} | `{command}`{more} | {result} | {state(item)}{needs} |")
        parts += [f"## [{exercise['title']}]({exercise['page']}.md)\n", "\n".join(rows) + "\n"]
    return "\n".join([*parts, provenance()])


def provenance() -> str:
    """The records behind the figures: what made them, where and when, and the commit that brought their values in."""
    rows = ["| record | made by | on | commit |", "|---|---|---|---|"]
    for name, made in document()["records"].items():
        rows.append(f"| [{Path(name).stem}](../measurements/{name}) | {made['by']} | {made['where']} | {made['commit']} |")
    return "\n".join(
        [
            "## Where the figures come from\n",
            "The commit is the one that the record names, or the one that brought its values in. Older studies were judged "
            "again later, from the same runs; their intervals are of the last commit that changed the record.\n",
            *rows,
            "",
        ]
    )


def pages() -> dict[Path, str]:
    return {FOLDER / "index.md": index()} | {FOLDER / f"{one['page']}.md": page(one) for one in exercises()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, text in pages().items():
        file.write_text(text, encoding="utf-8")
