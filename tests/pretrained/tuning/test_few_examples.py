"""Few examples: stored vectors give what the encoder gives; pairs train the encoder, and labels the head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.refusals import refused

import glassformer as gf
from glassformer.data.config import DataConfig
from glassformer.data.labels.labelled_texts import load_labels
from glassformer.foundation.errors import ConfigError
from glassformer.model.attention_context import OwnLosses
from glassformer.networks import pretrained_encoder
from glassformer.networks.pretrained_encoder import PretrainedConfig
from glassformer.objectives.labels import LabelsConfig


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(1)
    lines = [
        f"{'xy'[n % 2]} " + " ".join(f"w{4 + 8 * (n % 2) + word}" for word in rng.integers(8, size=3 + n % 5))
        for n in range(40)
    ]
    (tmp_path / "t.txt").write_text("\n".join(lines) + "\n")
    return tmp_path / "t.txt"


def made(table: Path, folder: Path, tuning: Any, pool: str = "mean") -> tuple[Any, Any]:
    """(a network, its training batches)."""
    config = PretrainedConfig(folder=str(folder), tuning=tuning, pool=pool, context=12, dropout=0.0)  # type: ignore[arg-type]
    found = load_labels(DataConfig(path=str(table), format="label-text"), config.tokenizer())

    class Data:
        tokenizer = found.tokenizer

        def part(self, name: str) -> Any:
            return found

    network = config.build(found.tokenizer.size, outputs=2, seed=3)
    batches = LabelsConfig().batches(Data(), context=12, batch_size=7, seed=5)
    return network, network.training_batches(batches, 5)


@pytest.mark.parametrize("pool", ["mean", "own"])
def test_stored_vectors_give_the_loss_of_the_encoder(
    table: Path, bert_folder: Path, pool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, batches = made(table, bert_folder, {"kind": "head", "cached": True}, pool)
    plain, their = made(table, bert_folder, "head", pool)
    for step in (0, 3, 5):  # 36 texts in batches of 7: the last has rows that only fill it
        losses = [
            LabelsConfig().loss(each, of.batch(step), dropout_seed=None, smoothing=0.0).item()
            for each, of in ((network, batches), (plain, their))
        ]
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    monkeypatch.setattr(pretrained_encoder, "in_order", None)  # nothing is read again
    assert network.stored_vectors(batches.groups.texts) is not None


def test_vectors_before_a_trained_layer_are_not_stored(table: Path, roberta_folder: Path) -> None:
    with refused(ConfigError, "head-not-pooled"):
        made(table, roberta_folder, {"kind": "head", "cached": True}, "own")


def test_pairs_train_the_encoder_and_labels_the_head(table: Path, bert_folder: Path) -> None:
    network, batches = made(table, bert_folder, "contrastive")
    batch = batches.batch(2)
    assert torch.equal(batch["partner_ids"], batches.batch(2)["partner_ids"])
    assert batch["same"].tolist() != batches.batch(3)["same"].tolist()
    collected = OwnLosses()
    network.collect(collected)
    loss = LabelsConfig().loss(network, batch, dropout_seed=None, smoothing=0.0)
    network.collect(None)
    weight = network.embedding.weight
    assert torch.autograd.grad(loss, weight, retain_graph=True, allow_unused=True)[0] is None  # labels do not reach it
    pairs = collected.sums["pairs"]
    assert torch.autograd.grad(pairs, weight, retain_graph=True)[0].abs().sum() > 0
    assert torch.autograd.grad(pairs, network.head.classifier.weight, allow_unused=True)[0] is None
    off = 0.0
    for row in range(7):
        vectors = []
        for kind in ("", "partner_"):
            ids, hidden = (batch[f"{kind}{name}"][row : row + 1] for name in ("ids", "hidden"))
            vectors.append(network.features(ids[:, ~hidden[0]])[0].mean(dim=0))
        off += float((torch.cosine_similarity(*vectors, dim=0).detach() - batch["same"][row]) ** 2)
    assert float(pairs.detach()) == pytest.approx(off * batch["ids"].shape[1], rel=1e-4)
    factors = network.lr_factors()
    assert factors == {"head.classifier.weight": 100.0, "head.classifier.bias": 100.0}


def test_a_run_of_pairs_learns_the_labels(table: Path, bert_folder: Path, tmp_path: Path) -> None:
    recipe = {
        "data": {"path": str(table), "format": "label-text", "split": {"validation": 0.3}},
        "objective": "labels",
        "model": {"kind": "pretrained", "folder": str(bert_folder), "tuning": "contrastive", "context": 12, "dropout": 0.0},
        "training": {"steps": 60, "batch_size": 14, "lr": 1e-3, "device": "cpu"},
    }
    run = gf.train(recipe, out=tmp_path / "run")
    assert run.evaluate().metrics["accuracy"].value > 0.7
    with refused(ConfigError, "pairs-need-one-label"):
        gf.train(
            {**recipe, "objective": "regression", "data": {**recipe["data"], "path": str(_numbers(tmp_path))}},
            out=tmp_path / "no",
        )


def _numbers(folder: Path) -> Path:
    (folder / "n.txt").write_text("".join(f"{n} w4 w{5 + n}\n" for n in range(12)))
    return folder / "n.txt"
