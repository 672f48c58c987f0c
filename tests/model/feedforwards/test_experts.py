"""Mixture of experts: the routed definition and the form with fixed shapes agree; own losses; expert choice is not causal."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from tests.refusals import refused

from glassformer.checks.check import check_model
from glassformer.foundation.errors import ConfigError
from glassformer.model.attention_context import AttentionContext, OwnLosses
from glassformer.model.config import ModelConfig
from glassformer.model.dims import Dims
from glassformer.model.feedforwards.experts import Experts, ExpertsConfig
from glassformer.model.initialisation import initialise, keyed
from glassformer.model.inits.normal import NormalConfig
from glassformer.model.transformer import build_model

DIMS = Dims(width=6, heads=2, layers=2, context=5, vocabulary=7)


def made(dims: Dims = DIMS, **settings: object) -> Experts:
    experts = keyed(ExpertsConfig.parse({"experts": 5, "active": 2, "inner": 3, **settings}).build(dims), "part")
    initialise(experts, 1, lambda weights: NormalConfig().std_of(weights, dims))
    return experts


def test_one_expert_alone_by_hand() -> None:
    experts = made(experts=2)
    with torch.no_grad():
        for parameter in experts.parameters():
            parameter.mul_(20)
        experts.down.weight[1] = 0.0  # whatever the second is given, it says nothing
    x_BTD = torch.randn(1, 1, 6, generator=torch.Generator().manual_seed(2))
    gate, up = (experts.gate_and_up.weight[0] @ x_BTD[0, 0]).chunk(2)
    share = torch.softmax(experts.router.weight @ x_BTD[0, 0], dim=0)[0]
    expected = share * (experts.down.weight[0] @ (torch.nn.functional.silu(gate) * up))
    torch.testing.assert_close(experts(x_BTD, AttentionContext(causal=True), None)[0, 0], expected)


@pytest.mark.parametrize("renormalise", [True, False])
def test_all_forms_agree_and_so_do_their_gradients(renormalise: bool) -> None:
    experts = made(replace(DIMS, width=8), inner=4, renormalise=renormalise)  # grouped products: float32, whole 16 bytes
    with torch.no_grad():
        for parameter in experts.parameters():
            parameter.mul_(10)
    x_ND = torch.randn(11, 8, generator=torch.Generator().manual_seed(2)).requires_grad_()
    best_NK, chosen_NK = experts.router(x_ND).topk(2, dim=-1)
    found = []
    for form in (experts.mix, experts.mix_all, experts.mix_sorted):
        mixed = form(x_ND, chosen_NK, best_NK.softmax(-1))
        gradients = torch.autograd.grad(mixed.square().sum(), [x_ND, *experts.parameters()], retain_graph=True)
        found.append([mixed, *gradients])
    for other in found[1:]:
        torch.testing.assert_close(found[0], other, rtol=1e-5, atol=1e-6)


def test_own_losses_do_not_depend_on_how_the_batch_is_cut_nor_on_padding() -> None:
    experts = made()
    x_BTD = torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(2))

    def sums(x_BTD: torch.Tensor, padding: torch.Tensor | None = None) -> dict[str, float]:
        own = OwnLosses()
        experts(x_BTD, AttentionContext(causal=True, key_padding_mask_BS=padding, own_losses=own), None)
        return {name: float(value.detach()) for name, value in own.sums.items()}

    whole, first, second = sums(x_BTD), sums(x_BTD[:1]), sums(x_BTD[1:])
    assert set(whole) == {"balance", "router_z"} == set(ExpertsConfig.own_losses)
    for name in whole:
        assert math.isclose(whole[name], first[name] + second[name], rel_tol=1e-5)
    padded = torch.cat([x_BTD, 100 * torch.ones(4, 2, 6)], dim=1)
    mask = torch.tensor([[False] * 5 + [True] * 2]).expand(4, -1)
    for name, value in sums(padded, mask).items():
        assert math.isclose(value, whole[name], rel_tol=1e-5)


def test_a_balanced_router_has_the_least_balance_loss() -> None:
    """Equal probabilities: experts * sum of f_i / experts = 1 for each token, times the weight."""
    experts = made(balance=1.0)
    with torch.no_grad():
        experts.router.weight.zero_()
    own = OwnLosses()
    experts(torch.randn(3, 5, 6), AttentionContext(causal=True, own_losses=own), None)
    assert math.isclose(float(own.sums["balance"].detach()), 3 * 5, rel_tol=1e-5)
    assert math.isclose(float(own.sums["router_z"].detach()), 0.001 * 15 * math.log(5) ** 2, rel_tol=1e-5)


def test_settings_that_cannot_work() -> None:
    for settings in ({"active": 1}, {"active": 9}):
        with refused(ConfigError, "bad-value", "model.feedforward.active"):
            ModelConfig.parse({"feedforward": {"kind": "experts", **settings}})


def test_expert_choice_is_found_to_look_ahead() -> None:
    config = {"width": 12, "heads": 3, "layers": 2, "context": 11, "feedforward": {"kind": "expert_choice", "experts": 3}}
    assert "causality" in check_model(build_model(ModelConfig.parse(config), 13, seed=1)).broken
