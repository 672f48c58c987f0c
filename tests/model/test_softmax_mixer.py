"""The shared part of softmax mixers: reference implementation and kernel agree in every context; looking chooses the former."""

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
    reference = mixer.mix(attention_scores(q, k, scale=scale), v, context, bias)
    torch.testing.assert_close(mixer.attend(q, k, v, context, bias, scale=scale), reference)


@pytest.mark.parametrize("width", [4, 9])
def test_queries_wider_or_narrower_than_values(width: int) -> None:
    mixer = Given(Dims(width=18, heads=H, layers=1, context=S, vocabulary=7), fused=True)
    q, k = (torch.randn(B, H, T, width).double() for _ in range(2))
    v = torch.randn(B, H, T, E).double()
    reference = mixer.mix(attention_scores(q, k), v, AttentionContext(causal=True), None)
    torch.testing.assert_close(mixer.attend(q, k, v, AttentionContext(causal=True), None), reference)


def test_a_look_at_scores_or_pattern_leaves_the_fast_path() -> None:
    mixer = Given(Dims(width=18, heads=H, layers=1, context=S, vocabulary=7), fused=True)
    assert mixer.takes_fast_path
    for tap in (mixer.scores, mixer.pattern):
        handle = tap.register_forward_hook(lambda module, inputs, output: None)
        assert not mixer.takes_fast_path
        handle.remove()
    assert mixer.takes_fast_path


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_a_padded_batch_trains_on_the_fused_path_with_the_same_gradients_twice() -> None:
    """On CUDA: no table of scores is formed, gradients are the reference implementation's, and the same bits come twice."""
    from glassformer.foundation.runtime import be_deterministic
    from glassformer.model.config import ModelConfig
    from glassformer.model.transformer import build_model

    be_deterministic()
    model = build_model(ModelConfig(width=64, heads=2, layers=2, context=64, causal=False), 31, seed=1).cuda().train()
    ids = torch.randint(31, (8, 64), generator=torch.Generator().manual_seed(1)).cuda()
    padding = torch.arange(64, device="cuda") >= torch.arange(8, 72, 8, device="cuda").unsqueeze(1)

    def gradients(fused: bool) -> list[torch.Tensor]:
        for block in model.blocks:
            block.attention.mixer.fused = fused
        model.zero_grad()
        features = model.features(ids, key_padding_mask_BS=padding)
        features.masked_fill(padding.unsqueeze(-1), 0.0).square().sum().backward()
        return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]

    once, twice, reference = gradients(True), gradients(True), gradients(False)
    assert all(torch.equal(one, other) for one, other in zip(once, twice))
    for one, other in zip(once, reference):
        torch.testing.assert_close(one, other, rtol=2e-3, atol=2e-3)
