"""A request -> the task alone, as a teacher hands it out: what is given and what is asked, and nothing of the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glassformer.byhand.explorations.base import all_explorations
from glassformer.byhand.numbers import as_matrix
from glassformer.byhand.problem import worked_keys


def task_of(request: Mapping[str, Any]) -> str:
    """The words on the sheet."""
    if request.get("explore") is not None:
        name = request["explore"]
        entry = next(entry for entry in all_explorations() if entry.name == name)
        settings = {**entry.settings(), **(request.get("settings") or {})}
        given = ", ".join(f"{key} = {value}" for key, value in settings.items())
        return f"Exercise ({name}). {entry.question}\nGiven: {given}.\nSay what you expect before you compute, and why."
    keys = request["keys"]
    rows = worked_keys() if keys == "worked" else as_matrix("keys", keys)
    table = "\n".join(
        f"  key {number} = ({', '.join(f'{x:g}' for x in row)})" for number, row in enumerate(rows.tolist(), start=1)
    )
    bound = request.get("bound") or 10
    asked = f"replace key {request['replace']} so that" if request.get("replace") is not None else "find a query q with which"
    return (
        f"Exercise. Attention over these keys, weights = softmax(q . k):\n{table}\n"
        f"With |q| at most {bound}, {asked} attention does this: {request['goal']}.\n"
        "If no query can do it exactly, say why, and how near one can come."
    )
