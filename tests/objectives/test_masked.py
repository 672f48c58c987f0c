"""Masked tokens: what is hidden is asked, by (seed, step) alone; a run beats the table of token frequencies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import glassformer as gf
from glassformer.model.losses import IGNORED
from glassformer.objectives import masked
from glassformer.objectives.masked import masked_batch


def test_what_is_asked_is_what_was_there() -> None:
    ids = np.arange(200).reshape(4, 50) % 17
    batch = masked_batch(ids, 99, 17, 0.3, np.random.default_rng(0))
    inputs, targets = batch["ids"].numpy(), batch["targets"].numpy()
    asked = targets != IGNORED
    assert (targets[asked] == ids[asked]).all()
    assert (inputs[~asked] == ids[~asked]).all()
    assert 0.2 < asked.mean() < 0.4
    assert 0.7 < (inputs[asked] == 99).mean() < 0.9


def test_every_row_asks_something() -> None:
    batch = masked_batch(np.zeros((50, 2), int), 99, 3, 0.01, np.random.default_rng(0))
    assert ((batch["targets"] != IGNORED).sum(1) >= 1).all()


def test_what_is_hidden_does_not_depend_on_the_rows_of_a_batch(prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows are drawn 12 at a time here, and read 5 or 32 at a time: the same tokens are asked about."""
    monkeypatch.setattr(masked, "DRAWN_TOGETHER", 12)
    made = prepared("masked")
    items = made.data.part("text").split("train")
    few, many = (
        made.objective.evaluate(made.network, items, replace(made.tools, batch_size=rows)).units["loss"] for rows in (5, 32)
    )
    assert len(few.weights) > 36
    np.testing.assert_array_equal(few.weights, many.weights)
    np.testing.assert_allclose(few.sums, many.sums, rtol=1e-4)


def test_a_run_learns_and_its_encoder_goes_on_to_labels(tiny_text: Path, tmp_path: Path) -> None:
    model = {"width": 16, "layers": 1, "heads": 2, "context": 16, "causal": False}
    recipe = {
        "data": {"path": str(tiny_text), "document": "line"},
        "tokenizer": "char",
        "objective": "masked",
        "model": model,
        "training": {"steps": 120, "batch_size": 16, "lr": 0.01},
    }
    run = gf.train(recipe, out=tmp_path / "masked")
    result = run.evaluate()
    assert result.metrics["loss"].value < result.baselines["unigram"]["loss"].value < result.baselines["uniform"]["loss"].value
    labelled = tmp_path / "labels.txt"
    labelled.write_text(
        "".join(f"{'ab'[n % 2]} the {'cat' if n % 2 else 'hen'} ran {n}\n" for n in range(30)), encoding="utf-8"
    )
    child = {
        "data": {"path": str(labelled), "format": "label-text"},
        "objective": "labels",
        "model": {**model, "head": "classifier"},
        "training": {"steps": 3, "batch_size": 8},
        "init_from": str(tmp_path / "masked"),
    }
    second = gf.train(child, out=tmp_path / "labels")
    assert second.tokenizer.size == run.tokenizer.size
    assert second.ancestry[0]["run"] == str(tmp_path / "masked")
