"""Muon: which weights it takes; its step by hand, by law, by shape, and equal to torch's where that runs."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from glassformer.foundation.runtime import bf16_works
from glassformer.training.optimizers import muon
from glassformer.training.optimizers.muon import COEFFICIENTS, ROUNDS, MuonConfig, Orthogonal, for_muon, orthogonalised


def test_which_weights_it_takes() -> None:
    matrix, vector = nn.Parameter(torch.ones(2, 3)), nn.Parameter(torch.ones(3))
    assert for_muon("blocks.0.feedforward.up.weight", matrix)
    assert not for_muon("blocks.0.feedforward.up.bias", vector)
    assert not for_muon("blocks.0.attention.mixer.places_bias_HS", matrix)
    assert not for_muon("embedding.weight", matrix)
    assert not for_muon("head.weight", matrix)


def test_it_takes_the_matrices_of_a_pretrained_encoder_too() -> None:
    """Their layers have other names; without them Muon would be AdamW and nobody would know."""
    matrix = nn.Parameter(torch.ones(2, 3))
    for name in ("encoder.encoder.layer.0.intermediate.dense.weight", "encoder.layers.3.fc1.weight", "h.0.mlp.c_fc.weight"):
        assert for_muon(name, matrix), name
    assert not for_muon("encoder.embeddings.word_embeddings.weight", matrix)
    assert not for_muon("encoder.encoder.layer.0.output.LayerNorm.weight", nn.Parameter(torch.ones(3)))


def test_two_optimizers_share_the_parameters() -> None:
    parameters = {name: nn.Parameter(torch.randn(4, 5)) for name in ("blocks.0.a.weight", "embedding.weight")}
    muon, adamw = MuonConfig(lr_factor=3.0).build(parameters, lr=0.1, weight_decay=0.2)
    assert type(muon).__name__ == "Orthogonal"
    assert muon.param_groups[0]["lr"] == pytest.approx(0.3)
    assert muon.param_groups[0]["params"][0] is parameters["blocks.0.a.weight"]
    assert adamw.param_groups[0]["params"][0] is parameters["embedding.weight"]
    assert len(MuonConfig().build({"embedding.weight": parameters["embedding.weight"]}, lr=0.1, weight_decay=0.0)) == 1


def test_the_step_has_nearly_equal_singular_values_and_the_size_of_adamw() -> None:
    torch.manual_seed(0)
    weight = nn.Parameter(torch.zeros(6, 8))
    (muon,) = MuonConfig().build({"blocks.0.a.weight": weight}, lr=1.0, weight_decay=0.0)
    weight.grad = torch.randn(6, 8) @ torch.diag(torch.tensor([10.0, 5.0, 3.0, 2.0, 1.0, 1.0, 0.5, 0.5]))
    muon.step()
    values = torch.linalg.svdvals(weight.detach())
    assert values.max() / values.min() < 3  # the gradient's are 30 apart
    assert weight.detach().square().mean().sqrt().item() == pytest.approx(0.2, rel=0.35)  # AdamW's root mean square


def test_by_hand_on_a_diagonal_matrix() -> None:
    """Singular values go through the polynomial one by one."""
    values = [3.0, 4.0]  # the norm is 5
    expected = [value / 5 for value in values]
    a, b, c = COEFFICIENTS
    for _ in range(ROUNDS):
        expected = [a * x + b * x**3 + c * x**5 for x in expected]
    turned = orthogonalised(torch.diag(torch.tensor(values, dtype=torch.float64)).unsqueeze(0))
    assert_close(turned[0], torch.diag(torch.tensor(expected, dtype=torch.float64)))


@pytest.mark.parametrize("shape", [(6, 9), (9, 6), (5, 5)])
def test_singular_values_come_near_one_and_directions_stay(shape: tuple[int, int], rng) -> None:
    matrices = torch.randn(4, *shape, generator=rng, dtype=torch.float64)
    turned = orthogonalised(matrices)
    assert turned.shape == matrices.shape
    values = torch.linalg.svdvals(turned)
    assert values.min() > 0.3
    assert values.max() < 1.35
    u, _, vt = torch.linalg.svd(matrices, full_matrices=False)
    inside = u.mT @ turned @ vt.mT  # diagonal in the matrix's own directions
    assert_close(inside, torch.diag_embed(torch.diagonal(inside, dim1=1, dim2=2)), rtol=0, atol=1e-9)


def test_matrices_together_are_matrices_alone(rng) -> None:
    matrices = torch.randn(3, 4, 7, generator=rng, dtype=torch.float64)
    for number in range(3):
        assert_close(orthogonalised(matrices)[number], orthogonalised(matrices[number : number + 1])[0])


def test_two_steps_with_momentum_and_decay_by_definition(rng) -> None:
    start = {
        "wide": torch.randn(3, 5, generator=rng),
        "tall": torch.randn(5, 3, generator=rng),
        "more": torch.randn(3, 5, generator=rng),
    }
    gradients = [{name: torch.randn(value.shape, generator=rng) for name, value in start.items()} for _ in range(2)]
    matrices = {name: nn.Parameter(value.clone()) for name, value in start.items()}
    optimizer = Orthogonal(matrices.values(), lr=0.1, momentum=0.9, weight_decay=0.5)
    for turn in gradients:
        for name, matrix in matrices.items():
            matrix.grad = turn[name].clone()
        optimizer.step()
    for name, value in start.items():
        momentum = torch.zeros_like(value)
        for turn in gradients:
            momentum = 0.9 * momentum + 0.1 * turn[name]
            ahead = 0.1 * turn[name] + 0.9 * momentum
            value = value * (1 - 0.1 * 0.5) - 0.1 * 0.2 * math.sqrt(5) * orthogonalised(ahead.unsqueeze(0))[0]
        assert_close(matrices[name].detach(), value)


def test_lying_and_standing_matrices_share_their_products(rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of a small model is made of its kernels' number, not of their size."""
    together: list[tuple[int, ...]] = []
    monkeypatch.setattr(muon, "orthogonalised", lambda matrices: together.append(tuple(matrices.shape)) or matrices)
    weights = [nn.Parameter(torch.randn(shape, generator=rng)) for shape in [(5, 3), (3, 5), (5, 3), (4, 4)]]
    before = [weight.detach().clone() for weight in weights]
    optimizer = Orthogonal(weights, lr=1.0, momentum=0.0, weight_decay=0.0)
    for weight in weights:
        weight.grad = torch.randn(weight.shape, generator=rng)
    gradients = [weight.grad for weight in weights]
    optimizer.step()
    assert together == [(3, 3, 5), (1, 4, 4)]
    for weight, was, gradient in zip(weights, before, gradients):  # each got its own
        assert_close(weight.detach(), was - 0.2 * math.sqrt(max(weight.shape)) * gradient)


def test_a_rate_on_the_device_is_the_same_rate(rng) -> None:
    """As a recorded step holds it."""
    value, gradient = torch.randn(4, 6, generator=rng), torch.randn(4, 6, generator=rng)
    ends = []
    for rate in (0.3, torch.tensor(0.3)):
        matrix = nn.Parameter(value.clone())
        optimizer = Orthogonal([matrix], lr=0.3, momentum=0.9, weight_decay=0.1)
        optimizer.param_groups[0]["lr"] = rate
        matrix.grad = gradient.clone()
        optimizer.step()
        ends.append(matrix.detach())
    assert_close(ends[0], ends[1])


def test_equals_torch_to_the_precision_of_bf16(rng) -> None:
    if not bf16_works("cpu"):  # it tries in a process of its own: not when the tests are collected
        pytest.skip("torch's Muon needs bf16 products, which this CPU does not have")
    value = torch.randn(6, 8, generator=rng)
    ours, theirs = nn.Parameter(value.clone()), nn.Parameter(value.clone())
    settings = {"lr": 0.1, "momentum": 0.95, "weight_decay": 0.1}
    mine, torchs = Orthogonal([ours], **settings), torch.optim.Muon([theirs], adjust_lr_fn="match_rms_adamw", **settings)
    for _ in range(3):
        ours.grad = torch.randn(6, 8, generator=rng)
        theirs.grad = ours.grad.clone()
        mine.step()
        torchs.step()
    assert_close(ours, theirs, rtol=0.05, atol=0.02)
