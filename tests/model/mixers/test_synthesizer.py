"""The dense synthesizer: the published equation by hand, B shared or not, and the sizes others report."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError
from glassformer.model.attention_context import AttentionContext
from glassformer.model.config import ModelConfig
from glassformer.model.dims import Dims
from glassformer.model.mixers.dot import DotConfig
from glassformer.model.mixers.synthesizer import Synthesizer, SynthesizerConfig
from glassformer.model.slots import Positions

DIMS = Dims(width=6, heads=2, layers=1, context=5, vocabulary=7)
B, T, E = 4, 3, 3


def built(config: SynthesizerConfig) -> Synthesizer:
    mixer = config.build(DIMS).double()
    generator = torch.Generator().manual_seed(3)
    for parameter in mixer.parameters():
        torch.nn.init.normal_(parameter, generator=generator)
    return mixer


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("fused", [False, True])
def test_is_the_published_equation_written_out_head_by_head(shared: bool, fused: bool) -> None:
    mixer = built(SynthesizerConfig(shared=shared, fused=fused))
    x_BTD = torch.randn(B, T, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    weight, bias = mixer.hidden_and_value.weight, mixer.hidden_and_value.bias
    expected = []
    for head in range(2):
        rows, table = slice(head * E, (head + 1) * E), 0 if shared else head
        hidden = (x_BTD @ weight[rows].T + bias[rows]).clamp(min=0)
        value = x_BTD @ weight[6:][rows].T + bias[6:][rows]
        scores = hidden @ mixer.places_HSE[table].T[:, :T] + mixer.places_bias_HS[table, :T]
        later = torch.ones(T, T).triu(1).bool()
        expected.append(torch.softmax(scores.masked_fill(later, -torch.inf), dim=-1) @ value)
    actual = mixer(x_BTD, AttentionContext(causal=True), Positions(), None)
    torch.testing.assert_close(actual, torch.stack(expected, dim=1))


def test_scores_come_from_each_token_alone() -> None:
    mixer = built(SynthesizerConfig())
    seen = []
    mixer.scores.register_forward_hook(lambda tap, inputs, output: seen.append(output))
    x_BTD = torch.randn(B, T, 6, dtype=torch.float64)
    changed = x_BTD.clone()
    changed[:, 0] += 1.0
    for x in (x_BTD, changed):
        mixer(x, AttentionContext(causal=True), Positions(), None)
    torch.testing.assert_close(seen[0][:, :, 1:], seen[1][:, :, 1:], rtol=0, atol=0)
    assert not torch.equal(seen[0][:, :, 0], seen[1][:, :, 0])


def test_counts_what_the_public_code_counts() -> None:
    """3,323,392 with dot products and 3,076,988 with a shared B of context - 1 columns; ours has all columns."""
    dims = Dims(width=256, heads=8, layers=4, context=128, vocabulary=256)
    built_parts = [config.build(dims) for config in (SynthesizerConfig(shared=True), DotConfig())]
    shared, dot = (sum(one.numel() for one in part.parameters()) for part in built_parts)
    saved = 256 * 256 + 256
    last_column = dims.head_width + 1
    assert 4 * (dot - (shared - last_column)) == 3_323_392 - 3_076_988
    assert dot - shared == saved - (32 * 128 + 128)


def test_rotary_positions_are_refused_because_there_is_nothing_to_turn() -> None:
    with refused(ConfigError, "bad-value", "model.mixer=synthesizer"):
        ModelConfig.parse({"mixer": "synthesizer", "positions": "rotary"})
