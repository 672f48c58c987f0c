"""Peak memory of a step, traced on fake tensors: what a real step stores."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch
from tests.model.test_accounting import EVERY_VARIANT, B, T, V, config_of
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from glassformer.assembly import batches_of, build_network, prepare_data
from glassformer.foundation.runtime import choose_runtime
from glassformer.model import kernels
from glassformer.model.losses import summed_cross_entropy
from glassformer.model.transformer import Transformer
from glassformer.recipe import load_recipe
from glassformer.recipe_cost import peak_memory, training_step
from glassformer.training.peak_memory import LiveBytes


def measured(recipe: Any, data: Any) -> int:
    """The most that the second of two real steps stores at once."""
    network = build_network(recipe, data)
    step = training_step(recipe, network, choose_runtime(device="cpu", precision="float32"))
    batch, count = batches_of(recipe, data).batch(0), LiveBytes()
    step(batch, 0, 1.0)
    gc.collect()
    state = step.optimizers.tensors().values()
    count.add([*network.parameters(), *network.buffers(), *batch.tensors.values(), *state])
    with count:
        step(batch, 1, 1.0)
    return count.peak


@pytest.mark.parametrize("optimizer", ["adamw", "adagrad", "sgd", "muon"])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_it_is_what_a_real_step_stores(tiny, optimizer: str, accumulate: int) -> None:
    settings = {"training.optimizer": optimizer, "training.accumulate": accumulate, "model.width": 64, "training.device": "cpu"}
    recipe = load_recipe(tiny, settings)
    data = prepare_data(recipe)
    assert peak_memory(recipe, data) == pytest.approx(measured(recipe, data), rel=0.05)


def test_live_bytes_of_one_layer_by_hand() -> None:
    """512 and 256 rows of 1,000 numbers at once; then only what has a name."""
    with LiveBytes() as count:
        large = torch.empty(512, 1000)
        small = large[:256] + 1.0
        assert count.live == 4 * (512_000 + 256_000)
        del large
        assert count.live == 4 * 256_000
        del small
    assert count.peak == 4 * (512_000 + 256_000)


def test_no_kernel_of_ours_is_given_tensors_without_memory(tiny, monkeypatch) -> None:
    """On a GPU that was an illegal memory access, which ends a process's use of the GPU."""
    seen, known = list[bool](), nn.functional.cross_entropy

    def loss(*args: Any, **settings: Any) -> torch.Tensor:
        seen.append(kernels.LAUNCHED)
        return known(*args, **settings)

    monkeypatch.setattr(nn.functional, "cross_entropy", loss)
    recipe = load_recipe(tiny, {"training.device": "cpu"})
    assert peak_memory(recipe, prepare_data(recipe)) is not None
    assert (set(seen), kernels.LAUNCHED) == ({False}, True)


def test_a_step_that_reads_a_number_cannot_be_traced(tiny, monkeypatch) -> None:
    monkeypatch.setattr(nn.functional, "cross_entropy", lambda logits, *_, **__: logits.sum() * float(logits.sum()))
    recipe = load_recipe(tiny, {"training.device": "cpu"})
    assert peak_memory(recipe, prepare_data(recipe)) is None


def test_a_plain_tensor_of_a_plugin_cannot_be_traced(tiny, monkeypatch) -> None:
    """One that is no parameter and no buffer stays real: the memory is then not known, and nothing is refused."""
    plain = torch.ones(1)
    known = nn.functional.cross_entropy
    monkeypatch.setattr(nn.functional, "cross_entropy", lambda *args, **settings: known(*args, **settings) * plain)
    recipe = load_recipe(tiny, {"training.device": "cpu"})
    assert peak_memory(recipe, prepare_data(recipe)) is None


@pytest.mark.parametrize(("slot", "variant"), EVERY_VARIANT)
def test_a_counted_step_has_the_same_bits(slot: str, variant: dict[str, object]) -> None:
    """Which steps are counted, nobody can foresee; a run must not depend on it."""
    config = config_of(dropout=0.1, **{slot: variant})
    ids_BT = torch.randint(V, (B, T), generator=torch.Generator().manual_seed(1))

    model = Transformer(config, V).train()
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.3)

    def gradients() -> list[torch.Tensor]:
        torch.manual_seed(0)
        model.zero_grad()
        summed_cross_entropy(model(ids_BT), ids_BT[:, 0] if model.pools else ids_BT).backward()
        return [weight.grad for weight in model.parameters() if weight.grad is not None]

    plain = gradients()
    with LiveBytes() as count:
        counted = gradients()
    assert all(torch.equal(one, other) for one, other in zip(plain, counted, strict=True))
    with FlopCounterMode(display=False) as counter:
        gradients()
    assert count.flops == counter.get_total_flops()
