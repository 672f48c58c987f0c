"""Entries of the zoo -> its table: as JSON, as Markdown, as an HTML page of its own."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Any

from glassformer.checks.zoo.build import causal_classes
from glassformer.checks.zoo.run import ON_THE_WALL, in_words
from glassformer.foundation.files import code_sha256

LAWS = ("causality", "batch", "state", "padding", "cache")
SIGNS = {"passed": "holds", "broken": "BROKEN", "cannot tell": "?"}
HEADINGS = ("class", *LAWS, "s", "remark")
KEPT = "zoo.jsonl"
"""Entries in order of completion, so that an interrupted zoo can resume."""


def document(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The JSON form: versions, a summary, all entries."""
    import torch
    import transformers

    return {
        "mapped": len(causal_classes()),
        "transformers": transformers.__version__,
        "torch": torch.__version__.partition("+")[0],
        "code": code_sha256(),
        "summary": summary(entries),
        "classes": list(entries),
    }


def summary(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How many were built, judged, broken; how long it took; whether any model was changed."""
    judged = [entry for entry in entries if "judged" in entry]
    seconds = [entry["cpu_seconds"] for entry in judged]
    return {
        "classes": len(entries),
        "built": sum(entry["built"] for entry in entries),
        "judged_for_causality": sum(entry["judged"].get("causality") in ("passed", "broken") for entry in judged),
        "every_law_judged": sum("cannot tell" not in entry["judged"].values() for entry in judged),
        "with_a_broken_law": sum("broken" in entry["judged"].values() for entry in judged),
        "changed_by_the_check": [entry["class"] for entry in judged if not entry["unchanged"]],
        "median_cpu_seconds": round(statistics.median(seconds), 2) if seconds else None,
        "longest_cpu_seconds": max(seconds, default=None),
    }


def rows(entries: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    """The cells of the table, a row for each class."""
    found = []
    for entry in entries:
        if "judged" not in entry:
            found.append((entry["class"], *([""] * len(LAWS)), "", in_words(entry)))
            continue
        cells = [SIGNS.get(entry["judged"].get(law, ""), "-") for law in LAWS]
        found.append((entry["class"], *cells, f"{entry['cpu_seconds']:.1f}", _remark(entry)))
    return found


def _remark(entry: dict[str, Any]) -> str:
    parts = [
        f"{finding['law']}: {finding['size']:.2g} at {finding['where']}{_how(finding['example'])}"
        for finding in entry["findings"]
    ]
    reasons: dict[str, list[str]] = {}
    for law, reason in entry["cannot_tell"].items():
        if not reason.startswith("it presumes"):
            reasons.setdefault(reason, []).append(law)
    parts += [f"{', '.join(laws)}: {reason}" for reason, laws in reasons.items()]
    return "; ".join(part[:160] for part in parts)


def _how(example: dict[str, Any]) -> str:
    words = [f"{key} {example[key]}" for key in ("side", "pieces", "rows", "path") if key in example]
    return f" ({', '.join(words)})" if words else ""


def sentence(found: dict[str, Any]) -> str:
    """The summary in a paragraph."""
    counts = found["summary"]
    return (
        f"transformers {found['transformers']}, torch {found['torch']}: of {counts['classes']} causal classes{_missing(found)} "
        f"{counts['built']} could be built small, {counts['judged_for_causality']} were judged for causality, "
        f"{counts['every_law_judged']} for every law that applies, {counts['with_a_broken_law']} break one. "
        f"A check took {counts['median_cpu_seconds']} s of one core in the median, {counts['longest_cpu_seconds']} s at most. "
        f"Models that were not bit for bit the same afterwards: {', '.join(counts['changed_by_the_check']) or 'none'}."
    )


def _missing(found: dict[str, Any]) -> str:
    """A remark if only some classes were tested."""
    mapped, tried = found.get("mapped", 0), found["summary"]["classes"]
    return f" (there are {mapped}; {mapped - tried} were not tried)" if mapped > tried else ""


def markdown(found: dict[str, Any]) -> str:
    lines = [
        "| " + " | ".join(HEADINGS) + " |",
        "|" + "---|" * len(HEADINGS),
        *("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows(found["classes"])),
    ]
    return sentence(found) + "\n\n" + "\n".join(lines) + "\n"


def page(found: dict[str, Any]) -> str:
    """A self-contained HTML page without scripts."""
    head = "".join(f"<th>{escape(name)}</th>" for name in HEADINGS)
    body = "".join(
        "<tr>" + "".join(f"<td class='{_css(cell)}'>{escape(cell)}</td>" for cell in row) + "</tr>\n"
        for row in rows(found["classes"])
    )
    style = "body{font:14px sans-serif;margin:2em}td,th{padding:2px 8px;text-align:left}"
    style += ".broken{background:#fbb}.ask{background:#ffb}"
    return (
        f"<!doctype html><meta charset='utf-8'><title>The laws on every causal class</title><style>{style}</style>"
        f"<h1>The laws on every causal class</h1><p>{escape(sentence(found))}</p><table><tr>{head}</tr>\n{body}</table>\n"
    )


def _css(cell: str) -> str:
    return {"BROKEN": "broken", "?": "ask"}.get(cell, "")


def kept(folder: Path) -> dict[str, dict[str, Any]]:
    """The entries of an interrupted run of the same code and libraries, by class; without wall-clock timeouts."""
    file, found = folder / KEPT, dict[str, dict[str, Any]]()
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        with suppress(ValueError, KeyError):  # a line that was cut off
            document = json.loads(line)
            if document["build"] == _build() and not document["entry"].get("error", "").endswith(ON_THE_WALL):
                found[document["entry"]["class"]] = document["entry"]
    return found


def keep(entry: dict[str, Any], folder: Path) -> None:
    """Appends an entry for ``kept``."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / KEPT).open("a", encoding="utf-8") as stream:
        stream.write(json.dumps({"build": _build(), "entry": entry}) + "\n")


def _build() -> list[str]:
    import torch
    import transformers

    return [code_sha256(), transformers.__version__, torch.__version__]


def write(entries: Sequence[dict[str, Any]], folder: Path) -> dict[str, Any]:
    """Writes ``zoo.json`` and ``zoo.html``; returns the document."""
    found = document(entries)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "zoo.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (folder / "zoo.html").write_text(page(found), encoding="utf-8")
    return found
