"""Softmax attention: the reference implementation and the fused kernel agree, whatever is masked, biased or cached."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims
from glassformer.model.mixers.dot import Dot, DotConfig
from glassformer.model.positions.alibi import AlibiConfig
from glassformer.model.slots import Positions

B, T, D, H, E, S = 2, 5, 12, 3, 4, 7
SMALL = Dims(width=2, heads=1, layers=1, context=5, vocabulary=7, bias=False)
DIMS = Dims(width=D, heads=H, layers=1, context=S, vocabulary=11)


class Biased(Positions):
    """Positions that add to the scores, as ALiBi does."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.slopes = torch.nn.Parameter(torch.tensor([0.5, 1.0, 2.0], dtype=dtype))

    def bias(self, position_ids_BT: Tensor, num_keys: int) -> Tensor:
        distance_BTS = position_ids_BT.unsqueeze(-1) - torch.arange(num_keys)
        return -self.slopes.view(1, H, 1, 1) * distance_BTS.abs().unsqueeze(1)


def contexts() -> dict[str, AttentionContext]:
    hidden = torch.zeros(B, T, dtype=torch.bool)
    hidden[0, 2] = hidden[1, 0] = True  # the first query of the second row sees nothing
    return {
        "plain": AttentionContext(causal=True),
        "open": AttentionContext(causal=False),
        "hidden": AttentionContext(causal=True, key_padding_mask_BS=hidden),
        "hidden, open": AttentionContext(causal=False, key_padding_mask_BS=hidden),
        "all hidden": AttentionContext(causal=False, key_padding_mask_BS=torch.ones(B, T, dtype=torch.bool)),
        "places": AttentionContext(causal=True, position_ids_BT=torch.arange(T).expand(B, T)),
        "hidden places": AttentionContext(
            causal=True, position_ids_BT=torch.arange(T).expand(B, T), key_padding_mask_BS=hidden
        ),
    }


def both_ways(dtype: torch.dtype, positions: Positions, context: AttentionContext, rng) -> list[list[Tensor]]:
    """Output and gradients of the reference implementation and of the kernel."""
    x_BTD = torch.randn(B, T, D, generator=rng, dtype=dtype)
    weight = torch.randn(B, H, T, E, generator=rng, dtype=dtype)
    fused = DotConfig(fused=True).build(DIMS).to(dtype)
    answers = []
    for use_kernel in (False, True):
        fused.fused = use_kernel
        fused.zero_grad()
        positions.zero_grad()
        x = x_BTD.clone().requires_grad_()
        z_BHTE = fused(x, context, positions, None)
        assert z_BHTE.shape == (B, H, T, E)
        (z_BHTE * weight).sum().backward()
        gradients = [parameter.grad.clone() for parameter in (*fused.parameters(), *positions.parameters())]
        answers.append([z_BHTE.detach(), x.grad, *gradients])
    return answers


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("context", contexts())
def test_the_kernel_is_the_definition(context: str, biased: bool, dtype: torch.dtype, rng) -> None:
    positions = Biased(dtype) if biased else Positions()
    tolerance = {"rtol": 1e-9, "atol": 1e-11} if dtype == torch.float64 else {"rtol": 1e-4, "atol": 2e-6}
    for defined, fused in zip(*both_ways(dtype, positions, contexts()[context], rng)):
        assert defined.isfinite().all()
        torch.testing.assert_close(fused, defined, **tolerance)


@pytest.mark.parametrize("fused", [False, True])
def test_nothing_to_see_gives_zeros(fused: bool, rng) -> None:
    mixer = DotConfig(fused=fused).build(DIMS)
    z_BHTE = mixer(torch.randn(B, T, D, generator=rng), contexts()["hidden"], Positions(), None)
    assert (z_BHTE[1, :, 0] == 0).all()
    assert (z_BHTE[0] != 0).all()


def test_by_hand() -> None:
    """Width 2, one head; queries and keys are zero, so a query takes the mean of the values it sees."""
    mixer = DotConfig(fused=False).build(SMALL)
    with torch.no_grad():
        mixer.qkv.weight.copy_(torch.tensor([[0.0, 0], [0, 0], [0, 0], [0, 0], [1, 0], [0, 1]]))
    x_BTD = torch.tensor([[[2.0, 0.0], [4.0, 2.0], [0.0, 1.0]]])
    z_BHTE = mixer(x_BTD, AttentionContext(causal=True), Positions(), None)
    torch.testing.assert_close(z_BHTE, torch.tensor([[[[2.0, 0.0], [3.0, 1.0], [2.0, 1.0]]]]))


def identity_maps(*, fused: bool) -> Dot:
    """Queries, keys and values are the vectors themselves."""
    mixer = DotConfig(fused=fused).build(SMALL)
    with torch.no_grad():
        mixer.qkv.weight.copy_(torch.eye(2).repeat(3, 1))
    return mixer


@pytest.mark.parametrize("fused", [False, True])
def test_second_token_by_hand(fused: bool) -> None:
    """Scores 0 and 1/sqrt(2): weights 1/(1+r) and r/(1+r) with r = exp(1/sqrt 2)."""
    x_BTD = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    ratio = math.exp(1 / math.sqrt(2))
    z_BHTE = identity_maps(fused=fused)(x_BTD, AttentionContext(causal=True), Positions(), None)
    expected = torch.tensor([[1.0, 0.0], [1 / (1 + ratio), ratio / (1 + ratio)]])
    torch.testing.assert_close(z_BHTE[0, 0], expected)


@pytest.mark.parametrize("fused", [False, True])
def test_bias_of_positions_is_added_to_scores(fused: bool) -> None:
    """Slope ln 3 and equal scores: the token before weighs a third of one's own."""
    x_BTD = torch.zeros(1, 2, 2)
    x_BTD[0, 0, 0] = 1.0
    positions = AlibiConfig(slope=math.log(3)).build(SMALL)
    z_BHTE = identity_maps(fused=fused)(x_BTD, AttentionContext(causal=True), positions, None)
    torch.testing.assert_close(z_BHTE[0, 0, 1], torch.tensor([0.25, 0.0]))


@pytest.mark.parametrize("place", ["scores", "pattern"])
def test_somebody_who_looks_sees_what_the_kernel_never_forms(place: str, rng) -> None:
    mixer, seen = DotConfig(fused=True).build(DIMS), []
    x_BTD = torch.randn(B, T, D, generator=rng)
    unseen = mixer(x_BTD, AttentionContext(causal=True), Positions(), None)
    getattr(mixer, place).register_forward_hook(lambda module, inputs, output: seen.append(output))
    torch.testing.assert_close(mixer(x_BTD, AttentionContext(causal=True), Positions(), None), unseen)
    assert seen[0].shape == (B, H, T, T)
    if place == "pattern":
        torch.testing.assert_close(seen[0].sum(-1), torch.ones(B, H, T))


@pytest.mark.parametrize("fused", [False, True])
def test_dropout_acts_only_while_training(fused: bool, rng) -> None:
    mixer = DotConfig(fused=fused).build(Dims(width=D, heads=H, layers=1, context=S, vocabulary=11, dropout=0.5))
    x_BTD = torch.randn(B, T, D, generator=rng)

    def twice() -> tuple[Tensor, Tensor]:
        return tuple(mixer(x_BTD, AttentionContext(causal=True), Positions(), None) for _ in range(2))

    mixer.train()
    assert not torch.equal(*twice())
    mixer.eval()
    assert torch.equal(*twice())


def test_the_fused_kernel_can_be_turned_off() -> None:
    assert DotConfig(fused=False).build(DIMS).fused is False


def test_unscaled_products_are_sharper_by_the_root_of_the_head_width() -> None:
    torch.manual_seed(0)
    x_BTD, context, usual = torch.randn(B, T, D), AttentionContext(causal=True), DotConfig(fused=True).build(DIMS)
    unscaled = DotConfig(scale=1.0).build(DIMS)
    unscaled.load_state_dict(usual.state_dict())
    with torch.no_grad():
        usual.qkv.weight[:D] *= 2.0  # sqrt(E) for heads of 4: queries twice as long and then scaled, or not scaled
        usual.qkv.bias[:D] *= 2.0
    torch.testing.assert_close(unscaled(x_BTD, context, Positions(), None), usual(x_BTD, context, Positions(), None))


@pytest.mark.parametrize("fused", [True, False])
def test_a_masked_position_is_seen_by_no_query_not_even_its_own(fused: bool) -> None:
    torch.manual_seed(0)
    mixer, context = DotConfig(masked=[0, 3], fused=fused).build(DIMS), AttentionContext(causal=True)
    x_BTD = torch.randn(B, T, D)
    other_BTD = x_BTD.clone()
    other_BTD[:, 0] += 1.0
    found, changed = (mixer(x, context, Positions(), None) for x in (x_BTD, other_BTD))
    assert not found[:, :, 0].any()  # the first query sees nothing
    torch.testing.assert_close(found[:, :, 1:], changed[:, :, 1:])
    torch.testing.assert_close(found[:, :, 1], mixer.qkv(x_BTD)[:, 1, 2 * D :].view(B, H, E))  # sees itself alone


def test_a_masked_position_beyond_the_context_is_refused() -> None:
    incompatibility = DotConfig(masked=[2, 9]).incompatibility(DIMS)
    assert incompatibility is not None
    assert "position 9 is not in the context; positions go from 0 to 6" in incompatibility
    assert DotConfig().non_defaults() == {"kind": "dot"}
