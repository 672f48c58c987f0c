"""The shared part of softmax mixers: definition and kernel agree in every context, and looking chooses the definition."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from glassformer.model.attention import attention_scores
from glassformer.model.attention_context import AttentionContext
from glassformer.model.dims import Dims
from glassformer.model.kv_cache import KVCache
from glassformer.model.slots import Positions
from glassformer.model.softmax_mixer import SoftmaxMixer

B, H, T, S, E = 2, 3, 4, 5, 6


class Given(SoftmaxMixer):
    def forward(self, x_BTD: Tensor, context: AttentionContext, positions: Positions, cache: KVCache | None) -> Tensor:
        raise NotImplementedError


HIDDEN = torch.tensor([[True, False, False, False], [False, True, False, True]])
CONTEXTS = {
    "decoder": (AttentionContext(causal=True), T),
    "encoder": (AttentionContext(causal=False), T),
    "placed": (AttentionContext(causal=True, position_ids_BT=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])), S),
    "hidden": (AttentionContext(causal=True, key_padding_mask_BS=HIDDEN), T),
    "hidden encoder": (AttentionContext(causal=False, key_padding_mask_BS=HIDDEN), T),
}


@pytest.mark.parametrize("context_name", CONTEXTS)
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("scale", [None, 1.0])
def test_definition_equals_kernel(context_name: str, with_bias: bool, scale: float | None) -> None:
    context, keys = CONTEXTS[context_name]
    mixer = Given(Dims(width=18, heads=H, layers=1, context=S, vocabulary=7), fused=True)
    q, k, v = (torch.randn(B, H, n, E).double() for n in (T, keys, keys))
    bias = torch.randn(1, H, T, keys).double() if with_bias else None
    definition = mixer.mix(attention_scores(q, k, scale=scale), v, context, bias)
    torch.testing.assert_close(mixer.fused_mix(q, k, v, context, bias, scale=scale), definition)


@pytest.mark.parametrize("width", [4, 9])
def test_queries_wider_or_narrower_than_values(width: int) -> None:
    mixer = Given(Dims(width=18, heads=H, layers=1, context=S, vocabulary=7), fused=True)
    q, k = (torch.randn(B, H, T, width).double() for _ in range(2))
    v = torch.randn(B, H, T, E).double()
    definition = mixer.mix(attention_scores(q, k), v, AttentionContext(causal=True), None)
    torch.testing.assert_close(mixer.fused_mix(q, k, v, AttentionContext(causal=True), None), definition)


def test_a_look_at_scores_or_pattern_leaves_the_fast_path() -> None:
    mixer = Given(Dims(width=18, heads=H, layers=1, context=S, vocabulary=7), fused=True)
    assert mixer.takes_fast_path
    for tap in (mixer.scores, mixer.pattern):
        handle = tap.register_forward_hook(lambda module, inputs, output: None)
        assert not mixer.takes_fast_path
        handle.remove()
    assert mixer.takes_fast_path
