"""Every verb on every objective, by the command line: it works, or says in one sentence why not. docs/verbs.md is the table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.encoders import make_folder

from glassformer.cli.main import run as command_line
from glassformer.objectives.base import OBJECTIVES

PAGE = Path(__file__).parents[2] / "docs" / "verbs.md"
PRETRAINED, OWN = "labels, pretrained encoder", "next-token, own network"
SLOW = ("compare", "report")
SMALL = {"width": 12, "layers": 1, "heads": 2, "context": 64}
BERT = {"context": 16, "causal": False, "block": "post", "embedding_norm": True, "head": "masked"}
BART = {"context": 24, "block": "post", "embedding_norm": True, "positions": {"kind": "learned", "offset": 2}}
WORLD = {"set": {"kind": "world", "people": 40}}
MIXED = {"kind": "mixture", "parts": {"spans": {"share": 0.5}, "answers": {"share": 0.5}}, "judged_by": "answers"}
TRAINING = {"training": {"steps": 3, "batch_size": 8, "device": "cpu"}}


def table() -> dict[tuple[str, str], str]:
    """(verb, objective) -> ``works``, or the sentence that the page gives."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    sentences = {found[1]: found[2] for line in lines if (found := re.match(r"(\d+)\. `([^`]*)`", line))}
    cells = {}
    for verb, *answers in rows[2:]:
        for objective, answer in zip(rows[0][1:], answers, strict=True):
            number = re.fullmatch(r"no \((\d+)\)", answer)
            cells[verb, objective] = sentences[number[1]].replace("NAME", objective) if number else answer
    return cells


TABLE = table()
CELLS = [
    pytest.param(*cell, marks=[pytest.mark.slow] if cell[0] in SLOW else [])
    for cell in TABLE
    if cell[0] != "train" and cell[1] != OWN  # test_own_networks.py
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text, labelled texts and a recipe of each objective."""
    folder = tmp_path_factory.mktemp("verbs")
    (folder / "text.txt").write_text("".join(f"the {'cat' if n % 3 else 'dog'} saw {n}\n" for n in range(90)), encoding="utf-8")
    labelled = "".join(f"dog it did bark at {n}\ncat it did purr at {n}\n" for n in range(20))
    (folder / "animals.txt").write_text(labelled, encoding="utf-8")
    text = {"path": str(folder / "text.txt"), "document": "line"}
    animals = {"data": {"path": str(folder / "animals.txt"), "format": "label-text"}, "objective": "labels"}
    classifier = {**SMALL, "context": 9, "causal": False, "head": {"kind": "classifier", "hidden": [7]}}
    encoder = {"kind": "pretrained", "folder": str(folder / "bert"), "tuning": "lora", "context": 12, "pool": "own"}
    recipes: dict[str, Any] = {
        "next-token": {"data": text, "model": {**SMALL, "context": 16}},
        "spans": {"data": text, "objective": "spans", "model": {**SMALL, "context": 16}},
        "answers": {"data": WORLD, "objective": "answers", "model": SMALL},
        "mixture": {"data": WORLD, "objective": MIXED, "model": SMALL},
        "masked": {"data": text, "objective": "masked", "model": {**SMALL, **BERT}},
        "translate": {
            "data": {"set": {"kind": "rewriting", "task": "copy", "pairs": 40, "held_out": 6, "length": 3}},
            "tokenizer": {"kind": "char"},
            "objective": "translate",
            "model": {"kind": "encoder-decoder", **SMALL, **BART},
        },
        "labels": {**animals, "tokenizer": {"kind": "word", "min_count": 1}, "model": classifier},
        PRETRAINED: {**animals, "model": encoder},
    }
    for objective, labels in (("multilabel", ("dog;loud", "cat")), ("regression", ("2.5", "7"))):
        rows = "".join(f"{labels[n % 2]} it did {('bark', 'purr')[n % 2]} at {n}\n" for n in range(40))
        (folder / f"{objective}.txt").write_text(rows, encoding="utf-8")
        data = {"path": str(folder / f"{objective}.txt"), "format": "label-text"}
        recipes[objective] = {**recipes["labels"], "data": data, "objective": objective}
    for name, recipe in recipes.items():
        (folder / f"{name}.yaml").write_text(json.dumps({**recipe, **TRAINING}), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def run_of(place: Path) -> Callable[[str], Path]:
    """The run of an objective, trained by ``glassformer train`` when it is first asked for."""

    def found(objective: str) -> Path:
        run = place / objective
        if not run.exists():
            if objective == PRETRAINED:
                make_folder(place / "bert")
            assert command_line(["train", str(place / f"{objective}.yaml"), "--out", str(run), "--quiet"]) == 0
        return run

    return found


def words_for(verb: str, run: Path) -> list[str]:
    """The command line of a verb; ``compare`` reads the recipe."""
    study = ["--vary", "training.lr=0.02", "--seeds", "2", "--on", "inline", "--no-store", "--out", f"{run}-study"]
    more = {
        "generate": ["the", "--max-new-tokens", "3"],
        "ask": ["the dog did bark"],
        "look": ["the dog"],
        "export": [f"{run}-exported"],
        "compare": study,
    }
    return [verb, f"{run}.yaml" if verb == "compare" else str(run), *more.get(verb, [])]


def test_the_page_has_every_objective_and_every_verb() -> None:
    assert {objective for _, objective in TABLE} == {*OBJECTIVES.names(), PRETRAINED, OWN}
    verbs = "train evaluate generate ask check compare report look export"
    assert [verb for verb, objective in TABLE if objective == "labels"] == verbs.split()
    assert {TABLE["train", objective] for _, objective in TABLE} == {"works"}  # held by the fixture


@pytest.mark.parametrize(("verb", "objective"), CELLS)
def test_works_or_says_why_not(
    verb: str, objective: str, run_of: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_of(objective)
    capsys.readouterr()
    code = command_line(words_for(verb, run))
    captured = capsys.readouterr()
    if TABLE[verb, objective] == "works":
        assert code == 0, captured.err
        assert captured.out
        return
    assert code == 2
    last = captured.err.strip().splitlines()[-1]
    assert last.startswith(f"Error: {TABLE[verb, objective]}")
    assert last.endswith(".")
    assert not captured.out
