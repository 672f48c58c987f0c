"""Cross-attention: the equation by hand, the fused kernel, stored keys and values, padding of the source."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import refused

from glassformer.foundation.errors import UsageError
from glassformer.model.attention import attend, split_heads
from glassformer.model.attention_context import AttentionContext, Memory
from glassformer.model.cross.dot import DotCross
from glassformer.model.dims import Dims
from glassformer.model.slots import Positions

B, T, S, D, H = 2, 5, 7, 12, 3
DIMS = Dims(width=D, heads=H, layers=2, context=9, vocabulary=11)


def made(*, fused: bool, scale: float | None = None) -> DotCross:
    torch.manual_seed(0)
    return DotCross(DIMS, fused=fused, scale=scale)


def inputs() -> tuple[torch.Tensor, Memory]:
    generator = torch.Generator().manual_seed(1)
    padding_BS = torch.arange(S) >= torch.tensor([[S], [4]])
    return torch.randn(B, T, D, generator=generator), Memory(torch.randn(B, S, D, generator=generator), padding_BS)


@pytest.mark.parametrize("fused", [True, False])
def test_it_is_the_equation(fused: bool) -> None:
    cross, (x_BTD, memory) = made(fused=fused), inputs()
    k_BSD, v_BSD = cross.to_key_value(memory.vectors_BSD).chunk(2, dim=-1)
    assert memory.padding_BS is not None
    expected = attend(
        split_heads(cross.to_query(x_BTD), H), split_heads(k_BSD, H), split_heads(v_BSD, H), ~memory.padding_BS[:, None, None]
    )
    z_BHTE = cross(x_BTD, AttentionContext(causal=True, memory=memory), Positions(), None)
    torch.testing.assert_close(z_BHTE, expected)


@pytest.mark.parametrize("fused", [True, False])
def test_a_scale_is_a_factor_on_the_queries(fused: bool) -> None:
    """T5's 1: as if the queries were longer by the root of the head's width."""
    x_BTD, memory = inputs()
    unscaled, usual = made(fused=fused, scale=1.0), made(fused=fused)
    with torch.no_grad():
        for parameter in usual.to_query.parameters():
            parameter.mul_((D / H) ** 0.5)
    context = AttentionContext(causal=True, memory=memory)
    torch.testing.assert_close(unscaled(x_BTD, context, Positions(), None), usual(x_BTD, context, Positions(), None))


def test_keys_and_values_are_stored_once() -> None:
    cross, (x_BTD, memory) = made(fused=True), inputs()
    kept = Memory(memory.vectors_BSD, memory.padding_BS, keep=True)
    plain = cross(x_BTD, AttentionContext(causal=True, memory=memory), Positions(), None)
    assert not memory.stored
    first = cross(x_BTD, AttentionContext(causal=True, memory=kept), Positions(), None)
    stored = kept.stored[0]
    with torch.no_grad():
        kept.vectors_BSD.zero_()  # what is stored is used, not made again
    again = cross(x_BTD, AttentionContext(causal=True, memory=kept), Positions(), None)
    assert kept.stored[0] is stored
    assert torch.equal(plain, first)
    assert torch.equal(plain, again)


def test_a_decoder_without_a_source_is_refused() -> None:
    cross, (x_BTD, _) = made(fused=True), inputs()
    with refused(UsageError, "no-source"):
        cross(x_BTD, AttentionContext(causal=True), Positions(), None)
