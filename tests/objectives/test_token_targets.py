"""Spans as pairs: the same rows cut in two; trained, and questions answered from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tests.refusals import refused

import glassformer as gf
from glassformer.assembly import batches_of, prepare_data
from glassformer.data.pairs.pair_batches import START
from glassformer.foundation.errors import ConfigError
from glassformer.objectives.span_rows import Marks
from glassformer.objectives.spans import as_batch, as_pairs
from glassformer.recipe import load_recipe
from glassformer.runs.weights import saved_tensors

MARKS = Marks((20, 21), 22, 23, 24)
LINES = [f"person {number} was born in town {number % 7} long ago." for number in range(60)]


def recipe(folder: Path, **objective: Any) -> dict[str, Any]:
    (folder / "lines.txt").write_text("".join(f"{line}\n" for line in LINES))
    return {
        "data": {"path": str(folder / "lines.txt"), "document": "line"},
        "tokenizer": {"kind": "word", "marks": False, "min_count": 1},
        "model": {"kind": "encoder-decoder", "width": 16, "layers": 1, "heads": 2, "context": 24},
        "objective": {"kind": "spans", "form": "pair", "start": "line", "cut": "none", **objective},
        "training": {"steps": 4, "batch_size": 8, "lr": 5e-3, "device": "cpu"},
    }


def test_a_row_cut_in_two() -> None:
    rows_BT = torch.tensor([[1, 20, 4, 21, 6, 22, 2, 3, 21, 5, 23, 24], [7, 8, 20, 22, 9, 23, 24, 24, 24, 24, 24, 24]])
    batch = as_pairs(rows_BT, MARKS, start=25)
    assert batch["source_ids"][:, :6].tolist() == [[1, 20, 4, 21, 6, 24], [7, 8, 20, 24, 24, 24]]
    assert batch["source_padding"].sum(1).tolist() == [6, 8]
    assert batch["ids"][:, :6].tolist() == [[25, 2, 3, 21, 5, 23], [25, 9, 23, 24, 24, 24]]
    assert batch["targets"][:, :6].tolist() == [[2, 3, 21, 5, 23, -100], [9, 23, -100, -100, -100, -100]]
    full = torch.tensor([[1, 20, 22, 2, 23]])  # nothing of a row that fills its width is lost
    assert as_pairs(full, MARKS, start=25)["targets"].tolist() == [[2, 23, -100, -100]]


def test_both_forms_learn_the_same_tokens(tmp_path: Path) -> None:
    for length in (None, 2):
        pair = load_recipe(recipe(tmp_path, length=length))
        row = load_recipe(
            {**recipe(tmp_path, form="row", learn="answer", length=length), "model": {"width": 16, "context": 24}}
        )
        one, other = (batches_of(each, prepare_data(each)).batch(3) for each in (pair, row))
        for mine, theirs in zip(one["targets"].tolist(), other["targets"].tolist()):
            assert [token for token in mine if token >= 0] == [token for token in theirs if token >= 0]
    shown = pair.objective.show(one, prepare_data(pair).tokenizer)
    assert all("<mask" in line.split(" -> ")[0] and "<mask>" not in line.split(" -> ")[1] for line in shown)


def test_a_start_for_questions(tmp_path: Path) -> None:
    """Pretrained on spans, then on pairs of question and answer: the vocabulary is the same, so the weights fit."""
    parent = gf.train(recipe(tmp_path), out=tmp_path / "spans")
    assert parent.evaluate().metrics["loss"].value > 0
    assert START in parent.tokenizer.marks
    questions = "".join(f"{number} was born in\ttown {number % 7}\n" for number in range(40))
    (tmp_path / "questions.tsv").write_text("source\ttarget\n" + questions)
    child = gf.train(
        {
            **recipe(tmp_path),
            "data": {"path": str(tmp_path / "questions.tsv")},
            "objective": "translate",
            "init_from": str(tmp_path / "spans"),
            "tokenizer": parent.recipe.to_dict()["tokenizer"],
        },
        out=tmp_path / "child",
    )
    assert child.ancestry[0]["step"] == 4
    assert child.translate("3 was born in")[0].source == "3 was born in"


def test_a_stopped_run_of_spans_goes_on_bit_by_bit(tmp_path: Path) -> None:
    """With dropout on both sides, and T5's many spans."""
    changes = {"model.dropout": 0.2, "checkpoint.every": 2, "objective.length": 2, "training.schedule": "constant"}
    whole = gf.train(recipe(tmp_path), set=changes, out=tmp_path / "whole")
    gf.train(recipe(tmp_path), set={**changes, "training.steps": 2}, out=tmp_path / "run")
    resumed = gf.train(recipe(tmp_path), set=changes, out=tmp_path / "run", resume=True)
    one, other = saved_tensors(whole.model), saved_tensors(resumed.model)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    before, after = (saved_tensors(gf.load(tmp_path / "run").network_at(step)) for step in (2, 4))
    assert not all(torch.equal(before[name], after[name]) for name in after)


def test_models_and_objectives_of_other_forms_are_refused(tmp_path: Path) -> None:
    with refused(ConfigError, "no-source-to-read"):
        load_recipe(recipe(tmp_path, form="row"))
    with refused(ConfigError, "reads-no-source"):
        load_recipe({**recipe(tmp_path), "model": {"width": 16, "context": 24}})
    assert "source_ids" not in as_batch(torch.tensor([[1, 20, 22, 2, 23]]), MARKS, answer_only=True).tensors
