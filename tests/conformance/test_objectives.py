"""Every registered objective: what is recorded while training is what an evaluation of that checkpoint finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import glassformer as gf
from glassformer.objectives.base import OBJECTIVES

MODEL = {"width": 16, "layers": 1, "heads": 2, "context": 96, "dropout": 0.4}
MIXTURE = {"kind": "mixture", "parts": {"spans": {"share": 0.5}, "answers": {"share": 0.5}}, "judged_by": "answers"}
SPANS_ALONE = {"kind": "mixture", "parts": {"spans": {"share": 1.0}}, "judged_by": "spans"}


def _recipes(name: str, folder: Path) -> list[dict[str, Any]]:
    """Tiny recipes with dropout: on lines of text, on labelled lines, or on a small world where questions are asked."""
    asking = {"data": {"set": {"kind": "world", "people": 60}}, "tokenizer": "char", "model": MODEL}
    if name == "answers":
        return [{**asking, "objective": name}]
    if name == "translate":
        data = {"set": {"kind": "rewriting", "task": "copy", "pairs": 200, "held_out": 20, "length": 4}}
        model = {"kind": "encoder-decoder", "width": 16, "layers": 1, "heads": 2, "context": 16, "dropout": 0.4}
        return [
            {"data": data, "tokenizer": {"kind": "word", "marks": False, "min_count": 1}, "model": model, "objective": name}
        ]
    file, begins = folder / "lines.txt", {"labels": ("a", "b"), "multilabel": ("a", "a;b"), "regression": ("3", "7.5")}
    labels = name in begins
    first = [f"{label} " for label in begins.get(name, ())] or ["", ""]
    lines = (f"{first[n % 2]}the {('hen', 'cat')[n % 2]} ran {n} times" for n in range(300))
    file.write_text("\n".join(lines), encoding="utf-8")
    data = {"path": str(file), "format": "label-text"} if labels else {"path": str(file), "document": "line"}
    model = {**MODEL, "context": 16, "causal": not labels and name != "masked"} | ({"head": "classifier"} if labels else {})
    reading = {"data": data, "tokenizer": "char", "model": model}
    if name == "mixture":
        return [{**asking, "objective": MIXTURE}, {**reading, "objective": SPANS_ALONE}]
    return [{**reading, "objective": name}]


@pytest.mark.parametrize("name", OBJECTIVES.names())
def test_the_last_record_is_what_an_evaluation_finds(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With dropout, and with other rows to a batch than an evaluation has."""
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    for at, recipe in enumerate(_recipes(name, tmp_path)):
        training = {"training": {"steps": 6, "batch_size": 11, "lr": 0.01}, "evaluation": {"every": 3}}
        run = gf.train({**recipe, **training}, out=tmp_path / f"run-{at}", recheck=False)
        recorded = [record for record in run.records() if record["step"] == 6][-1]
        figures = {key.removeprefix("validation_"): value for key, value in recorded.items() if key.startswith("validation_")}
        found = run.evaluate().metrics
        judged = {key: value for key, value in figures.items() if key in found}
        assert run.recipe.objective.metric(None).name in judged
        assert judged == pytest.approx({key: found[key].value for key in judged}, rel=1e-5)
