"""Every objective and every way of tuning: no training step makes the processor wait, so that each can be a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.conformance.test_objectives import _recipes
from tests.encoders import make_folder
from tests.waits import Waits, copies_of, noted

from glassformer.assembly import batches_of, prepare_data, starting_network
from glassformer.data.batches import Batch
from glassformer.foundation.runtime import Runtime
from glassformer.objectives.base import OBJECTIVES
from glassformer.pretrained.tuning.base import TUNINGS
from glassformer.recipe import Recipe
from glassformer.training.cuda_graph import GraphedStep
from glassformer.training.optimizer_set import OptimizerSet
from glassformer.training.step import TrainingLoss, TrainStep

TRAINING = {"steps": 6, "batch_size": 6, "accumulate": 2, "clip": 1.0}
ENCODERS = ("bert", "roberta")
FUSED = "_scaled_dot_product_flash_attention_for_cpu"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: make_folder(tmp_path_factory.mktemp("encoders") / kind, kind) for kind in (*ENCODERS, "distilbert")}


@pytest.fixture(scope="module")
def prepared(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[TrainStep, Batch]]:
    """A recipe -> its step and a batch with padding."""
    texts = tmp_path_factory.mktemp("texts") / "labels.txt"
    texts.write_text("\n".join(f"{'ab'[n % 2]} w{4 + n % 9}" + " w5" * (n % 7) for n in range(60)), encoding="utf-8")

    def make(recipe: dict[str, Any]) -> tuple[TrainStep, Batch]:
        if "data" not in recipe:
            recipe = {**recipe, "data": {"path": str(texts), "format": "label-text"}, "objective": "labels"}
        parsed = Recipe.parse({**recipe, "training": TRAINING})
        data = prepare_data(parsed)
        network, _ = starting_network(parsed, data, None)
        runtime, training = Runtime(torch.device("cpu"), "float32", 1), parsed.training
        loss = TrainingLoss(network, parsed.objective, runtime)
        step = TrainStep(loss, OptimizerSet(training, network), training, runtime, parsed.seed)
        return step, network.training_batches(batches_of(parsed, data), parsed.seed).batch(0)

    return make


@pytest.mark.parametrize("name", OBJECTIVES.names())
def test_no_objective_waits(name: str, prepared: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    for recipe in _recipes(name, tmp_path):
        step, batch = prepared(recipe)
        assert noted(step, batch).found == []


@pytest.mark.parametrize("pool", ["mean", "own"])
@pytest.mark.parametrize("tuning", TUNINGS.names())
@pytest.mark.parametrize("kind", ENCODERS)
def test_no_way_of_tuning_waits(
    kind: str, tuning: str, pool: str, prepared: Callable[..., Any], folders: dict[str, Path]
) -> None:
    """Nor does it leave fused attention (dropout is 0: on a CPU torch has no fused attention with dropout)."""
    length = {"length": 3} if tuning in ("prompt", "prefix") else {}
    settings = {"tuning": {"kind": tuning, **length}, "pool": pool, "context": 12, "dropout": 0.0}
    step, batch = prepared({"model": {"kind": "pretrained", "folder": str(folders[kind]), **settings}})
    assert batch["hidden"].any(), "the batch should have padding"
    waits = noted(step, batch)
    assert waits.found == []
    assert FUSED in waits.operations
    assert copies_of(step, batch) == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("tuning", TUNINGS.names())
@pytest.mark.parametrize("kind", ENCODERS)
def test_every_way_of_tuning_is_captured(
    kind: str, tuning: str, prepared: Callable[..., Any], folders: dict[str, Path], recwarn: pytest.WarningsRecorder
) -> None:
    length = {"length": 3} if tuning in ("prompt", "prefix") else {}
    model = {"kind": "pretrained", "folder": str(folders[kind]), "tuning": {"kind": tuning, **length}, "context": 12}
    losses = []
    for captures in (False, True):
        step, batch = prepared({"model": model})
        step.loss_module.network.to("cuda")
        step.optimizers = OptimizerSet(step.config, step.loss_module.network)
        step.runtime = step.loss_module.runtime = Runtime(torch.device("cuda"), "float32", 1)
        taken, batch = GraphedStep(step) if captures else step, batch.to(torch.device("cuda"))
        if isinstance(taken, GraphedStep):
            assert taken.capture(batch) is None
        losses.append([taken(batch, number, 1.0).loss.item() for number in range(4)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert not [warning for warning in recwarn if "AccumulateGrad" in str(warning.message)]


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: float(x.sum()),
        lambda x: bool((x > 0).all()),
        lambda x: x[x > 0],
        lambda x: x.nonzero(),
        lambda x: x + torch.tensor([1.0, 2.0, 3.0]),
        lambda x: x.unique(),
    ],
)
def test_what_waits_is_noted(operation: Callable[[torch.Tensor], Any]) -> None:
    with Waits() as waits:
        operation(torch.ones(3))
    assert waits.found
    with Waits() as waits:
        torch.ones(3).mul(2.0).masked_fill(torch.zeros(3, dtype=torch.bool), 0.0).sum()
    assert waits.found == []
