"""Every verb on runs of labels: it works, or says in one sentence why not. The table of docs/labels.md is this one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import glassformer as gf
from glassformer.cli.main import run as command_line

MODEL = {"width": 12, "layers": 1, "heads": 2, "context": 9, "causal": False, "head": {"kind": "classifier", "hidden": [7]}}
TABLE: dict[str, str | None] = {
    "evaluate": None,
    "ask": None,
    "check": None,
    "report": None,
    "runs": None,
    "generate": "cannot generate",
    "export": "has no class in transformers",
}
"""Verb -> None where it works, or a part of the sentence that says why it does not."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table of labelled texts, a recipe and a run."""
    folder = tmp_path_factory.mktemp("verbs")
    rng = np.random.default_rng(1)
    own = {"cat": ["purr", "meow"], "dog": ["bark", "wag"]}
    lines = [
        f"{label} {rng.choice(own[label])} {' '.join(rng.choice(['the', 'it', 'saw'], 2))}" for label in own for _ in range(60)
    ]
    (folder / "animals.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    recipe = {
        "data": {"path": str(folder / "animals.txt"), "format": "label-text"},
        "tokenizer": {"kind": "word", "min_count": 1},
        "objective": "labels",
        "model": MODEL,
        "training": {"steps": 30, "batch_size": 12, "lr": 0.01},
    }
    (folder / "recipe.yaml").write_text(json.dumps(recipe), encoding="utf-8")
    gf.train(recipe, out=folder / "run")
    return folder


def words_for(verb: str, place: Path) -> list[str]:
    more = {"ask": ["the dog did bark"], "export": [str(place / "exported")], "generate": ["the"]}
    return [verb, str(place if verb == "runs" else place / "run"), *more.get(verb, [])]


@pytest.mark.parametrize("verb", TABLE)
def test_works_or_says_why_not(verb: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = command_line(words_for(verb, place))
    captured = capsys.readouterr()
    why = TABLE[verb]
    if why is None:
        assert code == 0, captured.err
        return
    assert code != 0
    last = captured.err.strip().splitlines()[-1]
    assert last.startswith("Error: ")
    assert why in last
    assert "fault of Glassformer" not in last


def test_ask_gives_the_label_and_every_probability(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = place / "asked.txt"
    texts.write_text("the dog did bark\nit saw meow\n", encoding="utf-8")
    assert command_line(["ask", str(place / "run"), "--questions", str(texts), "--json"]) == 0
    answers = json.loads(capsys.readouterr().out)["answers"]
    assert [one["question"] for one in answers] == ["the dog did bark", "it saw meow"]
    for one in answers:
        assert one["answer"] in ("cat", "dog")
        assert one["confidence"] + sum(other["confidence"] for other in one["alternatives"]) == pytest.approx(1.0)
    assert command_line(["ask", str(place / "run"), "a", "--pair", "b"]) == 2
    assert "This run reads one text" in capsys.readouterr().err


def test_data_show_prints_a_batch_with_shapes_and_padding(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(["data", "show", str(place / "recipe.yaml")]) == 0
    shown = capsys.readouterr().out
    assert "ids [12, 9], hidden [12, 9], labels [12]" in shown
    assert "of padding" in shown


def test_predictions_of_a_file(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = place / "own.txt"
    own.write_text("dog bark it\ncat purr the\n", encoding="utf-8")
    out = place / "predictions.tsv"
    assert command_line(["evaluate", str(place / "run"), "--data", str(own), "--predictions", str(out), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["metrics"]["accuracy"]["n"] == 2
    assert out.read_text(encoding="utf-8").splitlines()[0].split("\t")[:4] == ["id", "text", "label", "predicted"]


def test_a_bad_label_in_a_users_file_is_one_sentence(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = place / "bad.txt"
    own.write_text("dog bark it\ncow moo the\n", encoding="utf-8")
    assert command_line(["evaluate", str(place / "run"), "--data", str(own)]) == 1
    assert "line 2: the label 'cow' does not occur" in capsys.readouterr().err
